/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <errno.h>

#include "support/run.h"

enum { MOST = 100 };

static struct CMUnitTest tests[MOST];
static size_t n_tests;

void test_list(const struct CMUnitTest *test)
{
    TEST_CHECK(n_tests < MOST);
    tests[n_tests++] = *test;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests(program_invocation_short_name, tests, n_tests, NULL, NULL);
}
