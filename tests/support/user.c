/* SPDX-License-Identifier: Apache-2.0 */
#include "support/user.h"

#include <stdatomic.h>
#include <unistd.h>
#include <utlist.h>

static const char *url_of(const struct fixture *f, size_t server)
{
    return f->proxies[server] != NULL ? proxy_url(f->proxies[server])
                                      : test_server_url(f->servers[server]);
}

static void open_client(struct user *user, size_t server, struct rlock_client_opts opts)
{
    const struct fixture *f = user->f;

    opts.url = opts.url != NULL ? opts.url : url_of(f, server);
    if (strncmp(opts.url, "rediss:", 7) == 0 && opts.ca_file == NULL) {
        opts.ca_file = test_server_cacert(f->servers[server]);
    }
    assert_code(rlock_client_open(&opts, &user->clients[server]), 0);
    assert_code(rlock_reentrant_new(user->clients[server], LOCK_A, NULL, &user->members[server]),
                0);
}

struct user *user_open(struct fixture *f, struct rlock_client_opts opts)
{
    struct user *user = calloc(1, sizeof(*user));

    TEST_CHECK(user != NULL);
    user->f = f;
    diary_init(&user->diary);
    diary_listen(&user->diary, &opts);
    for (size_t i = 0; i < f->n; i++) {
        open_client(user, i, opts);
    }
    user->lock = user->members[0];
    if (f->redlock) {
        assert_code(rlock_redlock_new(user->members, f->n,
                                      RLOCK_OPTS(.max_lease_ms = f->max_lease_ms), &user->lock),
                    0);
    }
    DL_APPEND(f->users, user);
    return user;
}

struct user *user_open_direct(struct fixture *f)
{
    return user_open(f,
                     *RLOCK_CLIENT_OPTS(.url = test_server_url(f->server), .renewed_lease_ms = 500,
                                        .op_timeout_ms = 1000 * test_slack(),
                                        .connect_timeout_ms = 1000 * test_slack()));
}

void user_close(struct user *user)
{
    struct fixture *f = user->f;

    DL_DELETE(f->users, user);
    (void)rlock_free(user->lock);
    for (size_t i = 0; i < user->n_more; i++) {
        (void)rlock_free(user->more[i]);
    }
    for (size_t i = 0; f->redlock && i < f->n; i++) {
        (void)rlock_free(user->members[i]);
    }
    for (size_t i = 0; i < f->n; i++) {
        TEST_CHECK(rlock_client_close(user->clients[i]) == NULL);
    }
    diary_fini(&user->diary);
    free(user->more);
    free(user);
}

void users_close(struct fixture *f)
{
    while (f->users != NULL) {
        user_close(f->users);
    }
}

static struct rlock_handle *keep(struct user *user, struct rlock_handle *lock)
{
    user->more = realloc(user->more, (user->n_more + 1) * sizeof(struct rlock_handle *));
    TEST_CHECK(user->more != NULL);
    user->more[user->n_more++] = lock;
    return lock;
}

struct rlock_handle *user_lock_on(struct user *user, size_t server, const char *name)
{
    struct rlock_handle *lock;

    assert_code(rlock_reentrant_new(user->clients[server], name, NULL, &lock), 0);
    return keep(user, lock);
}

struct rlock_handle *user_multi(struct user *user, struct rlock_handle *a, struct rlock_handle *b)
{
    struct rlock_handle *lock;

    assert_code(rlock_multi_new((struct rlock_handle *[]){a, b}, 2, NULL, &lock), 0);
    return keep(user, lock);
}

struct rlock_handle *user_lock(struct user *user, const char *name)
{
    return user_lock_on(user, 0, name);
}

size_t user_losses(struct user *user)
{
    return diary_losses(&user->diary);
}

int user_wait_loss(struct user *user, size_t n)
{
    return TEST_EVENTUALLY(user_losses(user) >= n, 2000) ? user->diary.told[n - 1].loss.reason : 0;
}

const struct told *user_last_loss(struct user *user)
{
    const size_t n = user_losses(user);

    assert_true(n > 0);
    return &user->diary.told[n - 1];
}

size_t user_logged(struct user *user, const char *text)
{
    return diary_logged(&user->diary, text);
}

uint64_t user_id(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;

    if (number == 0) {
        number = atomic_fetch_add(&last, 1) + 1;
    }
    return ((uint64_t)getpid() << 32) + number; /* a child of fork goes on with its parent's */
}

bool user_step_on(const struct user *user, const struct rlock_handle *lock)
{
    if (!rlock_is_valid(lock)) {
        return test_expired(user->diary.lease_us);
    }
    witness_enter(user->f->witness, 0, user_id());
    witness_leave(user->f->witness, 0, user_id());
    return true;
}

bool user_step(const struct user *user)
{
    return user_step_on(user, user->lock);
}

int64_t user_work(const struct user *user)
{
    int64_t last_us = 0, now_us = test_now_us();

    while (user_step(user)) {
        last_us = now_us;
        now_us = test_now_us();
    }
    return last_us;
}

int user_visit(const struct user *user, int64_t wait_ms, const struct rlock_take *take)
{
    int code = rlock_lock_for(user->lock, wait_ms, take, NULL);

    if (code != 0) {
        return code;
    }
    (void)user_step(user);
    return rlock_unlock(user->lock);
}

void user_take_everywhere(const struct user *user)
{
    const struct fixture *f = user->f;

    for (size_t i = 0; i < f->n; i++) {
        assert_code(rlock_lock_for(user->members[i], 20000, NULL, NULL), 0);
        assert_code(rlock_unlock(user->members[i]), 0);
    }
    assert_code(rlock_lock_for(user->lock, 20000, NULL, NULL), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(f, LOCK_A) == f->n, 5000));
}
