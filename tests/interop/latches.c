#include "latches.h"

#include <rlock/admin.h>
#include <rlock/latch.h>

#include "support/run.h"
#include "support/server.h"
#include "version.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 20, PARTIES = 4 };

#define NAME "latch"
#define CHANNEL "redisson_countdownlatch__channel__{" NAME "}"

struct both {
    struct test_server *server;
    struct peer *java;
    struct rlock_latch *latch;
    pthread_t waiter;
    int code;
};

/* Whether Redisson answers that. */
static bool java_says(const struct both *both, const char *what, const char *expected)
{
    const int id = peer_tell(both->java, "long a latch " NAME " %s", what);
    const struct peer_answer answer = peer_wait(both->java, id, PATIENCE_MS);

    if (!answer.ok || strcmp(answer.text, expected) != 0) {
        printf("Redisson: %s: %s, not %s\n", what, answer.text, expected);
    }
    return answer.ok && strcmp(answer.text, expected) == 0;
}

static bool has_count(const struct both *both, int64_t expected)
{
    char digits[24];
    int64_t count = -1;

    test_text(digits, sizeof(digits), "%lld", (long long)expected);
    return rlock_latch_count(both->latch, &count) == 0 && count == expected &&
           java_says(both, "count", digits);
}

/* ---- A number for both ---- */

static bool see_each_other(const struct both *both)
{
    bool is_set = false, existed = false;
    bool good = java_says(both, "set 2", "true") && rlock_latch_set(both->latch, 3, &is_set) == 0 &&
                !is_set && has_count(both, 2);

    good = good && rlock_latch_down(both->latch, "a") == 0 && has_count(both, 1) &&
           rlock_latch_down(both->latch, "a") == 0 && has_count(both, 1) &&
           java_says(both, "down", "") && has_count(both, 0);
    /* a new count of Redisson's: the party of the old one counts again */
    good = good && java_says(both, "set 2", "true") && rlock_latch_down(both->latch, "a") == 0 &&
           has_count(both, 1) && java_says(both, "wait 50", "false") &&
           rlock_latch_wait(both->latch, 0, NULL) == RLOCK_EBUSY && java_says(both, "down", "") &&
           java_says(both, "wait 50", "true") && rlock_latch_wait(both->latch, 0, NULL) == 0;
    good = good && rlock_latch_set(both->latch, 2, &is_set) == 0 && is_set &&
           java_says(both, "set 1", "false") && has_count(both, 2) &&
           java_says(both, "delete", "true") && has_count(both, 0) &&
           java_says(both, "set 1", "true") &&
           rlock_admin_delete_latch(both->latch, &existed) == 0 && existed && has_count(both, 0) &&
           java_says(both, "delete", "false");
    return good;
}

/* A deletion of ours wakes a Redisson that waits without an end to speak of. */
static bool delete_it(const struct both *both)
{
    const bool good = java_says(both, "set 3", "true");
    const int id = peer_tell(both->java, "long b latch " NAME " wait 600000");
    struct peer_answer answer;

    TEST_CHECK(TEST_EVENTUALLY(test_server_listeners(both->server, CHANNEL) == 1, 10000));
    if (rlock_admin_delete_latch(both->latch, NULL) != 0) {
        return false;
    }
    answer = peer_wait(both->java, id, PATIENCE_MS);
    return good && answer.ok && strcmp(answer.text, "true") == 0;
}

/* ---- Wake-ups ---- */

static void *wait_for_it(void *payload)
{
    struct both *both = payload;

    both->code = rlock_latch_wait(both->latch, PATIENCE_MS, NULL);
    return NULL;
}

/* Both sides wait. Parties of both count down, and the last one is of either side. */
static bool wake_each_other(struct both *both, bool java_is_last)
{
    const int id = peer_tell(both->java, "long b latch " NAME " wait 30000");
    struct peer_answer answer;
    bool good = true;

    TEST_CHECK(pthread_create(&both->waiter, NULL, wait_for_it, both) == 0);
    for (int i = 0; i < PARTIES; i++) {
        const bool is_javas = (i % 2 == 0) != java_is_last;
        char party[16];

        test_text(party, sizeof(party), "party-%d", i);
        good = good &&
               (is_javas ? java_says(both, "down", "") : rlock_latch_down(both->latch, party) == 0);
    }
    (void)pthread_join(both->waiter, NULL);
    answer = peer_wait(both->java, id, PATIENCE_MS);
    return good && both->code == 0 && answer.ok && strcmp(answer.text, "true") == 0;
}

static bool open_together(struct both *both)
{
    bool good = true;

    for (int i = 0; good && i < ROUNDS; i++) {
        good = i % 4 < 2 ? rlock_latch_set(both->latch, PARTIES, NULL) == 0
                         : java_says(both, "set 4", "true");
        good = good && wake_each_other(both, i % 2 == 0) && has_count(both, 0);
    }
    return good;
}

bool latches_meet(struct test_server *server, struct peer *java, struct rlock_client *client)
{
    struct both both = {.server = server, .java = java};
    int64_t since_us;
    bool good;

    TEST_CHECK(rlock_latch_new(client, NAME, NULL, &both.latch) == 0);
    good = see_each_other(&both) && delete_it(&both);
    since_us = test_now_us();
    good = good && open_together(&both);
    printf("latch            wake-up    %.1f ms a round (mean of %d)\n",
           (double)test_elapsed_us(since_us) / 1000 / ROUNDS, ROUNDS);
    (void)rlock_latch_free(both.latch);
    return good;
}
