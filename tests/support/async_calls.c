/* SPDX-License-Identifier: Apache-2.0 */
#include "support/async_calls.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rlock/rlock.h>

#include "drive/client.h"
#include "support/completion.h"
#include "support/run.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names */
#define REAL(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

REAL(const char *, rlock_detail, void);
REAL(int, rlock_client_open, const struct rlock_client_opts *opts,
     struct rlock_client **ret_client);
REAL(struct rlock_client *, rlock_client_close, struct rlock_client *client);
REAL(int, rlock_lock, struct rlock_handle *lock);
REAL(int, rlock_try_lock, struct rlock_handle *lock);
REAL(int, rlock_lock_for, struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take,
     struct rlock_grant *ret_grant);
REAL(int, rlock_unlock, struct rlock_handle *lock);
REAL(int, rlock_unlock_as, struct rlock_handle *lock, uint64_t owner);
REAL(int, rlock_extend, struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
     struct rlock_grant *ret_grant);
REAL(int, rlock_detach, struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
     char ret_text[static RLOCK_TEXT_SIZE]);
REAL(int, rlock_hold_text, const struct rlock_handle *lock, uint64_t owner,
     char ret_text[static RLOCK_TEXT_SIZE]);
REAL(int, rlock_adopt, struct rlock_handle *lock, const char *text, const struct rlock_take *take,
     struct rlock_grant *ret_grant);
REAL(int, rlock_force_unlock, struct rlock_handle *lock, bool *ret_was_locked);
REAL(int, rlock_inspect, struct rlock_handle *lock, struct rlock_info *ret_info);
REAL(struct rlock_guard, rlock_guard_lock, struct rlock_handle *lock);
REAL(struct rlock_guard, rlock_guard_lock_for, struct rlock_handle *lock, int64_t wait_ms,
     const struct rlock_take *take);
REAL(int, rlock_guard_end, struct rlock_guard *guard);
REAL(bool, rlock_is_valid, const struct rlock_handle *lock);
REAL(bool, rlock_is_valid_as, const struct rlock_handle *lock, uint64_t owner);
REAL(int64_t, rlock_valid_ms, const struct rlock_handle *lock);
REAL(int64_t, rlock_valid_ms_as, const struct rlock_handle *lock, uint64_t owner);
REAL(uint32_t, rlock_hold_count, const struct rlock_handle *lock);
REAL(uint32_t, rlock_hold_count_as, const struct rlock_handle *lock, uint64_t owner);

enum test_calls test_calls(void)
{
    const char *how = getenv("RLOCK_TEST_CALLS");

    if (how == NULL || how[0] == '\0') {
        return TEST_CALLS_BLOCKING;
    }
    return strcmp(how, "loop") == 0 ? TEST_CALLS_LOOP : TEST_CALLS_ASYNC;
}

/* ---- Owners ---- */

#define FIRST_ID (UINT64_C(1) << 40) /* the tests give smaller ones */

/* Who calls: an id of the thread's own where none is given. */
static uint64_t owner_of(uint64_t given)
{
    static atomic_ullong last;
    static _Thread_local uint64_t own;

    if (given != 0 || test_calls() == TEST_CALLS_BLOCKING) {
        return given;
    }
    own = own != 0 ? own : FIRST_ID + atomic_fetch_add(&last, 1);
    return own;
}

bool __wrap_rlock_is_valid_as(const struct rlock_handle *lock, uint64_t owner)
{
    return __real_rlock_is_valid_as(lock, owner_of(owner));
}

bool __wrap_rlock_is_valid(const struct rlock_handle *lock)
{
    return __wrap_rlock_is_valid_as(lock, 0);
}

int64_t __wrap_rlock_valid_ms_as(const struct rlock_handle *lock, uint64_t owner)
{
    return __real_rlock_valid_ms_as(lock, owner_of(owner));
}

int64_t __wrap_rlock_valid_ms(const struct rlock_handle *lock)
{
    return __wrap_rlock_valid_ms_as(lock, 0);
}

uint32_t __wrap_rlock_hold_count_as(const struct rlock_handle *lock, uint64_t owner)
{
    return __real_rlock_hold_count_as(lock, owner_of(owner));
}

uint32_t __wrap_rlock_hold_count(const struct rlock_handle *lock)
{
    return __wrap_rlock_hold_count_as(lock, 0);
}

/* ---- Waiting for a completion ---- */

static _Thread_local char detail[RLOCK__DETAIL_SIZE]; /* of the last call; "" the library's own */

const char *__wrap_rlock_detail(void)
{
    return detail[0] != '\0' ? detail : __real_rlock_detail();
}

