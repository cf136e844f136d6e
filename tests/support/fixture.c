/* SPDX-License-Identifier: Apache-2.0 */
#include "support/fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>
#include <utlist.h>

#include "support/clients.h"
#include "support/user.h"

static _Atomic int sigpipes;

/* ---- Beginning ---- */

static void on_sigpipe(int signal)
{
    (void)signal;
    atomic_fetch_add(&sigpipes, 1);
}

static void watch_sigpipe(void)
{
    struct sigaction action = {.sa_handler = on_sigpipe};

    (void)sigemptyset(&action.sa_mask);
    test_must(sigaction(SIGPIPE, &action, NULL), "sigaction");
}

int fixture_sigpipes(void)
{
    return atomic_load(&sigpipes);
}

static void count_from_here(struct fixture *f)
{
    f->fds = test_fds_open();
    f->threads = test_threads_at_rest();
}

static bool leg_wants_unix(void)
{
    const char *transport = getenv("RLOCK_TEST_TRANSPORT");

    return transport == NULL || strcmp(transport, "unix") == 0;
}

static struct proxy *start_proxy(const struct test_server *server, enum fixture_proxy proxy)
{
    if (proxy == PROXY_OF_BYTES) {
        return proxy_start(test_server_url(server));
    }
    if (proxy == PROXY_ON_UNIX || (proxy == PROXY_AS_LEG && leg_wants_unix())) {
        return proxy_start_unix(test_server_unix_url(server));
    }
    return proxy_start(test_server_unix_url(server));
}

void fixture_start_proxy(struct fixture *f)
{
    f->proxy = start_proxy(f->server, PROXY_AS_LEG);
}

void fixture_open(struct fixture *f, const struct fixture_opts *opts)
{
    static const struct fixture_opts defaults;

    opts = opts != NULL ? opts : &defaults;
    if (!test_server_available(opts->server.program)) {
        print_message("no server here\n");
        skip();
    }
    watch_sigpipe();
    *f = (struct fixture){.kind = opts->kind,
                          .n = opts->servers != 0 ? opts->servers : 1,
                          .redlock = opts->redlock || opts->servers > 1,
                          .max_lease_ms = opts->max_lease_ms != 0 ? opts->max_lease_ms : -1};
    diary_init(&f->diary);
    count_from_here(f);
    f->witness = witness_new(16);
    for (size_t i = 0; i < f->n; i++) {
        f->servers[i] = test_server_start(&opts->server);
        if (opts->proxy != PROXY_NONE) {
            f->proxies[i] = start_proxy(f->servers[i], opts->proxy);
        }
    }
    f->fds_run = test_fds_open();
}

struct fixture *fixture_view(struct fixture *f)
{
    struct fixture *view = malloc(sizeof(*view));

    TEST_CHECK(view != NULL);
    *view = *f;
    view->users = NULL;
    for (size_t i = 0; i < view->n; i++) {
        view->proxies[i] = start_proxy(view->servers[i], PROXY_ON_UNIX);
    }
    view->views = f->views;
    f->views = view;
    return view;
}

void fixture_reach(const struct fixture *f, size_t server, bool is_reachable)
{
    proxy_refuse(f->proxies[server], !is_reachable);
    if (!is_reachable) {
        proxy_cut_all(f->proxies[server], PROXY_ANY);
    }
}

void fixture_reach_only(const struct fixture *f, unsigned int mask)
{
    for (size_t i = 0; i < f->n; i++) {
        fixture_reach(f, i, (mask >> i & 1) != 0);
    }
}

/* ---- End ---- */

static void stop_proxies(struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        f->proxies[i] = proxy_stop(f->proxies[i]);
    }
}

static void close_views(struct fixture *f)
{
    for (struct fixture *view = f->views; view != NULL; view = view->views) {
        users_close(view);
    }
    while (f->views != NULL) {
        struct fixture *view = f->views;

        f->views = view->views;
        stop_proxies(view);
        free(view);
    }
}

/* Tokens outlive their locks, so that they never go back. The number of free units does, too: it is
 * 1 when one_permit() or one_unit() is free. */
#define OUTLIVING                                                                                  \
    "local found = redis.call('keys', 'redisson_lock_token:*') "                                   \
    "for _, key in ipairs(redis.call('keys', '*')) do "                                            \
    "local counts = ARGV[1] == '1' or key:find('permits$') or key:find('semaphore$') "             \
    "if counts and redis.call('type', key).ok == 'string' and redis.call('get', key) == '1' then " \
    "found[#found + 1] = key end end "

static int has_numbers(const struct fixture *f)
{
    return f->kind != NULL && (f->kind->make == one_permit || f->kind->make == one_unit);
}

static void forget_what_outlives(const struct fixture *f)
{
    test_server_do(f->server,
                   "EVAL \"" OUTLIVING
                   "for _, key in ipairs(found) do redis.call('del', key) end\" 0 %d",
                   has_numbers(f));
}

