/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/codes.h"

#include <rlock/admin.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "support/completion.h"
#include "support/run.h"

enum { CODES = 24 };

/* What stands in the header behind the comment that lists the codes. */
static const char *const lists[FUNCTIONS] = {
    [OPEN] = "int rlock_client_open(",
    [NEW] = "int rlock_reentrant_new(",
    [MULTI_NEW] = "int rlock_multi_new(",
    [REDLOCK_NEW] = "int rlock_multi_new(", /* the header says so */
    [CANCEL_NEW] = "int rlock_cancel_new(",
    [LOCK_FOR] = "int rlock_lock_for(",
    [UNLOCK] = "int rlock_unlock(",
    [EXTEND] = "int rlock_extend(",
    [DETACH] = "int rlock_detach(",
    [HOLD_TEXT] = "int rlock_hold_text(",
    [ADOPT] = "int rlock_adopt(",
    [FORCE] = "int rlock_force_unlock(",
    [INSPECT] = "int rlock_inspect(",
    [MEMBERS] = "int rlock_members(",
    [ASYNC] = "/* Takes the lock: the async form of",
    [OP_GRANT] = "int rlock_op_grant(",
    [OP_INFO] = "int rlock_op_info(",
    [OP_TEXT] = "int rlock_op_text(",
    [DISPATCH] = "int rlock_client_dispatch(",
    [SCAN] = "int rlock_admin_scan(",
    [SET_UNITS] = "int rlock_admin_set_units(",
    [ADD_UNITS] = "int rlock_admin_add_units(",
    [HELD] = "int rlock_held(",
    [LAST_FAILURE] = "int rlock_last_failure(",
    [OP_FAILURE] = "int rlock_op_failure(",
    [OWNER_END] = "int rlock_owner_end(",
    [STATS] = "int rlock_client_stats(",
    [METRICS] = "int64_t rlock_metrics(",
    [LEADER_NEW] = "int rlock_leader_new(",
    [LEADER_RESIGN] = "int rlock_leader_resign(",
};

/* ---- What is listed ---- */

static char *read_header(void)
{
    static const char *const headers[] = {
        RLOCK_TEST_HEADERS "/rlock.h", RLOCK_TEST_HEADERS "/stats.h",
        RLOCK_TEST_HEADERS "/leader.h", RLOCK_TEST_HEADERS "/admin.h"};
    char *text = calloc(1, 1 << 20);
    size_t len = 0;

    TEST_CHECK(text != NULL);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        FILE *file = fopen(headers[i], "re");

        TEST_CHECK(file != NULL);
        len += fread(text + len, 1, (1 << 20) - 1 - len, file);
        TEST_CHECK(fclose(file) == 0);
    }
    return text;
}

static int code_named(const char *name, size_t len)
{
    for (int code = -1; code > -CODES; code--) {
        if (strlen(rlock_code_name(code)) == len &&
            strncmp(rlock_code_name(code), name, len) == 0) {
            return code;
        }
    }
    return 0;
}

/* The codes between two places of the header, as a mask. In a row of them the prefix lacks. */
static unsigned codes_between(const char *at, const char *end)
{
    unsigned mask = 0;

    while (at < end) {
        const size_t len = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        const char *name = strncmp(at, "RLOCK_", 6) == 0 ? at + 6 : at;
        const int code = code_named(name, len - (size_t)(name - at));

        mask |= code != 0 ? 1U << -code : 0;
        at += len != 0 ? len : 1;
    }
    return mask;
}

/* From the first "Returns" of the comment before a declaration to its end. The async calls have
 * theirs before a blank line. */
static unsigned listed(const char *header, const char *declaration)
{
    const char *end = strstr(header, declaration), *begin, *returns;

    TEST_CHECK(end != NULL);
    for (begin = end; strncmp(begin, "\n\n", 2) != 0 || begin + 2 >= end;) {
        begin--;
    }
    returns = strstr(begin, "Returns");
    TEST_CHECK(returns != NULL && returns < end);
    return codes_between(returns, end);
}

/* ---- What was seen ---- */

static _Atomic(const char *) (*seen)[CODES]; /* in which scene first; of children too */
static const char *scene;

bool was_seen(enum function function, int code)
{
    return seen[function][-code] != NULL;
}

