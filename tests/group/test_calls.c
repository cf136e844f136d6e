/* SPDX-License-Identifier: Apache-2.0 */
/* Which system calls a free multi-lock and a free RedLock cost the thread that takes and leaves
 * them. */
#include "support/waiter.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PAIRS = 200 };

static _Thread_local struct counts {
    unsigned polls, writes, bells;
} counts;

/* ---- What the linker puts in the place of these functions ---- */

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __real_write(int fd, const void *bytes, size_t len);
int __real_eventfd(unsigned count, int flags);

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
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
