/* SPDX-License-Identifier: Apache-2.0 */
/* What the process around the library does: threads that end, fork, exec, close. */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEASE_MS scene_ms(300)

static const struct rlock_take patient = {.size = sizeof(patient), .wait_ms = 60000};

static struct rlock_client_opts unhurried(void)
{
    return RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                             .connect_timeout_ms = 5000 * test_slack());
}

/* ---- Threads that end ---- */

static void *lock_and_end(void *arg)
{
    const struct actor *actor = arg;

    TEST_CHECK(rlock_try_lock(actor->lock) == 0);
    TEST_CHECK(rlock_try_lock(actor->lock) == 0);
    return NULL;
}

static void run_to_its_end(void *(*entry)(void *), void *arg)
{
    pthread_t thread;

    TEST_CHECK(pthread_create(&thread, NULL, entry, arg) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
}

TEST(a_thread_that_ends_with_a_hold_has_lost_it)
{
    struct scene scene;
    struct actor actor, rival;
    int64_t ended_us;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    actor_open_direct(&rival, &scene);
    for (size_t i = 1; i <= 3; i++) {
        run_to_its_end(lock_and_end, &actor);
        ended_us = test_now_us();
        assert_int_equal(actor_wait_loss(&actor, i), RLOCK_LOST_THREAD_EXITED);
        assert_code(rlock_unlock(actor.lock), RLOCK_ENOTOWNER); /* nobody else's */
        assert_code(actor_visit(&rival, &patient), 0);          /* renewed no more */
        assert_within(ended_us, LEASE_MS);
    }
    assert_int_equal(actor_losses(&actor), 3);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

struct given {
    const struct actor *actor;
    uint64_t owner;
};

static void *lock_as_given(void *arg)
{
    const struct given *given = arg;

    TEST_CHECK(rlock_lock_with(given->actor->lock, RLOCK_TAKE(.owner = given->owner), NULL) == 0);
    return NULL;
}

TEST(a_hold_of_a_given_owner_outlives_the_thread)
{
    struct scene scene;
    struct actor actor;
    struct given given = {.actor = &actor};

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    given.owner = rlock_owner_new(actor.client);
    run_to_its_end(lock_as_given, &given);
    assert_true(scene_wait_renewed(&scene, LEASE_MS));
    assert_true(rlock_is_valid_as(actor.lock, given.owner));
    assert_code(rlock_unlock_as(actor.lock, given.owner), 0);
    assert_int_equal(actor_losses(&actor), 0);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(a_thread_may_outlive_its_client)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    for (int i = 0; i < 3; i++) {
        actor_open(&actor, &scene, unhurried());
        assert_code(rlock_try_lock(actor.lock), 0);
        actor_close(&actor); /* this thread goes on with what it knows of the hold */
        assert_false(scene_is_held(&scene));
    }
    scene_close(&scene);
}

/* ---- fork ---- */

static bool is_socket(int fd)
{
    char path[64], target[64] = "";

    test_text(path, sizeof(path), "/proc/self/fd/%d", fd);
    return readlink(path, target, sizeof(target) - 1) > 0 && strncmp(target, "socket:", 7) == 0;
}

/* Marks which descriptors are sockets. */
static void note_sockets(bool sockets[static 256])
{
    for (int fd = 0; fd < 256; fd++) {
        sockets[fd] = is_socket(fd);
    }
}

static int ignore_key(const char *key, size_t len, const struct rlock_info *info, void *payload)
{
    (void)key;
    (void)len;
    (void)info;
    (void)payload;
    return 0;
}

/* In the child: nothing goes, at once, and nothing of the parent's connections is left. */
static void child_can_do_nothing(const struct actor *actor, const bool sockets[static 256])
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock *lock;

    for (int fd = 0; fd < 256; fd++) {
        TEST_CHECK(sockets[fd] || !is_socket(fd));
    }
    TEST_CHECK(!rlock_is_valid(actor->lock));
    TEST_CHECK(!rlock_is_valid_as(actor->lock, 7));
    TEST_CHECK(rlock_valid_ms(actor->lock) == 0);
    TEST_CHECK(rlock_hold_count(actor->lock) == 0);
    TEST_CHECK(rlock_unlock(actor->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_try_lock(actor->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_lock(actor->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_inspect(actor->lock, &info) == RLOCK_EFORKED);
    TEST_CHECK(rlock_force_unlock(actor->lock, NULL) == RLOCK_EFORKED);
    TEST_CHECK(rlock_reentrant_new(actor->client, "b", NULL, &lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_client_scan(actor->client, NULL, ignore_key, NULL) == RLOCK_EFORKED);
    TEST_CHECK(rlock_client_close(actor->client) == NULL);
}

/* A client of the child's own is another client. */
static void child_opens_its_own(const struct actor *parent)
{
    struct actor actor;

    actor_open(&actor, parent->scene, unhurried());
    TEST_CHECK(strcmp(rlock_client_uuid(actor.client), rlock_client_uuid(parent->client)) != 0);
    TEST_CHECK(actor_visit(&actor, &patient) == 0);
    actor_close(&actor);
}

static void wait_child(pid_t pid)
{
    int status = -1;

    if (!TEST_EVENTUALLY(test_must(waitpid(pid, &status, WNOHANG), "waitpid") == pid, 20000)) {
        test_must(kill(pid, SIGKILL), "kill");
        fail_msg("the child hangs");
    }
    assert_int_equal(status, 0);
}

static void fork_under_load(bool opens_its_own)
{
    struct scene scene;
    struct actor actor, rival;
    struct crew crew = {.actor = &actor, .take = &patient};
    struct crew others = {.actor = &rival, .take = &patient};
    struct rlock *other;
    bool sockets[256];

    scene_open(&scene, NULL);
    note_sockets(sockets);
    actor_open(&actor, &scene, unhurried());
    actor_open(&rival, &scene, unhurried());
    other = actor_lock(&actor, "b");
    assert_code(rlock_try_lock(other), 0);
    crew_start(&crew, 3);
    crew_start(&others, 2);
    for (int i = 0; i < 20; i++) {
        size_t visits = atomic_load(&crew.visits);
        pid_t pid;

        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits + 3, 20000));
        pid = test_must(fork(), "fork");
        if (pid == 0) {
            TEST_CHECK(!rlock_is_valid(other));
            child_can_do_nothing(&actor, sockets);
            if (opens_its_own) {
                child_opens_its_own(&actor);
            }
            _exit(0);
        }
        wait_child(pid);
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_unlock(other), 0);
    assert_int_equal(actor_losses(&actor) + actor_losses(&rival), 0);
    other = rlock_free(other);
    actor_close(&actor);
    actor_close(&rival);
    scene_close(&scene);
}

TEST(a_child_forked_under_load_can_do_nothing_and_disturbs_nobody)
{
    fork_under_load(false);
}

TEST(a_child_forked_under_load_may_open_a_client_of_its_own)
{
    if (!MAY_START_THREADS) {
        print_message("no threads after fork under a sanitizer\n");
        skip();
    }
    fork_under_load(true);
}

static void *inspect_once(void *arg)
{
    const struct actor *actor = arg;
    struct rlock_info info = RLOCK_INFO_INIT;

    TEST_CHECK(rlock_inspect(actor->lock, &info) == 0);
    return NULL;
}

TEST(a_child_forked_during_an_inspect_has_none_of_its_connections)
{
    struct scene scene;
    struct actor actor;
    struct proxy_rule rule = {
        .act = PROXY_DELAY_REPLY, .command = "CLIENT", .contains = "LIST", .delay_us = 300000};
    bool sockets[256];
    pthread_t thread;
    int number;
    pid_t pid;

    scene_open(&scene, NULL);
    scene_start_proxy(&scene);
    scene_take_by_hand(&scene, 0);
    actor_open(&actor, &scene, unhurried());
    number = proxy_add(scene.proxy, &rule);
    TEST_CHECK(pthread_create(&thread, NULL, inspect_once, &actor) == 0);
    assert_true(proxy_wait_fired(scene.proxy, number, 1, 5000));
    note_sockets(sockets);
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        int open = 0, before = 0;

        for (int fd = 0; fd < 256; fd++) {
            open += is_socket(fd);
            before += sockets[fd];
        }
        TEST_CHECK(open == before - 2); /* the link, and the one that asks */
        _exit(0);
    }
    wait_child(pid);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    actor_close(&actor);
    scene_close(&scene);
}

struct forker {
    struct scene *scene;
    _Atomic int status; /* of the child; -1 there is none yet */
};

/* The child of a dispatcher is no dispatcher: it may wait for locks, and close its client. */
static void fork_in_a_callback(const struct rlock_loss *loss, void *payload)
{
    struct forker *forker = payload;
    struct actor actor;
    pid_t pid = test_must(fork(), "fork");

    (void)loss;
    if (pid == 0) {
        actor_open(&actor, forker->scene, unhurried());
        TEST_CHECK(actor_visit(&actor, &patient) == 0);
        TEST_CHECK(rlock_free(actor.lock) == NULL);
        TEST_CHECK(rlock_client_close(actor.client) == NULL);
        _exit(0);
    }
    atomic_store(&forker->status, test_reap(pid));
}

TEST(a_child_forked_in_a_callback_may_wait_and_close)
{
    struct scene scene;
    struct forker forker = {.scene = &scene, .status = -1};
    struct rlock_client *client = NULL;
    struct rlock *lock = NULL;

    if (!MAY_START_THREADS) {
        print_message("no threads after fork under a sanitizer\n");
        skip();
    }
    scene_open(&scene, NULL);
    assert_code(
        rlock_client_open(&RLOCK_CLIENT_OPTS(.url = test_server_unix_url(scene.server),
                                             .on_lost = fork_in_a_callback, .payload = &forker),
                          &client),
        0);
    assert_code(rlock_reentrant_new(client, "b", NULL, &lock), 0);
    assert_code(rlock_lock_with(lock, RLOCK_TAKE(.lease_ms = scene_ms(100)), NULL), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&forker.status) != -1, 10000));
    assert_int_equal(atomic_load(&forker.status), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    lock = rlock_free(lock);
    assert_null(rlock_client_close(client));
    scene_close(&scene);
}

struct opener {
    struct scene *scene;
    _Atomic bool stop;
};

static void *open_and_close(void *arg)
{
    struct opener *opener = arg;
    struct rlock_info info = RLOCK_INFO_INIT;

    while (!atomic_load(&opener->stop)) {
        struct actor actor;

        actor_open(&actor, opener->scene, unhurried());
        TEST_CHECK(rlock_try_lock(actor.lock) == 0);
        TEST_CHECK(rlock_inspect(actor.lock, &info) == 0);
        TEST_CHECK(rlock_unlock(actor.lock) == 0);
        actor_close(&actor);
    }
    return NULL;
}

/* However far opening and closing had come: the server sees the end though the children live. */
TEST(children_forked_meanwhile_keep_no_connection_of_a_closed_client)
{
    enum { CHILDREN = 300 };
    struct scene scene;
    struct opener opener = {.scene = &scene};
    pid_t pids[CHILDREN];
    pthread_t thread;
    bool gone;

    scene_open(&scene, NULL);
    TEST_CHECK(pthread_create(&thread, NULL, open_and_close, &opener) == 0);
    for (size_t i = 0; i < CHILDREN; i++) {
        pids[i] = test_must(fork(), "fork");
        if (pids[i] == 0) {
            (void)pause();
            _exit(0);
        }
        (void)usleep(100 + 37 * (useconds_t)i % 500);
    }
    atomic_store(&opener.stop, true);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    gone = TEST_EVENTUALLY(test_server_clients(scene.server) == 0, 2000);
    for (size_t i = 0; i < CHILDREN; i++) {
        test_must(kill(pids[i], SIGKILL), "kill");
        (void)test_reap(pids[i]);
    }
    assert_true(gone);
    scene_close(&scene);
}

/* ---- exec ---- */

/* Sockets, and what epoll and eventfd give. */
static size_t descriptors_after_exec(void)
{
    static const char *const argv[] = {
        "/bin/sh", "-c", "ls -l /proc/self/fd | grep -cE 'socket:|anon_inode:' || true", NULL};
    char log[300], text[32] = "";
    FILE *file;

    test_text(log, sizeof(log), "%s/fds", test_dir());
    test_run("/", log, argv);
    file = fopen(log, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    (void)unlink(log);
    return strtoul(text, NULL, 10);
}

TEST(a_program_that_is_executed_inherits_nothing)
{
    struct scene scene;
    struct actor actor;
    struct waiter waiter;
    struct rlock_cancel *cancel;
    struct rlock *other;
    size_t before;
    int code;

    scene_open(&scene, NULL);
    before = descriptors_after_exec();
    actor_open(&actor, &scene, unhurried());
    other = actor_lock(&actor, "b");
    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_try_lock(other), 0);
    scene_take_by_hand(&scene, 0);
    waiter_start(&waiter, &actor, RLOCK_TAKE(.wait_ms = 60000, .cancel = cancel));
    assert_true(scene_wait_waiters(&scene, 1));
    assert_int_equal(descriptors_after_exec(), before);
    for (int i = 0; i < 20; i++) { /* while connections are made anew */
        free(test_server_cmd(scene.server, "CLIENT KILL TYPE normal SKIPME yes"));
        free(test_server_cmd(scene.server, "CLIENT KILL TYPE pubsub"));
        assert_int_equal(descriptors_after_exec(), before);
    }
    rlock_cancel_fire(cancel);
    code = waiter_join(&waiter);
    assert_true(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT); /* its link may be down */
    free(test_server_cmd(scene.server, "DEL " SCENE_NAME));
    assert_code(rlock_unlock(other), 0);
    cancel = rlock_cancel_free(cancel);
    other = rlock_free(other);
    actor_close(&actor);
    scene_close(&scene);
}

/* ---- close ---- */

#define CLOSE_WAITERS 5

/* Waiters wait, three holds are held, then the client is closed. */
static void close_amid(struct scene *scene, struct actor *actor, int64_t most_ms)
{
    struct waiter waiters[CLOSE_WAITERS];
    struct rlock *locks[3];
    static const char *const names[] = {"b", "c", "d"};
    int64_t began_us;

    scene_take_by_hand(scene, 0);
    for (size_t i = 0; i < 3; i++) {
        locks[i] = actor_lock(actor, names[i]);
        assert_code(rlock_try_lock(locks[i]), 0);
    }
    for (size_t i = 0; i < CLOSE_WAITERS; i++) {
        waiter_start(&waiters[i], actor, RLOCK_TAKE(.wait_ms = RLOCK_FOREVER));
    }
    assert_true(scene_wait_waiters(scene, 1));
    if (scene->proxy != NULL) {
        proxy_black_hole(scene->proxy, PROXY_ANY, true);
    }
    began_us = test_now_us();
    actor->client = rlock_client_close(actor->client);
    assert_within(began_us, most_ms);
    for (size_t i = 0; i < CLOSE_WAITERS; i++) {
        assert_int_equal(waiter_join(&waiters[i]), RLOCK_ECLOSED);
        assert_true(test_in_time(began_us, waiters[i].answered_us - began_us,
                                 (int64_t)SCENE_LATE_MS * 1000 * test_slack()));
    }
    for (size_t i = 0; i < 3; i++) {
        assert_code(rlock_unlock(locks[i]), RLOCK_ECLOSED);
        assert_code(rlock_try_lock(locks[i]), RLOCK_ECLOSED);
        assert_false(rlock_is_valid(locks[i]));
        locks[i] = rlock_free(locks[i]);
    }
    assert_int_equal(actor_losses(actor), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(actor->diary.reasons[i], RLOCK_LOST_CLOSED);
    }
    free(test_server_cmd(scene->server, "DEL " SCENE_NAME));
}

TEST(close_releases_holds_and_wakes_waiters)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, NULL);
    actor_open(&actor, &scene, unhurried());
    close_amid(&scene, &actor, 0);
    assert_int_equal(test_server_int(scene.server, "DBSIZE"), 0);
    assert_int_equal(actor_logged(&actor, "not released"), 0);
    actor_close(&actor);
    scene_close(&scene);
}

