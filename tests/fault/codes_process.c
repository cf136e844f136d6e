/* SPDX-License-Identifier: Apache-2.0 */
/* Scenes in which the process is what matters: callbacks, fork, and what it lacks. */
#include <pthread.h>
#include <rlock/admin.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault/codes.h"
#include "fault/scarce.h"
#include "support/asserts.h"
#include "support/completion.h"

static void call_in_callback(struct rlock_op *op, void *payload)
{
    struct stage *stage = payload;
    struct rlock_info info = RLOCK_INFO_INIT;

    (void)op;
    (void)lock_for(stage->lock, 20);
    (void)record(INSPECT, rlock_inspect(stage->lock, &info));
    (void)record(FORCE, rlock_force_unlock(stage->lock, NULL));
    resize(stage);
    (void)extend(stage->lock);
    (void)adopt(stage->lock, NULL);
    (void)record(SCAN, rlock_admin_scan(stage->client, NULL, pass_key, NULL));
    (void)record(DISPATCH, rlock_client_dispatch(stage->client));
    stage->f = NULL; /* done */
}

void play_callbacks(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    struct stage stage;

    begin_scene(f, "a callback");
    for (int loop = 0; loop < 2; loop++) {
        opts.flags = loop != 0 ? RLOCK_CLIENT_USER_LOOP : 0;
        open_stage(&stage, f, opts);
        assert_code(record(ASYNC, rlock_inspect_async(stage.lock, call_in_callback, &stage, NULL)),
                    0);
        while (loop != 0 && stage.f != NULL) {
            assert_code(record(DISPATCH, rlock_client_dispatch(stage.client)), 0);
        }
        close_stage(&stage); /* waits for the callback */
    }
}

static void call_while_closing(const struct rlock_loss *loss, void *payload)
{
    struct stage *stage = payload;
    struct rlock_handle *nobody = NULL;

    (void)loss;
    (void)record(NEW, rlock_reentrant_new(stage->client, "b", NULL, &nobody));
    (void)record(OWNER_END, rlock_owner_end(stage->client, 1));
    (void)record(SCAN, rlock_admin_scan(stage->client, NULL, pass_key, NULL));
}

void play_closed(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    struct rlock_leader *leader;
    struct stage stage;

    begin_scene(f, "a client that is closed");
    opts.on_lost = call_while_closing;
    opts.payload = &stage;
    open_stage(&stage, f, opts);
    assert_code(lock_for(stage.lock, 5000), 0);
    leader = make_leader(stage.lock);
    (void)rlock_client_close(stage.client);
    stage.client = NULL;
    call_all(&stage);
    (void)record(LEADER_RESIGN, rlock_leader_resign(leader));
    leader = rlock_leader_free(leader);
    close_stage(&stage);
}

struct rival_loop {
    struct rlock_client *client;
    atomic_bool stop;
};

static void *dispatch_on(void *arg)
{
    struct rival_loop *loop = arg;

    while (!atomic_load(&loop->stop)) {
        (void)record(DISPATCH, rlock_client_dispatch(loop->client));
    }
    return NULL;
}

