/* SPDX-License-Identifier: Apache-2.0 */
/* What the process around the library does: threads that end, fork, exec, close. */
#include "fault/verbs.h"
#include "support/waiter.h"

#include <dirent.h>
#include <fcntl.h>
#include <rlock/admin.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEASE_MS test_ms(300)

enum { PATIENT_MS = 60000 };

static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                              .connect_timeout_ms = 5000 * test_slack());
}

/* ---- Threads that end ---- */

static void *lock_and_end(void *arg)
{
    const struct user *user = arg;

    TEST_CHECK(rlock_try_lock(user->lock) == 0);
    TEST_CHECK(rlock_try_lock(user->lock) == 0);
    return NULL;
}

static void run_to_its_end(void *(*entry)(void *), void *arg)
{
    pthread_t thread;

    TEST_CHECK(pthread_create(&thread, NULL, entry, arg) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
}

FIXTURE_TEST(a_thread_that_ends_with_a_hold_has_lost_it, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    struct user *rival = user_open_direct(f);
    int64_t ended_us;

    for (size_t i = 1; i <= 3; i++) {
        run_to_its_end(lock_and_end, user);
        ended_us = test_now_us();
        assert_int_equal(user_wait_loss(user, i), RLOCK_LOST_THREAD_EXITED);
        assert_code(rlock_unlock(user->lock), RLOCK_ENOTOWNER); /* nobody else's */
        assert_code(user_visit(rival, PATIENT_MS, NULL), 0);    /* renewed no more */
        assert_within(ended_us, LEASE_MS);
    }
    assert_int_equal(user_losses(user), 3);
}

struct given {
    const struct user *user;
    uint64_t owner;
};

static void *lock_as_given(void *arg)
{
    const struct given *given = arg;

    TEST_CHECK(rlock_lock_for(given->user->lock, 0, RLOCK_TAKE(.owner = given->owner), NULL) == 0);
    return NULL;
}

FIXTURE_TEST(a_hold_of_a_given_owner_outlives_the_thread, f)
{
    struct user *user = user_open(f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = LEASE_MS));
    struct given given = {.user = user};

    given.owner = rlock_owner_new(user->client);
    run_to_its_end(lock_as_given, &given);
    assert_true(fixture_wait_renewed(f, LEASE_MS));
    assert_true(rlock_is_valid_as(user->lock, given.owner));
    assert_code(rlock_unlock_as(user->lock, given.owner), 0);
    assert_int_equal(user_losses(user), 0);
}

FIXTURE_TEST(a_thread_may_outlive_its_client, f)
{
    struct user *user;

    for (int i = 0; i < 3; i++) {
        user = user_open(f, unhurried());
        assert_code(rlock_try_lock(user->lock), 0);
        user_close(user); /* this thread goes on with what it knows of the hold */
        assert_false(fixture_is_held(f));
    }
}

/* ---- fork ---- */

/* Whether it is a connection, or may become one. While glibc looks a name up, it has a unix socket
 * without a peer for a moment, which nobody else can close in a child. */
static bool is_socket(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(int), peer_len = sizeof(peer);
    int domain = 0;

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0) {
        return false;
    }
    return domain == AF_INET || domain == AF_INET6 ||
           (domain == AF_UNIX && getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0);
}

/* Marks which descriptors are sockets. */
static void note_sockets(bool sockets[static 256])
{
    for (int fd = 0; fd < 256; fd++) {
        sockets[fd] = is_socket(fd);
    }
}

static int ignore_key(const struct rlock_found *found, void *payload)
{
    (void)found;
    (void)payload;
    return 0;
}

