/* SPDX-License-Identifier: Apache-2.0 */
/* A primary that stood still while another one took its place, and goes on: over idle links. */
#include "support/clients.h"
#include "support/cluster.h"
#include "support/room.h"
#include "topology/slot.h"

enum { PRIMARIES = 3, LOCKS = 10, EARLY = 2 * LOCKS, CLIENTS = EARLY + LOCKS };

static const char *const conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                   "cluster-require-full-coverage no", NULL};

/* Names whose slot the first primary has at first: a digit is to be put behind. */
static void find_tag(struct fixture *f, char *out, size_t size)
{
    size_t n = 0;

    do {
        test_text(out, size, "{thaw-%zu}", n++);
    } while (cluster_primary_of(f->servers, PRIMARIES, rlock__slot(rlock__bytes_of(out))) !=
             f->server);
}

/* Neither its deadline nor replicas are a reason for its client not to believe an answer. */
static struct rlock_handle *open_lock(struct fixture *f, const char *tag, size_t i)
{
    char url[200], name[40];

    test_text(name, sizeof(name), "%s%zu", tag, i % LOCKS); /* the digit names its cell */
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    return lock_named(f,
                      client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 60000,
                                                            .acks = RLOCK_ACKS_OFF)),
                      name);
}

/*
 * An attempt that goes out right before the promotion, on a link that was idle all that time, may
 * be answered within milliseconds: by a primary that was replaced meanwhile. So attempts go out one
 * after the other, until about the promotion.
 */
FIXTURE_WITH_TEST(it_grants_nothing_over_links_that_were_idle, f, .kind = &kind_reentrant,
                  .servers = 2 * PRIMARIES, .server = {.transport = TEST_TCP, .conf = conf})
{
    enum { FIRST_US = 1200000, APART_US = 60000 }; /* no failover is faster than the first */
    const int64_t wait_ms = 25000;
    struct actor *actors[CLIENTS];
    struct rlock_handle *locks[EARLY];
    char tag[32];
    int64_t frozen_us;

    cluster_form(f->servers, PRIMARIES, f->n);
    room_open(f->witness);
    find_tag(f, tag, sizeof(tag));
    for (size_t i = 0; i < CLIENTS; i++) {
        actors[i] = actor_open(f);
    }
    for (size_t i = 0; i < EARLY; i++) {
        locks[i] = open_lock(f, tag, i);
        assert_code(act_pass_through(locks[i], RLOCK_FOREVER, NULL), 0); /* the link is there */
    }
    assert_true(TEST_EVENTUALLY(test_server_int(f->servers[PRIMARIES], "DBSIZE") == 0, 5000));
    test_server_freeze(f->server);
    frozen_us = test_now_us();
    for (int64_t i = 0; i < EARLY; i++) {
        while (test_pause_until(frozen_us + FIRST_US + i * APART_US)) {
        }
        actor_begin(actors[i], act_stay, locks[i], wait_ms, NULL);
    }
    assert_true(TEST_EVENTUALLY(test_server_is_primary(f->servers[PRIMARIES]), 20000));
    for (size_t i = EARLY; i < CLIENTS; i++) {
        actor_begin(actors[i], act_stay, open_lock(f, tag, i), wait_ms, NULL);
    }
    assert_true(TEST_EVENTUALLY(room_inside() == LOCKS, 20000)); /* at the new primary */
    test_server_thaw(f->server);
    assert_true(STAYS(room_inside() == LOCKS, 1000));
    room_let_go();
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_code(actor_end(actors[i]), 0);
    }
    assert_true(witness_is_clean(f->witness, stderr));
}
