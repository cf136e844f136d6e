/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory a lock costs: a handle, a hold, a call that waits. What malloc gives for it is
 * counted, of thousands, so that what a client has once and for all does not count much.
 */
#include "support/clients.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { N = 4400 };

/* Bytes, besides those of the name. Whoever makes it less lowers the ceiling. */
enum { IDLE_HANDLE = 256, HOLD = 704, WAITING = 1024 };

#define NAME_SIZE 16 /* of "memory-0000" and what is behind it */
#define OWNER 7

static atomic_llong taken;       /* bytes that may be used of what was taken and not given back */
static _Thread_local bool apart; /* what this thread does now is not the library's */

/* ---- What the linker puts in the place of these functions ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

static void *count(void *got, size_t before)
{
    long long more = (long long)malloc_usable_size(got) - (long long)before;

    (void)atomic_fetch_add(&taken, apart ? 0 : more);
    return got;
}

void *__wrap_malloc(size_t size)
{
    return count(__real_malloc(size), 0);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return count(__real_calloc(n, size), 0);
}

void *__wrap_realloc(void *old, size_t size)
{
    size_t before = malloc_usable_size(old);

    return count(__real_realloc(old, size), before);
}

void __wrap_free(void *old)
{
    (void)count(NULL, malloc_usable_size(old));
    __real_free(old);
}

/* ---- The tests ---- */

/* The ceilings are of 64 bits. */
static void skip_elsewhere(void)
{
    if (sizeof(void *) != 8) {
        skip();
    }
}

/* What each has cost since then, without the bytes of its name. */
static long long cost(const char *what, long long before, size_t name_len)
{
    const long long each = (atomic_load(&taken) - before) / N - (long long)name_len;

    print_message("%s: %lld bytes\n", what, each);
    return each;
}

struct many {
    struct rlock_client *client;
    struct rlock_handle *locks[N];
    struct rlock_op *ops[N];
    size_t name_len;
};

/* They outlive a test that fails, and are too large for a stack. */
static struct many many;

static void locks_new(void)
{
    for (size_t i = 0; i < N; i++) {
        char name[NAME_SIZE];

        test_text(name, sizeof(name), "memory-%04zu", i);
        many.name_len = strlen(name);
        assert_code(rlock_reentrant_new(many.client, name, NULL, &many.locks[i]), 0);
    }
}

static void locks_free(void)
{
    for (size_t i = 0; i < N; i++) {
        many.locks[i] = rlock_free(many.locks[i]);
    }
}

LOCK_TEST(an_idle_handle_costs_at_most_256_bytes, f)
{
    long long before;

    skip_elsewhere();
    many.client = client_open(f);
    before = atomic_load(&taken);
    locks_new();
    assert_in_range(cost("an idle handle", before, many.name_len), 1, IDLE_HANDLE);
    locks_free();
}

/* How many there were. */
static long long renewals_of(const struct fixture *f)
{
    long long n;

    apart = true;
    n = test_server_info(f->server, "commandstats", "cmdstat_pexpire:calls");
    apart = false;
    return n;
}

/* Takes all of them, and waits until each has been renewed. */
static void take_all(const struct fixture *f, uint64_t owner)
{
    long long renewals;

    for (size_t i = 0; i < N; i++) {
        assert_code(TAKE(many.locks[i], RLOCK_FOREVER, .owner = owner), 0);
    }
    renewals = renewals_of(f);
    assert_true(TEST_EVENTUALLY(renewals_of(f) >= renewals + 2LL * N, 60000));
}

static void hold_all(struct fixture *f, uint64_t owner, const char *what)
{
    long long before;

    skip_elsewhere();
    many.client = client_open_renewing(f, 3000);
    before = atomic_load(&taken);
    locks_new();
    take_all(f, owner);
    long long handles = atomic_load(&taken);
    locks_free(); /* of these, what the hold needs stays */
    handles -= atomic_load(&taken);
    assert_in_range(cost(what, before, many.name_len), 1, HOLD);
    print_message("%s: a handle on it: %lld bytes\n", what, handles / N);
    locks_new();
    for (size_t i = 0; i < N; i++) {
        assert_code(rlock_unlock_as(many.locks[i], owner), 0);
    }
    locks_free();
}

LOCK_TEST(a_hold_costs_at_most_704_bytes, f)
{
    hold_all(f, OWNER, "a hold");
}

/* With what the thread knows of it. */
LOCK_TEST(a_hold_of_a_thread_costs_at_most_704_bytes, f)
{
    hold_all(f, 0, "a thread's hold");
}

LOCK_TEST(a_waiting_acquisition_costs_at_most_1024_bytes, f)
{
    struct rlock_handle *lock;
    long long before;

    skip_elsewhere();
    many.client = client_open(f);
    lock = lock_new(f, many.client);
    assert_code(TAKE(lock, 0, .owner = OWNER), 0);
    before = atomic_load(&taken);
    for (size_t i = 0; i < N; i++) {
        const struct rlock_take *take = RLOCK_TAKE(.owner = OWNER + 1 + i);

        assert_code(rlock_lock_async(lock, RLOCK_FOREVER, take, NULL, NULL, &many.ops[i]), 0);
    }
    await_waiting(many.client, N);
    assert_in_range(cost("a waiting acquisition", before, 0), 1, WAITING);
    for (size_t i = 0; i < N; i++) {
        rlock_op_cancel(many.ops[i]);
        many.ops[i] = rlock_op_unref(many.ops[i]);
    }
    assert_code(rlock_unlock_as(lock, OWNER), 0);
}