/* The options with one unit; as they are if nothing has set their size. */
static const struct rlock_opts *with_one(const struct rlock_opts *opts, struct rlock_opts *ret_one)
{
    *ret_one = (struct rlock_opts){.size = sizeof(*ret_one)};
    if (opts != NULL) {
        memcpy(ret_one, opts, opts->size < sizeof(*ret_one) ? opts->size : sizeof(*ret_one));
    }
    ret_one->units = 1;
    return opts != NULL && opts->size == 0 ? opts : ret_one;
}

int one_permit(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
               struct rlock_handle **ret_lock)
{
    struct rlock_opts one;

    return rlock_permits_new(client, name, with_one(opts, &one), ret_lock);
}

int one_unit(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
             struct rlock_handle **ret_lock)
{
    struct rlock_opts one;

    return rlock_semaphore_new(client, name, with_one(opts, &one), ret_lock);
}

void fixture_drop(struct fixture *f)
{
    stop_proxies(f);
    for (size_t i = 0; i < f->n; i++) {
        f->servers[i] = test_server_stop(f->servers[i]);
    }
    f->witness = witness_free(f->witness);
    diary_fini(&f->diary);
}

void fixture_close(struct fixture *f)
{
    users_close(f);
    close_views(f);
    clients_close(f);
    if (f->kind != NULL) {
        forget_what_outlives(f);
        /* a proxy closes its side a moment later */
        assert_true(test_fds_open() == f->fds_run ||
                    (f->proxy != NULL && TEST_EVENTUALLY(test_fds_open() == f->fds_run, 2000)));
    }
    for (size_t i = 0; i < f->n; i++) {
        assert_true(TEST_EVENTUALLY(test_server_clients(f->servers[i]) == 0, 2000));
        test_server_assert_clean(f->servers[i]);
    }
    assert_true(witness_is_clean(f->witness, stderr));
    fixture_drop(f);
    if (!TEST_EVENTUALLY(test_fds_open() == f->fds, 2000)) {
        (void)fprintf(stderr, "%zu descriptors were open before the test, %zu are now:\n", f->fds,
                      test_fds_open());
        test_show_fds();
        fail();
    }
    assert_true(TEST_EVENTUALLY(test_threads_running() == f->threads, 2000));
    assert_int_equal(fixture_sigpipes(), 0);
}

/* ---- What the servers have ---- */

size_t fixture_holding(const struct fixture *f, const char *key)
{
    size_t n = 0;

    for (size_t i = 0; i < f->n; i++) {
        n += test_server_int(f->servers[i], "EXISTS %s", key) == 1;
    }
    return n;
}

bool fixture_is_held(const struct fixture *f)
{
    return test_server_int(f->server, "EXISTS " LOCK_A) == 1;
}

long long fixture_count(const struct fixture *f)
{
    char *values = test_server_cmd(f->server, "HVALS " LOCK_A);
    long long count = strtoll(values, NULL, 10);

    free(values);
    return count;
}

long long fixture_ttl(const struct fixture *f)
{
    return test_server_int(f->server, "PTTL " LOCK_A);
}

bool fixture_wait_waiters(const struct fixture *f, int n)
{
    return TEST_EVENTUALLY(test_server_waiters(f->server, CHANNEL_A) == n, 2000);
}

bool fixture_wait_held(const struct fixture *f, bool held)
{
    return TEST_EVENTUALLY(fixture_is_held(f) == held, 2000);
}

bool fixture_wait_renewed(const struct fixture *f, long long lease_ms)
{
    return TEST_EVENTUALLY(fixture_ttl(f) < lease_ms * 9 / 10, 5000) &&
           TEST_EVENTUALLY(fixture_ttl(f) >= lease_ms * 9 / 10, 5000);
}

long long fixture_keys(const struct fixture *f)
{
    return test_server_int(f->server, "DBSIZE") -
           test_server_int(f->server, "EVAL \"" OUTLIVING "return #found\" 0 %d", has_numbers(f));
}

bool fixture_has_key(const struct fixture *f, const char *key)
{
    return test_server_int(f->server, "EXISTS \"%s\"", key) == 1;
}

long long fixture_publish(const struct fixture *f, const char *message)
{
    char *channels = test_server_cmd(f->server, "PUBSUB CHANNELS"), *rest = channels;
    long long n = 0;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (line[0] != '\0') {
            n += test_server_int(f->server, "PUBLISH %s %s", line, message);
        }
    }
    free(channels);
    return n;
}

void fixture_count_calls(const struct fixture *f)
{
    assert_true(test_server_says(f->server, "OK", "CONFIG RESETSTAT"));
}

long long fixture_calls(const struct fixture *f, const char *command)
{
    char field[64];
    long long calls;

    test_text(field, sizeof(field), "cmdstat_%s:calls", command);
    calls = test_server_info(f->server, "commandstats", field);
    return calls > 0 ? calls : 0;
}

void fixture_take_by_hand(const struct fixture *f, long long ttl_ms)
{
    test_server_do(f->server, "HSET " LOCK_A " somebody:1 1");
    if (ttl_ms > 0) {
        test_server_do(f->server, "PEXPIRE " LOCK_A " %lld", ttl_ms);
    }
}
