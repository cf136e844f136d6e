/* SPDX-License-Identifier: Apache-2.0 */
/* Options beyond their limits, options of other kinds, and what questions return that fail. */
#include "drive/client.h"
#include "support/user.h"
#include "support/waiter.h"

static int open_with(struct fixture *f, struct rlock_client_opts opts)
{
    struct rlock_client *client = NULL;
    int code;

    opts.url = test_server_unix_url(f->server);
    code = rlock_client_open(&opts, &client);
    if (code == 0) {
        (void)rlock_client_close(client);
    }
    return code;
}

FIXTURE_TEST(a_time_without_an_end_counts_as_the_longest, f)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct user *user, *rival;
    struct waiter waiter;

    rival = user_open_direct(f);
    user = user_open(
        f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = INT64_MAX, .connect_timeout_ms = INT64_MAX));
    assert_code(rlock_try_lock(rival->lock), 0);
    waiter_start(&waiter, user, INT64_MAX, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    assert_code(rlock_unlock(rival->lock), 0);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_code(
        rlock_lock_for(user->lock, RLOCK_TIME_MAX_MS, RLOCK_TAKE(.lease_ms = INT64_MAX), &grant),
        0);
    assert_true(grant.lease_ms == RLOCK_TIME_MAX_MS);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(rlock_lock_for(user->lock, -2, NULL, NULL), RLOCK_EINVAL);
    assert_detail("wait_ms");
}

/* As long as Redisson and go-redis wait. */
FIXTURE_TEST(an_answer_has_three_seconds_by_default, f)
{
    struct rlock_client *client = NULL;

    assert_code(
        rlock_client_open(RLOCK_CLIENT_OPTS(.url = test_server_unix_url(f->server)), &client), 0);
    assert_true(client->core.opts.op_timeout_us == 3 * RLOCK__SECOND);
    assert_null(rlock_client_close(client));
}

/* An answer whose size was never set has any size: the smallest and the largest are refused. */
FIXTURE_TEST(an_answer_without_a_size_is_refused, f)
{
    static const size_t sizes[] = {0, sizeof(size_t) - 1, 64 * 1024 + 1, SIZE_MAX};
    struct rlock_handle *lock = user_open(f, USUAL)->lock;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rlock_grant grant = {.size = sizes[i]};
        struct rlock_info info = {.size = sizes[i]};
        struct rlock_failure failure = {.size = sizes[i]};

        assert_code(rlock_lock_for(lock, 0, NULL, &grant), RLOCK_EINVAL);
        assert_code(rlock_inspect(lock, &info), RLOCK_EINVAL);
        assert_code(rlock_held(lock, 0, &grant), RLOCK_EINVAL);
        assert_code(rlock_last_failure(&failure), RLOCK_EINVAL);
    }
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER); /* nothing was taken */
}

FIXTURE_TEST(a_hold_may_last_without_an_end, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = NULL;

    assert_code(rlock_reentrant_new(user->client, "b", RLOCK_OPTS(.max_hold_ms = INT64_MAX), &lock),
                0);
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    (void)rlock_free(lock);
}

FIXTURE_TEST(a_client_refuses_what_is_no_value_of_an_option, f)
{
    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.log_level = 9)), RLOCK_EINVAL);
    assert_detail("log_level");
    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.ca_file = "/nowhere/ca.pem")), RLOCK_EINVAL);
    assert_detail("ca_file");
    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = -1)), RLOCK_EINVAL);
    assert_detail("op_timeout_ms");
}

FIXTURE_TEST(a_flag_of_another_struct_is_refused_by_name, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = NULL;

    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.flags = RLOCK_LOCK_NO_REENTRY)), RLOCK_EINVAL);
    assert_detail("RLOCK_LOCK_NO_REENTRY");
    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.flags = UINT64_C(1) << 63)), RLOCK_EINVAL);
    assert_detail("0x8000000000000000");
    assert_code(
        rlock_reentrant_new(user->client, "b", RLOCK_OPTS(.flags = RLOCK_CLIENT_NO_PASS), &lock),
        RLOCK_EINVAL);
    assert_detail("RLOCK_CLIENT_NO_PASS");
}

