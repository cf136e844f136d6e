/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a free multi-lock and a free RedLock cost the thread that takes and leaves
 * them. */
#include "support/waiter.h"

#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 200 };

static _Thread_local struct counts {
    unsigned polls, writes, bells;
} counts;

static atomic_llong read_at_us; /* when any thread last read something from a server */

/* ---- What the linker puts in the place of these functions ---- */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
int __real_eventfd(unsigned count, int flags);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
int __wrap_eventfd(unsigned count, int flags);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    counts.polls++;
    return __real_poll(fds, n, timeout);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    counts.writes++;
    return __real_write(fd, bytes, len);
}

int __wrap_eventfd(unsigned count, int flags)
{
    counts.bells++;
    return __real_eventfd(count, flags);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    ssize_t n = __real_recv(fd, bytes, len, flags);

    if (n > 0) {
        atomic_store(&read_at_us, test_now_us());
    }
    return n;
}

/* ---- The tests ---- */

static void pairs(struct rlock_handle *lock, int n)
{
    for (int i = 0; i < n; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
}

static struct counts counts_of_pairs(struct rlock_handle *lock)
{
    pairs(lock, 20);
    counts = (struct counts){0};
    pairs(lock, PAIRS);
    print_message("a pair: %.2f polls, %.2f writes, %.2f bells\n", (double)counts.polls / PAIRS,
                  (double)counts.writes / PAIRS, (double)counts.bells / PAIRS);
    return counts;
}

/* A RedLock whose last server answers when it is thawed. */
static struct user *open_frozen(struct fixture *f)
{
    struct user *user = user_open(f, USUAL);

    user_take_everywhere(user);
    assert_code(rlock_unlock(user->lock), 0);
    return user;
}

/* Takes it when the last server stands still. Returns what that cost. */
static struct counts take_without_the_last(struct fixture *f, const struct user *user)
{
    assert_true(TEST_EVENTUALLY(fixture_holding(f, "a") == 0, 5000));
    pairs(user->lock, 20);              /* so that the service threads tick */
    for (size_t i = 0; i < f->n; i++) { /* which each answers behind all else */
        assert_code(rlock_inspect(user->members[i], &(struct rlock_info)RLOCK_INFO_INIT), 0);
    }
    test_server_freeze(f->servers[f->n - 1]);
    counts = (struct counts){0};
    assert_code(rlock_lock(user->lock), 0);
    return counts;
}

/* Now and then a tick has just ended, and a service thread is woken to tick. */
FIXTURE_WITH_TEST(late_answers_wake_nobody, f, .servers = 3)
{
    enum { TRIES = 20 };
    struct user *user = open_frozen(f);
    unsigned least = UINT_MAX;

    for (int i = 0; i < TRIES && least > 0; i++) {
        unsigned writes = take_without_the_last(f, user).writes;

        test_server_thaw(f->servers[f->n - 1]);
        least = writes < least ? writes : least;
        assert_code(rlock_unlock(user->lock), 0);
    }
    assert_int_equal(least, 0);
}

/* Nobody calls any more. */
FIXTURE_WITH_TEST(late_answers_are_read_at_the_tick, f, .servers = 3)
{
    enum { TICK_US = 50000 };
    struct user *user = open_frozen(f);
    int64_t thawed_us;

    (void)take_without_the_last(f, user);
    thawed_us = test_now_us();
    test_server_thaw(f->servers[f->n - 1]);
    assert_true(TEST_EVENTUALLY(atomic_load(&read_at_us) > thawed_us, 5000));
    assert_true(test_in_time(thawed_us, test_elapsed_us(thawed_us), 3 * TICK_US * test_slack()));
    assert_code(rlock_unlock(user->lock), 0);
}

static struct rlock_handle *multi_of(struct user *user)
{
    return user_multi(user, user_lock_on(user, 0, "m"), user_lock_on(user, 1, "m"));
}

FIXTURE_WITH_TEST(each_turn_has_the_bell_of_the_one_before, f, .servers = 2)
{
    assert_int_equal(counts_of_pairs(multi_of(user_open(f, USUAL))).bells, 0);
}

/* What is left is for a service thread that slept, some 20 times a second. */
FIXTURE_WITH_TEST(who_reads_its_own_answers_rings_nobody, f, .servers = 2)
{
    assert_in_range(counts_of_pairs(multi_of(user_open(f, USUAL))).writes, 0, PAIRS / 2);
}
