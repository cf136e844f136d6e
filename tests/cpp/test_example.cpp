/* SPDX-License-Identifier: Apache-2.0 */
/* The example, as whoever copies it runs it; and those in other languages, which do the same. */
#include "cpp/ground.hpp"

#include <cstdio>
#include <cstdlib>

extern "C" {
#include "support/stall.h"
}

static std::string service()
{
    const char *another = std::getenv("RLOCK_TEST_SERVICE");

    return another != nullptr ? another : SERVICE;
}

TEST(the_service_does_its_work_and_says_that_it_lost_a_hold)
{
    const std::string command = service() + " " + test_server_unix_url(ground.server());
    FILE *out = popen(command.c_str(), "re");
    std::string said;

    CHECK(out != nullptr);
    for (char line[256]; std::fgets(line, sizeof(line), out) != nullptr;) {
        said += line;
    }
    CHECK((pclose(out) == 0 && said == "read the price\n"
                                       "wrote the price\n"
                                       "shipped in 3 steps\n"
                                       "lost order:7: forced\n"
                                       "the unlock says: the hold was lost before its unlock\n") ||
          test_expired(900 * 1000));
}

TEST(the_service_says_why_it_cannot_work)
{
    FILE *out = popen((service() + " http://localhost 2>&1").c_str(), "re");
    char line[256] = "";

    CHECK(out != nullptr);
    CHECK(std::fgets(line, sizeof(line), out) != nullptr);
    CHECK(pclose(out) != 0);
    CHECK(std::string(line).find("a URL begins with") != std::string::npos);
}