/* Where the calls are the library's own; also where a callback calls, which cannot wait for one of
 * its own thread. */
static bool is_real(void)
{
    detail[0] = '\0';
    return test_calls() == TEST_CALLS_BLOCKING || rlock__is_dispatcher();
}

/* code: of the call that began it. Returns that of the operation, which is complete. */
static int await(int code, struct completion *completion, struct rlock_op *op)
{
    if (code == 0) {
        code = completion_await(completion);
        (void)snprintf(detail, sizeof(detail), "%s", rlock_op_detail(op));
    }
    return code;
}

/* ---- Calls ---- */

/* The take, with an owner, in the copy; one that is refused stays as it is. */
static const struct rlock_take *take_of(const struct rlock_take *take, struct rlock_take *copy)
{
    *copy = (struct rlock_take){.size = sizeof(*copy)};
    if (take != NULL && (take->size < sizeof(size_t) || take->size > sizeof(*copy))) {
        return take;
    }
    if (take != NULL) { /* of an older program too */
        memcpy(copy, take, take->size);
        copy->size = sizeof(*copy);
    }
    copy->owner = owner_of(copy->owner);
    return copy;
}

static int await_grant(int code, struct completion *completion, struct rlock_op *op,
                       struct rlock_grant *ret_grant)
{
    code = await(code, completion, op);
    if (code == 0 && ret_grant != NULL) {
        TEST_CHECK(rlock_op_grant(op, ret_grant) == 0);
    }
    (void)rlock_op_unref(op);
    return code;
}

int __wrap_rlock_lock_for(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take,
                          struct rlock_grant *ret_grant)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    struct rlock_take copy;
    int code;

    take = take_of(take, &copy);
    if (is_real() || (ret_grant != NULL && ret_grant->size < sizeof(size_t))) {
        return __real_rlock_lock_for(lock, wait_ms, take, ret_grant);
    }
    code = rlock_lock_async(lock, wait_ms, take, completion_tell, &completion, &op);
    return await_grant(code, &completion, op, ret_grant);
}

int __wrap_rlock_lock(struct rlock_handle *lock)
{
    return __wrap_rlock_lock_for(lock, RLOCK_FOREVER, NULL, NULL);
}

int __wrap_rlock_try_lock(struct rlock_handle *lock)
{
    return __wrap_rlock_lock_for(lock, 0, NULL, NULL);
}

int __wrap_rlock_unlock_as(struct rlock_handle *lock, uint64_t owner)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    int code;

    if (is_real()) {
        return __real_rlock_unlock_as(lock, owner_of(owner));
    }
    code = rlock_unlock_async(lock, owner_of(owner), completion_tell, &completion, &op);
    code = await(code, &completion, op);
    (void)rlock_op_unref(op);
    return code;
}

int __wrap_rlock_extend(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                        struct rlock_grant *ret_grant)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    int code;

    if (is_real() || (ret_grant != NULL && ret_grant->size < sizeof(size_t))) {
        return __real_rlock_extend(lock, owner_of(owner), lease_ms, ret_grant);
    }
    code = rlock_extend_async(lock, owner_of(owner), lease_ms, completion_tell, &completion, &op);
    return await_grant(code, &completion, op, ret_grant);
}

int __wrap_rlock_detach(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                        char ret_text[static RLOCK_TEXT_SIZE])
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    int code;

    if (is_real()) {
        return __real_rlock_detach(lock, owner_of(owner), lease_ms, ret_text);
    }
    ret_text[0] = '\0';
    code = rlock_detach_async(lock, owner_of(owner), lease_ms, completion_tell, &completion, &op);
    code = await(code, &completion, op);
    if (op != NULL) {
        TEST_CHECK(rlock_op_text(op, ret_text) == (code == 0 ? 0 : RLOCK_EINVAL));
    }
    (void)rlock_op_unref(op);
    return code;
}

int __wrap_rlock_hold_text(const struct rlock_handle *lock, uint64_t owner,
                           char ret_text[static RLOCK_TEXT_SIZE])
{
    return __real_rlock_hold_text(lock, owner_of(owner), ret_text);
}

int __wrap_rlock_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *take,
                       struct rlock_grant *ret_grant)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    struct rlock_take copy;
    int code;

    take = take_of(take, &copy);
    if (is_real() || (ret_grant != NULL && ret_grant->size < sizeof(size_t))) {
        return __real_rlock_adopt(lock, text, take, ret_grant);
    }
    code = rlock_adopt_async(lock, text, take, completion_tell, &completion, &op);
    return await_grant(code, &completion, op, ret_grant);
}

int __wrap_rlock_unlock(struct rlock_handle *lock)
{
    return __wrap_rlock_unlock_as(lock, 0);
}

