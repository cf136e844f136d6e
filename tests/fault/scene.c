/* SPDX-License-Identifier: Apache-2.0 */
/* RLOCK_TEST_LOG in the environment shows what the clients log, and what waiters end with. */
#include "fault/scene.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static _Atomic int sigpipes;

/* ---- The scene ---- */

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

int scene_sigpipes(void)
{
    return atomic_load(&sigpipes);
}

static void *do_nothing(void *arg)
{
    return arg;
}

/* ThreadSanitizer starts a thread of its own with the first one. One that was joined may still be
 * listed for a moment. */
static void count_from_here(struct scene *scene)
{
    pthread_t thread;

    TEST_CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    scene->fds = test_fds_open();
    scene->threads = test_threads_running();
    for (int i = 0; i < 20; i++) {
        const size_t n = test_threads_running();

        scene->threads = n < scene->threads ? n : scene->threads;
        (void)usleep(1000);
    }
}

static bool leg_wants_unix(void)
{
    const char *transport = getenv("RLOCK_TEST_TRANSPORT");

    return transport == NULL || strcmp(transport, "unix") == 0;
}

void scene_start_proxy(struct scene *scene)
{
    const char *url = test_server_unix_url(scene->server);

    scene->proxy = leg_wants_unix() ? proxy_start_unix(url) : proxy_start(url);
}

void scene_open(struct scene *scene, const struct scene_opts *opts)
{
    static const struct scene_opts defaults;

    opts = opts != NULL ? opts : &defaults;
    if (!test_server_available(opts->server.program)) {
        print_message("no server here\n");
        skip();
    }
    watch_sigpipe();
    memset(scene, 0, sizeof(*scene));
    count_from_here(scene);
    scene->server = test_server_start(&opts->server);
    if (opts->tls_proxied) {
        scene->proxy = proxy_start(test_server_url(scene->server));
    } else if (opts->proxied) {
        scene_start_proxy(scene);
    }
    scene->witness = witness_new(8);
}

void scene_close(struct scene *scene)
{
    assert_true(TEST_EVENTUALLY(test_server_clients(scene->server) == 0, 2000));
    test_server_assert_clean(scene->server);
    assert_true(witness_is_clean(scene->witness, stderr));
    scene->proxy = proxy_stop(scene->proxy);
    scene->server = test_server_stop(scene->server);
    scene->witness = witness_free(scene->witness);
    assert_true(TEST_EVENTUALLY(test_fds_open() == scene->fds, 2000));
    assert_true(TEST_EVENTUALLY(test_threads_running() == scene->threads, 2000));
    assert_int_equal(scene_sigpipes(), 0);
}

bool scene_is_held(const struct scene *scene)
{
    return test_server_int(scene->server, "EXISTS " SCENE_NAME) == 1;
}

long long scene_count(const struct scene *scene)
{
    char *values = test_server_cmd(scene->server, "HVALS " SCENE_NAME);
    long long count = strtoll(values, NULL, 10);

    free(values);
    return count;
}

long long scene_ttl(const struct scene *scene)
{
    return test_server_int(scene->server, "PTTL " SCENE_NAME);
}

static int waiters(const struct scene *scene)
{
    char *reply = test_server_cmd(scene->server, "PUBSUB NUMSUB " SCENE_CHANNEL);
    const char *number = strchr(reply, '\n');
    int n = number != NULL ? atoi(number + 1) : -1;

    free(reply);
    return n;
}

bool scene_wait_waiters(const struct scene *scene, int n)
{
    return TEST_EVENTUALLY(waiters(scene) == n, 2000);
}

bool scene_wait_held(const struct scene *scene, bool held)
{
    return TEST_EVENTUALLY(scene_is_held(scene) == held, 2000);
}

bool scene_wait_renewed(const struct scene *scene, long long lease_ms)
{
    return TEST_EVENTUALLY(scene_ttl(scene) < lease_ms * 9 / 10, 5000) &&
           TEST_EVENTUALLY(scene_ttl(scene) >= lease_ms * 9 / 10, 5000);
}

long long scene_info(const struct scene *scene, const char *section, const char *field)
{
    char *info = test_server_cmd(scene->server, "INFO %s", section);
    const char *at = strstr(info, field);
    long long value = at != NULL ? strtoll(at + strlen(field) + 1, NULL, 10) : -1;

    free(info);
    return value;
}

void scene_take_by_hand(const struct scene *scene, long long ttl_ms)
{
    free(test_server_cmd(scene->server, "HSET " SCENE_NAME " somebody:1 1"));
    if (ttl_ms > 0) {
        free(test_server_cmd(scene->server, "PEXPIRE " SCENE_NAME " %lld", ttl_ms));
    }
}

