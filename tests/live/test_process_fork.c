/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of a client in a child, and of the parent's client after it. */
#include "support/clients.h"

#include <fcntl.h>
#include <pthread.h>
#include <rlock/admin.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks; the child's value is what fn returns. */
static int in_a_child(int (*fn)(struct rlock_handle *lock), struct rlock_handle *lock)
{
    const pid_t pid = test_must(fork(), "fork");

    if (pid == 0) {
        _exit(fn(lock));
    }
    return test_reap(pid);
}

/* Which of the calls did not say that the client is the parent's; 0 none. */
static int call_everything(struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct rlock_cancel *cancel = NULL;
    int codes[8] = {
        rlock_lock(lock),
        rlock_try_lock(lock),
        rlock_lock_for(lock, 100, RLOCK_TAKE(.owner = 3), &grant),
        rlock_unlock(lock),
        rlock_unlock_as(lock, 3),
        rlock_force_unlock(lock, NULL),
        rlock_inspect(lock, &info),
        rlock_guard_lock(lock).code,
    };

    for (int i = 0; i < 8; i++) {
        if (codes[i] != RLOCK_EFORKED) {
            return i + 1;
        }
    }
    if (strstr(rlock_detail(), "parent") == NULL || rlock_cancel_new(&cancel) != 0) {
        return 20;
    }
    (void)rlock_cancel_free(cancel);
    return rlock_is_valid(lock) || rlock_is_valid_as(lock, 3) || rlock_valid_ms(lock) != 0 ||
                   rlock_hold_count(lock) != 0
               ? 21
               : 0;
}

