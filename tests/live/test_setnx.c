/* SPDX-License-Identifier: Apache-2.0 */
/* What setnx locks have of their own. What all kinds have is in tests/conformance. */
#include "support/clients.h"

static const struct kind kind_setnx = {"setnx", rlock_setnx_new, rlock_setnx_new, 0};

#define SETNX_TEST(name, f, ...) FIXTURE_WITH_TEST(name, f, .kind = &kind_setnx, __VA_ARGS__)

/* The connection breaks after the server has run the attempt. The second copy finds the value of
 * the first one. */
SETNX_TEST(a_copy_of_an_attempt_finds_its_own_value, f, .proxy = PROXY_ON_UNIX)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(f->proxy)));
    struct rlock_handle *lock = lock_new(f, client);
    const struct proxy_rule lost = {
        .act = PROXY_CUT_REPLY, .command = "EVALSHA", .contains = NAME, .times = 1};
    int number;

    assert_code(rlock_try_lock(lock), 0); /* the server knows the scripts from here on */
    assert_code(rlock_unlock(lock), 0);
    number = proxy_add(f->proxy, &lost);
    assert_code(rlock_try_lock(lock), 0);
    assert_int_equal(proxy_fired(f->proxy, number), 1);
    assert_true(is_locked(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_false(is_locked(lock));
}

/* No script compares more than 128 bytes of it. */
SETNX_TEST(a_long_value_of_another_library_is_opened_by_force, f, .servers = 1)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    char value[301] = "";
    bool opened = false;

    memset(value, 'x', 300);
    free(test_server_cmd(f->server, "SET " NAME " %s PX 60000", value));
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_code(rlock_force_unlock(lock, &opened), 0);
    assert_true(opened);
    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

SETNX_TEST(a_lingering_lock_is_free_soon, f, .servers = 1)
{
    struct rlock_handle *lock = lock_with(f, client_open(f), NAME, RLOCK_OPTS(.linger_ms = 10));
    struct rlock_handle *rival = rival_new(f, client_open(f));

    for (int i = 0; i < 20; i++) {
        assert_code(rlock_lock(lock), 0);
        assert_code(rlock_unlock(lock), 0);
    }
    assert_code(rlock_lock_for(rival, 10000, NULL, NULL), 0);
    assert_code(rlock_unlock(rival), 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "EXISTS " NAME) == 0, 10000));
}

SETNX_TEST(a_redlock_may_have_members_of_this_kind, f, .servers = 3)
{
    struct rlock_handle *members[2][3], *locks[2];

    for (size_t i = 0; i < 6; i++) {
        struct rlock_client *client =
            client_open_with(f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[i % 3])));

        assert_code(rlock_setnx_new(client, NAME, NULL, &members[i / 3][i % 3]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_code(rlock_redlock_new(members[i], 3, RLOCK_OPTS(.max_lease_ms = -1), &locks[i]), 0);
    }
    assert_code(rlock_lock_for(locks[0], 20000, NULL, NULL), 0);
    assert_code(rlock_try_lock(locks[1]), RLOCK_EBUSY);
    assert_code(rlock_unlock(locks[0]), 0);
    assert_code(rlock_lock_for(locks[1], 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(locks[1]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_null(rlock_free(locks[i]));
    }
    for (size_t i = 0; i < 6; i++) {
        assert_null(rlock_free(members[i / 3][i % 3]));
    }
}
