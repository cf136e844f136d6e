/* SPDX-License-Identifier: Apache-2.0 */
#include "support/clients.h"

#include <signal.h>
#include <unistd.h>

const struct kind kind_reentrant = {"reentrant", rlock_reentrant_new, rlock_reentrant_new, 0};

const struct kind single_kinds[] = {
    {.name = "reentrant", .make = rlock_reentrant_new},
    {.name = "nonreentrant", .make = rlock_nonreentrant_new},
    {.name = "spin", .make = rlock_spin_new},
    {.name = "fenced", .make = rlock_fenced_new},
    {.name = "fair", .make = rlock_fair_new},
    {.name = "read", .make = rlock_read_new},
    {.name = "write", .make = rlock_write_new},
    {.name = "setnx", .make = rlock_setnx_new},
    {.name = "permits", .make = one_permit},
    {.name = "semaphore", .make = one_unit},
};

/* ---- Opening and closing ---- */

struct rlock_client_opts client_opts(const struct fixture *f, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts filled = opts != NULL ? *opts : *RLOCK_CLIENT_OPTS(.url = NULL);

    if (filled.url == NULL) {
        filled.url = test_server_url(f->server);
    }
    if (filled.ca_file == NULL && strncmp(filled.url, "rediss", 6) == 0) {
        filled.ca_file = test_server_cacert(f->server);
    }
    if (filled.connect_timeout_ms == 0) {
        filled.connect_timeout_ms = 1000 * test_slack();
    }
    if (filled.op_timeout_ms == 0) {
        filled.op_timeout_ms = 1000 * test_slack();
    }
    return filled;
}

struct rlock_client *client_open_with(struct fixture *f, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts filled = client_opts(f, opts);
    struct rlock_client *client = NULL;

    if (filled.on_lost == NULL) {
        diary_listen(&f->diary, &filled);
    }
    assert_true(f->n_clients < FIXTURE_MOST);
    assert_code(rlock_client_open(&filled, &client), 0);
    f->clients[f->n_clients++] = client;
    return client;
}

struct rlock_client *client_open(struct fixture *f)
{
    return client_open_with(f, NULL);
}

struct rlock_client *client_open_renewing(struct fixture *f, int64_t renewed_lease_ms)
{
    return client_open_with(f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = renewed_lease_ms));
}

void client_close(struct fixture *f, struct rlock_client *client)
{
    for (size_t i = 0; i < f->n_clients; i++) {
        if (f->clients[i] == client) {
            f->clients[i] = NULL;
        }
    }
    assert_null(rlock_client_close(client));
}

static struct rlock_handle *make(struct fixture *f, new_fn *fn, struct rlock_client *client,
                                 const char *name, const struct rlock_opts *opts)
{
    struct rlock_handle *lock = NULL;

    assert_true(f->n_locks < FIXTURE_MOST);
    assert_code(fn(client, name, opts, &lock), 0);
    f->locks[f->n_locks++] = lock;
    return lock;
}

struct rlock_handle *lock_new(struct fixture *f, struct rlock_client *client)
{
    return make(f, f->kind->make, client, NAME, NULL);
}

struct rlock_handle *rival_new(struct fixture *f, struct rlock_client *client)
{
    return make(f, f->kind->make_rival, client, NAME, NULL);
}

struct rlock_handle *lock_named(struct fixture *f, struct rlock_client *client, const char *name)
{
    return make(f, f->kind->make, client, name, NULL);
}

struct rlock_handle *lock_with(struct fixture *f, struct rlock_client *client, const char *name,
                               const struct rlock_opts *opts)
{
    return make(f, f->kind->make, client, name, opts);
}

struct actor *actor_open(struct fixture *f)
{
    assert_true(f->n_actors < FIXTURE_MOST);
    f->actors[f->n_actors] = actor_new();
    return f->actors[f->n_actors++];
}

void clients_close(struct fixture *f)
{
    for (size_t i = 0; i < f->n_actors; i++) {
        actor_free(f->actors[i]);
    }
    for (size_t i = 0; i < f->n_locks; i++) {
        assert_null(rlock_free(f->locks[i]));
    }
    for (size_t i = 0; i < f->n_clients; i++) {
        assert_null(rlock_client_close(f->clients[i]));
    }
    for (size_t i = f->n_expected; i < f->diary.n_told; i++) {
        print_error("a loss that nobody expected: %s\n",
                    rlock_reason_text(f->diary.told[i].loss.reason));
    }
    assert_int_equal(f->diary.n_told, f->n_expected);
}

/* ---- Victims ---- */

enum { SAYS_READY = 1 };

static int hold_until_killed(struct test_peer *peer, void *payload)
{
    const struct victim *victim = payload;
    const struct rlock_client_opts opts =
        client_opts(victim->f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = victim->renewed_lease_ms));
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(victim->make(client, NAME, NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0);
    test_peer_send(peer, SAYS_READY);
    for (;;) {
        (void)pause();
    }
}

struct test_child *victim_spawn(const struct victim *victim)
{
    struct victim copy = *victim; /* the child has it by fork */

    return test_child_spawn(hold_until_killed, &copy);
}

void victim_await(struct test_child *child)
{
    assert_int_equal(test_child_recv(child, 10000), SAYS_READY);
}

int64_t victim_kill(struct test_child *child)
{
    const int64_t killed_us = test_now_us();

    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 10000), 128 + SIGKILL);
    return killed_us;
}

/* ---- What is known ---- */

void await_waiting(struct rlock_client *client, size_t n)
{
    assert_true(TEST_EVENTUALLY(test_waiting(client) == n, 10000));
}

static struct rlock_info inspect(struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(lock, &info), 0);
    return info;
}

bool is_locked(struct rlock_handle *lock)
{
    return inspect(lock).locked;
}

int64_t ttl_of(struct rlock_handle *lock)
{
    return inspect(lock).ttl_ms;
}

size_t losses_told(struct fixture *f)
{
    return diary_losses(&f->diary);
}

int64_t expect_loss_at(struct fixture *f, enum rlock_reason reason, const char *file, int line)
{
    const struct told *told;

    if (!TEST_EVENTUALLY(losses_told(f) > f->n_expected, 10000)) {
        print_error("%s:%d: no loss was told\n", file, line);
        _fail(file, line);
    }
    told = &f->diary.told[f->n_expected++];
    if (reason != 0 && told->loss.reason != (int)reason) {
        print_error("%s:%d: lost: %s, expected: %s\n", file, line,
                    rlock_reason_text(told->loss.reason), rlock_reason_text((int)reason));
        _fail(file, line);
    }
    return told->at_us;
}

const struct rlock_loss *last_loss(const struct fixture *f)
{
    TEST_CHECK(f->n_expected > 0);
    return &f->diary.told[f->n_expected - 1].loss;
}

void forgive_losses(struct fixture *f)
{
    f->n_expected = losses_told(f);
}

void pass_through_kinds(struct rlock_client *client, size_t names)
{
    for (size_t i = 0; i < SINGLE_KINDS * names; i++) {
        struct rlock_handle *lock = NULL;
        char name[48];

        test_text(name, sizeof(name), "%s-%zu", single_kinds[i % SINGLE_KINDS].name, i);
        assert_code(single_kinds[i % SINGLE_KINDS].make(client, name, NULL, &lock), 0);
        assert_code(rlock_lock(lock), 0);
        assert_true(rlock_is_valid(lock));
        assert_code(rlock_unlock(lock), 0);
        assert_null(rlock_free(lock));
    }
}
