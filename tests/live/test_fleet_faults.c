/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with a thread each want one lock all the time, and some of them are killed or stopped
 * while they wait. The others must not wait long for that.
 *
 * A process that dies may have got the lock a moment before. Then the lock is free after its
 * lease: 2 s if a release granted it, RENEWED_MS if the process asked for it.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/stall.h"
#include "support/witness.h"

enum { SEATS = 100, HOLD_US = 2000, RENEWED_MS = 2500, SPARE_MS = 3000, STOPPED_SPARE_MS = 3500 };

enum doing { STARTS, WAITS, HOLDS, LEAVES };

/* What the processes tell. All of them see it. */
struct board {
    _Atomic int doing[SEATS];
    _Atomic int64_t waits_since[SEATS];
    _Atomic int64_t longest_wait, longest_gap, left_at; /* us; of a gap: nobody held the lock */
    _Atomic uint64_t grants;
    _Atomic bool is_over;
};

struct fleet {
    struct fixture *f;
    struct board *board;
    struct witness *witness;
    struct test_child *children[SEATS];
    size_t n, seat; /* of the child that is forked next */
};

static void raise_to(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);

    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

static void visit(const struct fleet *fleet, struct rlock_handle *lock)
{
    struct board *board = fleet->board;
    const size_t seat = fleet->seat;
    int64_t left_at;

    atomic_store(&board->waits_since[seat], test_now_us());
    atomic_store(&board->doing[seat], WAITS);
    TEST_CHECK(rlock_lock(lock) == 0);
    atomic_store(&board->doing[seat], HOLDS);
    witness_enter(fleet->witness, 0, seat + 1);
    raise_to(&board->longest_wait, test_elapsed_us(atomic_load(&board->waits_since[seat])));
    left_at = atomic_load(&board->left_at);
    raise_to(&board->longest_gap, left_at != 0 ? test_elapsed_us(left_at) : 0);
    atomic_fetch_add(&board->grants, 1);
    (void)usleep(HOLD_US); /* the work under the lock */
    atomic_store(&board->left_at, test_now_us());
    witness_leave(fleet->witness, 0, seat + 1);
    atomic_store(&board->doing[seat], LEAVES);
    TEST_CHECK(rlock_unlock(lock) == 0);
}

static int live(struct test_peer *peer, void *payload)
{
    const struct fleet *fleet = payload;
    const struct rlock_client_opts opts =
        client_opts(fleet->f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = RENEWED_MS));
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    (void)peer;
    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, NAME, NULL, &lock) == 0);
    while (!atomic_load(&fleet->board->is_over)) {
        visit(fleet, lock);
    }
    rlock_free(lock);
    rlock_client_close(client);
    return 0;
}

static void sit_down(struct fleet *fleet, size_t seat)
{
    atomic_store(&fleet->board->doing[seat], STARTS);
    fleet->seat = seat;
    fleet->children[seat] = test_child_spawn(live, fleet);
}

/* Freezes the process in a seat if it waits. Returns whether it did. */
static bool freeze_waiting(const struct fleet *fleet, size_t seat)
{
    const pid_t pid = test_child_pid(fleet->children[seat]);

    test_freeze(pid);
    if (atomic_load(&fleet->board->doing[seat]) == WAITS) {
        return true;
    }
    test_thaw(pid);
    return false;
}

static bool has_begun(const struct fleet *fleet)
{
    for (size_t seat = 0; seat < fleet->n; seat++) {
        if (atomic_load(&fleet->board->doing[seat]) == STARTS) {
            return false;
        }
    }
    return true;
}