LOCK_TEST(in_a_child_every_call_says_forked, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    assert_code(TAKE(lock_new(f, client_open(f)), 0, .owner = 3), RLOCK_EBUSY);
    assert_int_equal(in_a_child(call_everything, lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

static int ignore_key(const struct rlock_found *found, void *payload)
{
    (void)found;
    (void)payload;
    return 0;
}

static struct rlock_client *parents;

static int close_and_free(struct rlock_handle *lock)
{
    struct rlock_handle *another = NULL;

    if (rlock_reentrant_new(parents, "x", NULL, &another) != RLOCK_EFORKED ||
        rlock_admin_scan(parents, NULL, ignore_key, NULL) != RLOCK_EFORKED) {
        return 1;
    }
    (void)rlock_client_close(parents);
    return rlock_free(lock) == NULL ? 0 : 2;
}

LOCK_TEST(a_child_may_close_and_free_what_it_inherited, f)
{
    struct rlock_handle *lock;

    parents = client_open(f);
    lock = lock_new(f, parents);
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(in_a_child(close_and_free, lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_true(is_locked(lock));
    assert_code(rlock_unlock(lock), 0);
}

LOCK_TEST(a_child_sends_nothing, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

    assert_code(rlock_lock(lock), 0);
    fixture_count_calls(f);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(in_a_child(call_everything, lock), 0);
    }
    assert_int_equal(
        fixture_calls(f, "evalsha") + fixture_calls(f, "eval") + fixture_calls(f, "hello"), 0);
    assert_int_equal(test_server_clients(f->server), 1);
    assert_code(rlock_unlock(lock), 0);
}

static size_t fds_before;

static int count_descriptors(struct rlock_handle *lock)
{
    (void)lock;
    return (int)test_fds_open() - (int)fds_before;
}

LOCK_TEST(a_child_keeps_no_descriptor_of_a_client, f)
{
    struct rlock_client *client;
    struct rlock_handle *lock, *rival;
    struct actor *waiter = actor_open(f);

    fds_before = test_fds_open();
    client = client_open(f);
    lock = lock_new(f, client);
    rival = rival_new(f, client);
    assert_code(rlock_lock(lock), 0);
    actor_begin(waiter, act_pass_through, rival, RLOCK_FOREVER, NULL);
    await_waiting(client, 1); /* it has its subscriber connection, too */
    assert_int_equal(in_a_child(count_descriptors, lock), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_end(waiter), 0);
}

static struct fixture *childs_fixture;

static int lock_with_a_new_client(struct rlock_handle *lock)
{
    struct rlock_client_opts opts = client_opts(childs_fixture, NULL);
    struct rlock_client *client = NULL;
    struct rlock_handle *mine = NULL;
    int code = rlock_client_open(&opts, &client);

    (void)lock;
    code = code == 0 ? rlock_reentrant_new(client, "childs", NULL, &mine) : code;
    code = code == 0 ? rlock_lock(mine) : code;
    code = code == 0 && !rlock_is_valid(mine) ? 1 : code;
    code = code == 0 ? rlock_unlock(mine) : code;
    (void)rlock_free(mine);
    (void)rlock_client_close(client);
    return code;
}

LOCK_TEST(a_child_may_open_a_client_of_its_own, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));

#ifdef __SANITIZE_THREAD__
    skip(); /* it lets no thread begin after a fork of a process with threads */
#endif
    childs_fixture = f;
    assert_code(rlock_lock(lock), 0);
    assert_int_equal(in_a_child(lock_with_a_new_client, lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

/* A holder that forked, and is killed: its child must not keep the lock alive. */
static int hold_and_fork(struct test_peer *peer, void *payload)
{
    struct rlock_client_opts opts =
        client_opts(payload, RLOCK_CLIENT_OPTS(.renewed_lease_ms = test_ms(300)));
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;
    const pid_t parent = getpid();
    pid_t child;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, NAME, NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0);
    child = test_must(fork(), "fork");
    if (child == 0) {
        while (getppid() == parent) {
            (void)usleep(1000);
        }
        (void)usleep((useconds_t)test_ms(600) * 1000);
        _exit(0);
    }
    test_peer_send(peer, (uint64_t)child);
    for (;;) {
        (void)pause();
    }
}

LOCK_TEST(a_child_renews_nothing, f)
{
    struct test_child *holder = test_child_spawn(hold_and_fork, f);
    struct rlock_handle *lock = lock_new(f, client_open(f));
    pid_t child = (pid_t)test_child_recv(holder, 5000);
    int64_t killed_us;

    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    killed_us = test_now_us();
    test_child_kill(holder, SIGKILL);
    assert_int_equal(test_child_wait(holder, 5000), 128 + SIGKILL);
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_took(test_elapsed_us(killed_us), 0, test_ms(300) + LATE_MS);
    assert_int_equal(kill(child, SIGKILL), 0); /* it was there all the time */
    assert_code(rlock_unlock(lock), 0);
}

/* ---- Forking while threads lock ---- */

struct user {
    struct rlock_handle *lock;
    struct witness *witness;
    uint64_t id;
    atomic_bool *stop;
    uint64_t n;
    pthread_t thread;
};

static void *use(void *arg)
{
    struct user *user = arg;

    while (!atomic_load(user->stop)) {
        TEST_CHECK(rlock_lock(user->lock) == 0);
        witness_enter(user->witness, 0, user->id);
        witness_leave(user->witness, 0, user->id);
        TEST_CHECK(rlock_unlock(user->lock) == 0);
        user->n++;
    }
    return NULL;
}

static int try_in_a_child(struct rlock_handle *lock)
{
    return rlock_try_lock(lock) == RLOCK_EFORKED && !rlock_is_valid(lock) ? 0 : 1;
}

LOCK_TEST(forks_under_load_leave_the_parent_alone, f)
{
    enum { THREADS = 4, FORKS = 40 };
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct witness *witness = witness_new(1);
    struct user users[THREADS];
    atomic_bool stop = false;

    for (uint64_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.lock = lock, .witness = witness, .id = i + 1, .stop = &stop};
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < FORKS; i++) {
        assert_int_equal(in_a_child(try_in_a_child, lock), 0);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(users[i].thread, NULL);
        assert_true(users[i].n > 0);
    }
    assert_true(witness_is_clean(witness, stderr));
    (void)witness_free(witness);
}

/* ---- Programs ---- */

/* posix_spawn() runs no handlers of fork: what is not close-on-exec is inherited. */
LOCK_TEST(a_program_inherits_no_descriptor_of_a_client, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client), *rival = rival_new(f, client);
    struct actor *waiter = actor_open(f);
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"},
                          (char[]){"ls -l /proc/$$/fd | grep -E 'socket|event'"}, NULL};
    int status = 0;
    pid_t pid;

    assert_code(rlock_lock(lock), 0);
    actor_begin(waiter, act_pass_through, rival, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_int_equal(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
    status = test_reap(pid);
    assert_int_equal(WEXITSTATUS(status), 1); /* grep found none */
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_end(waiter), 0);
}

static int exit_while_holding(struct test_peer *peer, void *payload)
{
    struct rlock_client_opts opts = client_opts(payload, NULL);
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_reentrant_new(client, NAME, NULL, &lock) == 0);
    TEST_CHECK(TAKE(lock, 0, .lease_ms = test_ms(200)) == 0);
    test_peer_send(peer, 1);
    exit(7);
}

LOCK_TEST(exit_with_an_open_client_ends_the_process, f)
{
    struct test_child *child = test_child_spawn(exit_while_holding, f);

    assert_int_equal(test_child_recv(child, 5000), 1);
    assert_int_equal(test_child_wait(child, 5000), 7);
}
