/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/run.h"

enum { READY_MS = 20000, QUORUM = 2 };

/* A number in what a Sentinel says of the primary: name and value stand on two lines. */
static long long number_of(struct test_server *sentinel, const char *field)
{
    char *text = test_server_cmd(sentinel, "SENTINEL MASTER primary");
    char line[64];
    const char *at;
    long long value = -1;

    test_text(line, sizeof(line), "\n%s\n", field);
    at = strstr(text, line);
    if (at != NULL) {
        value = strtoll(at + strlen(line), NULL, 10);
    }
    free(text);
    return value;
}

static bool knows_all(struct test_server *sentinel, size_t n_replicas)
{
    return number_of(sentinel, "num-slaves") == (long long)n_replicas &&
           number_of(sentinel, "num-other-sentinels") == SENTINELS - 1;
}

/* After a failover a Sentinel connects to the new primary at the earliest one ping period after it
 * last tried the dead one. By default this is a second, as long as SENTINEL_DOWN_AFTER_MS. The new
 * primary would count as down before the Sentinel reaches it, and would be replaced as well. */
static void ping_often(const struct sentinels *sentinels)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        TEST_CHECK(test_server_says(sentinels->each[i], "OK", "SENTINEL DEBUG ping-period %d",
                                    SENTINEL_DOWN_AFTER_MS / 10));
    }
}

/* How often they ask for replicas, and tell of themselves: every 10 and 2 s by default. */
static void look_around(const struct sentinels *sentinels, int ask_ms, int tell_ms)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        TEST_CHECK(test_server_says(sentinels->each[i], "OK",
                                    "SENTINEL DEBUG info-period %d publish-period %d", ask_ms,
                                    tell_ms));
    }
}

void sentinels_watch(const struct sentinels *sentinels, struct test_server *primary,
                     size_t n_replicas, const char *password)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        struct test_server *sentinel = sentinels->each[i];

        TEST_CHECK(test_server_says(sentinel, "OK", "SENTINEL MONITOR primary 127.0.0.1 %d %d",
                                    test_server_port(primary), QUORUM));
        if (password != NULL) {
            test_server_do(sentinel, "SENTINEL SET primary auth-pass %s", password);
        }
        test_server_do(sentinel,
                       "SENTINEL SET primary down-after-milliseconds %d failover-timeout "
                       "1000",
                       SENTINEL_DOWN_AFTER_MS);
    }
    ping_often(sentinels);
    look_around(sentinels, 100, 100);
    for (size_t i = 0; i < SENTINELS; i++) {
        TEST_CHECK(TEST_EVENTUALLY(knows_all(sentinels->each[i], n_replicas), READY_MS));
    }
    look_around(sentinels, 10000, 2000);
}

void sentinels_start(struct sentinels *sentinels, struct test_server *const *servers, size_t n,
                     const struct test_server_opts *opts, const char *password)
{
    struct test_server_opts own = *opts;

    own.sentinel = true;
    for (size_t i = 1; i < n; i++) {
        test_server_do(servers[i], "REPLICAOF 127.0.0.1 %d", test_server_port(servers[0]));
    }
    for (size_t i = 1; i < n; i++) {
        TEST_CHECK(TEST_EVENTUALLY(test_server_is_copied(servers[i]), READY_MS));
    }
    TEST_CHECK(TEST_EVENTUALLY(test_server_is_acknowledged(servers[0], n - 1), READY_MS));
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels->each[i] = test_server_start(&own);
    }
    sentinels_watch(sentinels, servers[0], n - 1, password);
}

/* Sentinels tell each other by messages at the primary; each one leaves its own out. */
void sentinels_raise_epoch(const struct sentinels *sentinels, struct test_server *primary,
                           int epoch)
{
    for (size_t i = 0; i < 2; i++) {
        char *id = test_server_cmd(sentinels->each[i], "SENTINEL MYID");

        test_server_do(
            primary, "PUBLISH __sentinel__:hello 127.0.0.1,%d,%s,%d,primary,127.0.0.1,%d,%d",
            test_server_port(sentinels->each[i]), id, epoch, test_server_port(primary), epoch);
        free(id);
    }
    for (size_t i = 0; i < SENTINELS; i++) {
        TEST_CHECK(
            TEST_EVENTUALLY(number_of(sentinels->each[i], "config-epoch") == epoch, READY_MS));
    }
}

void sentinels_stop(struct sentinels *sentinels)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinels->each[i] = test_server_stop(sentinels->each[i]);
    }
}

void sentinels_url(const struct sentinels *sentinels, char *out, size_t size)
{
    const bool tls = strncmp(test_server_url(sentinels->each[0]), "rediss:", 7) == 0;

    test_text(out, size, "redis%s+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/primary",
              tls ? "s" : "", test_server_port(sentinels->each[0]),
              test_server_port(sentinels->each[1]), test_server_port(sentinels->each[2]));
}

bool sentinel_names(struct test_server *sentinel, const struct test_server *server)
{
    char expected[64];

    test_text(expected, sizeof(expected), "127.0.0.1\n%d", test_server_port(server));
    return test_server_says(sentinel, expected, "SENTINEL GET-MASTER-ADDR-BY-NAME primary");
}
