/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that docs/fencing.md gives to resources, taken from the page itself, against a stale
 * holder. */
#include <rlock/rlock.h>
#include <sqlite3.h>

#include "support/run.h"
#include "support/server.h"
#include "support/test.h"

static struct test_server *server;
static struct rlock_client *client;
static struct rlock_handle *lock;

static int start(void **state)
{
    struct rlock_client_opts opts;

    (void)state;
    server = test_server_start(NULL);
    opts = *RLOCK_CLIENT_OPTS(.url = test_server_unix_url(server));
    assert_int_equal(rlock_client_open(&opts, &client), 0);
    assert_int_equal(rlock_fenced_new(client, "stock", NULL, &lock), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lock = rlock_free(lock);
    client = rlock_client_close(client);
    server = test_server_stop(server);
    return 0;
}

#define STORE_TEST(name) TEST_BETWEEN(start, stop, name)

/* The first block of the page in this language. */
static void block(const char *language, char *out, size_t size)
{
    char path[512], line[512], mark[32];
    bool inside = false;
    FILE *page;

    test_text(path, sizeof(path), "%s/docs/fencing.md", test_root());
    test_text(mark, sizeof(mark), "```%s\n", language);
    page = fopen(path, "r");
    assert_non_null(page);
    out[0] = '\0';
    while (fgets(line, sizeof(line), page) != NULL) {
        if (inside && strcmp(line, "```\n") == 0) {
            break;
        }
        if (inside) {
            assert_true(strlen(out) + strlen(line) < size);
            (void)strcat(out, line);
        }
        inside = inside || strcmp(line, mark) == 0;
    }
    (void)fclose(page);
    assert_true(out[0] != '\0');
}

/* Takes the lock for a moment that ends without its holder; returns the token. */
static uint64_t hold_and_lose(void)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    assert_int_equal(rlock_lock_for(lock, 5000, RLOCK_TAKE(.lease_ms = 20), &grant), 0);
    assert_true(TEST_EVENTUALLY(!rlock_is_valid(lock), 5000));
    assert_int_equal(rlock_unlock(lock), RLOCK_ELOST);
    return grant.token;
}

STORE_TEST(a_stale_holder_is_refused_by_a_script)
{
    uint64_t stale = hold_and_lose(), fresh = hold_and_lose();
    char script[1024], tokens[2][24];

    assert_true(fresh > stale);
    block("lua", script, sizeof(script));
    test_text(tokens[0], sizeof(tokens[0]), "%llu", (unsigned long long)stale);
    test_text(tokens[1], sizeof(tokens[1]), "%llu", (unsigned long long)fresh);
    for (int late = 0; late < 2; late++) {
        const char *const words[] = {"EVAL",
                                     script,
                                     "2",
                                     "units",
                                     "units:fence",
                                     tokens[1 - late],
                                     late == 0 ? "new" : "old",
                                     NULL};
        char *answer = test_server_argv(server, words);

        assert_string_equal(answer, late == 0 ? "1" : "0");
        free(answer);
    }
    assert_true(test_server_says(server, "new", "GET units"));
}

static int update(sqlite3 *db, const char *sql, int units, uint64_t token)
{
    sqlite3_stmt *statement = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    (void)sqlite3_bind_int(statement, 1, units);
    (void)sqlite3_bind_int64(statement, 2, (sqlite3_int64)token);
    (void)sqlite3_bind_text(statement, 3, "apple", -1, SQLITE_STATIC);
    assert_int_equal(sqlite3_step(statement), SQLITE_DONE);
    (void)sqlite3_finalize(statement);
    return sqlite3_changes(db);
}

