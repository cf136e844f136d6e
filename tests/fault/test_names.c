/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts' names: asked anew for each connection, and whoever is slow to answer holds up nobody. */
#include "support/clients.h"
#include "support/waiter.h"

#include <dlfcn.h>
#include <netdb.h>

#define HOST "server.example"
#define LEASE_MS test_ms(500)

/* The name server: answers at once, never, or when it is allowed to. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool silent;
    const char *address; /* NULL: no such name */
    unsigned int asked, waiting;
} names = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const char *ask_names(void)
{
    const char *address;

    (void)pthread_mutex_lock(&names.mutex);
    names.asked++;
    names.waiting++;
    while (names.silent) {
        (void)pthread_cond_wait(&names.changed, &names.mutex);
    }
    names.waiting--;
    address = names.address;
    (void)pthread_mutex_unlock(&names.mutex);
    return address;
}

/* In the place of the C library's. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret_addrs)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    memcpy(&real, &symbol, sizeof(real));
    if (host != NULL && strcmp(host, HOST) == 0 && (hints->ai_flags & AI_NUMERICHOST) == 0) {
        host = ask_names();
        if (host == NULL) {
            return EAI_NONAME;
        }
    }
    return real(host, service, hints, ret_addrs);
}

static void names_say(bool silent, const char *address)
{
    (void)pthread_mutex_lock(&names.mutex);
    names.silent = silent;
    names.address = address;
    (void)pthread_cond_broadcast(&names.changed);
    (void)pthread_mutex_unlock(&names.mutex);
}

static unsigned int names_count(const unsigned int *count)
{
    unsigned int n;

    (void)pthread_mutex_lock(&names.mutex);
    n = *count;
    (void)pthread_mutex_unlock(&names.mutex);
    return n;
}

/* ---- Clients ---- */

struct named {
    struct fixture f;
    struct proxy *proxy; /* on TCP: names are asked for there alone */
    struct rlock_client *client;
    struct rlock_handle *lock;
};

/* The name server is silent at first, or gives this address; NULL: there is no such name. */
static void named_open(struct named *test, bool is_silent, const char *address,
                       int64_t op_timeout_ms)
{
    struct rlock_client_opts opts = {.size = sizeof(opts)};
    char url[128];

    names_say(is_silent, address);
    fixture_open(&test->f, NULL);
    test->proxy = proxy_start(test_server_unix_url(test->f.server));
    test_text(url, sizeof(url), "redis://" HOST ":%s", strrchr(proxy_url(test->proxy), ':') + 1);
    opts.url = url;
    opts.renewed_lease_ms = LEASE_MS;
    opts.op_timeout_ms = op_timeout_ms;
    assert_code(rlock_client_open(&opts, &test->client), 0);
    assert_code(rlock_reentrant_new(test->client, LOCK_A, NULL, &test->lock), 0);
}

static void named_close(struct named *test)
{
    test->lock = rlock_free(test->lock);
    test->client = rlock_client_close(test->client);
    names_say(false, "127.0.0.1"); /* whoever waits ends */
    assert_true(TEST_EVENTUALLY(names_count(&names.waiting) == 0, 5000));
    test->proxy = proxy_stop(test->proxy);
    fixture_close(&test->f);
}

#define NAMED_TEST(name, test, is_silent, address, op_timeout_ms)                                  \
    TEST_AROUND(name, struct named, test, named_open(test, is_silent, address, op_timeout_ms),     \
                named_close(test))

