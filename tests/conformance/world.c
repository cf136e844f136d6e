/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <pthread.h>

#include "client/lock.h"
#include "world_impl.h"

#ifdef __SANITIZE_THREAD__
enum { SANITIZER_THREADS = 1 }; /* it starts one of its own with the first of ours */
#else
enum { SANITIZER_THREADS = 0 };
#endif
enum { MAX_LOSSES = 512 };

/* A loss, and the end of life for its name. */
struct told {
    struct rlock_loss loss;
    int64_t at_us;
};

struct world {
    const struct conf_kind *kind;
    struct test_server *server;
    struct rlock_client *clients[CONF_MAX];
    struct rlock *locks[CONF_MAX];
    struct actor *actors[CONF_MAX];
    size_t n_clients, n_locks, n_actors;
    size_t fds, threads;      /* before the case */
    _Atomic int64_t lease_us; /* of renewed holds of the client that was opened last */
    pthread_mutex_t mutex;    /* protects told and n_told */
    struct told told[MAX_LOSSES];
    size_t n_told, n_expected;
};

/* ---- Beginning and end ---- */

struct world *world_start(const struct conf_kind *kind)
{
    struct world *w = calloc(1, sizeof(*w));

    TEST_CHECK(w != NULL);
    w->kind = kind;
    (void)pthread_mutex_init(&w->mutex, NULL);
    w->server = test_server_start(NULL);
    free(test_server_cmd(w->server, "PING")); /* the side connection is there now */
    w->fds = test_fds_open();
    w->threads = test_threads_running();
    return w;
}

static void show_unexpected(const struct world *w)
{
    for (size_t i = w->n_expected; i < w->n_told; i++) {
        print_error("a loss that nobody expected: %s\n", rlock_reason_text(w->told[i].loss.reason));
    }
}

void world_stop(struct world *w)
{
    for (size_t i = 0; i < w->n_actors; i++) {
        actor_free(w->actors[i]);
    }
    for (size_t i = 0; i < w->n_locks; i++) {
        assert_null(rlock_free(w->locks[i]));
    }
    for (size_t i = 0; i < w->n_clients; i++) {
        assert_null(rlock_client_close(w->clients[i]));
    }
    free(test_server_cmd(w->server, "EVAL \"for _, key in ipairs(redis.call('keys', ARGV[1])) do "
                                    "redis.call('del', key) end\" 0 redisson_lock_token:*"));
    test_server_assert_clean(w->server);
    show_unexpected(w);
    assert_int_equal(w->n_told, w->n_expected);
    assert_true(TEST_EVENTUALLY(test_threads_running() <= w->threads + SANITIZER_THREADS, 2000));
    assert_int_equal(test_fds_open(), w->fds);
    w->server = test_server_stop(w->server);
    (void)pthread_mutex_destroy(&w->mutex);
    free(w);
}

#define ROW(name, make, make_rival, can) {#name, make, make_rival, can},
static const struct conf_kind kinds[] = {CONF_KINDS(ROW)};
#undef ROW

int world_set_up(void **state)
{
    *state = world_start(&kinds[0]);
    return 0;
}

int world_tear_down(void **state)
{
    world_stop(*state);
    return 0;
}

const struct conf_kind *conf_kind(const struct world *w)
{
    return w->kind;
}

bool conf_can(const struct world *w, unsigned int what)
{
    return (w->kind->can & what) == what;
}

struct test_server *conf_server(const struct world *w)
{
    return w->server;
}

int64_t conf_wake_ms(const struct world *w)
{
    return conf_can(w, LISTENS) ? 50 : 300;
}

int64_t conf_ms(int64_t ms)
{
    return test_slack() > 1 ? 3 * ms : ms;
}

