/* SPDX-License-Identifier: Apache-2.0 */
/* Every code that the header lists for a function is provoked, and no other one comes. */
#include <pthread.h>
#include <rlock/admin.h>

#include "fault/codes.h"
#include "fault/verbs.h"
#include "support/cluster.h"
#include "support/completion.h"
#include "support/refusal.h"

/* ---- Scenes: the server ---- */

/* A text of a hold that has ended. */
#define GONE "rlock1:reentrant:d:e40c292c:00000000-0000-8000-9000-000000000001:1"

static void play_on(struct fixture *f, const char *name, struct rlock_client_opts opts)
{
    struct stage stage;

    begin_scene(f, name);
    open_stage(&stage, f, opts);
    call_all(&stage);
    close_stage(&stage);
}

static void play_free(struct fixture *f)
{
    struct rlock_leader *leader;
    struct stage stage;

    play_on(f, "a free lock", opts_of(proxy_url(f->proxy)));
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    leader = make_leader(stage.lock);
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(leader), 10000));
    assert_code(record(LEADER_RESIGN, rlock_leader_resign(leader)), 0);
    leader = rlock_leader_free(leader);
    close_stage(&stage);
}

static void play_held(struct fixture *f)
{
    struct rlock_cancel *cancel = NULL;
    struct stage stage, rival;
    char text[RLOCK_TEXT_SIZE];

    begin_scene(f, "a lock that somebody else holds");
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    open_stage(&rival, f, opts_of(proxy_url(f->proxy)));
    assert_code(lock_for(rival.lock, 5000), 0);
    assert_code(lock_for(stage.lock, 0), RLOCK_EBUSY);
    assert_code(lock_for(stage.lock, 20), RLOCK_ETIMEDOUT);
    assert_code(unlock(stage.lock), RLOCK_ENOTOWNER);
    assert_code(record(CANCEL_NEW, rlock_cancel_new(&cancel)), 0);
    rlock_cancel_fire(cancel);
    (void)record(LOCK_FOR, rlock_lock_for(stage.lock, 5000, RLOCK_TAKE(.cancel = cancel), NULL));
    (void)record(ADOPT, rlock_adopt(stage.lock, GONE, RLOCK_TAKE(.cancel = cancel), NULL));
    assert_code(record(HOLD_TEXT, rlock_hold_text(rival.lock, 0, text)), 0);
    assert_code(adopt(stage.lock, text), RLOCK_EBUSY);
    (void)record(ASYNC,
                 rlock_adopt_async(stage.lock, text, RLOCK_TAKE(.owner = 1), NULL, NULL, NULL));
    call_async(stage.lock); /* its force ends the hold */
    assert_code(unlock(rival.lock), RLOCK_ELOST);
    (void)rlock_cancel_free(cancel);
    close_stage(&rival);
    close_stage(&stage);
}

static void play_refused(struct fixture *f)
{
    struct stage stage;

    play_on(f, "a server that nobody runs", opts_of("redis://127.0.0.1:1"));
    begin_scene(f, "a server that ends beneath a hold");
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    assert_code(lock_for(stage.lock, 5000), 0);
    proxy_refuse(f->proxy, true);
    proxy_cut_all(f->proxy, PROXY_ANY);
    (void)extend(stage.lock);
    (void)unlock(stage.lock);
    call_all(&stage);
    proxy_refuse(f->proxy, false);
    close_stage(&stage);
}

static void play_strangers(struct fixture *f)
{
    struct rlock_client_opts opts = opts_of(proxy_url(f->proxy));
    char url[64];

    test_server_do(f->server, "CONFIG SET requirepass right");
    opts.password = "wrong";
    play_on(f, "a wrong password", opts);
    test_server_do(f->server, "CONFIG SET requirepass \"\"");
    test_text(url, sizeof(url), "rediss://127.0.0.1:%d", test_server_port(f->server));
    play_on(f, "TLS to a server that has none", opts_of(url));
}

