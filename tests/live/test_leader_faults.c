/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight processes are candidates for one lock: on a server, on most of three, or behind Sentinels.
 * Leaders are killed, stopped for longer than a lease, and resign; a server fails. No two are
 * leaders at the same time by their own belief, and a new one is elected in time.
 *
 * A process asks all the time whether it is the leader. From the return of a call that said so to
 * the beginning of the last one that did it certainly believed it. It writes that down, and the
 * intervals of two processes must not meet.
 */
#include <rlock/leader.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/sentinel.h"
#include "support/stall.h"
#include "support/user.h"

enum { SEATS = 8, LEASE_MS = 1000, MARGIN_MS = 100, REST_MS = 50, TERMS = 4096, TURNS = 12 };

/* When somebody certainly was the leader. */
struct belief {
    _Atomic int64_t from_us, to_us;
    int seat;
};

struct board {
    struct belief beliefs[TERMS];
    _Atomic unsigned n;
    _Atomic int leads[SEATS]; /* it believes so now */
    _Atomic bool resigns[SEATS], is_over;
};

struct candidates {
    struct fixture *f;
    const struct sentinels *sentinels; /* NULL: there are none */
    const char *url;                   /* theirs */
    struct board *board;
    struct test_child *children[SEATS];
    int seat; /* of the child that is forked next */
};

/* Leads for as long as it believes. */
static void believe(struct board *board, int seat, struct rlock_leader *leader)
{
    int64_t now_us = test_now_us(), asked_us = test_now_us();
    const unsigned i = atomic_fetch_add(&board->n, 1);
    struct belief *belief = &board->beliefs[i];

    TEST_CHECK(i < TERMS);
    belief->seat = seat;
    atomic_store(&belief->to_us, now_us);
    atomic_store(&belief->from_us, now_us);
    atomic_store(&board->leads[seat], 1);
    while (rlock_leader_is_leading(leader) && !atomic_load(&board->is_over)) {
        atomic_store(&belief->to_us, asked_us);
        if (atomic_exchange(&board->resigns[seat], false)) {
            (void)rlock_leader_resign(leader);
        }
        (void)usleep(200);
        asked_us = test_now_us();
    }
    atomic_store(&board->leads[seat], 0);
}

static int live(struct test_peer *peer, void *payload)
{
    const struct candidates *all = payload;
    struct rlock_leader *leader = NULL;
    struct user *user;

    (void)peer;
    if (all->url != NULL) {
        all->f->n = 1; /* for the client, the servers are one */
        all->f->redlock = false;
    }
    user = user_open(all->f, *RLOCK_CLIENT_OPTS(.url = all->url, .renewed_lease_ms = LEASE_MS,
                                                .op_timeout_ms = 1000, .connect_timeout_ms = 1000));
    TEST_CHECK(rlock_leader_new(user->lock,
                                RLOCK_LEADER_OPTS(.rest_ms = REST_MS, .margin_ms = MARGIN_MS),
                                &leader) == 0);
    while (!atomic_load(&all->board->is_over)) {
        if (rlock_leader_is_leading(leader)) {
            believe(all->board, all->seat, leader);
        }
        (void)usleep(200);
    }
    rlock_leader_free(leader);
    user_close(user);
    return 0;
}

static void sit_down(struct candidates *all, int seat)
{
    atomic_store(&all->board->leads[seat], 0);
    all->seat = seat;
    all->children[seat] = test_child_spawn(live, all);
}

static int find_leader(const struct candidates *all, int but)
{
    for (int seat = 0; seat < SEATS; seat++) {
        if (seat != but && atomic_load(&all->board->leads[seat])) {
            return seat;
        }
    }
    return -1;
}

/* Waits until another one leads, for a time in ms. */
static int await_other(const struct candidates *all, int but, int64_t ms)
{
    const int64_t since_us = test_now_us();
    int seat;

    assert_true(TEST_EVENTUALLY((seat = find_leader(all, but)) >= 0, 10000));
    assert_true(test_in_time(since_us, test_elapsed_us(since_us), ms * 1000 * test_slack()));
    return seat;
}

/* Three sorts of ends of a term, in turn. */
static void end_term(struct candidates *all, int turn)
{
    const int seat = await_other(all, -1, LEASE_MS + 1000);
    struct test_child *child = all->children[seat];

    if (turn % 3 == 0) {
        test_child_kill(child, SIGKILL);
        assert_int_equal(test_child_wait(child, 10000), 128 + SIGKILL);
        atomic_store(&all->board->leads[seat], 0);
        (void)await_other(all, seat, LEASE_MS + 1000);
        sit_down(all, seat);
    } else if (turn % 3 == 1) {
        test_freeze(test_child_pid(child));
        (void)await_other(all, seat, LEASE_MS + 1000);
        test_thaw(test_child_pid(child));
        assert_true(TEST_EVENTUALLY(!atomic_load(&all->board->leads[seat]), 5000));
    } else {
        atomic_store(&all->board->resigns[seat], true);
        (void)await_other(all, seat, 1000);
    }
}