/* ---- Losses ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct world *w = payload;

    (void)pthread_mutex_lock(&w->mutex);
    TEST_CHECK(w->n_told < MAX_LOSSES);
    w->told[w->n_told] = (struct told){.loss = *loss, .at_us = test_now_us()};
    w->told[w->n_told++].loss.name = NULL;
    (void)pthread_mutex_unlock(&w->mutex);
    if (loss->reason == RLOCK_LOST_EXPIRED) {
        (void)test_expired(w->lease_us);
    }
}

size_t conf_losses(struct world *w)
{
    size_t n;

    (void)pthread_mutex_lock(&w->mutex);
    n = w->n_told;
    (void)pthread_mutex_unlock(&w->mutex);
    return n;
}

int64_t conf_expect_loss(struct world *w, enum rlock_reason reason, int64_t timeout_ms,
                         const char *file, int line)
{
    const struct told *told;

    if (!TEST_EVENTUALLY(conf_losses(w) > w->n_expected, timeout_ms)) {
        print_error("%s:%d: no loss was told\n", file, line);
        _fail(file, line);
    }
    told = &w->told[w->n_expected++];
    if (reason != 0 && told->loss.reason != reason) {
        print_error("%s:%d: lost: %s, expected: %s\n", file, line,
                    rlock_reason_text(told->loss.reason), rlock_reason_text(reason));
        _fail(file, line);
    }
    return told->at_us;
}

const struct rlock_loss *conf_last_loss(const struct world *w)
{
    TEST_CHECK(w->n_expected > 0);
    return &w->told[w->n_expected - 1].loss;
}

void conf_forgive_losses(struct world *w)
{
    w->n_expected = conf_losses(w);
}

/* ---- Clients and locks ---- */

struct rlock_client_opts conf_opts(const struct world *w, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts filled = opts != NULL ? *opts : RLOCK_CLIENT_OPTS(.url = NULL);

    if (filled.url == NULL) {
        filled.url = test_server_url(w->server);
    }
    if (filled.ca_file == NULL && strncmp(filled.url, "rediss:", 7) == 0) {
        filled.ca_file = test_server_cacert(w->server);
    }
    if (filled.connect_timeout_ms == 0) {
        filled.connect_timeout_ms = 1000 * test_slack();
    }
    if (filled.op_timeout_ms == 0) {
        filled.op_timeout_ms = 1000 * test_slack();
    }
    return filled;
}

struct rlock_client *conf_client_with(struct world *w, const struct rlock_client_opts *opts)
{
    struct rlock_client_opts filled = conf_opts(w, opts);
    struct rlock_client *client = NULL;

    if (filled.on_lost == NULL) {
        filled.on_lost = on_lost;
        filled.payload = w;
    }
    w->lease_us = (filled.renewed_lease_ms != 0 ? filled.renewed_lease_ms : 30000) * 1000;
    assert_true(w->n_clients < CONF_MAX);
    assert_code(rlock_client_open(&filled, &client), 0);
    w->clients[w->n_clients++] = client;
    return client;
}

struct rlock_client *conf_client(struct world *w)
{
    return conf_client_with(w, NULL);
}

struct rlock_client *conf_client_renewing(struct world *w, int64_t renewed_lease_ms)
{
    return conf_client_with(w, &RLOCK_CLIENT_OPTS(.renewed_lease_ms = renewed_lease_ms));
}

void conf_close(struct world *w, struct rlock_client *client)
{
    for (size_t i = 0; i < w->n_clients; i++) {
        if (w->clients[i] == client) {
            w->clients[i] = NULL;
        }
    }
    assert_null(rlock_client_close(client));
}

static struct rlock *make(struct world *w, conf_new_fn *fn, struct rlock_client *client,
                          const char *name, const struct rlock_opts *opts)
{
    struct rlock *lock = NULL;

    assert_true(w->n_locks < CONF_MAX);
    assert_code(fn(client, name, opts, &lock), 0);
    w->locks[w->n_locks++] = lock;
    return lock;
}

struct rlock *conf_lock(struct world *w, struct rlock_client *client)
{
    return make(w, w->kind->make, client, NAME, NULL);
}

struct rlock *conf_rival(struct world *w, struct rlock_client *client)
{
    return make(w, w->kind->make_rival, client, NAME, NULL);
}

