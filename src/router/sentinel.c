/* SPDX-License-Identifier: Apache-2.0 */
#include "router/sentinel.h"

#include <stdio.h>

#include "base/time.h"
#include "lock/server/classify.h"

#define RESUBSCRIBE_US RLOCK__SECOND /* pause before the next subscription */

/* ---- What it says ---- */

static void unsubscribe(struct rlock__sentinel *sentinel, int64_t now)
{
    sentinel->is_subscribed = false;
    sentinel->subscribe_at = now + RESUBSCRIBE_US;
    rlock__conn_close(sentinel->subscription);
}

/* Its answer does not come, or is none. */
static void fail(struct rlock__sentinel *sentinel, int code, bool final, const char *why)
{
    sentinel->is_silent = true;
    sentinel->said = (struct rlock__primary){.port = 0};
    sentinel->said_at = sentinel->question.asked_at;
    sentinel->code = code;
    sentinel->final = final;
    (void)snprintf(sentinel->why, sizeof(sentinel->why), "%s", why);
    rlock__question_failed(&sentinel->question);
    unsubscribe(sentinel, sentinel->said_at);
}

static void fail_silent(struct rlock__sentinel *sentinel, int code)
{
    const char *said = rlock__question_error(&sentinel->question);
    char why[RLOCK__DETAIL_SIZE];

    if (sentinel->is_kept && said != NULL) { /* the connection had ended before */
        rlock__question_failed(&sentinel->question);
        return;
    }
    (void)snprintf(why, sizeof(why), "Sentinel %s%s", said != NULL ? said : sentinel->address,
                   said != NULL ? "" : ": no answer");
    fail(sentinel, code, rlock__conn_error_is_final(&sentinel->question.conn_opts, code), why);
}

static void fail_refused(struct rlock__sentinel *sentinel, const struct rlock__reply *reply)
{
    bool error = rlock__reply_is_error(reply);
    char said[160], why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "Sentinel %s: %s", sentinel->address,
                   error ? rlock__text(rlock__reply_str(reply, 0), said, sizeof(said))
                         : "it knows no primary of that name");
    fail(sentinel, RLOCK_ECONN, error && rlock__classify(reply).way == RLOCK__GIVE_UP, why);
}

static void read_id(struct rlock__sentinel *sentinel, const struct rlock__reply *reply)
{
    struct rlock__bytes id = rlock__reply_str(reply, 0);

    sentinel->is_id_refused = rlock__reply_is_error(reply) || id.len >= sizeof(sentinel->id);
    if (!sentinel->is_id_refused) {
        (void)snprintf(sentinel->id, sizeof(sentinel->id), "%.*s", (int)id.len, id.at);
    }
}

/* Takes the reply to one of the commands; so many are still to come. */
static void take(struct rlock__sentinel *sentinel, const struct rlock__reply *reply, unsigned left)
{
    bool good = true;

    if (left == 4 || (left == 3 && !sentinel->asks.peers)) {
        read_id(sentinel, reply);
    } else if (left == 3) {
        rlock__primary_read_peers(reply, &sentinel->peers);
    } else if (left == 2) {
        good = rlock__primary_read(reply, &sentinel->said);
    } else if (left == 1) { /* a refusal is an answer too */
        rlock__standbys_read(reply, &sentinel->standbys);
    } else {
        good = rlock__primary_read_place(reply, &sentinel->said);
    }
    if (!good) {
        fail_refused(sentinel, reply);
    } else if (left == 0) {
        sentinel->said_at = sentinel->question.asked_at;
        sentinel->is_silent = false;
        sentinel->code = 0;
        sentinel->question.failures = 0;
    }
}

void rlock__sentinel_go_on(struct rlock__sentinel *sentinel, int64_t now)
{
    struct rlock__reply reply;
    int code = 0;

    while (rlock__question_is_open(&sentinel->question) &&
           (code = rlock__question_go_on(&sentinel->question, &reply, now)) > 0) {
        take(sentinel, &reply, sentinel->question.awaited);
    }
    if (code < 0) {
        fail_silent(sentinel, code);
    }
}