/* No two beliefs of different processes meet. */
static void check(const struct board *board)
{
    const unsigned n = atomic_load(&board->n);

    for (unsigned i = 0; i < n; i++) {
        for (unsigned j = i + 1; j < n; j++) {
            const struct belief *a = &board->beliefs[i], *b = &board->beliefs[j];
            const bool meets = atomic_load(&a->from_us) < atomic_load(&b->to_us) &&
                               atomic_load(&b->from_us) < atomic_load(&a->to_us);

            if (a->seat != b->seat && meets) {
                fail_msg("%d and %d lead at the same time", a->seat, b->seat);
            }
        }
    }
    print_message("%u terms\n", n);
    assert_true(n > TURNS);
}

/* fault: after a third of the terms; heal: after two thirds. NULL: nothing happens then. */
static void run(struct candidates *all, void (*fault)(struct candidates *),
                void (*heal)(struct candidates *))
{
    all->board =
        mmap(NULL, sizeof(*all->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_CHECK(all->board != MAP_FAILED);
    for (int seat = 0; seat < SEATS; seat++) {
        sit_down(all, seat);
    }
    (void)await_other(all, -1, 5000);
    for (int turn = 0; turn < TURNS; turn++) {
        if (fault != NULL && turn == TURNS / 3) {
            fault(all);
        } else if (heal != NULL && turn == 2 * TURNS / 3) {
            heal(all);
        }
        end_term(all, turn);
    }
    atomic_store(&all->board->is_over, true);
    for (int seat = 0; seat < SEATS; seat++) {
        assert_int_equal(test_child_wait(all->children[seat], 10000), 0);
    }
    check(all->board);
    TEST_CHECK(munmap(all->board, sizeof(*all->board)) == 0);
}

LOCK_TEST(no_two_candidates_lead_while_leaders_are_killed_and_stopped_and_resign, f)
{
    if (!MAY_START_THREADS) {
        skip();
    }
    run(&(struct candidates){.f = f}, NULL, NULL);
}

/* ---- A RedLock, and a server of its three that stands still ---- */

static void freeze_first(struct candidates *all)
{
    test_server_freeze(all->f->servers[0]);
}

static void thaw_first(struct candidates *all)
{
    test_server_thaw(all->f->servers[0]);
}

FIXTURE_WITH_TEST(no_two_candidates_for_a_redlock_lead_while_a_server_stands_still, f, .servers = 3)
{
    if (!MAY_START_THREADS) {
        skip();
    }
    run(&(struct candidates){.f = f}, freeze_first, thaw_first);
}

/* ---- Sentinels, and a primary that stands still and goes on after it was replaced ---- */

struct deployment {
    struct fixture f;
    struct sentinels sentinels;
    char url[200];
};

static const struct test_server_opts over_tcp = {.transport = TEST_TCP};

static void begin(struct deployment *d)
{
    fixture_open(&d->f,
                 &(struct fixture_opts){.kind = &kind_reentrant, .servers = 3, .server = over_tcp});
    sentinels_start(&d->sentinels, d->f.servers, d->f.n, &over_tcp, NULL);
    sentinels_url(&d->sentinels, d->url, sizeof(d->url));
}

static void end(struct deployment *d)
{
    sentinels_stop(&d->sentinels);
    test_server_kill(d->f.server); /* it may have what nobody took from it any more */
    test_server_restart(d->f.server, false);
    fixture_close(&d->f);
}

static void replace_primary(struct candidates *all)
{
    struct test_server *first = all->f->servers[0];

    test_server_freeze(first);
    for (size_t i = 0; i < SENTINELS; i++) {
        assert_true(TEST_EVENTUALLY(!sentinel_names(all->sentinels->each[i], first), 30000));
    }
    test_server_thaw(first);
    assert_true(TEST_EVENTUALLY(find_leader(all, -1) >= 0, 20000));
}

TEST_AROUND(no_two_candidates_lead_while_a_primary_is_replaced, struct deployment, d, begin(d),
            end(d))
{
    if (!MAY_START_THREADS) {
        skip();
    }
    run(&(struct candidates){.f = &d->f, .sentinels = &d->sentinels, .url = d->url},
        replace_primary, NULL);
}
