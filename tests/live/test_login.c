/* SPDX-License-Identifier: Apache-2.0 */
/* The program gives user and password at each connection, and may change them meanwhile. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/time.h"
#include "support/clients.h"
#include "support/sentinel.h"
#include "support/witness.h"

#define CHANGE_MS 1000
#define LEASE_MS 1500
#define WORKERS 4

/* ---- The program's side: what its callback gives ---- */

static struct {
    atomic_int generation; /* of the password that it knows */
    atomic_int asked, refused, refusals, sentinels;
    atomic_bool names_user;
    char server[300];
} login;

static void login_reset(void)
{
    memset(&login, 0, sizeof(login));
}

static void password_of(int generation, char out[32])
{
    test_text(out, 32, "s3cret-%d", generation);
}

static int give_login(struct rlock_login *ask, void *payload)
{
    char password[32];

    (void)payload;
    (void)atomic_fetch_add(&login.asked, 1);
    (void)atomic_fetch_add(&login.sentinels, rlock_login_is_sentinel(ask));
    test_text(login.server, sizeof(login.server), "%s", rlock_login_server(ask));
    if (atomic_load(&login.refused) < atomic_load(&login.refusals)) {
        (void)atomic_fetch_add(&login.refused, 1);
        return 7;
    }
    password_of(atomic_load(&login.generation), password);
    return rlock_login_set(ask, atomic_load(&login.names_user) ? "teller" : NULL, password);
}

static int give_nothing(struct rlock_login *ask, void *payload)
{
    (void)ask;
    (void)payload;
    (void)atomic_fetch_add(&login.asked, 1);
    return 0;
}

/* ---- The server's side ---- */

static void set_password(struct fixture *f, int generation)
{
    char password[32];

    password_of(generation, password);
    test_server_do(f->server, "CONFIG SET requirepass %s", password);
}

static void break_connections(struct fixture *f)
{
    test_server_do(f->server, "CLIENT KILL TYPE normal");
    test_server_do(f->server, "CLIENT KILL TYPE pubsub");
}

/* ---- Tests ---- */

LOCK_TEST(each_connection_asks_the_program_for_its_login, f)
{
    struct rlock_handle *lock;
    int asked;

    login_reset();
    set_password(f, 0);
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login)));
    assert_code(rlock_lock(lock), 0);
    asked = atomic_load(&login.asked);
    assert_true(asked > 0);
    assert_int_equal(atomic_load(&login.sentinels), 0);
    assert_non_null(strstr(test_server_url(f->server), login.server));
    set_password(f, 1);
    atomic_store(&login.generation, 1);
    break_connections(f);
    assert_code(rlock_unlock(lock), 0);
    assert_true(atomic_load(&login.asked) > asked);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

/* Existing connections of the old user go on, as with Redis itself; the new one takes its place. */
LOCK_TEST(the_program_may_name_another_user_at_each_connection, f)
{
    struct rlock_handle *lock;
    char *who;

    login_reset();
    atomic_store(&login.names_user, true);
    test_server_do(f->server, "ACL SETUSER teller on >s3cret-0 ~* &* +@all");
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login)));
    assert_code(rlock_lock(lock), 0);
    who = test_server_cmd(f->server, "CLIENT LIST");
    assert_non_null(strstr(who, "user=teller"));
    free(who);
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(what_the_program_does_not_set_is_as_the_options_say, f)
{
    struct rlock_handle *lock;

    login_reset();
    set_password(f, 3);
    lock = lock_new(f, client_open_with(
                           f, RLOCK_CLIENT_OPTS(.password = "s3cret-3", .on_login = give_nothing)));
    assert_code(rlock_lock(lock), 0);
    assert_true(atomic_load(&login.asked) > 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

LOCK_TEST(a_callback_that_fails_is_asked_again, f)
{
    struct rlock_handle *lock;

    login_reset();
    set_password(f, 0);
    atomic_store(&login.refusals, 3);
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login,
                                                             .op_timeout_ms = test_ms(5000))));
    assert_code(rlock_try_lock(lock), 0);
    assert_int_equal(atomic_load(&login.refused), 3);
    assert_code(rlock_unlock(lock), 0);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

/* A call waits for a better login as it waits for a server. */
LOCK_TEST(a_callback_that_fails_for_ever_fails_the_call, f)
{
    struct rlock_handle *lock;

    login_reset();
    atomic_store(&login.refusals, 1000000);
    lock = lock_new(
        f, client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login, .op_timeout_ms = 200)));
    assert_code(rlock_try_lock(lock), RLOCK_EAUTH);
    assert_non_null(strstr(rlock_detail(), "on_login returned 7"));
}