void rlock__sentinel_ask(struct rlock__sentinel *sentinel, const char *name, bool wants_peers,
                         int64_t now)
{
    const struct rlock__conn *conn = sentinel->question.conn;
    struct rlock__sentinel_asks asks = {.peers = wants_peers};
    struct rlock__buf *commands = &sentinel->commands;
    int code = RLOCK_ENOMEM;

    sentinel->is_kept = conn != NULL && rlock__conn_is_up(conn);
    asks.id = !sentinel->is_id_refused && (!sentinel->is_kept || sentinel->id[0] == '\0');
    sentinel->asks = asks;
    sentinel->said = (struct rlock__primary){.port = 0};
    rlock__buf_clear(commands);
    if (rlock__primary_ask(commands, name, asks)) {
        code =
            rlock__question_begin(&sentinel->question, rlock__bytes(commands->data, commands->len),
                                  3U + asks.id + asks.peers, now);
    }
    if (code != 0) {
        fail_silent(sentinel, code);
    }
}

bool rlock__sentinel_knows(const struct rlock__sentinel *sentinel,
                           const struct rlock__sentinel *other)
{
    struct rlock__bytes peers = rlock__bytes(sentinel->peers.data, sentinel->peers.len);

    while (peers.len != 0) {
        struct rlock__bytes address = rlock__take_word(&peers, '\n');
        struct rlock__bytes id = rlock__take_word(&address, ' ');

        if (rlock__bytes_equal(address, rlock__bytes_of(other->address)) ||
            (other->id[0] != '\0' && rlock__bytes_equal(id, rlock__bytes_of(other->id)))) {
            return true;
        }
    }
    return false;
}

/* ---- The subscription ---- */

/* Returns whether a message or an acknowledgement came, or why the connection is unusable. */
static int read_changes(struct rlock__sentinel *sentinel, int64_t now)
{
    static const char commands[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
    struct rlock__reply reply;
    int n, code = rlock__conn_step(sentinel->subscription, now);
    bool heard = false;

    if (code != 0 || !rlock__conn_is_up(sentinel->subscription)) {
        return code;
    }
    if (!sentinel->is_subscribed) {
        sentinel->is_subscribed = true; /* so few bytes go out at once, or never */
        if (rlock__conn_write(sentinel->subscription, commands, sizeof(commands) - 1) !=
            (ssize_t)sizeof(commands) - 1) {
            return RLOCK_ECONN;
        }
    }
    n = rlock__conn_read(sentinel->subscription);
    while (n > 0 && (n = rlock__conn_next(sentinel->subscription, &reply)) > 0) {
        heard = true;
    }
    return n < 0 ? n : heard;
}

bool rlock__sentinel_read_changes(struct rlock__sentinel *sentinel, int64_t now)
{
    int code = 0;

    if (rlock__conn_fd(sentinel->subscription) >= 0 ||
        rlock__conn_deadline(sentinel->subscription) != RLOCK__NEVER) {
        code = read_changes(sentinel, now);
    } else if (now >= sentinel->subscribe_at && !sentinel->is_silent) {
        sentinel->subscribe_at = RLOCK__NEVER;
        code = rlock__conn_start(sentinel->subscription, NULL, 0, now);
    }
    if (code < 0) {
        unsubscribe(sentinel, now);
    }
    return code > 0;
}

/* ---- For the service thread ---- */

int64_t rlock__sentinel_plan(const struct rlock__sentinel *sentinel)
{
    int64_t until = rlock__min(rlock__question_plan(&sentinel->question),
                               rlock__conn_deadline(sentinel->subscription));

    return sentinel->is_silent ? until : rlock__min(until, sentinel->subscribe_at);
}

void rlock__sentinel_register(const struct rlock__sentinel *sentinel, int epoll_fd)
{
    struct rlock__conn *subscription = sentinel->subscription;

    rlock__question_register(&sentinel->question, epoll_fd);
    (void)rlock__conn_register(subscription, epoll_fd, rlock__conn_events(subscription), NULL);
}

/* ---- Beginning and end ---- */

bool rlock__sentinel_init(struct rlock__sentinel *sentinel,
                          const struct rlock__conn_opts *conn_opts)
{
    sentinel->said_at = -1;
    rlock__uri_address(conn_opts->uri, sentinel->address, sizeof(sentinel->address));
    sentinel->question.conn_opts = *conn_opts;
    sentinel->subscription = rlock__conn_new(&sentinel->question.conn_opts);
    return sentinel->subscription != NULL;
}

void rlock__sentinel_fini(struct rlock__sentinel *sentinel)
{
    rlock__question_fini(&sentinel->question);
    (void)rlock__conn_free(sentinel->subscription);
    rlock__buf_fini(&sentinel->peers);
    rlock__buf_fini(&sentinel->commands);
}