struct rlock_guard __wrap_rlock_guard_lock_for(struct rlock_handle *lock, int64_t wait_ms,
                                               const struct rlock_take *take)
{
    struct rlock_guard guard = {.lock = lock, .owner = take != NULL ? take->owner : 0};

    guard.code = __wrap_rlock_lock_for(lock, wait_ms, take, NULL);
    guard.lock = guard.code == 0 ? lock : NULL;
    return guard;
}

struct rlock_guard __wrap_rlock_guard_lock(struct rlock_handle *lock)
{
    return __wrap_rlock_guard_lock_for(lock, RLOCK_FOREVER, NULL);
}

int __wrap_rlock_guard_end(struct rlock_guard *guard)
{
    struct rlock_handle *lock = guard->lock;

    guard->lock = NULL;
    return lock != NULL ? __wrap_rlock_unlock_as(lock, guard->owner) : 0;
}

int __wrap_rlock_force_unlock(struct rlock_handle *lock, bool *ret_was_locked)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    int code;

    if (is_real()) {
        return __real_rlock_force_unlock(lock, ret_was_locked);
    }
    code = rlock_force_unlock_async(lock, completion_tell, &completion, &op);
    code = await(code, &completion, op);
    if (code == 0 && ret_was_locked != NULL) {
        *ret_was_locked = rlock_op_was_locked(op);
    }
    (void)rlock_op_unref(op);
    return code;
}

int __wrap_rlock_inspect(struct rlock_handle *lock, struct rlock_info *ret_info)
{
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    int code;

    if (is_real() || ret_info == NULL || ret_info->size < sizeof(size_t)) {
        return __real_rlock_inspect(lock, ret_info);
    }
    code = rlock_inspect_async(lock, completion_tell, &completion, &op);
    code = await(code, &completion, op);
    if (code == 0) {
        TEST_CHECK(rlock_op_info(op, ret_info) == 0);
    }
    (void)rlock_op_unref(op);
    return code;
}

/* ---- Clients that an event loop runs ---- */

struct loop {
    struct loop *next;
    struct rlock_client *client;
    pthread_t thread;
    int stop_fd;
};

static struct loop *loops;
static pthread_mutex_t loops_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *run(void *arg)
{
    const struct loop *loop = arg;
    struct pollfd fds[2] = {{.fd = rlock_client_fd(loop->client), .events = POLLIN},
                            {.fd = loop->stop_fd, .events = POLLIN}};

    while (fds[1].revents == 0) {
        TEST_CHECK(rlock_client_dispatch(loop->client) == 0);
        (void)poll(fds, 2, -1);
    }
    return NULL;
}

int __wrap_rlock_client_open(const struct rlock_client_opts *opts, struct rlock_client **ret_client)
{
    struct rlock_client_opts copy = opts != NULL ? *opts : *RLOCK_CLIENT_OPTS(.url = NULL);
    struct loop *loop;
    int code;

    if (test_calls() != TEST_CALLS_LOOP) {
        return __real_rlock_client_open(opts, ret_client);
    }
    copy.flags |= RLOCK_CLIENT_USER_LOOP;
    code = __real_rlock_client_open(&copy, ret_client);
    if (code != 0) {
        return code;
    }
    loop = calloc(1, sizeof(*loop));
    TEST_CHECK(loop != NULL);
    loop->client = *ret_client;
    loop->stop_fd = eventfd(0, EFD_CLOEXEC);
    TEST_CHECK(pthread_create(&loop->thread, NULL, run, loop) == 0);
    (void)pthread_mutex_lock(&loops_mutex);
    loop->next = loops;
    loops = loop;
    (void)pthread_mutex_unlock(&loops_mutex);
    return 0;
}

/* The client's loop, taken out of the list; NULL: it has none. */
static struct loop *take(const struct rlock_client *client)
{
    struct loop **at = &loops, *loop;

    (void)pthread_mutex_lock(&loops_mutex);
    while (*at != NULL && (*at)->client != client) {
        at = &(*at)->next;
    }
    loop = *at;
    if (loop != NULL) {
        *at = loop->next;
    }
    (void)pthread_mutex_unlock(&loops_mutex);
    return loop;
}

struct rlock_client *__wrap_rlock_client_close(struct rlock_client *client)
{
    struct loop *loop = rlock__is_dispatcher() ? NULL : take(client);

    if (loop != NULL) {
        TEST_CHECK(eventfd_write(loop->stop_fd, 1) == 0);
        (void)pthread_join(loop->thread, NULL);
        (void)close(loop->stop_fd);
        free(loop);
    }
    return __real_rlock_client_close(client);
}
/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */
