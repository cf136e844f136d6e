/* SPDX-License-Identifier: Apache-2.0 */
/* What inspect says, and how long it may take to find out. */
#include "support/clients.h"

#include <unistd.h>

#include "support/proxy.h"

LOCK_TEST(the_holder_has_an_address, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *elsewhere = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;
    char host[65] = "", holder[64];

    (void)gethostname(host, sizeof(host) - 1);
    test_text(holder, sizeof(holder), "%s:", rlock_client_uuid(client));
    assert_code(TAKE(lock, 0, .lease_ms = 60000), 0);
    assert_code(rlock_inspect(elsewhere, &info), 0);
    assert_true(info.locked && !info.mine);
    assert_memory_equal(info.holder, holder, strlen(holder));
    assert_string_equal(info.host, host);
    assert_int_equal(info.pid, getpid());
    assert_in_range(info.ttl_ms, 30000, 60000);
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(a_free_lock_has_no_holder, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.size, sizeof(info));
    assert_false(info.locked || info.mine);
    assert_int_equal(info.ttl_ms, -2);
    assert_int_equal((int64_t)info.holders + info.count + info.pid, 0);
    assert_string_equal(info.holder, "");
    assert_string_equal(info.host, "");
}

LOCK_TEST(wrong_infos_are_refused, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_info none = {.size = 0}, wild = {.size = SIZE_MAX};
    struct {
        struct rlock_info info;
        int64_t more;
    } newer = {.info = {.size = sizeof(newer)}, .more = -1};
    struct rlock_info older = {.size = offsetof(struct rlock_info, ttl_ms), .ttl_ms = 77};

    assert_code(rlock_inspect(lock, NULL), RLOCK_EINVAL);
    assert_code(rlock_inspect(NULL, &older), RLOCK_EINVAL);
    assert_code(rlock_inspect(lock, &none), RLOCK_EINVAL);
    assert_code(rlock_inspect(lock, &wild), RLOCK_EINVAL);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_inspect(lock, &newer.info), 0); /* the rest is zero */
    assert_true(newer.info.locked && newer.more == 0);
    assert_code(rlock_inspect(lock, &older), 0); /* as far as it goes */
    assert_true(older.locked && older.mine);
    assert_int_equal(older.ttl_ms, 77);
    assert_code(rlock_unlock(lock), 0);
}

/* Where the holder lives is asked on a connection of its own, which nobody answers here. */
LOCK_TEST(an_address_that_nobody_tells_delays_nothing, f)
{
    const int64_t timeout_ms = 100 * test_slack();
    struct proxy *proxy = proxy_start_unix(test_server_unix_url(f->server));
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = proxy_url(proxy), .op_timeout_ms = timeout_ms,
                                              .connect_timeout_ms = 5 * timeout_ms));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_info info = RLOCK_INFO_INIT;
    int64_t since_us;

    assert_code(rlock_lock(lock), 0);
    (void)proxy_add(
        proxy,
        &(struct proxy_rule){.act = PROXY_DROP_REQUEST, .command = "HELLO", .times = PROXY_ALWAYS});
    since_us = test_now_us();
    assert_code(rlock_inspect(lock, &info), 0);
    assert_true(info.locked && info.mine);
    assert_string_equal(info.host, "");
    assert_in_time(since_us, (timeout_ms + LATE_MS * test_slack()) * 1000);
    assert_code(rlock_unlock(lock), 0);
    client_close(f, client);
    (void)proxy_stop(proxy);
}
