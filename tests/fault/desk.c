/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LATE_US 40000   /* a call that ends early waits so long for what it has sent */
#define MOST_REPEATS 20 /* of one play */

/* ---- Clients ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct desk *desk = payload;

    atomic_fetch_add(&desk->losses, 1);
    if (loss->reason == RLOCK_LOST_EXPIRED) {
        (void)test_expired(desk->lease_ms * 1000);
    }
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    (void)line;
    (void)payload;
}

int desk_open_client(struct desk *desk, size_t server, int64_t lease_ms,
                     struct rlock_client **ret_client)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = test_server_url(desk->servers[server]),
                          .renewed_lease_ms = lease_ms, .connect_timeout_ms = 1000 * test_slack(),
                          .op_timeout_ms = 3000 * test_slack(),
                          .ca_file = test_server_cacert(desk->servers[server]), .on_lost = on_lost,
                          .on_log_line = on_log, .log_level = RLOCK_LOG_DEBUG, .payload = desk);

    return rlock_client_open(opts, ret_client);
}

/* A warm client: its connection is up, and nothing was asked for but that. */
static void open_warm(struct desk *desk, size_t server)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock_handle *lock;

    assert_code(desk_open_client(desk, server, desk->lease_ms, &desk->clients[server]), 0);
    assert_code(rlock_reentrant_new(desk->clients[server], "warm", NULL, &lock), 0);
    assert_code(rlock_inspect(lock, &info), 0);
    (void)rlock_free(lock);
}

void desk_close_clients(struct desk *desk)
{
    desk->lock = rlock_free(desk->lock);
    desk->other = rlock_free(desk->other);
    for (size_t i = 0; i < desk->n_servers; i++) {
        desk->clients[i] = rlock_client_close(desk->clients[i]);
    }
}

/* ---- The desk ---- */

void desk_open(struct desk *desk, size_t n_servers)
{
    memset(desk, 0, sizeof(*desk));
    fixture_open(&desk->f, NULL);
    desk->n_servers = n_servers;
    for (size_t i = 0; i < n_servers; i++) {
        desk->servers[i] = i == 0 ? desk->f.server : test_server_start(NULL);
        assert_code(desk_open_client(desk, i, 30000, &desk->rival_clients[i]), 0);
    }
}

void desk_close(struct desk *desk)
{
    for (size_t i = desk->n_servers; i-- > 0;) {
        desk->rival_clients[i] = rlock_client_close(desk->rival_clients[i]);
        test_server_do(desk->servers[i], "DEL redisson_lock_token:{a}");
        desk->servers[i] = i == 0 ? NULL : test_server_stop(desk->servers[i]);
    }
    fixture_close(&desk->f);
}

/* The connection that the client sends its commands on: its oldest. */
static long long link_id(const struct desk *desk, size_t server)
{
    char *list = test_server_cmd(desk->servers[server], "CLIENT LIST");
    char *rest = list, name[64];
    long long id = 0;

    (void)snprintf(name, sizeof(name), " name=rlock:%s:", rlock_client_uuid(desk->clients[server]));
    for (char *line = strsep(&rest, "\n"); line != NULL && id == 0; line = strsep(&rest, "\n")) {
        if (strstr(line, name) != NULL) {
            id = strtoll(line + strlen("id="), NULL, 10);
        }
    }
    free(list);
    return id;
}

static long long connections(const struct desk *desk)
{
    return test_server_info(desk->f.server, "stats", "total_connections_received");
}

/* Gives back whatever the thread has of the lock. */
static void leave_all(struct rlock_handle *lock)
{
    int code = 0;

    for (int i = 0; i < 4 && code != RLOCK_ENOTOWNER; i++) {
        code = rlock_unlock(lock);
        assert_true(code == 0 || code == RLOCK_ENOTOWNER || code == RLOCK_ELOST);
    }
    assert_code(code, RLOCK_ENOTOWNER);
}

