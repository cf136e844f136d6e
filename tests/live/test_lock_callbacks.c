/* SPDX-License-Identifier: Apache-2.0 */
/* The program's callbacks: what they may do, where they run, and what they are told. */
#include "support/clients.h"

#include <pthread.h>
#include <rlock/admin.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* What a callback did, and what it saw. */
struct scene {
    struct rlock_client *client;
    struct rlock_handle *lost, *other;
    uint64_t owner;
    int try_code, unlock_code, lost_unlock_code, lock_code, wait_code, wait_other_code;
    bool close_refused, was_valid, signals_blocked;
    pthread_t thread;
    atomic_int calls, inside, most_inside;
    atomic_bool go_on;
    char name[64];
    size_t name_len;
    char log[64][400];
    int levels[64];
    atomic_int n_lines;
};

static bool all_signals_are_blocked(void)
{
    sigset_t set;

    (void)pthread_sigmask(SIG_BLOCK, NULL, &set);
    return sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1 &&
           sigismember(&set, SIGALRM) == 1 && sigismember(&set, SIGPIPE) == 1 &&
           sigismember(&set, SIGUSR1) == 1;
}

static void act_in_callback(const struct rlock_loss *loss, void *payload)
{
    struct scene *scene = payload;

    scene->thread = pthread_self();
    scene->signals_blocked = all_signals_are_blocked();
    scene->name_len = loss->name_len;
    memcpy(scene->name, loss->name, loss->name_len + 1);
    scene->was_valid = rlock_is_valid_as(scene->lost, scene->owner);
    scene->lost_unlock_code = rlock_unlock_as(scene->lost, scene->owner);
    scene->try_code = rlock_try_lock(scene->other);
    scene->lock_code = rlock_lock(scene->other);
    scene->wait_code = rlock_lock_for(scene->lost, 10, NULL, NULL);
    scene->wait_other_code = rlock_guard_lock(scene->lost).code;
    scene->unlock_code = rlock_unlock(scene->other);
    scene->close_refused =
        rlock_client_close(scene->client) == scene->client && rlock_detail()[0] != '\0';
    atomic_fetch_add(&scene->calls, 1);
}

LOCK_TEST(a_callback_may_try_and_unlock_but_not_wait, f)
{
    struct scene scene = {.owner = 11};

    scene.client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.on_lost = act_in_callback, .payload = &scene));
    scene.lost = lock_named(f, scene.client, "lost");
    scene.other = lock_named(f, scene.client, "other");
    assert_code(TAKE(scene.lost, 0, .owner = scene.owner, .lease_ms = test_ms(50)), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&scene.calls) == 1, 5000));
    assert_false(scene.was_valid);
    assert_code(scene.lost_unlock_code, RLOCK_ELOST);
    assert_code(scene.try_code, 0);
    assert_code(scene.unlock_code, 0);
    assert_code(scene.lock_code, RLOCK_EDEADLOCK);
    assert_code(scene.wait_code, RLOCK_EDEADLOCK);
    assert_code(scene.wait_other_code, RLOCK_EDEADLOCK);
    assert_true(scene.close_refused);
    assert_true(scene.signals_blocked);
    assert_false(pthread_equal(scene.thread, pthread_self()));
    assert_string_equal(scene.name, "lost");
    assert_int_equal(scene.name_len, 4);
    assert_code(rlock_unlock_as(scene.lost, scene.owner), RLOCK_ENOTOWNER);
    assert_code(rlock_lock(scene.other), 0); /* the client works as before */
    assert_code(rlock_unlock(scene.other), 0);
}

/* Stays in the callback until it may go on. */
static void dwell(const struct rlock_loss *loss, void *payload)
{
    struct scene *scene = payload;
    const int inside = atomic_fetch_add(&scene->inside, 1) + 1;

    (void)loss;
    if (inside > atomic_load(&scene->most_inside)) {
        atomic_store(&scene->most_inside, inside);
    }
    while (!atomic_load(&scene->go_on)) {
        (void)usleep(1000);
    }
    atomic_fetch_sub(&scene->inside, 1);
    atomic_fetch_add(&scene->calls, 1);
}

LOCK_TEST(a_slow_callback_delays_no_lock, f)
{
    const int64_t lease_ms = test_ms(300);
    struct scene scene = {.owner = 0};
    struct rlock_handle *renewed, *lost[3], *other;

    scene.client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.on_lost = dwell, .payload = &scene, .renewed_lease_ms = lease_ms));
    renewed = lock_named(f, scene.client, "renewed");
    other = lock_named(f, scene.client, "other");
    assert_code(rlock_lock(renewed), 0);
    for (size_t i = 0; i < 3; i++) {
        char name[16];

        test_text(name, sizeof(name), "lost-%zu", i);
        lost[i] = lock_named(f, scene.client, name);
        assert_code(TAKE(lost[i], 0, .lease_ms = 30), 0);
    }
    assert_true(TEST_EVENTUALLY(atomic_load(&scene.inside) == 1, 5000));
    assert_true(
        STAYS_KEPT(rlock_is_valid(renewed), 3 * lease_ms / 2, lease_ms)); /* renewed all the same */
    assert_code(rlock_lock(other), 0);
    assert_code(rlock_unlock(other), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_false(rlock_is_valid(lost[i]));
        assert_code(rlock_unlock(lost[i]), RLOCK_ELOST);
    }
    atomic_store(&scene.go_on, true);
    assert_true(TEST_EVENTUALLY(atomic_load(&scene.calls) == 3, 5000));
    assert_int_equal(atomic_load(&scene.most_inside), 1); /* one after the other */
    assert_code(rlock_unlock(renewed), 0);
}

