/* SPDX-License-Identifier: Apache-2.0 */
/* Mutexes, condition variables, futexes and threads, as the scheduler has them. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <utlist.h>

#include "drive/client.h"
#include "system.h"

#define JOINABLE_MAX 64

/* ---- Mutexes: what is in the memory of the system's; zero is free, as PTHREAD_MUTEX_INITIALIZER
 * has it ---- */

struct mutex {
    unsigned owner; /* a thread's id + 1 */
    bool dead;
};

static struct mutex *of(pthread_mutex_t *mutex)
{
    _Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "has room");
    return (struct mutex *)(void *)mutex;
}

static bool is_free(const void *arg)
{
    return ((const struct mutex *)arg)->owner == 0;
}

const char *sched_mutex_owner(const void *arg)
{
    const struct mutex *mutex = arg;

    return mutex->owner != 0 ? sched_name(mutex->owner - 1) : NULL;
}

static void take(struct mutex *mutex)
{
    mutex->owner = sched_self() + 1;
    sched_holds(1);
}

static void check(const struct mutex *mutex, const char *what)
{
    if (mutex->dead) {
        sched_fail("%s of a mutex that is no more", what);
    }
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    (void)attr;
    *of(mutex) = (struct mutex){0};
    return 0;
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    check(of(mutex), "destroy");
    if (of(mutex)->owner != 0) {
        sched_fail("a mutex is destroyed that %s has", sched_mutex_owner(mutex));
    }
    of(mutex)->dead = true;
    return 0;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    sched_point("mutex_lock");
    check(of(mutex), "lock");
    if (of(mutex)->owner == sched_self() + 1) {
        sched_fail("%s locks a mutex that it has", sched_name(sched_self()));
    }
    if (!is_free(mutex)) {
        (void)sched_wait("mutex_lock", is_free, mutex, RLOCK__NEVER);
    }
    take(of(mutex));
    return 0;
}

static void release(struct mutex *mutex)
{
    check(mutex, "unlock");
    if (mutex->owner != sched_self() + 1) {
        sched_fail("%s unlocks a mutex that it does not have", sched_name(sched_self()));
    }
    mutex->owner = 0;
    sched_holds(-1);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    sched_point("mutex_unlock");
    release(of(mutex));
    sched_point("mutex_unlocked");
    return 0;
}

/* ---- Condition variables and futexes: both wait on an address ---- */

struct sleeper {
    struct sleeper *prev, *next;
    const void *address;
    unsigned mask; /* of a futex: whom a wake-up for one of these bits wakes */
    bool woken;
};

static struct sleeper *sleepers; /* the longest asleep first */

static bool is_woken(const void *arg)
{
    return ((const struct sleeper *)arg)->woken;
}

/* False: not until then. */
static bool sleep_on(const char *what, const void *address, unsigned mask, int64_t until)
{
    struct sleeper sleeper = {.address = address, .mask = mask};
    bool woken;

    DL_APPEND(sleepers, &sleeper);
    woken = sched_wait(what, is_woken, &sleeper, until);
    DL_DELETE(sleepers, &sleeper);
    return woken;
}

static int wake(const void *address, unsigned mask, int n)
{
    struct sleeper *sleeper;
    int woken = 0;

    DL_FOREACH(sleepers, sleeper) {
        if (sleeper->address == address && (sleeper->mask & mask) != 0 && !sleeper->woken &&
            woken < n) {
            sleeper->woken = true;
            woken++;
        }
    }
    return woken;
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    (void)cond;
    (void)attr;
    return 0;
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    struct sleeper *sleeper;

    DL_FOREACH(sleepers, sleeper) {
        if (sleeper->address == cond) {
            sched_fail("a condition variable is destroyed on which somebody waits");
        }
    }
    return 0;
}

/* Gives up the mutex while it waits. One that has another mutex would stop others meanwhile. */
static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    bool woken;

    sched_point("cond_wait");
    release(of(mutex));
    if (sched_n_held() != 0) {
        sched_fail("%s waits for news with a mutex", sched_name(sched_self()));
    }
    woken = sched_system_chance(3) || sleep_on("cond_wait", cond, ~0U, until);
    if (!is_free(mutex)) {
        (void)sched_wait("mutex_lock", is_free, mutex, RLOCK__NEVER);
    }
    take(of(mutex));
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return wait_until(cond, mutex, RLOCK__NEVER);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    return wait_until(cond, mutex, sched_monotonic_us(until));
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    sched_point("cond_broadcast");
    (void)wake(cond, ~0U, INT_MAX);
    return 0;
}

