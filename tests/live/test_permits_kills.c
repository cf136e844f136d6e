/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with a thread each want units of one semaphore, of either kind, all the time. A quarter
 * of the processes is killed every second: some wait, some work. There are never more units at work
 * than the semaphore has, and all of them are free a lease after the last process died.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "live/permits.h"
#include "support/stall.h"

enum { SEATS = 64, SLOTS = 8, WORK_US = 5000, RENEWED_MS = 2500 };

/* What the processes tell. All of them see it. */
struct board {
    _Atomic int at_work[SEATS]; /* the witness: with so many units */
    _Atomic int most;           /* of the sums that a process saw */
    _Atomic uint64_t grants;
    _Atomic bool has_begun[SEATS];
};

struct fleet {
    struct fixture *f;
    struct board *board;
    struct test_child *children[SEATS];
    size_t n, seat; /* of the child that is forked next */
};

static void note_work(struct board *board)
{
    int sum = 0, most = atomic_load(&board->most);

    for (size_t seat = 0; seat < SEATS; seat++) {
        sum += atomic_load(&board->at_work[seat]);
    }
    while (sum > most && !atomic_compare_exchange_weak(&board->most, &most, sum)) {
    }
}

/* A process that stood still for long leaves its work at once: it does not believe to hold it. */
static void visit(const struct fleet *fleet, struct rlock_handle *lock, int units)
{
    struct board *board = fleet->board;

    TEST_CHECK(rlock_lock_for(lock, RLOCK_FOREVER, RLOCK_TAKE(.units = units), NULL) == 0);
    if (rlock_valid_ms(lock) > RENEWED_MS / 3) {
        atomic_store(&board->at_work[fleet->seat], units);
        note_work(board);
        atomic_fetch_add(&board->grants, 1);
        (void)usleep(WORK_US);
        atomic_store(&board->at_work[fleet->seat], 0);
    }
    (void)rlock_unlock(lock);
}

static int live(struct test_peer *peer, void *payload)
{
    const struct fleet *fleet = payload;
    const int units = fleet->seat % 4 == 0 ? 2 : 1;
    const struct rlock_client_opts opts =
        client_opts(fleet->f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = RENEWED_MS));
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    (void)peer;
    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(fleet->f->kind->make(client, NAME, RLOCK_OPTS(.units = SLOTS), &lock) == 0);
    atomic_store(&fleet->board->has_begun[fleet->seat], true);
    for (;;) {
        visit(fleet, lock, units);
    }
}

static void sit_down(struct fleet *fleet, size_t seat)
{
    fleet->seat = seat;
    atomic_store(&fleet->board->has_begun[seat], false);
    fleet->children[seat] = test_child_spawn(live, fleet);
}

static bool has_begun(const struct fleet *fleet)
{
    for (size_t seat = 0; seat < fleet->n; seat++) {
        if (!atomic_load(&fleet->board->has_begun[seat])) {
            return false;
        }
    }
    return true;
}

/* Its units stay out until their lease ends, but nobody is at work with them any more. */
static void die(struct fleet *fleet, size_t seat)
{
    assert_int_equal(test_child_wait(fleet->children[seat], 10000), 128 + SIGKILL);
    atomic_store(&fleet->board->at_work[seat], 0);
}

static void kill_a_quarter(struct fleet *fleet, size_t first)
{
    for (size_t i = 0; i < fleet->n / 4; i++) {
        test_child_kill(fleet->children[(first + i) % fleet->n], SIGKILL);
    }
    for (size_t i = 0; i < fleet->n / 4; i++) {
        die(fleet, (first + i) % fleet->n);
        sit_down(fleet, (first + i) % fleet->n);
    }
}

static void all_die(struct fleet *fleet)
{
    for (size_t seat = 0; seat < fleet->n; seat++) {
        test_child_kill(fleet->children[seat], SIGKILL);
    }
    for (size_t seat = 0; seat < fleet->n; seat++) {
        die(fleet, seat);
    }
}

static void survives_kills(struct fixture *f, size_t n, int seconds)
{
    struct fleet fleet = {.f = f, .n = n};
    struct rlock_handle *lock;
    int64_t began_us, died_us;

    if (!MAY_START_THREADS) {
        skip();
    }
    fleet.board =
        mmap(NULL, sizeof(*fleet.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_CHECK(fleet.board != MAP_FAILED);
    for (size_t seat = 0; seat < n; seat++) {
        sit_down(&fleet, seat);
    }
    assert_true(TEST_EVENTUALLY(has_begun(&fleet), 10000));
    began_us = test_now_us();
    for (int i = 0; i < seconds; i++) {
        (void)STAYS(true, 1000);
        kill_a_quarter(&fleet, (size_t)i * 7 % n);
    }
    all_die(&fleet);
    died_us = test_now_us();
    print_message("%zu processes: %llu grants, at most %d units at work\n", n,
                  (unsigned long long)atomic_load(&fleet.board->grants),
                  atomic_load(&fleet.board->most));
    assert_true(atomic_load(&fleet.board->grants) > n);
    assert_in_range(atomic_load(&fleet.board->most), 2, SLOTS);
    lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.units = SLOTS));
    assert_code(rlock_lock_for(lock, RENEWED_MS + 20000, RLOCK_TAKE(.units = SLOTS), NULL), 0);
    assert_true(test_in_time(began_us, test_elapsed_us(died_us),
                             (RENEWED_MS + LATE_MS) * 1000LL * test_slack()));
    assert_code(rlock_unlock(lock), 0);
    TEST_CHECK(munmap(fleet.board, sizeof(*fleet.board)) == 0);
    tidy_up(f, SLOTS);
}

PERMITS_TEST(killed_processes_keep_permits_for_a_lease_at_most, f, .servers = 1)
{
    survives_kills(f, 16, 3);
}

PERMITS_TEST(killed_processes_of_many_keep_permits_for_a_lease_at_most, f, .servers = 1)
{
    survives_kills(f, SEATS, 60);
}

SEMAPHORE_TEST(killed_processes_keep_units_for_a_lease_at_most, f, .servers = 1)
{
    survives_kills(f, 16, 3);
}

SEMAPHORE_TEST(killed_processes_of_many_keep_units_for_a_lease_at_most, f, .servers = 1)
{
    survives_kills(f, SEATS, 60);
}