static void fleet_open(struct fleet *fleet, struct fixture *f, size_t n)
{
    *fleet = (struct fleet){.f = f, .witness = witness_new(1), .n = n};
    fleet->board = mmap(NULL, sizeof(*fleet->board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_CHECK(fleet->board != MAP_FAILED);
    for (size_t seat = 0; seat < n; seat++) {
        sit_down(fleet, seat);
    }
    assert_true(TEST_EVENTUALLY(has_begun(fleet), 10000));
    atomic_store(&fleet->board->longest_wait, 0);
    atomic_store(&fleet->board->longest_gap, 0);
}

/* All end, and what the dead left goes with the next release. */
static void fleet_close(struct fleet *fleet)
{
    struct fixture *f = fleet->f;
    struct rlock_handle *lock;

    atomic_store(&fleet->board->is_over, true);
    for (size_t seat = 0; seat < fleet->n; seat++) {
        assert_int_equal(test_child_wait(fleet->children[seat], 10000), 0);
    }
    assert_true(witness_is_clean(fleet->witness, stderr));
    fleet->witness = witness_free(fleet->witness);
    TEST_CHECK(munmap(fleet->board, sizeof(*fleet->board)) == 0);
    lock = lock_new(f, client_open(f));
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_false(fixture_has_key(f, "rlock_wait:{" NAME "}"));
}

/* Lets them work for a time. */
static void work_for(int64_t ms)
{
    const int64_t until = test_deadline_us(ms);

    while (test_pause_until(until)) {
    }
}

/* Kills a quarter of the fleet, only processes that wait, and starts others in their places. */
static void kill_a_quarter(struct fleet *fleet)
{
    size_t killed[SEATS], n = 0;

    for (size_t i = 0, seat = (size_t)test_now_us() % fleet->n; i < fleet->n && n < fleet->n / 4;
         i++, seat = (seat + 1) % fleet->n) {
        if (atomic_load(&fleet->board->doing[seat]) == WAITS) {
            test_child_kill(fleet->children[seat], SIGKILL);
            killed[n++] = seat;
        }
    }
    assert_int_equal(n, fleet->n / 4);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(test_child_wait(fleet->children[killed[i]], 10000), 128 + SIGKILL);
        witness_evict(fleet->witness, 0, killed[i] + 1); /* it may have got the lock at last */
        sit_down(fleet, killed[i]);
    }
}

static void survives_kills(struct fixture *f, size_t n, int seconds)
{
    struct fleet fleet;
    int64_t began_us, cycle_us, longest_us;
    uint64_t grants;

    if (!MAY_START_THREADS) {
        skip();
    }
    fleet_open(&fleet, f, n);
    began_us = test_now_us();
    grants = atomic_load(&fleet.board->grants);
    for (int i = 0; i < seconds; i++) {
        work_for(1000);
        kill_a_quarter(&fleet);
    }
    work_for(SPARE_MS);
    grants = atomic_load(&fleet.board->grants) - grants;
    assert_true(grants > n);
    cycle_us = test_elapsed_us(began_us) / (int64_t)grants;
    longest_us = atomic_load(&fleet.board->longest_wait);
    print_message("%zu processes: %lld us a grant, the longest wait was %lld ms\n", n,
                  (long long)cycle_us, (long long)longest_us / 1000);
    assert_true(test_in_time(began_us, longest_us,
                             2 * (int64_t)n * cycle_us + SPARE_MS * 1000LL * test_slack()));
    fleet_close(&fleet);
}

LOCK_TEST(waiters_that_are_killed_keep_nobody_waiting_for_long, f)
{
    survives_kills(f, 16, 3);
}

LOCK_TEST(waiters_of_a_hundred_that_are_killed_keep_nobody_waiting_for_long, f)
{
    survives_kills(f, SEATS, 20);
}

/* The longest time without a grant while two of six processes stand still. */
LOCK_TEST(waiters_that_stand_still_keep_nobody_waiting_for_long, f)
{
    enum { PROCESSES = 6, STOPPED = 2, STOPPED_MS = 4000 };

    struct fleet fleet;
    size_t stopped[STOPPED], n = 0;
    int64_t began_us, longest_us;
    uint64_t grants;

    if (!MAY_START_THREADS) {
        skip();
    }
    fleet_open(&fleet, f, PROCESSES);
    work_for(500);
    began_us = test_now_us();
    for (size_t seat = 0; n < STOPPED; seat = (seat + 1) % PROCESSES) {
        if ((n == 0 || seat != stopped[0]) && freeze_waiting(&fleet, seat)) {
            stopped[n++] = seat;
        }
    }
    grants = atomic_load(&fleet.board->grants);
    work_for(STOPPED_MS);
    assert_true(atomic_load(&fleet.board->grants) - grants > PROCESSES);
    longest_us = atomic_load(&fleet.board->longest_gap);
    print_message("the longest time without a grant was %lld ms\n", (long long)longest_us / 1000);
    assert_true(test_in_time(began_us, longest_us, STOPPED_SPARE_MS * 1000LL * test_slack()));
    for (size_t i = 0; i < STOPPED; i++) {
        test_thaw(test_child_pid(fleet.children[stopped[i]]));
    }
    fleet_close(&fleet);
}
