/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that cannot be reached, or have no room: what calls say, and that waiters outlast it. */
#include "support/waiter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OP_MS 300

/* Timeouts are those of a user who wants to know soon; not stretched, since nothing answers. */
#define HASTY(...)                                                                                 \
    *RLOCK_CLIENT_OPTS(.op_timeout_ms = OP_MS, .connect_timeout_ms = OP_MS / 2, __VA_ARGS__)

/* Every sort of call fails with ECONN, in its time. A short wait is no less patient than none. */
static void nothing_goes(const struct user *user, const char *why)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    int64_t began_us = test_now_us();

    assert_code(rlock_try_lock(user->lock), RLOCK_ECONN);
    assert_detail(why);
    assert_within(began_us, OP_MS);
    began_us = test_now_us();
    assert_code(rlock_lock_for(user->lock, 100, NULL, NULL), RLOCK_ECONN);
    assert_within(began_us, OP_MS);
    began_us = test_now_us();
    assert_code(rlock_inspect(user->lock, &info), RLOCK_ECONN);
    assert_within(began_us, OP_MS);
    began_us = test_now_us();
    assert_code(rlock_force_unlock(user->lock, NULL), RLOCK_ECONN);
    assert_within(began_us, OP_MS);
    assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER);
}

FIXTURE_WITH_TEST(a_refused_connection_fails_calls_and_not_waiters, f, .proxy = PROXY_AS_LEG)
{
    struct user *user;
    struct waiter waiter;

    proxy_refuse(f->proxy, true);
    user = user_open(f, HASTY(.renewed_lease_ms = 500));
    nothing_goes(user, "cannot connect");
    waiter_start(&waiter, user, 20000, NULL);
    proxy_refuse(f->proxy, false);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter.unlock_code, 0);
}

FIXTURE_WITH_TEST(a_hold_outlives_a_time_of_refused_connections, f, .proxy = PROXY_AS_LEG)
{
    struct user *user, *rival;
    const int64_t lease_ms = test_ms(600);
    uint64_t accepted;

    user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms));
    rival = user_open_direct(f);
    assert_code(rlock_try_lock(user->lock), 0);
    accepted = proxy_stats(f->proxy).accepted;
    proxy_refuse(f->proxy, true);
    proxy_cut_all(f->proxy, PROXY_ANY);
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_true(user_step(user));
    proxy_refuse(f->proxy, false);
    assert_true(TEST_EVENTUALLY(proxy_stats(f->proxy).accepted > accepted, 2000));
    assert_true(fixture_wait_renewed(f, lease_ms));
    assert_true(fixture_wait_renewed(f, lease_ms));
    assert_true(user_step(user));
    assert_code(rlock_try_lock(rival->lock), RLOCK_EBUSY);
    assert_code(rlock_unlock(user->lock), 0);
    assert_code(user_visit(rival, 0, NULL), 0);
    assert_int_equal(user_losses(user), 0);
}

/* A listener with a full queue: packets to it are dropped, as a firewall would. */
struct hole {
    int listener, fill[4];
    char url[64];
};

static void hole_open(struct hole *hole)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);

    hole->listener = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    test_must(bind(hole->listener, (struct sockaddr *)&addr, len), "bind");
    test_must(listen(hole->listener, 0), "listen");
    test_must(getsockname(hole->listener, (struct sockaddr *)&addr, &len), "getsockname");
    for (size_t i = 0; i < sizeof(hole->fill) / sizeof(hole->fill[0]); i++) {
        hole->fill[i] =
            test_must(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
        (void)connect(hole->fill[i], (struct sockaddr *)&addr, len);
    }
    (void)snprintf(hole->url, sizeof(hole->url), "redis://127.0.0.1:%d", ntohs(addr.sin_port));
}

static void hole_close(const struct hole *hole)
{
    for (size_t i = 0; i < sizeof(hole->fill) / sizeof(hole->fill[0]); i++) {
        (void)close(hole->fill[i]);
    }
    (void)close(hole->listener);
}

FIXTURE_TEST(a_connection_into_a_black_hole_fails_in_time_and_hinders_nobody, f)
{
    struct user *lost, *well;
    struct waiter waiter;
    struct hole hole;
    int64_t began_us;

    hole_open(&hole);
    lost = user_open(f, HASTY(.url = hole.url));
    well = user_open_direct(f);
    waiter_start(&waiter, lost, 20000, NULL);
    for (int i = 0; i < 100; i++) {
        assert_code(user_visit(well, 0, NULL), 0);
    }
    nothing_goes(lost, "not connected");
    began_us = test_now_us();
    lost->client = rlock_client_close(lost->client);
    assert_within(began_us, OP_MS);
    assert_int_equal(waiter_join(&waiter), RLOCK_ECLOSED);
    user_close(lost);
    user_close(well);
    hole_close(&hole);
}