void open_codes(void)
{
    seen = mmap(NULL, sizeof(*seen) * FUNCTIONS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    TEST_CHECK(seen != MAP_FAILED);
}

void begin_scene(const struct fixture *f, const char *name)
{
    scene = name;
    for (size_t i = 0; f != NULL && i < f->n; i++) {
        test_server_do(f->servers[i], "FLUSHALL");
    }
}

int record(enum function function, int code)
{
    TEST_CHECK(code <= 0 && code > -CODES);
    if (seen[function][-code] == NULL) {
        seen[function][-code] = scene;
    }
    return code;
}

void check_seen(void)
{
    char *header = read_header();
    unsigned wrong = 0;

    for (int function = 0; function < FUNCTIONS; function++) {
        const unsigned mask = listed(header, lists[function]);

        for (int code = 1; code < CODES; code++) {
            const bool is_listed = (mask >> code & 1U) != 0;
            const char *where = seen[function][code];

            if (where != NULL && !is_listed) {
                print_error("%s... lists no %s: %s\n", lists[function], rlock_code_name(-code),
                            where);
            } else if (where == NULL && is_listed) {
                print_error("%s...: nothing provokes %s\n", lists[function],
                            rlock_code_name(-code));
            }
            wrong += (where != NULL) != is_listed;
        }
    }
    free(header);
    assert_int_equal(wrong, 0);
    TEST_CHECK(munmap(seen, sizeof(*seen) * FUNCTIONS) == 0);
}

/* ---- Calls ---- */

struct rlock_client_opts opts_of(const char *url)
{
    return *RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 100 * test_slack(),
                              .connect_timeout_ms = 100 * test_slack());
}

struct rlock_client *open_client(const struct rlock_client_opts *opts)
{
    struct rlock_client *client = NULL;

    TEST_CHECK(record(OPEN, rlock_client_open(opts, &client)) == 0);
    return client;
}

struct rlock_handle *new_lock(struct rlock_client *client)
{
    struct rlock_handle *lock = NULL;

    TEST_CHECK(record(NEW, rlock_reentrant_new(client, "a", NULL, &lock)) == 0);
    return lock;
}

void open_stage(struct stage *stage, struct fixture *f, struct rlock_client_opts opts)
{
    *stage = (struct stage){.f = f};
    stage->client = open_client(&opts);
    stage->lock = new_lock(stage->client);
    TEST_CHECK(
        rlock_permits_new(stage->client, "permits", RLOCK_OPTS(.units = 8), &stage->permits) == 0);
}

void close_stage(struct stage *stage)
{
    if (stage->client != NULL) {
        stage->client = rlock_client_close(stage->client);
    }
    stage->lock = rlock_free(stage->lock);
    stage->permits = rlock_free(stage->permits);
}

int lock_for(struct rlock_handle *lock, int64_t wait_ms)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    return record(LOCK_FOR, rlock_lock_for(lock, wait_ms, NULL, &grant));
}

int unlock(struct rlock_handle *lock)
{
    return record(UNLOCK, rlock_unlock(lock));
}

int extend(struct rlock_handle *lock)
{
    return record(EXTEND, rlock_extend(lock, 0, 60000, NULL));
}

int detach(struct rlock_handle *lock, char text[static RLOCK_TEXT_SIZE])
{
    return record(DETACH, rlock_detach(lock, 0, 60000, text));
}

int adopt(struct rlock_handle *lock, const char *text)
{
    static const char ended[] =
        "rlock1:reentrant:d:e40c292c:00000000-0000-8000-9000-000000000001:1";

    if (text == NULL) { /* by another owner: this one may still wait for a release */
        return record(ADOPT, rlock_adopt(lock, ended, RLOCK_TAKE(.owner = 99), NULL));
    }
    return record(ADOPT, rlock_adopt(lock, text, NULL, NULL));
}

void resize(const struct stage *stage)
{
    struct rlock_handle *lock = stage->permits != NULL ? stage->permits : stage->lock;

    (void)record(SET_UNITS, rlock_admin_set_units(lock, 3));
    (void)record(ADD_UNITS, rlock_admin_add_units(lock, 2));
    (void)record(SET_UNITS, rlock_admin_set_units(lock, -1));
    (void)record(ADD_UNITS, rlock_admin_add_units(lock, INT64_MAX));
}

/* Hands the lock over to the caller itself. */
static void hand_over(struct rlock_handle *lock)
{
    char text[RLOCK_TEXT_SIZE];

    (void)record(HOLD_TEXT, rlock_hold_text(lock, 0, text));
    if (detach(lock, text) == 0) {
        (void)adopt(lock, text);
    }
}

int pass_key(const struct rlock_found *found, void *unused)
{
    (void)found;
    (void)unused;
    return 0;
}

/* Counts the code of an async call, and of what it began. */
static void follow(enum function function, int begun, struct completion *completion,
                   struct rlock_op *op)
{
    if (record(ASYNC, begun) == 0) {
        (void)record(function, completion_await(completion));
    }
    (void)rlock_op_unref(op);
}