TEST(close_does_not_wait_longer_for_a_server_that_vanished)
{
    struct scene scene;
    struct actor actor;

    scene_open(&scene, &(struct scene_opts){.proxied = true});
    actor_open(&actor, &scene, RLOCK_CLIENT_OPTS(.op_timeout_ms = 300, .connect_timeout_ms = 300));
    close_amid(&scene, &actor, 300);
    /* what it holds, and what the waiter that asks for all of them may have asked just then */
    assert_int_equal(actor_logged(&actor, "not released, the last is free in "), 1);
    assert_int_equal(actor_logged(&actor, "3 locks: ") + actor_logged(&actor, "4 locks: "), 1);
    free(test_server_cmd(scene.server, "DEL b c d"));
    actor_close(&actor);
    scene.proxy = proxy_stop(scene.proxy);
    scene_close(&scene);
}

TEST(clients_may_be_closed_under_load)
{
    struct scene scene;

    scene_open(&scene, NULL);
    for (int i = 0; i < 15; i++) {
        struct actor actor;
        struct crew crew = {.actor = &actor, .take = &patient, .allowed = ALLOW(RLOCK_ECLOSED)};

        actor_open(&actor, &scene, unhurried());
        crew_start(&crew, 4);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > 5, 20000));
        actor.client = rlock_client_close(actor.client);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.failures) > 0, 20000));
        crew_stop(&crew);
        assert_false(scene_is_held(&scene));
        actor_close(&actor);
    }
    scene_close(&scene);
}
