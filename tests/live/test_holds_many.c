/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of holds in one client: what they need at one time keeps no call waiting. */
#include "support/clients.h"
#include "support/stall.h"

#include <pthread.h>
#include <stdatomic.h>

#define OWNER 7

struct crowd {
    struct rlock_client *client;
    struct rlock_handle *foreground, **locks;
    size_t n;
    atomic_size_t losses, lines;
    _Atomic int64_t first_us, last_us; /* of the losses */
};

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct crowd *crowd = payload;
    int64_t none = 0, now = test_now_us();

    (void)loss;
    (void)atomic_compare_exchange_strong(&crowd->first_us, &none, now);
    atomic_store(&crowd->last_us, now);
    (void)atomic_fetch_add(&crowd->losses, 1);
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    struct crowd *crowd = payload;

    (void)atomic_fetch_add(&crowd->lines, strstr(line->text, "not released") != NULL);
}

static void crowd_open(struct crowd *crowd, struct fixture *f, int64_t lease_ms)
{
    struct rlock_client_opts opts = client_opts(
        f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = test_ms(1000)));

    *crowd = (struct crowd){.n = test_slack() > 1 ? 4000 : 20000};
    opts.on_lost = on_lost;
    opts.on_log_line = on_log;
    opts.payload = crowd;
    crowd->locks = calloc(crowd->n, sizeof(struct rlock_handle *));
    assert_code(rlock_client_open(&opts, &crowd->client), 0);
    assert_code(rlock_reentrant_new(crowd->client, "foreground", NULL, &crowd->foreground), 0);
    for (size_t i = 0; i < crowd->n; i++) {
        char name[32];

        test_text(name, sizeof(name), "crowd-%zu", i);
        assert_code(rlock_reentrant_new(crowd->client, name, NULL, &crowd->locks[i]), 0);
        assert_code(TAKE(crowd->locks[i], 10000, .owner = OWNER), 0);
    }
}

static void crowd_free(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->n; i++) {
        (void)rlock_free(crowd->locks[i]);
    }
    (void)rlock_free(crowd->foreground);
    free(crowd->locks);
}

/* What close had no time to give back. */
static void flush(struct fixture *f)
{
    test_server_do(f->server, "FLUSHALL");
}

/* Takes the foreground's lock again and again for so long; no call is later than its wait and the
 * time that the server has for an answer. */
static void call_for(struct crowd *crowd, int64_t ms)
{
    const int64_t end_us = test_now_us() + ms * 1000;

    do {
        const int64_t since_us = test_now_us();
        const int code = TAKE(crowd->foreground, 200, .owner = OWNER);

        assert_in_time(since_us, (200 + test_ms(1000) + LATE_MS) * 1000);
        if (code == 0) {
            (void)rlock_unlock_as(crowd->foreground, OWNER); /* it may have stopped meanwhile */
        }
    } while (test_now_us() < end_us);
}

/* All of them come due while the server stands still, and the link breaks. */
LOCK_TEST(a_crowd_of_holds_outlives_a_server_that_stands_still, f)
{
    const int64_t lease_ms = 15000;
    struct crowd crowd;

    crowd_open(&crowd, f, lease_ms);
    test_server_freeze(f->server);
    call_for(&crowd, lease_ms / 3);
    test_server_thaw(f->server);
    call_for(&crowd, 3000);
    for (size_t i = 0; i < crowd.n; i++) {
        assert_true(rlock_is_valid_as(crowd.locks[i], OWNER));
    }
    assert_int_equal(atomic_load(&crowd.losses), 0);
    (void)rlock_client_close(crowd.client);
    assert_int_equal(atomic_load(&crowd.losses), crowd.n);
    crowd_free(&crowd);
    flush(f);
}

/* A server that never comes back: each is lost, nearly at one time, and close is short all the
 * same. */
LOCK_TEST(a_crowd_that_is_lost_is_told_and_closed_in_time, f)
{
    struct crowd crowd;
    int64_t since_us;

    crowd_open(&crowd, f, test_slack() > 1 ? 9000 : 6000);
    test_server_freeze(f->server);
    assert_true(TEST_EVENTUALLY(atomic_load(&crowd.losses) == crowd.n, 30000));
    for (size_t i = 0; i < crowd.n; i++) {
        assert_code(rlock_unlock_as(crowd.locks[i], OWNER), RLOCK_ELOST);
    }
    call_for(&crowd, 500);
    since_us = test_now_us();
    (void)rlock_client_close(crowd.client);
    assert_in_time(since_us, (test_ms(1000) + LATE_MS) * 1000);
    assert_int_equal(atomic_load(&crowd.lines), 1);
    crowd_free(&crowd);
    test_server_thaw(f->server);
    flush(f);
}