static void visit(struct rlock_handle *lock)
{
    assert_code(rlock_try_lock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
}

/* On each server: a RedLock is left once most have said so. */
static bool is_free(const struct desk *desk)
{
    const char *key = desk->kind->make == one_permit ? "{" LOCK_A "}:timeout" : LOCK_A;

    for (size_t i = 0; i < desk->n_servers; i++) {
        if (test_server_int(desk->servers[i], "EXISTS %s", key) != 0) {
            return false;
        }
    }
    return true;
}

/* Nobody has anything of the lock on any server, and everybody may have it. */
static void check_all_goes_on(struct desk *desk)
{
    if (desk->lock != NULL) {
        leave_all(desk->lock);
    }
    leave_all(desk->rival);
    assert_true(TEST_EVENTUALLY(rlock_try_lock(desk->rival) == 0, 1000));
    assert_code(rlock_unlock(desk->rival), 0);
    assert_true(TEST_EVENTUALLY(is_free(desk), 1000));
    if (desk->lock != NULL) {
        visit(desk->lock);
        visit(desk->other);
    }
}

static bool is_remade(const struct desk *desk, const long long before[static N_SERVERS])
{
    bool remade = false;

    for (size_t i = 0; i < desk->n_servers; i++) {
        remade = remade || link_id(desk, i) != before[i];
    }
    return remade;
}

static bool is_late(int code)
{
    return code == RLOCK_ETIMEDOUT || code == RLOCK_ECONN || code == RLOCK_EINDOUBT ||
           code == RLOCK_ENOQUORUM; /* one without memory, and one that was late */
}

/* What the last call of the play said. */
static const char *said(const struct desk *desk)
{
    return desk->detail[0] != '\0' ? desk->detail : rlock_detail();
}

/* The call names the want of memory as the cause of the doubt, or leaves an unlock that goes on
 * without it. */
static bool is_doubt_without_memory(const struct desk *desk, int code)
{
    return code == RLOCK_EINDOUBT && (strstr(said(desk), "no memory") != NULL ||
                                      strstr(said(desk), "it is free in ") != NULL);
}

/* A member of a group lacks memory, and the answer of another one is late: the group waits no
 * longer for that than it must. */
static bool was_late(const struct desk *desk, int code)
{
    return code == RLOCK_ENOQUORUM ||
           (desk->ran_us >= LATE_US && is_late(code) && !is_doubt_without_memory(desk, code));
}

/* A call said no memory, or lost the answer that there was none to read into, and with it the
 * connection, of which the server may hear later. */
static void check_code(const struct desk *desk, int code, bool cold,
                       const long long before[static N_SERVERS])
{
    if (is_doubt_without_memory(desk, code)) {
        return;
    }
    if (cold || (code != RLOCK_ECONN && code != RLOCK_EINDOUBT)) {
        assert_code(code, RLOCK_ENOMEM);
    } else {
        assert_true(TEST_EVENTUALLY(is_remade(desk, before), 1000));
    }
    assert_string_not_equal(said(desk), "");
}

/* One play, in which the n-th allocation fails. Returns whether there was one. */
static bool play(struct desk *desk, const struct story *story)
{
    long long before[N_SERVERS] = {0}, received = connections(desk);
    int64_t began_us = test_now_us(), runs_us;
    bool failed;
    int code;

    desk->detail[0] = '\0';
    if (story->prepare != NULL) {
        story->prepare(desk);
    }
    for (size_t i = 0; i < desk->n_servers && !story->cold; i++) {
        before[i] = link_id(desk, i);
    }
    runs_us = test_now_us();
    scarce_from_now(desk->n);
    code = story->run(desk);
    failed = scarce_end();
    desk->ran_us = test_elapsed_us(runs_us);
    desk->repeats = !story->hurried && was_late(desk, code) ? desk->repeats + 1 : 0;
    if (code != 0 && desk->repeats == 0 && !(story->hurried && is_late(code))) {
        check_code(desk, code, story->cold, before);
        assert_true(failed);
    }
    if (story->check != NULL) {
        story->check(desk, code);
    }
    check_all_goes_on(desk);
    assert_true(code != RLOCK_ENOMEM || story->cold || !is_remade(desk, before));
    /* two, one of which was made again, and those that ask for themselves */
    assert_true(connections(desk) <= received + 3 + story->asks);
    assert_in_time(began_us, 2000 * 1000 * (int64_t)test_slack());
    return failed;
}

void desk_play(struct desk *desk, const struct story *story, const char *what,
               void (*make)(struct desk *desk), void (*make_rival)(struct desk *desk))
{
    bool failed = true;

    make_rival(desk);
    for (desk->n = 1; failed; desk->n += desk->repeats == 0) {
        desk->lease_ms = story->lease_ms != 0 ? story->lease_ms : 30000;
        atomic_store(&desk->losses, 0);
        for (size_t i = 0; i < desk->n_servers && !story->cold; i++) {
            open_warm(desk, i);
        }
        if (!story->cold) {
            make(desk);
        }
        failed = play(desk, story) || desk->repeats != 0;
        desk_close_clients(desk);
        assert_true(desk->repeats < MOST_REPEATS);
    }
    print_message("%s: %ld allocations\n", what, desk->n - 2);
    assert_true(desk->n > 2);
    desk->rival = rlock_free(desk->rival);
}