/* In the child: nothing goes, at once, and nothing of the parent's connections is left. */
static void child_can_do_nothing(const struct user *user, const bool sockets[static 256])
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_handle *lock;

    for (int fd = 0; fd < 256; fd++) {
        TEST_CHECK(sockets[fd] || !is_socket(fd));
    }
    TEST_CHECK(!rlock_is_valid(user->lock));
    TEST_CHECK(!rlock_is_valid_as(user->lock, 7));
    TEST_CHECK(rlock_valid_ms(user->lock) == 0);
    TEST_CHECK(rlock_hold_count(user->lock) == 0);
    TEST_CHECK(rlock_unlock(user->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_try_lock(user->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_lock(user->lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_inspect(user->lock, &info) == RLOCK_EFORKED);
    TEST_CHECK(rlock_force_unlock(user->lock, NULL) == RLOCK_EFORKED);
    TEST_CHECK(rlock_reentrant_new(user->client, "b", NULL, &lock) == RLOCK_EFORKED);
    TEST_CHECK(rlock_admin_scan(user->client, NULL, ignore_key, NULL) == RLOCK_EFORKED);
    TEST_CHECK(rlock_client_close(user->client) == NULL);
}

/* A client of the child's own is another client. */
static void child_opens_its_own(const struct user *parent)
{
    struct user *user;

    user = user_open(parent->f, unhurried());
    TEST_CHECK(strcmp(rlock_client_uuid(user->client), rlock_client_uuid(parent->client)) != 0);
    TEST_CHECK(user_visit(user, PATIENT_MS, NULL) == 0);
    user_close(user);
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
    struct fixture f;
    struct user *user, *rival;
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};
    struct rlock_handle *other;
    bool sockets[256];

    fixture_open(&f, NULL);
    note_sockets(sockets);
    user = user_open(&f, unhurried());
    rival = user_open(&f, unhurried());
    other = user_lock(user, "b");
    assert_code(rlock_try_lock(other), 0);
    crew_start(&crew, user, 3);
    crew_start(&others, rival, 2);
    for (int i = 0; i < 20; i++) {
        size_t visits = atomic_load(&crew.visits);
        pid_t pid;

        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits + 3, 20000));
        pid = test_must(fork(), "fork");
        if (pid == 0) {
            TEST_CHECK(!rlock_is_valid(other));
            child_can_do_nothing(user, sockets);
            if (opens_its_own) {
                child_opens_its_own(user);
            }
            _exit(0);
        }
        wait_child(pid);
    }
    crew_stop(&crew);
    crew_stop(&others);
    assert_true(rlock_is_valid(other));
    assert_code(rlock_unlock(other), 0);
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
    fixture_close(&f);
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
    const struct user *user = arg;
    struct rlock_info info = RLOCK_INFO_INIT;

    TEST_CHECK(rlock_inspect(user->lock, &info) == 0);
    return NULL;
}

FIXTURE_TEST(a_child_forked_during_an_inspect_has_none_of_its_connections, f)
{
    struct user *user;
    struct proxy_rule rule = {
        .act = PROXY_DELAY_REPLY, .command = "CLIENT", .contains = "LIST", .delay_us = 300000};
    bool sockets[256];
    pthread_t thread;
    int number;
    pid_t pid;

    fixture_start_proxy(f);
    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    number = proxy_add(f->proxy, &rule);
    TEST_CHECK(pthread_create(&thread, NULL, inspect_once, user) == 0);
    assert_true(proxy_wait_fired(f->proxy, number, 1, 5000));
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
    test_server_do(f->server, "DEL " LOCK_A);
}

struct forker {
    struct fixture *f;
    _Atomic int status; /* of the child; -1 there is none yet */
};

/* The child of a dispatcher is no dispatcher: it may wait for locks, and close its client. */
static void fork_in_a_callback(const struct rlock_loss *loss, void *payload)
{
    struct forker *forker = payload;
    struct user *user;
    pid_t pid = test_must(fork(), "fork");

    (void)loss;
    if (pid == 0) {
        user = user_open(forker->f, unhurried());
        TEST_CHECK(user_visit(user, PATIENT_MS, NULL) == 0);
        user_close(user);
        _exit(0);
    }
    atomic_store(&forker->status, test_reap(pid));
}

TEST(a_child_forked_in_a_callback_may_wait_and_close)
{
    struct fixture f;
    struct forker forker = {.f = &f, .status = -1};
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    if (!MAY_START_THREADS) {
        print_message("no threads after fork under a sanitizer\n");
        skip();
    }
    fixture_open(&f, NULL);
    assert_code(
        rlock_client_open(RLOCK_CLIENT_OPTS(.url = test_server_unix_url(f.server),
                                            .on_lost = fork_in_a_callback, .payload = &forker),
                          &client),
        0);
    assert_code(rlock_reentrant_new(client, "b", NULL, &lock), 0);
    assert_code(rlock_lock_for(lock, 0, RLOCK_TAKE(.lease_ms = test_ms(100)), NULL), 0);
    assert_true(TEST_EVENTUALLY(atomic_load(&forker.status) != -1, 10000));
    assert_int_equal(atomic_load(&forker.status), 0);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    lock = rlock_free(lock);
    assert_null(rlock_client_close(client));
    fixture_close(&f);
}

struct opener {
    struct fixture *f;
    _Atomic bool stop;
};

static void *open_and_close(void *arg)
{
    struct opener *opener = arg;
    struct rlock_info info = RLOCK_INFO_INIT;

    while (!atomic_load(&opener->stop)) {
        struct user *user;

        user = user_open(opener->f, unhurried());
        TEST_CHECK(rlock_try_lock(user->lock) == 0);
        TEST_CHECK(rlock_inspect(user->lock, &info) == 0);
        TEST_CHECK(rlock_unlock(user->lock) == 0);
        user_close(user);
    }
    return NULL;
}