/* ---- The diary ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct diary *diary = payload;

    pthread_mutex_lock(&diary->mutex);
    if (diary->n_losses < DIARY_LOSSES) {
        diary->reasons[diary->n_losses] = loss->reason;
        diary->lost_at_us[diary->n_losses] = test_now_us();
    }
    diary->n_losses++;
    pthread_mutex_unlock(&diary->mutex);
    if (loss->reason == RLOCK_LOST_EXPIRED) {
        (void)test_expired(diary->lease_us);
    }
}

static void on_log(enum rlock_level level, const char *text, void *payload)
{
    struct diary *diary = payload;
    size_t len = strlen(text);

    (void)level;
    pthread_mutex_lock(&diary->mutex);
    if (diary->shows) {
        print_message("log: %s\n", text);
    }
    diary->log = realloc(diary->log, diary->log_len + len + 2);
    TEST_CHECK(diary->log != NULL);
    memcpy(diary->log + diary->log_len, text, len);
    memcpy(diary->log + diary->log_len + len, "\n", 2);
    diary->log_len += len + 1;
    pthread_mutex_unlock(&diary->mutex);
}

size_t actor_losses(struct actor *actor)
{
    struct diary *diary = &actor->diary;
    size_t n;

    pthread_mutex_lock(&diary->mutex);
    n = diary->n_losses;
    pthread_mutex_unlock(&diary->mutex);
    return n;
}

enum rlock_reason actor_wait_loss(struct actor *actor, size_t n)
{
    return TEST_EVENTUALLY(actor_losses(actor) >= n, 2000) ? actor->diary.reasons[n - 1] : 0;
}

size_t actor_logged(struct actor *actor, const char *text)
{
    struct diary *diary = &actor->diary;
    size_t n = 0;

    pthread_mutex_lock(&diary->mutex);
    for (const char *at = diary->log; at != NULL && (at = strstr(at, text)) != NULL; n++) {
        at = strchr(at, '\n');
    }
    pthread_mutex_unlock(&diary->mutex);
    return n;
}

/* ---- Actors ---- */

static void open_client(struct actor *actor, struct scene *scene, struct rlock_client_opts opts)
{
    memset(actor, 0, sizeof(*actor));
    actor->scene = scene;
    pthread_mutex_init(&actor->diary.mutex, NULL);
    actor->diary.shows = getenv("RLOCK_TEST_LOG") != NULL;
    actor->diary.lease_us = (opts.renewed_lease_ms != 0 ? opts.renewed_lease_ms : 30000) * 1000;
    opts.on_lost = on_lost;
    opts.on_log = on_log;
    opts.payload = &actor->diary;
    if (strncmp(opts.url, "rediss:", 7) == 0 && opts.ca_file == NULL) {
        opts.ca_file = test_server_cacert(scene->server);
    }
    assert_code(rlock_client_open(&opts, &actor->client), 0);
    actor->lock = actor_lock(actor, SCENE_NAME);
}

void actor_open(struct actor *actor, struct scene *scene, struct rlock_client_opts opts)
{
    if (opts.url == NULL) {
        opts.url = scene->proxy != NULL ? proxy_url(scene->proxy) : test_server_url(scene->server);
    }
    open_client(actor, scene, opts);
}

void actor_open_direct(struct actor *actor, struct scene *scene)
{
    open_client(actor, scene,
                RLOCK_CLIENT_OPTS(.url = test_server_url(scene->server), .renewed_lease_ms = 500,
                                  .op_timeout_ms = 1000 * test_slack(),
                                  .connect_timeout_ms = 1000 * test_slack()));
}

void actor_close(struct actor *actor)
{
    actor->lock = rlock_free(actor->lock);
    actor->client = rlock_client_close(actor->client);
    pthread_mutex_destroy(&actor->diary.mutex);
    free(actor->diary.log);
}

struct rlock *actor_lock(const struct actor *actor, const char *name)
{
    struct rlock *lock;

    assert_code(rlock_reentrant_new(actor->client, name, NULL, &lock), 0);
    return lock;
}

uint64_t actor_id(void)
{
    static _Atomic uint64_t last;
    static _Thread_local uint64_t number;

    if (number == 0) {
        number = atomic_fetch_add(&last, 1) + 1;
    }
    return ((uint64_t)getpid() << 32) + number; /* a child of fork goes on with its parent's */
}

bool actor_step(const struct actor *actor)
{
    if (!rlock_is_valid(actor->lock)) {
        return test_expired(actor->diary.lease_us);
    }
    witness_enter(actor->scene->witness, 0, actor_id());
    witness_leave(actor->scene->witness, 0, actor_id());
    return true;
}