struct rlock *conf_lock_named(struct world *w, struct rlock_client *client, const char *name)
{
    return make(w, w->kind->make, client, name, NULL);
}

struct rlock *conf_lock_with(struct world *w, struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts)
{
    return make(w, w->kind->make, client, name, opts);
}

struct actor *conf_actor(struct world *w)
{
    assert_true(w->n_actors < CONF_MAX);
    w->actors[w->n_actors] = actor_new();
    return w->actors[w->n_actors++];
}

/* ---- Failing ---- */

void conf_assert_code(int code, int expected, const char *file, int line)
{
    if (code != expected) {
        print_error("%s:%d: %s, expected %s: %s\n", file, line, rlock_code_name(code),
                    rlock_code_name(expected), rlock_detail());
        _fail(file, line);
    }
}

void conf_assert_took(int64_t us, int64_t least_ms, int64_t most_ms, const char *file, int line)
{
    const int64_t most_us = most_ms * 1000 * test_slack();

    if (us < least_ms * 1000 || !test_took_at_most(us, most_us)) {
        print_error("%s:%d: took %lld us, expected %lld to %lld ms\n", file, line, (long long)us,
                    (long long)least_ms, (long long)(most_ms * test_slack()));
        _fail(file, line);
    }
}

void conf_assert_usually_took(int64_t *us, size_t n, int64_t usual_ms, int64_t most_ms,
                              const char *file, int line)
{
    const int64_t median_us = test_median(us, n), usual_us = usual_ms * 1000 * test_slack();
    int64_t sum_us = 0;

    for (size_t i = 0; i < n; i++) {
        sum_us += us[i] > 0 ? us[i] : 0;
    }
    if (!test_in_time(test_now_us() - sum_us, median_us, usual_us)) {
        print_error("%s:%d: took %lld us in the median, expected %lld\n", file, line,
                    (long long)median_us, (long long)usual_us);
        _fail(file, line);
    }
    conf_assert_took(test_percentile(us, n, 100), 0, most_ms, file, line);
}

/* ---- What is known ---- */

void conf_await_waiting(struct rlock_client *client, size_t n)
{
    assert_true(TEST_EVENTUALLY(test_waiting(client) == n, 10000));
}

static struct rlock_info inspect(struct rlock *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(lock, &info), 0);
    return info;
}

bool conf_is_locked(struct rlock *lock)
{
    return inspect(lock).locked;
}

int64_t conf_ttl(struct rlock *lock)
{
    return inspect(lock).ttl_ms;
}

/* Tokens outlive their locks, so that they never go back. */
static long long count_tokens(struct world *w)
{
    return test_server_int(w->server, "EVAL \"return #redis.call('keys', ARGV[1])\" 0 "
                                      "redisson_lock_token:*");
}

long long conf_keys(struct world *w)
{
    return test_server_int(w->server, "DBSIZE") - count_tokens(w);
}

bool conf_has_key(struct world *w, const char *key)
{
    return test_server_int(w->server, "EXISTS \"%s\"", key) == 1;
}

long long conf_publish(struct world *w, const char *message)
{
    char *channels = test_server_cmd(w->server, "PUBSUB CHANNELS"), *rest = channels;
    long long n = 0;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (line[0] != '\0') {
            n += test_server_int(w->server, "PUBLISH %s %s", line, message);
        }
    }
    free(channels);
    return n;
}

void conf_count_from_here(struct world *w)
{
    assert_true(test_server_says(w->server, "OK", "CONFIG RESETSTAT"));
}

long long conf_calls(struct world *w, const char *command)
{
    char *stats = test_server_cmd(w->server, "INFO commandstats");
    char name[64];
    const char *at;
    long long calls = 0;

    test_text(name, sizeof(name), "cmdstat_%s:calls=", command);
    at = strstr(stats, name);
    if (at != NULL) {
        calls = strtoll(at + strlen(name), NULL, 10);
    }
    free(stats);
    return calls;
}