/* The hold was there before; the name says what became of the server. */
static void play_once_beneath(struct fixture *f, const char *name, void (*begin)(struct fixture *f),
                              void (*end)(struct fixture *f), unsigned what)
{
    char text[RLOCK_TEXT_SIZE];
    struct stage stage;

    begin_scene(f, name);
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    assert_code(lock_for(stage.lock, 5000), 0);
    begin(f);
    if (what == 1) {
        (void)extend(stage.lock);
    } else if (what == 2) {
        (void)detach(stage.lock, text);
    }
    (void)unlock(stage.lock);
    call_all(&stage);
    end(f);
    assert_true(TEST_EVENTUALLY(!fixture_is_held(f), 10000));
    close_stage(&stage);
}

static void play_beneath(struct fixture *f, const char *name, void (*begin)(struct fixture *f),
                         void (*end)(struct fixture *f))
{
    for (unsigned what = 0; what < 3; what++) {
        play_once_beneath(f, name, begin, end, what);
    }
}

static void forbid(struct fixture *f)
{
    test_server_do(f->server, "ACL SETUSER default -eval -evalsha -scan");
}

static void permit(struct fixture *f)
{
    test_server_do(f->server, "ACL SETUSER default +@all");
}

static void spoil(struct fixture *f)
{
    test_server_do(f->server, "MSET a 1 permits text");
}

static void mend(struct fixture *f)
{
    test_server_do(f->server, "DEL a permits");
}

static void refuse_all(struct fixture *f)
{
    static const struct refusal rows[] = {
        {.command = "EVALSHA", .answer = "-ERR nothing here works\r\n"},
        {.command = "EVAL", .answer = "-ERR nothing here works\r\n"},
        {.command = "SCAN", .answer = "-ERR nothing here works\r\n"},
        {0}};

    refuse(f->proxy, rows);
}

static void delay_all(struct fixture *f)
{
    static const struct refusal rows[] = {
        {.command = "EVALSHA", .answer = "-LOADING Redis is loading the dataset in memory\r\n"},
        {0}};

    refuse(f->proxy, rows);
}

static void refuse_none(struct fixture *f)
{
    proxy_remove_all(f->proxy);
}

static void freeze(struct fixture *f)
{
    test_server_freeze(f->server);
}

static void thaw(struct fixture *f)
{
    test_server_thaw(f->server);
}

static void play_answers(struct fixture *f)
{
    play_beneath(f, "no permission", forbid, permit);
    play_beneath(f, "a key that is no lock", spoil, mend);
    play_beneath(f, "a server that refuses", refuse_all, refuse_none);
    play_beneath(f, "a server that loads its data", delay_all, refuse_none);
    play_beneath(f, "a server that is silent", freeze, thaw);
}

/* An earlier call of the owner gets no answer, while the detach waits for its turn. */
static void play_busy_owner(struct fixture *f)
{
    struct completion nested = COMPLETION, given = COMPLETION;
    const struct rlock_take *take = RLOCK_TAKE(.owner = 77);
    struct stage stage;

    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    assert_code(record(LOCK_FOR, rlock_lock_for(stage.lock, 5000, take, NULL)), 0);
    freeze(f);
    assert_code(rlock_lock_async(stage.lock, 5000, take, completion_tell, &nested, NULL), 0);
    assert_code(rlock_detach_async(stage.lock, 77, 60000, completion_tell, &given, NULL), 0);
    assert_code(record(DETACH, completion_await(&given)), RLOCK_ETIMEDOUT);
    thaw(f);
    (void)record(LOCK_FOR, completion_await(&nested));
    close_stage(&stage);
}

/* It has the request, and does not answer. */
static void play_silent(struct fixture *f)
{
    struct stage stage;

    begin_scene(f, "a server that falls silent");
    for (int round = 0; round < 2; round++) {
        open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
        assert_code(lock_for(stage.lock, 5000), 0);
        assert_code(unlock(stage.lock), 0);
        freeze(f);
        assert_code(round == 0 ? lock_for(stage.lock, 0) : adopt(stage.lock, NULL), RLOCK_EINDOUBT);
        thaw(f);
        close_stage(&stage);
    }
    play_busy_owner(f);
}

struct forcer {
    struct rlock_handle *lock;
    int code;
};

