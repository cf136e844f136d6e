/* SPDX-License-Identifier: Apache-2.0 */
/* What an uncontended lock and unlock cost the calling thread: memory, mutexes, system calls, clock
 * readings; and the server: commands, bytes. */
#include "support/clients.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { PAIRS = 200, TICK_US = 50000 /* of the service thread */ };

static _Thread_local struct counts {
    unsigned allocations, mutexes, polls, sends, receives, clocks;
} counts;

/* ---- What the linker puts in the place of these functions ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __real_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __real_recv(int fd, void *bytes, size_t len, int flags);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

void *__wrap_malloc(size_t size)
{
    counts.allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    counts.allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    counts.allocations++;
    return __real_realloc(old, size);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    counts.mutexes++;
    return __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    counts.mutexes++;
    return __real_pthread_mutex_trylock(mutex);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
    counts.polls++;
    return __real_poll(fds, n, timeout);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    counts.sends++;
    return __real_send(fd, bytes, len, flags);
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    counts.receives++;
    return __real_recv(fd, bytes, len, flags);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    counts.clocks++;
    return __real_clock_gettime(clock, ret_now);
}

/* ---- The test ---- */

static void pairs(struct rlock_handle *lock, int n)
{
    for (int i = 0; i < n; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
}

LOCK_TEST(a_free_lock_costs_few_allocations_mutexes_and_calls, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    unsigned ticks;
    int64_t since_us;

    pairs(lock, 20);
    since_us = test_now_us();
    counts = (struct counts){0};
    pairs(lock, PAIRS);
    ticks = (unsigned)(test_elapsed_us(since_us) / TICK_US) + 1;
    print_message("a pair: %.2f allocations, %.2f mutexes, %.2f polls, %.2f sends, %.2f recvs, "
                  "%.2f clocks\n",
                  (double)counts.allocations / PAIRS, (double)counts.mutexes / PAIRS,
                  (double)counts.polls / PAIRS, (double)counts.sends / PAIRS,
                  (double)counts.receives / PAIRS, (double)counts.clocks / PAIRS);
    assert_in_range(counts.allocations, 0, 2 * PAIRS);
    assert_in_range(counts.clocks, 0, 6 * PAIRS);
    assert_in_range(counts.mutexes, 0, 5 * PAIRS);
    /* at a tick the service thread may read the answer: then the caller polls once more */
    assert_in_range(counts.polls, 0, 2 * PAIRS + ticks);
    /* fewer where another thread has the links just then, and sends it as well */
    assert_in_range(counts.sends, PAIRS, 2 * PAIRS);
    /* with the look at the idle link; TLS reads a record's head and the rest of it */
    assert_in_range(counts.receives, 0, (test_server_cacert(f->server) != NULL ? 6 : 4) * PAIRS);
}

static long long bytes_of(struct test_server *server)
{
    return test_server_info(server, "stats", "total_net_input_bytes") +
           test_server_info(server, "stats", "total_net_output_bytes");
}

static long long calls_of(struct test_server *server)
{
    return test_server_info(server, "commandstats", "cmdstat_evalsha:calls");
}

LOCK_TEST(a_free_lock_costs_two_commands_and_few_bytes, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    pairs(lock, 20);
    const long long calls = calls_of(f->server);
    const long long bytes = bytes_of(f->server);
    const long long asking = bytes_of(f->server) - bytes; /* what the question itself costs */
    pairs(lock, PAIRS);
    const long long spent = bytes_of(f->server) - bytes - 2 * asking;
    print_message("a pair: %.2f scripts, %.1f bytes\n",
                  (double)(calls_of(f->server) - calls) / PAIRS, (double)spent / PAIRS);
    assert_int_equal(calls_of(f->server) - calls, 2 * PAIRS);
    assert_in_range(spent, 0, 380LL * PAIRS);
}