FIXTURE_TEST(tls_and_no_tls_to_the_sentinels_exclude_each_other, f)
{
    assert_code(open_with(f, *RLOCK_CLIENT_OPTS(.flags = RLOCK_CLIENT_SENTINEL_TLS |
                                                         RLOCK_CLIENT_SENTINEL_PLAIN)),
                RLOCK_EINVAL);
    assert_detail("SENTINEL_PLAIN");
}

FIXTURE_TEST(a_lock_lingers_for_10_ms_at_most, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = NULL;

    assert_code(rlock_reentrant_new(user->client, "b", RLOCK_OPTS(.linger_ms = 11), &lock),
                RLOCK_EINVAL);
    assert_detail("linger_ms");
}

FIXTURE_TEST(a_lock_made_of_locks_refuses_the_options_of_others, f)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = NULL;

    assert_code(rlock_multi_new(&user->lock, 1, RLOCK_OPTS(.max_hold_ms = 10), &lock),
                RLOCK_EINVAL);
    assert_detail("max_hold_ms");
    assert_code(rlock_multi_new(&user->lock, 1, RLOCK_OPTS(.max_lease_ms = 5000), &lock),
                RLOCK_EINVAL);
    assert_detail("max_lease_ms");
    assert_code(
        rlock_redlock_new(&user->lock, 1, RLOCK_OPTS(.flags = RLOCK_LOCK_NO_REENTRY), &lock),
        RLOCK_EINVAL);
    assert_detail("RLOCK_LOCK_NO_REENTRY");
}

/* A kind has no use for them. */
FIXTURE_TEST(a_kind_refuses_the_options_of_others, f)
{
    static const struct {
        new_fn *make;
        const char *name;
        struct rlock_opts opts;
    } rows[] = {
        {rlock_fair_new, "linger_ms", {.linger_ms = 10}},
        {rlock_fenced_new, "linger_ms", {.linger_ms = 10}},
        {rlock_reentrant_new, "pause_first_ms", {.pause_first_ms = 1}},
        {rlock_fenced_new, "pause_max_ms", {.pause_max_ms = 1}},
        {rlock_fair_new, "pause_growth", {.pause_growth = 1}},
        {rlock_reentrant_new, "fair_slot_ms", {.fair_slot_ms = 5000}},
        {rlock_reentrant_new, "RLOCK_LOCK_PREFER_WRITERS", {.flags = RLOCK_LOCK_PREFER_WRITERS}},
        {rlock_reentrant_new, "max_lease_ms", {.max_lease_ms = 5000}},
        {rlock_reentrant_new, "max_hold_ms", {.max_hold_ms = -1}},
    };
    struct user *user = user_open(f, USUAL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rlock_opts opts = rows[i].opts;
        struct rlock_handle *lock = NULL;

        opts.size = sizeof(opts);
        assert_code(rows[i].make(user->client, "b", &opts, &lock), RLOCK_EINVAL);
        assert_detail(rows[i].name);
    }
}

static void questions_return(struct rlock_client_opts opts, int code)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    assert_code(rlock_client_open(&opts, &client), 0);
    assert_code(rlock_reentrant_new(client, LOCK_A, NULL, &lock), 0);
    assert_code(rlock_inspect(lock, &info), code);
    assert_code(rlock_force_unlock(lock, NULL), code);
    (void)rlock_free(lock);
    (void)rlock_client_close(client);
}

FIXTURE_TEST(questions_with_a_wrong_password_are_refused, f)
{
    questions_return(*RLOCK_CLIENT_OPTS(.url = test_server_unix_url(f->server), .user = "nobody",
                                        .password = "wrong"),
                     RLOCK_EAUTH);
}

/* Its authority is not the system's. */
FIXTURE_WITH_TEST(questions_to_a_server_that_is_not_trusted_are_told, f,
                  .server.transport = TEST_TLS)
{
    questions_return(*RLOCK_CLIENT_OPTS(.url = test_server_url(f->server),
                                        .connect_timeout_ms = 1000 * test_slack(),
                                        .op_timeout_ms = 2000 * test_slack()),
                     RLOCK_ETLS);
}