/* However far opening and closing had come: the server sees the end though the children live. */
FIXTURE_TEST(children_forked_meanwhile_keep_no_connection_of_a_closed_client, f)
{
    enum { CHILDREN = 300 };
    struct opener opener = {.f = f};
    pid_t pids[CHILDREN];
    pthread_t thread;
    bool gone;

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
    gone = TEST_EVENTUALLY(test_server_clients(f->server) == 0, 2000);
    for (size_t i = 0; i < CHILDREN; i++) {
        test_must(kill(pids[i], SIGKILL), "kill");
        (void)test_reap(pids[i]);
    }
    assert_true(gone);
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

FIXTURE_TEST(a_program_that_is_executed_inherits_nothing, f)
{
    struct user *user;
    struct waiter waiter;
    struct rlock_cancel *cancel;
    struct rlock_handle *other;
    size_t before;
    int code;

    before = descriptors_after_exec();
    user = user_open(f, unhurried());
    other = user_lock(user, "b");
    assert_code(rlock_cancel_new(&cancel), 0);
    assert_code(rlock_try_lock(other), 0);
    fixture_take_by_hand(f, 0);
    waiter_start(&waiter, user, 60000, RLOCK_TAKE(.cancel = cancel));
    assert_true(fixture_wait_waiters(f, 1));
    assert_int_equal(descriptors_after_exec(), before);
    for (int i = 0; i < 20; i++) { /* while connections are made anew */
        test_server_do(f->server, "CLIENT KILL TYPE normal SKIPME yes");
        test_server_do(f->server, "CLIENT KILL TYPE pubsub");
        assert_int_equal(descriptors_after_exec(), before);
    }
    rlock_cancel_fire(cancel);
    code = waiter_join(&waiter);
    assert_true(code == RLOCK_ECANCELED || code == RLOCK_EINDOUBT); /* its link may be down */
    test_server_do(f->server, "DEL " LOCK_A);
    assert_code(rlock_unlock(other), 0);
    cancel = rlock_cancel_free(cancel);
}

/* ---- close ---- */

#define CLOSE_WAITERS 5

/* Waiters wait, three holds are held, then the client is closed. */
static void close_amid(struct fixture *f, struct user *user, int64_t most_ms)
{
    struct waiter waiters[CLOSE_WAITERS];
    struct rlock_handle *locks[3];
    static const char *const names[] = {"b", "c", "d"};
    int64_t began_us;

    fixture_take_by_hand(f, 0);
    for (size_t i = 0; i < 3; i++) {
        locks[i] = user_lock(user, names[i]);
        assert_code(rlock_try_lock(locks[i]), 0);
    }
    for (size_t i = 0; i < CLOSE_WAITERS; i++) {
        waiter_start(&waiters[i], user, RLOCK_FOREVER, NULL);
    }
    assert_true(fixture_wait_waiters(f, 1));
    if (f->proxy != NULL) {
        proxy_black_hole(f->proxy, PROXY_ANY, true);
    }
    began_us = test_now_us();
    user->client = rlock_client_close(user->client);
    assert_within(began_us, most_ms);
    for (size_t i = 0; i < CLOSE_WAITERS; i++) {
        assert_int_equal(waiter_join(&waiters[i]), RLOCK_ECLOSED);
        assert_true(test_in_time(began_us, waiters[i].answered_us - began_us,
                                 (int64_t)CALL_LATE_MS * 1000 * test_slack()));
    }
    for (size_t i = 0; i < 3; i++) {
        assert_code(rlock_unlock(locks[i]), RLOCK_ECLOSED);
        assert_code(rlock_try_lock(locks[i]), RLOCK_ECLOSED);
        assert_false(rlock_is_valid(locks[i]));
    }
    assert_int_equal(user_losses(user), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(user->diary.told[i].loss.reason, RLOCK_LOST_CLOSED);
    }
    test_server_do(f->server, "DEL " LOCK_A);
}

FIXTURE_TEST(close_releases_holds_and_wakes_waiters, f)
{
    struct user *user = user_open(f, unhurried());

    close_amid(f, user, 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
    assert_int_equal(user_logged(user, "not released"), 0);
}

FIXTURE_WITH_TEST(close_does_not_wait_longer_for_a_server_that_vanished, f, .proxy = PROXY_AS_LEG)
{
    struct user *user =
        user_open(f, *RLOCK_CLIENT_OPTS(.op_timeout_ms = 300, .connect_timeout_ms = 300));

    close_amid(f, user, 300);
    /* what it holds, and what the waiter that asks for all of them may have asked just then */
    assert_int_equal(user_logged(user, "not released, the last is free in "), 1);
    assert_int_equal(user_logged(user, "3 locks: ") + user_logged(user, "4 locks: "), 1);
    test_server_do(f->server, "DEL b c d rlock_wait:{a}");
    user_close(user);
    f->proxy = proxy_stop(f->proxy);
}

FIXTURE_TEST(clients_may_be_closed_under_load, f)
{
    for (int i = 0; i < 15; i++) {
        struct user *user;
        struct crew crew = {.wait_ms = PATIENT_MS, .allowed = ALLOW(RLOCK_ECLOSED)};

        user = user_open(f, unhurried());
        crew_start(&crew, user, 4);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > 5, 20000));
        user->client = rlock_client_close(user->client);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.failures) > 0, 20000));
        crew_stop(&crew);
        assert_false(fixture_is_held(f));
        user_close(user);
    }
}