NAMED_TEST(a_name_is_asked_for_anew_for_each_connection, test, false, NULL, 0)
{
    assert_code(rlock_lock_for(test->lock, 200, NULL, NULL), RLOCK_ECONN);
    assert_non_null(strstr(rlock_detail(), HOST));
    assert_non_null(strstr(rlock_detail(), "name not resolved"));
    names_say(false, "127.0.0.1");
    assert_code(rlock_lock_for(test->lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(test->lock), 0);
}

NAMED_TEST(names_that_never_come_hold_nobody_past_a_deadline, test, true, NULL, test_ms(100))
{
    int64_t began_us;

    for (int i = 0; i < 3; i++) {
        began_us = test_now_us();
        assert_code(rlock_lock_for(test->lock, 300, NULL, NULL), RLOCK_ECONN);
        assert_true(test_elapsed_us(began_us) >= 300000);
        assert_within(began_us, 300);
    }
    assert_int_equal(names_count(&names.waiting), 1); /* tried often, asked once */
    began_us = test_now_us();
    test->lock = rlock_free(test->lock);
    test->client = rlock_client_close(test->client);
    assert_in_time(began_us, 1000000 * test_slack());
}

NAMED_TEST(holds_are_renewed_while_a_name_is_asked_for, test, false, "127.0.0.1", 0)
{
    assert_code(rlock_lock_for(test->lock, 5000, NULL, NULL), 0);
    names_say(true, NULL);
    assert_code(rlock_lock_for(test->lock, 50, /* it subscribes, on a connection of its own */
                               RLOCK_TAKE(.owner = rlock_owner_new(test->client)), NULL),
                RLOCK_ETIMEDOUT);
    assert_true(TEST_EVENTUALLY(names_count(&names.waiting) > 0, 5000));
    for (int i = 0; i < 3; i++) { /* three leases */
        assert_true(fixture_wait_renewed(&test->f, LEASE_MS));
        assert_true(rlock_is_valid(test->lock));
    }
    assert_code(rlock_unlock(test->lock), 0);
}

/* ---- A name that moves to another server ---- */

#define MOVING_TEST(name, f)                                                                       \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = 2, .server.transport = TEST_TCP)

static bool hears(struct test_server *server)
{
    return test_server_listeners(server, CHANNEL_A) == 1;
}

/* Somebody holds the lock on both servers. A client waits for it on the first. */
static struct rlock_client *wait_at_the_first(struct fixture *f, const char *url,
                                              struct waiter *ret_waiter)
{
    struct rlock_client *client;

    for (size_t i = 0; i < f->n; i++) {
        test_server_do(f->servers[i], "HSET " LOCK_A " somebody:1 1");
        test_server_do(f->servers[i], "PEXPIRE " LOCK_A " 600000");
    }
    client = client_open_with(f, RLOCK_CLIENT_OPTS(.url = url));
    waiter_start_on(ret_waiter, NULL, lock_named(f, client, LOCK_A), 60000, NULL);
    assert_true(TEST_EVENTUALLY(hears(f->servers[0]), 5000));
    return client;
}

/* The connection for commands was made to the second server: that for messages follows. A message
 * from there wakes the waiter, which asks after 5 s if nothing wakes it. */
static void wake_at_the_second(struct fixture *f, struct waiter *waiter)
{
    int64_t since_us;

    assert_true(TEST_EVENTUALLY(hears(f->servers[1]), 10000));
    assert_true(TEST_EVENTUALLY(!hears(f->servers[0]), 5000)); /* a proxy hangs up a little later */
    since_us = test_now_us();
    /* one script: between two commands the waiter may find the lock free, and stop listening */
    assert_int_equal(test_server_int(f->servers[1], "EVAL \"redis.call('del', KEYS[1]) "
                                                    "return redis.call('publish', KEYS[2], '0')\" "
                                                    "2 " LOCK_A " " CHANNEL_A),
                     1);
    assert_code(waiter_join(waiter), 0);
    assert_in_time(since_us, 2000000);
    assert_code(waiter->unlock_code, 0);
    test_server_do(f->servers[0], "DEL " LOCK_A " rlock_wait:{" LOCK_A "}"); /* nobody comes back */
}

/* Both servers have one port: the first on 127.0.0.1, the second on 127.0.0.2. */
static void messages_follow_the_name(struct fixture *f)
{
    struct waiter waiter;
    char url[64];

    test_server_do(f->servers[1], "CONFIG SET bind 127.0.0.2");
    test_server_do(f->servers[1], "CONFIG SET port %d", test_server_port(f->servers[0]));
    names_say(false, "127.0.0.1");
    test_text(url, sizeof(url), "redis://" HOST ":%d", test_server_port(f->servers[0]));
    (void)wait_at_the_first(f, url, &waiter);
    names_say(false, "127.0.0.2");
    test_server_do(f->servers[0], "CLIENT KILL TYPE normal");
    wake_at_the_second(f, &waiter);
}

MOVING_TEST(messages_follow_a_name_to_another_address, f)
{
    messages_follow_the_name(f);
}

/* Only the address tells one server from the other. */
MOVING_TEST(messages_follow_a_name_though_no_server_says_which_one_it_is, f)
{
    for (size_t i = 0; i < f->n; i++) {
        test_server_do(f->servers[i], "ACL SETUSER default -info");
    }
    messages_follow_the_name(f);
}

/* Only the servers' own words tell one from the other. */
MOVING_TEST(messages_follow_a_proxy_to_another_server, f)
{
    struct proxy *proxy = proxy_start(test_server_url(f->servers[0]));
    struct waiter waiter;
    struct rlock_client *client = wait_at_the_first(f, proxy_url(proxy), &waiter);

    proxy_lead(proxy, test_server_url(f->servers[1]));
    proxy_cut_all(proxy, PROXY_COMMANDS);
    wake_at_the_second(f, &waiter);
    client_close(f, client);
    proxy = proxy_stop(proxy);
}