int64_t actor_work(const struct actor *actor)
{
    int64_t last_us = 0, now_us = test_now_us();

    while (actor_step(actor)) {
        last_us = now_us;
        now_us = test_now_us();
    }
    return last_us;
}

int actor_visit(const struct actor *actor, const struct rlock_take *take)
{
    int code = rlock_lock_with(actor->lock, take, NULL);

    if (code != 0) {
        return code;
    }
    (void)actor_step(actor);
    return rlock_unlock(actor->lock);
}

/* ---- Codes and times ---- */

void assert_detail(const char *part)
{
    if (strstr(rlock_detail(), part) == NULL) {
        fail_msg("no '%s' in: %s", part, rlock_detail());
    }
}

void assert_free_in(long long least_ms, long long most_ms)
{
    const char *at = strstr(rlock_detail(), " in ");
    char *end = NULL;
    long long ms = at != NULL ? strtoll(at + 4, &end, 10) : -1;

    if (at == NULL || strncmp(end, " ms", 3) != 0 || ms < least_ms || ms > most_ms) {
        fail_msg("not free in %lld to %lld ms: %s", least_ms, most_ms, rlock_detail());
    }
}

void assert_within(int64_t since_us, int64_t ms)
{
    int64_t took_us = test_elapsed_us(since_us);
    int64_t most_us = ms * 1000 + (int64_t)SCENE_LATE_MS * 1000 * test_slack();

    if (!test_in_time(since_us, took_us, most_us)) {
        fail_msg("took %lld ms, %lld at most", (long long)took_us / 1000,
                 (long long)most_us / 1000);
    }
}

/* ---- Waiters ---- */

static void *wait_main(void *arg)
{
    struct waiter *waiter = arg;
    int64_t began_us = test_now_us();

    waiter->code = rlock_lock_with(waiter->actor->lock, &waiter->take, NULL);
    waiter->answered_us = test_now_us();
    waiter->took_us = waiter->answered_us - began_us;
    (void)strncpy(waiter->detail, rlock_detail(), sizeof(waiter->detail) - 1);
    if (waiter->code == 0) {
        (void)actor_step(waiter->actor);
        waiter->unlock_code = rlock_unlock(waiter->actor->lock);
    }
    atomic_store(&waiter->done, true);
    return NULL;
}

static void start_thread(pthread_t *thread, void *(*entry)(void *), void *arg)
{
    int error = pthread_create(thread, NULL, entry, arg);

    TEST_CHECK(error == 0);
}

void waiter_start(struct waiter *waiter, const struct actor *actor, const struct rlock_take *take)
{
    memset(waiter, 0, sizeof(*waiter));
    waiter->actor = actor;
    waiter->take = *take;
    start_thread(&waiter->thread, wait_main, waiter);
}

int waiter_join(struct waiter *waiter)
{
    TEST_CHECK(pthread_join(waiter->thread, NULL) == 0);
    if (getenv("RLOCK_TEST_LOG") != NULL) {
        print_message("waiter: %s (%s), unlock: %s\n", rlock_code_name(waiter->code),
                      waiter->detail, rlock_code_name(waiter->unlock_code));
    }
    return waiter->code;
}

/* ---- Crews ---- */

static void check_allowed(const struct crew *crew, const char *call, int code)
{
    if (code != 0 && (crew->allowed & ALLOW(code)) == 0) {
        test_die("%s: %s: %s", call, rlock_code_name(code), rlock_detail());
    }
}

static void *crew_main(void *arg)
{
    struct crew *crew = arg;
    size_t round = 0;

    while (!atomic_load(&crew->stop) && (crew->rounds == 0 || round++ < crew->rounds)) {
        int code = rlock_lock_with(crew->actor->lock, crew->take, NULL);

        check_allowed(crew, "lock", code);
        atomic_fetch_add(code == 0 ? &crew->visits : &crew->failures, 1);
        if (code == 0) {
            (void)actor_step(crew->actor);
            check_allowed(crew, "unlock", rlock_unlock(crew->actor->lock));
        }
    }
    return NULL;
}

void crew_start(struct crew *crew, size_t n)
{
    TEST_CHECK(n <= sizeof(crew->threads) / sizeof(crew->threads[0]));
    crew->n = n;
    for (size_t i = 0; i < n; i++) {
        start_thread(&crew->threads[i], crew_main, crew);
    }
}

void crew_join(struct crew *crew)
{
    for (size_t i = 0; i < crew->n; i++) {
        TEST_CHECK(pthread_join(crew->threads[i], NULL) == 0);
    }
    crew->n = 0;
}

void crew_stop(struct crew *crew)
{
    atomic_store(&crew->stop, true);
    crew_join(crew);
}