static long futex_wait(const atomic_int *word, int value, unsigned mask)
{
    if (sched_n_held() != 0) {
        sched_fail("%s parks with a mutex", sched_name(sched_self()));
    }
    if (atomic_load(word) != value || sched_system_chance(3)) {
        errno = EAGAIN;
        return -1;
    }
    (void)sleep_on("futex_wait", word, mask, RLOCK__NEVER);
    return 0;
}

long __wrap_syscall(long number, ...)
{
    va_list args;
    atomic_int *word;
    unsigned mask = ~0U;
    int op, value;

    va_start(args, number);
    word = va_arg(args, atomic_int *);
    op = va_arg(args, int);
    value = va_arg(args, int);
    if (op == FUTEX_WAIT_BITSET_PRIVATE || op == FUTEX_WAKE_BITSET_PRIVATE) {
        (void)va_arg(args, void *);
        (void)va_arg(args, void *);
        mask = va_arg(args, unsigned);
    }
    va_end(args);
    if (number != SYS_futex) {
        sched_fail("system call %ld is not known here", number);
    }
    if (op == FUTEX_WAIT_PRIVATE || op == FUTEX_WAIT_BITSET_PRIVATE) {
        sched_point("futex_wait");
        return futex_wait(word, value, mask);
    }
    sched_point("futex_wake");
    if (sched_n_held() != 0) {
        sched_fail("%s wakes another one with a mutex", sched_name(sched_self()));
    }
    value = wake(word, mask, value);
    sched_point("futex_woke");
    return value;
}

/* ---- The lock on a link: it is the library's own, and so is its word ---- */

void __wrap_rlock__send_lock_take(struct rlock__send_lock *lock)
{
    sched_point("send_lock_take");
    __real_rlock__send_lock_take(lock);
    sched_holds(1);
}

static bool tries(bool (*try)(struct rlock__send_lock *lock), struct rlock__send_lock *lock)
{
    bool taken;

    sched_point("send_lock_try");
    taken = try(lock);
    sched_holds(taken ? 1 : 0);
    return taken;
}

bool __wrap_rlock__send_lock_try(struct rlock__send_lock *lock)
{
    return tries(__real_rlock__send_lock_try, lock);
}

bool __wrap_rlock__send_lock_wish(struct rlock__send_lock *lock)
{
    return tries(__real_rlock__send_lock_wish, lock);
}

/* It wakes a sleeper when it has the lock no more. */
bool __wrap_rlock__send_lock_give(struct rlock__send_lock *lock)
{
    bool given;

    sched_point("send_lock_give");
    sched_holds(-1);
    given = __real_rlock__send_lock_give(lock);
    sched_holds(given ? 0 : 1);
    sched_point("send_lock_given");
    return given;
}

/* ---- Threads ---- */

static struct {
    pthread_t real;
    struct sched_thread *thread;
} joinable[JOINABLE_MAX];

static unsigned n_joinable;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg)
{
    const char *name = main == rlock__service_main      ? "service"
                       : main == rlock__dispatcher_main ? "dispatcher"
                                                        : NULL;
    int error;

    joinable[n_joinable].thread = sched_thread_new(name, main, arg);
    error = __real_pthread_create(thread, attr, sched_thread_main, joinable[n_joinable].thread);
    if (error != 0) {
        sched_fail("no thread: %s", strerror(error));
    }
    joinable[n_joinable++].real = *thread;
    sched_point("create");
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret_value)
{
    unsigned i = n_joinable;

    sched_point("join");
    if (sched_n_held() != 0) {
        sched_fail("%s waits for the end of a thread with a mutex", sched_name(sched_self()));
    }
    while (i > 0 && !pthread_equal(joinable[i - 1].real, thread)) {
        i--;
    }
    if (i == 0) {
        sched_fail("a thread is joined that there is not");
    }
    (void)sched_wait("join", sched_thread_has_ended, joinable[i - 1].thread, RLOCK__NEVER);
    return __real_pthread_join(thread, ret_value);
}