static void *force(void *arg)
{
    struct forcer *forcer = arg;

    forcer->code = record(FORCE, rlock_force_unlock(forcer->lock, NULL));
    return NULL;
}

/* Between the two requests of a force the lock changes hands, or no answer comes. */
static void play_force(struct fixture *f)
{
    struct proxy_rule hold = script_rule("force", PROXY_HOLD);
    struct forcer forcer;
    struct stage stage;
    pthread_t thread;
    int rule;

    begin_scene(f, "a force that somebody comes between");
    verbs_load(f);
    for (int round = 0; round < 2; round++) {
        open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
        test_server_do(f->server, "HSET a 11111111-0000-4000-8000-000000000001:1 1");
        rule = proxy_add(f->proxy, &hold);
        forcer = (struct forcer){.lock = stage.lock};
        assert_int_equal(pthread_create(&thread, NULL, force, &forcer), 0);
        assert_true(TEST_EVENTUALLY(proxy_fired(f->proxy, rule) == 1, 5000));
        test_server_do(f->server, "DEL a");
        test_server_do(f->server, "HSET a 11111111-0000-4000-8000-000000000001:2 1");
        if (round == 0) {
            proxy_hold_requests(f->proxy, false);
        } /* else no answer comes in time */
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_code(forcer.code, round == 0 ? RLOCK_EBUSY : RLOCK_EINDOUBT);
        proxy_hold_requests(f->proxy, false);
        close_stage(&stage);
        test_server_do(f->server, "DEL a");
    }
}

/* What adds units is not sent again. */
static void play_resize(struct fixture *f)
{
    const struct proxy_rule lost = {
        .act = PROXY_CUT_REPLY, .command = "EVALSHA", .contains = "permits", .times = 1};
    struct stage stage;

    begin_scene(f, "an answer about units that is lost");
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    resize(&stage); /* the server knows the script from here on */
    (void)proxy_add(f->proxy, &lost);
    assert_code(record(ADD_UNITS, rlock_admin_add_units(stage.permits, 1)), RLOCK_EINDOUBT);
    close_stage(&stage);
}

/* ---- Scenes: owners and kinds ---- */

static void play_owners(struct fixture *f)
{
    struct rlock_handle *lock, *reader, *writer;
    char text[RLOCK_TEXT_SIZE];
    struct stage stage;

    begin_scene(f, "an owner that may not");
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    assert_code(lock_for(stage.lock, 5000), 0);
    assert_code(rlock_force_unlock(stage.lock, NULL), 0);
    assert_code(lock_for(stage.lock, 0), RLOCK_ELOST);
    assert_code(extend(stage.lock), RLOCK_ELOST);
    assert_code(detach(stage.lock, text), RLOCK_ELOST);
    assert_code(record(HOLD_TEXT, rlock_hold_text(stage.lock, 0, text)), RLOCK_ELOST);
    assert_code(unlock(stage.lock), RLOCK_ELOST);
    assert_code(rlock_nonreentrant_new(stage.client, "n", NULL, &lock), 0);
    assert_code(lock_for(lock, 5000), 0);
    assert_code(lock_for(lock, 0), RLOCK_EREACQUIRE);
    assert_code(unlock(lock), 0);
    lock = rlock_free(lock);
    assert_code(rlock_read_new(stage.client, "rw", NULL, &reader), 0);
    assert_code(rlock_write_new(stage.client, "rw", NULL, &writer), 0);
    assert_code(lock_for(reader, 5000), 0);
    assert_code(lock_for(writer, 0), RLOCK_EDEADLOCK);
    assert_code(unlock(reader), 0);
    reader = rlock_free(reader);
    writer = rlock_free(writer);
    close_stage(&stage);
}

static void play_texts(struct rlock_handle *lock)
{
    char text[RLOCK_TEXT_SIZE];

    (void)record(DETACH, rlock_detach(lock, 0, 1, text));
    (void)record(HOLD_TEXT, rlock_hold_text(NULL, 0, text));
    (void)record(ADOPT, rlock_adopt(lock, "nonsense", NULL, NULL));
    (void)record(ASYNC, rlock_detach_async(lock, 0, 60000, NULL, NULL, NULL));
    (void)record(ASYNC, rlock_adopt_async(lock, GONE, NULL, NULL, NULL, NULL));
}