static bool is_told(const struct user *user, const char *why)
{
    assert_code(rlock_try_lock(user->lock), RLOCK_ECONN);
    return strstr(rlock_detail(), why) != NULL;
}

FIXTURE_TEST(a_stopped_server_accepts_connections_and_proves_nothing, f)
{
    struct user *user;
    struct waiter waiter;

    test_server_freeze(f->server);
    user = user_open(f, HASTY(.renewed_lease_ms = 500));
    assert_true(TEST_EVENTUALLY(is_told(user, "no answer"), 5000)); /* "not yet", at first */
    nothing_goes(user, "no answer");
    waiter_start(&waiter, user, 20000, NULL);
    test_server_thaw(f->server);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter.unlock_code, 0);
}

FIXTURE_WITH_TEST(connections_reset_when_they_are_accepted_are_tried_again, f,
                  .proxy = PROXY_AS_LEG)
{
    struct user *user;

    proxy_cut_accepts(f->proxy, 3);
    user = user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 2000 * test_slack()));
    assert_code(user_visit(user, 0, NULL), 0);
}

/* ---- A server without room ---- */

/* Leaves room for so many connections besides the test's own. */
static void leave_room(const struct fixture *f, int n)
{
    long long all = test_server_info(f->server, "clients", "connected_clients");
    long long ours = test_server_clients(f->server);

    test_server_do(f->server, "CONFIG SET maxclients %lld", all - ours + n);
}

FIXTURE_WITH_TEST(a_full_server_is_asked_again_without_a_storm, f, .server.transport = TEST_TCP)
{
    struct user *user;
    struct waiter waiter;
    int64_t began_us;

    leave_room(f, 0);
    user = user_open(f, HASTY(.renewed_lease_ms = 500));
    nothing_goes(user, "max number of clients");
    began_us = test_now_us();
    waiter_start(&waiter, user, 20000, NULL);
    assert_true(
        TEST_EVENTUALLY(test_server_info(f->server, "stats", "rejected_connections") >= 8, 10000));
    /* pauses double from 10 ms on, with jitter: eight tries take 100 ms at the very least */
    assert_true(test_elapsed_us(began_us) + 3 * OP_MS * 1000 > 100000);
    assert_in_range(test_server_info(f->server, "stats", "rejected_connections"), 8, 40);
    leave_room(f, 5);
    assert_int_equal(waiter_join(&waiter), 0);
}

FIXTURE_TEST(without_room_for_a_subscriber_waiters_poll, f)
{
    struct user *user;
    struct waiter waiter;
    int64_t released_us;

    fixture_take_by_hand(f, 0);
    leave_room(f, 1);
    user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = 500 * test_slack(),
                                           .op_timeout_ms = 1000 * test_slack()));
    waiter_start(&waiter, user, 20000, NULL);
    assert_true(
        TEST_EVENTUALLY(test_server_info(f->server, "stats", "rejected_connections") > 0, 5000));
    released_us = test_now_us();
    test_server_do(f->server, "DEL " LOCK_A);
    assert_int_equal(waiter_join(&waiter), 0);
    assert_within(released_us, 250);
}

/* ---- This process's lacks ---- */

static atomic_int eventfds_to_failure; /* 0: none fails */

/* The library's eventfd() is this one. */
int eventfd(unsigned int count, int flags)
{
    if (atomic_load(&eventfds_to_failure) > 0 && atomic_fetch_sub(&eventfds_to_failure, 1) == 1) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_eventfd2, count, flags);
}

/* Others open and close meanwhile: what lacked for one descriptor is there for the next. */
TEST(a_client_that_lacks_a_descriptor_is_not_opened)
{
    const size_t fds = test_fds_open();
    struct rlock_client *client = NULL;

    for (int i = 1; i <= 2; i++) {
        atomic_store(&eventfds_to_failure, i);
        assert_code(rlock_client_open(NULL, &client), RLOCK_ERESOURCE);
        assert_int_equal(atomic_load(&eventfds_to_failure), 0);
        assert_null(client);
        assert_int_equal(test_fds_open(), fds);
    }
}

/* A secret is wiped and freed where it is ours. */
TEST(refused_options_are_left_to_the_caller)
{
    char user[] = "somebody", password[] = "secret";
    struct rlock_client *client;

    assert_code(
        rlock_client_open(
            RLOCK_CLIENT_OPTS(.user = user, .password = password, .op_timeout_ms = -1), &client),
        RLOCK_EINVAL);
    assert_code(
        rlock_client_open(RLOCK_CLIENT_OPTS(.user = user, .password = password, .url = "nonsense"),
                          &client),
        RLOCK_EINVAL);
    assert_string_equal(user, "somebody");
    assert_string_equal(password, "secret");
}