STORE_TEST(a_stale_holder_is_refused_by_a_table)
{
    uint64_t stale = hold_and_lose(), fresh = hold_and_lose();
    sqlite3 *db = NULL;
    char sql[1024];

    block("sql", sql, sizeof(sql));
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "CREATE TABLE stock (item TEXT, units INT, fence BIGINT DEFAULT 0);"
                     "INSERT INTO stock (item, units) VALUES ('apple', 10)",
                     NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_equal(update(db, sql, 9, fresh), 1);
    assert_int_equal(update(db, sql, 8, fresh), 1);
    assert_int_equal(update(db, sql, 7, stale), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

STORE_TEST(tokens_grow_when_the_server_forgot_them)
{
    uint64_t before = hold_and_lose();
    char *answer = test_server_cmd(server, "FLUSHALL");

    free(answer);
    assert_true(hold_and_lose() > before);
}

STORE_TEST(a_nested_level_has_the_token_of_its_hold)
{
    struct rlock_grant outer = RLOCK_GRANT_INIT, inner = RLOCK_GRANT_INIT;
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_int_equal(rlock_lock_for(lock, 0, NULL, &outer), 0);
    assert_int_equal(rlock_lock_for(lock, 0, NULL, &inner), 0);
    assert_int_equal(outer.token, inner.token);
    assert_int_equal(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.token, outer.token);
    assert_int_equal(rlock_unlock(lock), 0);
    assert_int_equal(rlock_unlock(lock), 0);
    assert_true(test_server_says(server, "-1", "PTTL redisson_lock_token:{stock}"));
}

static uint64_t latest_token(void)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_int_equal(rlock_inspect(lock, &info), 0);
    return info.token;
}

/* testTokenIncrease: by every function and option that takes it. */
STORE_TEST(tokens_grow_whichever_way_it_is_taken)
{
    const struct {
        int64_t wait_ms, lease_ms;
    } takes[] = {{0, 0}, {500, 0}, {0, 60000}, {RLOCK_FOREVER, 0}, {500, 60000}};
    uint64_t before = 0;

    for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++) {
        struct rlock_grant grant = RLOCK_GRANT_INIT;

        assert_int_equal(rlock_lock_for(lock, takes[i].wait_ms,
                                        RLOCK_TAKE(.lease_ms = takes[i].lease_ms), &grant),
                         0);
        assert_true(grant.token > before && grant.token == latest_token());
        assert_int_equal(rlock_unlock(lock), 0);
        before = grant.token;
    }
    for (int i = 0; i < 3; i++) {
        struct rlock_guard guard = {.lock = NULL};

        assert_int_equal(i == 0   ? rlock_lock(lock)
                         : i == 1 ? rlock_try_lock(lock)
                                  : (guard = rlock_guard_lock(lock)).code,
                         0);
        assert_true(latest_token() > before);
        before = latest_token();
        assert_int_equal(i < 2 ? rlock_unlock(lock) : rlock_guard_end(&guard), 0);
    }
}

/* S5: whatever ends a hold leaves the counter, and without an end. */
STORE_TEST(what_ends_a_hold_does_not_touch_the_counter)
{
    uint64_t token = 0;

    for (int i = 0; i < 4; i++) {
        struct rlock_grant grant = RLOCK_GRANT_INIT;
        char text[24];

        assert_int_equal(
            rlock_lock_for(lock, 10000, RLOCK_TAKE(.lease_ms = i == 0 ? 50 : 5000), &grant),
            0); /* waits: a grant that comes after its lease is none */
        assert_true(grant.token > token);
        token = grant.token;
        if (i == 1) {
            assert_int_equal(rlock_force_unlock(lock, NULL), 0);
        } else if (i == 2) {
            test_server_do(server, "DEL stock");
        }
        assert_true(i != 0 || TEST_EVENTUALLY(!rlock_is_valid(lock), 5000));
        assert_int_equal(rlock_unlock(lock), i < 3 ? RLOCK_ELOST : 0);
        test_text(text, sizeof(text), "%llu", (unsigned long long)token);
        assert_true(test_server_says(server, text, "GET redisson_lock_token:{stock}"));
        assert_true(test_server_says(server, "-1", "PTTL redisson_lock_token:{stock}"));
    }
}

/* S5: what a stale holder knows is its own token, whatever the counter says by then. */
STORE_TEST(a_stale_holder_is_not_told_the_newer_token)
{
    struct rlock_grant outer = RLOCK_GRANT_INIT, inner = RLOCK_GRANT_INIT;
    struct rlock_info info = RLOCK_INFO_INIT;
    const struct rlock_take other = *RLOCK_TAKE(.owner = 9);

    assert_int_equal(rlock_lock_for(lock, 0, NULL, &outer), 0);
    test_server_do(server, "INCRBY redisson_lock_token:{stock} 1000");
    assert_int_equal(rlock_lock_for(lock, 0, NULL, &inner), 0);
    assert_int_equal(inner.token, outer.token);
    assert_int_equal(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.token, outer.token + 1000);
    assert_int_equal(rlock_unlock(lock), 0);
    assert_int_equal(rlock_unlock(lock), 0);
    assert_int_equal(rlock_lock_for(lock, 0, &other, &inner), 0);
    assert_true(inner.token > outer.token + 1000);
    assert_int_equal(rlock_unlock_as(lock, 9), 0);
}