/* ---- Log lines ---- */

static void keep_line(const struct rlock_log_line *line, void *payload)
{
    struct scene *scene = payload;
    const int n = atomic_load(&scene->n_lines);

    if (n < 64) {
        test_text(scene->log[n], sizeof(scene->log[n]), "%.390s", line->text);
        scene->levels[n] = line->level;
        atomic_store(&scene->n_lines, n + 1);
    }
}

static void ignore_loss(const struct rlock_loss *loss, void *payload)
{
    (void)loss;
    (void)payload;
}

/* Loses a lock with a client of this level; how many lines that gave. */
static int lines_of_a_loss(struct fixture *f, struct scene *scene, int level)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.on_lost = ignore_loss, .on_log_line = keep_line,
                                              .payload = scene, .log_level = level));
    struct rlock_handle *lock = lock_named(f, client, "line\nbreak");
    const int before = atomic_load(&scene->n_lines);

    assert_code(TAKE(lock, 0, .lease_ms = 30), 0);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid(lock), 5000));
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    client_close(f, client); /* what is to be told is told by now */
    return atomic_load(&scene->n_lines) - before;
}

LOCK_TEST(log_lines_come_at_their_level, f)
{
    struct scene scene = {.owner = 0};

    assert_int_equal(lines_of_a_loss(f, &scene, RLOCK_LOG_ERROR), 0);
    assert_int_equal(lines_of_a_loss(f, &scene, RLOCK_LOG_WARNING), 1);
    assert_int_equal(lines_of_a_loss(f, &scene, 0), 1); /* warnings are the default */
    assert_true(lines_of_a_loss(f, &scene, RLOCK_LOG_DEBUG) >= 1);
    for (int i = 0; i < atomic_load(&scene.n_lines); i++) {
        assert_null(strpbrk(scene.log[i], "\r\n"));
        assert_in_range(scene.levels[i], RLOCK_LOG_ERROR, RLOCK_LOG_DEBUG);
    }
    assert_int_equal(scene.levels[0], RLOCK_LOG_WARNING);
    assert_non_null(strstr(scene.log[0], "line\\x0abreak"));
    assert_non_null(strstr(scene.log[0], "expired"));
}

/* How many lines contain the text. */
static int lines_with(struct scene *scene, const char *text)
{
    int n = 0;

    for (int i = 0; i < atomic_load(&scene->n_lines); i++) {
        n += strstr(scene->log[i], text) != NULL;
    }
    return n;
}

LOCK_TEST(a_link_that_cannot_be_made_is_logged_once_and_its_return_too, f)
{
    struct scene scene = {.owner = 0};
    struct rlock_handle *lock;

    test_server_kill(f->server);
    scene.client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.on_lost = ignore_loss, .on_log_line = keep_line,
                                              .payload = &scene, .op_timeout_ms = test_ms(1000)));
    lock = lock_new(f, scene.client);
    assert_code(rlock_try_lock(lock), RLOCK_ECONN);
    assert_code(rlock_try_lock(lock), RLOCK_ECONN); /* tried again and again meanwhile */
    assert_true(TEST_EVENTUALLY(lines_with(&scene, "server ") == 1, 5000));
    assert_int_equal(scene.levels[0], RLOCK_LOG_WARNING);
    assert_int_equal(lines_with(&scene, "connected"), 0);
    test_server_restart(f->server, false);
    assert_true(TEST_EVENTUALLY(lines_with(&scene, ": connected") == 1, 10000));
    assert_code(rlock_try_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(no_text_holds_a_secret, f)
{
    struct scene scene = {.owner = 0};
    struct rlock_handle *lock;

    test_server_do(f->server, "CONFIG SET requirepass right");
    scene.client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.on_lost = ignore_loss, .on_log_line = keep_line, .payload = &scene,
                             .log_level = RLOCK_LOG_DEBUG, .password = "s3cr3t"));
    lock = lock_new(f, scene.client);
    assert_code(rlock_lock(lock), RLOCK_EAUTH);
    assert_null(strstr(rlock_detail(), "s3cr3t"));
    assert_code(rlock_try_lock(lock), RLOCK_EAUTH);
    assert_null(strstr(rlock_detail(), "s3cr3t"));
    client_close(f, scene.client);
    for (int i = 0; i < atomic_load(&scene.n_lines); i++) {
        assert_null(strstr(scene.log[i], "s3cr3t"));
    }
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
}

static void pass_finding(const struct rlock_finding *finding, void *unused)
{
    (void)finding;
    (void)unused;
}

/* It opens a lock that it took itself. The fixture fails for a loss that it does not expect. */
LOCK_TEST(a_diagnosis_reports_no_loss, f)
{
    struct rlock_client *client = client_open(f);

    assert_code(rlock_admin_diagnose(client, pass_finding, NULL), 0);
    client_close(f, client);
}