LOCK_TEST(a_login_that_the_server_refuses_is_asked_for_again, f)
{
    struct rlock_handle *lock;
    int64_t began = test_now_us();

    login_reset();
    set_password(f, 1); /* the program still knows the password before */
    lock = lock_new(
        f, client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login, .op_timeout_ms = 200)));
    assert_code(rlock_try_lock(lock), RLOCK_EAUTH);
    assert_null(strstr(rlock_detail(), "s3cret"));
    assert_true(test_now_us() - began >= 150 * RLOCK__MS); /* it waited for a better one */
    atomic_store(&login.generation, 1);
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

FIXTURE_WITH_TEST(sentinels_are_given_their_login_by_the_program, f, .kind = &kind_reentrant,
                  .servers = 1, .server = {.transport = TEST_TCP})
{
    static const char *const secret[] = {"requirepass s3cret-0", NULL};
    const struct test_server_opts opts = {.transport = TEST_TCP, .conf = secret};
    struct rlock_handle *lock;
    struct sentinels sentinels;
    char url[200];

    login_reset();
    set_password(f, 0);
    sentinels_start(&sentinels, f->servers, f->n, &opts, "s3cret-0");
    sentinels_url(&sentinels, url, sizeof(url));
    lock = lock_new(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url, .on_login = give_login)));
    assert_code(rlock_lock_for(lock, test_ms(5000), NULL, NULL), 0);
    assert_true(atomic_load(&login.sentinels) >= 2);
    assert_true(atomic_load(&login.asked) > atomic_load(&login.sentinels));
    assert_code(rlock_unlock(lock), 0);
    sentinels_stop(&sentinels);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

/* ---- The password changes again and again under load ---- */

struct load {
    pthread_t thread;
    struct rlock_handle *lock;
    struct witness *witness;
    uint64_t id;
    atomic_bool *ends;
    int64_t lease_ms;
};

static void *work(void *arg)
{
    struct load *load = arg;

    while (!atomic_load(load->ends)) {
        TEST_CHECK(rlock_lock_for(load->lock, RLOCK_FOREVER, RLOCK_TAKE(.lease_ms = load->lease_ms),
                                  NULL) == 0);
        witness_enter(load->witness, 0, load->id);
        witness_leave(load->witness, 0, load->id);
        TEST_CHECK(rlock_unlock(load->lock) == 0);
    }
    return NULL;
}

/* The server has the new password first: until the program knows it, logins are refused. */
static void change_passwords(struct fixture *f, int times)
{
    for (int i = 1; i <= times; i++) {
        int64_t began = test_now_us();

        set_password(f, i);
        break_connections(f);
        (void)TEST_EVENTUALLY(test_now_us() - began > 100 * RLOCK__MS, 1000);
        atomic_store(&login.generation, i);
        (void)TEST_EVENTUALLY(test_now_us() - began > CHANGE_MS * RLOCK__MS, 2 * CHANGE_MS);
    }
}

static void change_under_load(struct fixture *f, int times)
{
    struct rlock_client *client;
    struct rlock_handle *renewed, *fixed;
    struct witness *witness = witness_new(1);
    struct load loads[WORKERS];
    atomic_bool ends = false;

    login_reset();
    set_password(f, 0);
    client = client_open_with(f, RLOCK_CLIENT_OPTS(.on_login = give_login,
                                                   .renewed_lease_ms = test_ms(LEASE_MS),
                                                   .op_timeout_ms = test_ms(5000)));
    renewed = lock_named(f, client, "renewed");
    fixed = lock_named(f, client, "fixed");
    assert_code(rlock_lock(renewed), 0);
    assert_code(rlock_lock_for(fixed, 0, RLOCK_TAKE(.lease_ms = 600000), NULL), 0);
    for (size_t i = 0; i < WORKERS; i++) {
        loads[i] = (struct load){.lock = lock_new(f, client),
                                 .witness = witness,
                                 .id = i + 1,
                                 .ends = &ends,
                                 .lease_ms = i % 2 == 0 ? 0 : 60000};
        assert_int_equal(pthread_create(&loads[i].thread, NULL, work, &loads[i]), 0);
    }
    change_passwords(f, times);
    atomic_store(&ends, true);
    for (size_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(loads[i].thread, NULL);
    }
    assert_true(rlock_is_valid(renewed) && rlock_is_valid(fixed));
    assert_code(rlock_unlock(renewed), 0);
    assert_code(rlock_unlock(fixed), 0);
    assert_int_equal(losses_told(f), 0);
    assert_true(atomic_load(&login.asked) > times);
    print_message("%llu holds, %d logins\n", (unsigned long long)witness_entries(witness),
                  atomic_load(&login.asked));
    assert_true(witness_is_clean(witness, stderr));
    witness = witness_free(witness);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

LOCK_TEST(a_password_that_changes_every_second_costs_no_hold_and_no_call, f)
{
    change_under_load(f, 4);
}

LOCK_TEST(a_password_that_changes_every_second_at_length_costs_no_hold_and_no_call, f)
{
    change_under_load(f, 30);
}