void play_loop(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    struct rival_loop loops[2];
    struct rlock_handle *multi = NULL;
    struct stage stage;
    pthread_t threads[2];

    begin_scene(f, "a client that an event loop runs");
    opts.flags = RLOCK_CLIENT_USER_LOOP;
    open_stage(&stage, f, opts);
    for (size_t i = 0; i < 2; i++) {
        loops[i].client = stage.client;
        atomic_init(&loops[i].stop, false);
        assert_int_equal(pthread_create(&threads[i], NULL, dispatch_on, &loops[i]), 0);
    }
    call_all(&stage);
    (void)record(MULTI_NEW, rlock_multi_new(&stage.lock, 1, NULL, &multi));
    (void)unlock(multi);
    multi = rlock_free(multi);
    assert_true(TEST_EVENTUALLY(was_seen(DISPATCH, RLOCK_EBUSY), 20000));
    for (size_t i = 0; i < 2; i++) {
        atomic_store(&loops[i].stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    close_stage(&stage);
}

void play_fork(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    struct rlock_handle *nobody = NULL;
    struct stage stage, looped;
    struct rlock_leader *leader;
    struct group group;
    pid_t child;
    int status;

    begin_scene(f, "a child of fork");
    open_stage(&stage, f, opts);
    leader = make_leader(stage.lock);
    opts.flags = RLOCK_CLIENT_USER_LOOP;
    open_stage(&looped, f, opts);
    open_group(&group, f, -1, false);
    child = fork();
    if (child == 0) {
        call_all(&stage);
        call_group(&group);
        (void)record(DISPATCH, rlock_client_dispatch(looped.client));
        (void)record(NEW, rlock_reentrant_new(stage.client, "b", NULL, &nobody));
        (void)record(OWNER_END, rlock_owner_end(stage.client, 1));
        (void)record(MULTI_NEW, rlock_multi_new(group.members, 2, NULL, &nobody));
        (void)record(REDLOCK_NEW, rlock_redlock_new(group.members, 2, NULL, &nobody));
        (void)record(LEADER_RESIGN, rlock_leader_resign(leader));
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    leader = rlock_leader_free(leader);
    close_group(&group);
    free_group(&group);
    close_stage(&looped);
    close_stage(&stage);
}

/* ---- What lacks ---- */

/* Calls it again and again, each time with another allocation that fails, until none is left. */
static void starve(void (*call)(void *), void *payload)
{
    long n = 1;

    do {
        scarce_from_now(n++);
        call(payload);
    } while (scarce_end());
}

static void make_client(void *unused)
{
    struct rlock_client_opts opts = opts_of("redis://127.0.0.1:1");
    struct rlock_client *client = NULL;

    (void)unused;
    (void)record(OPEN, rlock_client_open(&opts, &client));
    (void)rlock_client_close(client);
}

static void make_locks(void *payload)
{
    struct group *group = payload;
    struct rlock_handle *lock = NULL;

    (void)record(NEW, rlock_reentrant_new(group->clients[0], "b", NULL, &lock));
    lock = rlock_free(lock);
    (void)record(MULTI_NEW, rlock_multi_new(group->members, 2, NULL, &lock));
    lock = rlock_free(lock);
    (void)record(REDLOCK_NEW, rlock_redlock_new(group->members, SERVERS, NULL, &lock));
    lock = rlock_free(lock);
}

static void make_cancel(void *unused)
{
    struct rlock_cancel *cancel = NULL;

    (void)unused;
    (void)record(CANCEL_NEW, rlock_cancel_new(&cancel));
    (void)rlock_cancel_free(cancel);
}

static void begin_call(void *payload)
{
    const struct stage *stage = payload;
    struct completion completion = COMPLETION;

    if (record(ASYNC, rlock_inspect_async(stage->lock, completion_tell, &completion, NULL)) == 0) {
        (void)record(INSPECT, completion_await(&completion));
    }
}

static void make_candidate(void *payload)
{
    const struct stage *stage = payload;

    (void)rlock_leader_free(make_leader(stage->lock));
}

static void call_lock(void *payload)
{
    call_all(payload);
}

static void extend_group(void *payload)
{
    const struct group *group = payload;

    (void)extend(group->multi);
}

void play_memory(struct fixture *f)
{
    struct group group;
    struct stage stage;

    begin_scene(f, "no memory");
    open_group(&group, f, -1, true);
    open_stage(&stage, f, opts_of(test_server_url(f->server)));
    assert_code(lock_for(stage.lock, 5000), 0);
    assert_code(unlock(stage.lock), 0);
    starve(make_client, NULL);
    starve(make_locks, &group);
    starve(make_cancel, NULL);
    starve(begin_call, &stage);
    starve(make_candidate, &stage);
    starve(call_lock, &stage);
    scarce_spare_others(true); /* the call allocates little, and other threads at any time */
    starve(extend_group, &group);
    scarce_spare_others(false);
    close_stage(&stage);
    close_group(&group);
    free_group(&group);
}

/* No more files than are open now. */
static void limit_files(struct rlimit *ret_before)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, ret_before), 0);
    limit = *ret_before;
    limit.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

void play_files(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    struct rlock_cancel *cancel = NULL, *inherited = NULL;
    struct rlock_client *none = NULL;
    struct rlimit before;
    struct group group;
    pid_t child;
    int status;

    begin_scene(f, "no file descriptor");
    open_group(&group, f, -1, false);
    assert_code(rlock_cancel_new(&inherited), 0);
    limit_files(&before);
    (void)record(OPEN, rlock_client_open(&opts, &none));
    (void)record(CANCEL_NEW, rlock_cancel_new(&cancel));
    call_group(&group);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    child = fork(); /* a token that was inherited needs a file of its own */
    if (child == 0) {
        const char *text = "rlock1:reentrant:d:e40c292c:00000000-0000-8000-9000-000000000001:1";
        struct stage stage;

        open_stage(&stage, f, opts);
        limit_files(&before);
        (void)record(ADOPT, rlock_adopt(stage.lock, text, RLOCK_TAKE(.cancel = inherited), NULL));
        (void)record(ASYNC,
                     rlock_lock_async(stage.lock, 0, RLOCK_TAKE(.owner = 1, .cancel = inherited),
                                      NULL, NULL, NULL));
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    (void)rlock_cancel_free(inherited);
    close_group(&group);
    free_group(&group);
}