static void play_no_leader(struct rlock_client *client)
{
    struct rlock_handle *lock = NULL;

    (void)record(LEADER_RESIGN, rlock_leader_resign(NULL));
    (void)make_leader(NULL);
    assert_code(rlock_read_new(client, "a", NULL, &lock), 0);
    (void)make_leader(lock);
    lock = rlock_free(lock);
}

static void play_arguments(struct fixture *f)
{
    struct rlock_client_opts bad = opts_of("nonsense://");
    struct rlock_client *none = NULL;
    struct rlock_handle *nobody = NULL, *two[2];
    struct completion completion = COMPLETION;
    struct rlock_op *op = NULL;
    struct rlock_failure failure = RLOCK_FAILURE_INIT;
    char text[RLOCK_TEXT_SIZE];
    struct stage stage;

    begin_scene(f, "wrong arguments");
    (void)record(OPEN, rlock_client_open(&bad, &none));
    (void)record(OPEN, rlock_client_open(NULL, NULL));
    bad = opts_of("rediss://localhost");
    bad.ca_file = "/nowhere";
    (void)record(OPEN, rlock_client_open(&bad, &none));
    open_stage(&stage, f, opts_of(proxy_url(f->proxy)));
    (void)record(NEW, rlock_reentrant_new(NULL, "a", NULL, &nobody));
    (void)record(NEW, rlock_reentrant_new(stage.client, "", NULL, &nobody));
    (void)record(NEW, rlock_reentrant_new(stage.client, "a", RLOCK_OPTS(.linger_ms = 11), &nobody));
    (void)record(MULTI_NEW, rlock_multi_new(NULL, 1, NULL, &nobody));
    (void)record(REDLOCK_NEW, rlock_redlock_new(NULL, 1, NULL, &nobody));
    two[0] = two[1] = stage.lock;
    (void)record(REDLOCK_NEW, rlock_redlock_new(two, 2, NULL, &nobody));
    (void)record(CANCEL_NEW, rlock_cancel_new(NULL));
    (void)record(LOCK_FOR, rlock_lock_for(NULL, 0, NULL, NULL));
    (void)record(LOCK_FOR, rlock_lock_for(stage.lock, 0, RLOCK_TAKE(.lease_ms = 1), NULL));
    (void)record(UNLOCK, rlock_unlock(NULL));
    (void)record(EXTEND, rlock_extend(stage.lock, 0, 1, NULL));
    (void)record(ASYNC, rlock_extend_async(stage.lock, 0, 60000, NULL, NULL, NULL));
    play_texts(stage.lock);
    (void)record(FORCE, rlock_force_unlock(NULL, NULL));
    (void)record(INSPECT, rlock_inspect(stage.lock, NULL));
    (void)record(MEMBERS, rlock_members(stage.lock, pass_member, NULL));
    (void)record(ASYNC, rlock_lock_async(stage.lock, 0, NULL, NULL, NULL, NULL));
    (void)record(ASYNC, rlock_unlock_async(stage.lock, 0, NULL, NULL, NULL));
    (void)record(ASYNC, rlock_force_unlock_async(NULL, NULL, NULL, NULL));
    (void)record(ASYNC, rlock_inspect_async(NULL, NULL, NULL, NULL));
    (void)record(SCAN, rlock_admin_scan(stage.client, NULL, NULL, NULL));
    (void)record(DISPATCH, rlock_client_dispatch(stage.client));
    assert_code(rlock_inspect_async(stage.lock, completion_tell, &completion, &op), 0);
    assert_code(completion_await(&completion), 0);
    (void)record(OP_GRANT, rlock_op_grant(op, NULL));
    (void)record(OP_INFO, rlock_op_info(op, NULL));
    (void)record(OP_TEXT, rlock_op_text(op, text));
    (void)record(OP_FAILURE, rlock_op_failure(op, NULL));
    (void)record(OP_FAILURE, rlock_op_failure(op, &failure));
    (void)rlock_op_unref(op);
    (void)record(LAST_FAILURE, rlock_last_failure(NULL));
    (void)record(LAST_FAILURE, rlock_last_failure(&failure));
    (void)record(HELD, rlock_held(NULL, 0, NULL));
    (void)record(OWNER_END, rlock_owner_end(stage.client, 0));
    (void)record(STATS, rlock_client_stats(NULL, NULL));
    (void)record(METRICS, (int)rlock_metrics(NULL, 1, NULL, 0));
    (void)record(OWNER_END, rlock_owner_end(stage.client, 4711));
    play_no_leader(stage.client);
    close_stage(&stage);
}