void call_async(struct rlock_handle *lock)
{
    const uint64_t owner = UINT64_C(1) << 41;
    struct completion taken = COMPLETION, left = COMPLETION, asked = COMPLETION,
                      longer = COMPLETION, forced = COMPLETION, given = COMPLETION,
                      adopted = COMPLETION;
    char text[RLOCK_TEXT_SIZE] = "";
    struct rlock_op *op = NULL;
    int code;

    code = rlock_lock_async(lock, 0, RLOCK_TAKE(.owner = owner), completion_tell, &taken, &op);
    follow(LOCK_FOR, code, &taken, op);
    op = NULL;
    code = rlock_inspect_async(lock, completion_tell, &asked, &op);
    follow(INSPECT, code, &asked, op);
    op = NULL;
    code = rlock_extend_async(lock, owner, 60000, completion_tell, &longer, &op);
    follow(EXTEND, code, &longer, op);
    op = NULL;
    code = rlock_detach_async(lock, owner, 60000, completion_tell, &given, &op);
    if (code == 0) {
        (void)completion_await(&given);
        (void)rlock_op_text(op, text);
    }
    follow(DETACH, code, &given, op);
    op = NULL;
    if (text[0] != '\0') {
        code = rlock_adopt_async(lock, text, RLOCK_TAKE(.owner = owner), completion_tell, &adopted,
                                 &op);
        follow(ADOPT, code, &adopted, op);
    }
    op = NULL;
    code = rlock_unlock_async(lock, owner, completion_tell, &left, &op);
    follow(UNLOCK, code, &left, op);
    op = NULL;
    code = rlock_force_unlock_async(lock, completion_tell, &forced, &op);
    follow(FORCE, code, &forced, op);
}

/* A length is success. */
static void call_metrics(const struct rlock_client *client)
{
    const int64_t len = rlock_metrics(&client, 1, NULL, 0);

    (void)record(METRICS, len < 0 ? (int)len : 0);
}

void call_all(const struct stage *stage)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct rlock_stats stats = RLOCK_STATS_INIT;
    struct rlock_leader *leader;

    (void)record(HELD, rlock_held(stage->lock, 0, &grant));
    (void)extend(stage->lock);
    hand_over(stage->lock);
    if (lock_for(stage->lock, 0) == 0) {
        (void)extend(stage->lock);
        hand_over(stage->lock);
        (void)record(HELD, rlock_held(stage->lock, 0, &grant));
        (void)unlock(stage->lock);
    }
    (void)lock_for(stage->lock, 20);
    (void)unlock(stage->lock);
    (void)adopt(stage->lock, NULL); /* not the first call: a slow greeting would hide what failed */
    (void)record(INSPECT, rlock_inspect(stage->lock, &info));
    (void)record(FORCE, rlock_force_unlock(stage->lock, NULL));
    resize(stage);
    if (stage->client != NULL) {
        (void)record(STATS, rlock_client_stats(stage->client, &stats));
        call_metrics(stage->client);
        (void)record(SCAN, rlock_admin_scan(stage->client, NULL, pass_key, NULL));
    }
    call_async(stage->lock);
    leader = make_leader(stage->lock);
    (void)record(LEADER_RESIGN, rlock_leader_resign(leader));
    leader = rlock_leader_free(leader);
}

struct rlock_leader *make_leader(struct rlock_handle *lock)
{
    struct rlock_leader *leader = NULL;

    (void)record(LEADER_NEW, rlock_leader_new(lock, NULL, &leader));
    return leader;
}

void pass_member(const struct rlock_member *member, void *unused)
{
    (void)member;
    (void)unused;
}

/* ---- Groups ---- */

void open_group(struct group *group, struct fixture *f, int64_t max_lease_ms, bool is_direct)
{
    for (size_t i = 0; i < SERVERS; i++) {
        const struct rlock_client_opts opts =
            opts_of(is_direct ? test_server_url(f->servers[i]) : proxy_url(f->proxies[i]));

        group->clients[i] = open_client(&opts);
        group->members[i] = new_lock(group->clients[i]);
    }
    assert_code(record(MULTI_NEW, rlock_multi_new(group->members, 2, NULL, &group->multi)), 0);
    assert_code(record(REDLOCK_NEW, rlock_redlock_new(group->members, SERVERS,
                                                      RLOCK_OPTS(.max_lease_ms = max_lease_ms),
                                                      &group->redlock)),
                0);
}

void free_group(struct group *group)
{
    group->redlock = rlock_free(group->redlock);
    group->multi = rlock_free(group->multi);
    for (size_t i = 0; i < SERVERS; i++) {
        group->members[i] = rlock_free(group->members[i]);
    }
}

void close_group(struct group *group)
{
    for (size_t i = 0; i < SERVERS; i++) {
        group->clients[i] = rlock_client_close(group->clients[i]);
    }
}

void call_group(const struct group *group)
{
    call_all(&(struct stage){.lock = group->multi});
    call_all(&(struct stage){.lock = group->redlock});
    (void)record(MEMBERS, rlock_members(group->multi, pass_member, NULL));
}