/* ---- Scenes: groups ---- */

static void play_groups(struct fixture *f)
{
    struct rlock_handle *nobody = NULL, *two[2];
    struct group group;

    begin_scene(f, "groups");
    open_group(&group, f, -1, false);
    call_group(&group);
    (void)record(MULTI_NEW, rlock_multi_new(&group.redlock, 1, NULL, &nobody));
    (void)record(REDLOCK_NEW, rlock_redlock_new(&group.multi, 1, NULL, &nobody));
    two[0] = two[1] = group.members[0];
    (void)record(MULTI_NEW, rlock_multi_new(two, 2, NULL, &nobody));
    begin_scene(NULL, "groups with servers out of reach");
    fixture_reach_only(f, 1);
    call_group(&group);
    fixture_reach_only(f, 7);
    close_group(&group);
    begin_scene(NULL, "groups with closed clients");
    call_group(&group);
    (void)record(MULTI_NEW, rlock_multi_new(group.members, 2, NULL, &nobody));
    (void)record(REDLOCK_NEW, rlock_redlock_new(group.members, 2, NULL, &nobody));
    free_group(&group);
    begin_scene(f, "a RedLock of servers that started just now");
    open_group(&group, f, 3600000, false);
    call_group(&group);
    close_group(&group);
    free_group(&group);
}

static void play_replicas(void)
{
    const struct test_server_opts server_opts = {.transport = TEST_TCP, .conf = cluster_conf};
    struct test_server *server = test_server_start(&server_opts);
    struct rlock_client_opts opts;
    struct stage stage, lax;
    char url[64], text[RLOCK_TEXT_SIZE];

    begin_scene(NULL, "a cluster without a replica");
    cluster_form(&server, 1, 1);
    cluster_url(&server, 1, url, sizeof(url));
    opts = opts_of(url);
    opts.acks = RLOCK_ACKS_OFF;
    open_stage(&lax, NULL, opts);
    opts.acks = 1;
    open_stage(&stage, NULL, opts);
    call_all(&stage);
    assert_code(lock_for(lax.lock, 5000), 0);
    assert_code(detach(lax.lock, text), 0);
    assert_code(adopt(stage.lock, text), RLOCK_ENOTREPLICATED);
    assert_code(adopt(lax.lock, text), 0); /* the text got it back */
    close_stage(&lax);
    close_stage(&stage);
    server = test_server_stop(server);
}

static void play_certificates(void)
{
    const struct test_server_opts server_opts = {.transport = TEST_TLS};
    struct test_server *server = test_server_start(&server_opts);
    struct stage stage;

    begin_scene(NULL, "a certificate that nobody signed");
    open_stage(&stage, NULL, opts_of(test_server_url(server)));
    call_all(&stage);
    close_stage(&stage);
    server = test_server_stop(server);
}

FIXTURE_WITH_TEST(every_function_returns_each_code_that_it_lists_and_no_other, f,
                  .servers = SERVERS, .proxy = PROXY_ON_UNIX, .server = {.transport = TEST_TCP})
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it starts no thread in a child of fork */
#endif
    open_codes();
    play_free(f);
    play_held(f);
    play_refused(f);
    play_strangers(f);
    play_answers(f);
    play_silent(f);
    play_certificates();
    play_force(f);
    play_resize(f);
    play_owners(f);
    play_arguments(f);
    play_groups(f);
    play_replicas();
    play_callbacks(f);
    play_closed(f);
    play_loop(f);
    play_fork(f);
    play_memory(f);
    play_files(f);
    check_seen();
}
