/* SPDX-License-Identifier: Apache-2.0 */
/* How the service thread asks a node for the map. */
#include <stdio.h>

#include "base/clock.h"
#include "cluster/nodes.h"
#include "drive/router.h"
#include "lock/classify.h"

#define APART_US (100 * RLOCK__MS)    /* between two questions, unless they are for a link */
#define QUIET_US (10 * RLOCK__SECOND) /* the same when nobody says that the map is old */
#define AGAIN_US (20 * RLOCK__MS) /* after a question without an answer the next node is asked */
#define SILENT_US (5 * RLOCK__SECOND)   /* who did not answer is passed over for so long */
#define QUICK 6                         /* of the first few that come to nothing */
#define PATIENCE_US (RLOCK__SECOND / 2) /* for an answer; doubles with each that does not come */

/* The question came to nothing. While no map is known, calls that wait are told why. final: trying
 * again will not help. */
static void fail(struct rlock__router *router, int code, bool final, const char *why)
{
    struct rlock_client *client = router->client;
    struct rlock__link *link = &router->asked->server.links[0];

    router->asking = false;
    router->failures++;
    router->asked->silent_until = rlock__now_us() + SILENT_US;
    rlock__enter(client);
    if (!link->pipeline.up && router->answered_at == 0) {
        rlock__core_link_down(link, 0, code, final, why, rlock__now_us());
    }
    rlock__leave(client);
    if (router->conn != NULL) {
        rlock__conn_close(router->conn);
    }
}

/* It had no answer. */
static void fail_silent(struct rlock__router *router, int code)
{
    const char *said = router->conn != NULL ? rlock__conn_error(router->conn) : "";
    char why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "%s%s", said[0] != '\0' ? said : router->asked->address,
                   said[0] != '\0' ? "" : ": no answer");
    fail(router, code, rlock__conn_error_is_final(code), why);
}

/* What came is no answer. */
static void fail_refused(struct rlock__router *router, const struct rlock__reply *reply)
{
    bool error = rlock__reply_is_error(reply);
    char said[160], why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "%s: CLUSTER NODES: %s", router->asked->address,
                   error ? rlock__text(rlock__reply_str(reply, 0), said, sizeof(said))
                         : "it knows of no slots");
    fail(router, RLOCK_ECONN, error && rlock__classify(reply).way == RLOCK__GIVE_UP, why);
}

/* Whether it tells who has a slot: a server that has left its cluster does not. */
static bool tells(struct rlock__bytes text)
{
    struct rlock__nodes_line line;
    unsigned from, to;

    while (rlock__nodes_next(&text, &line)) {
        if (rlock__nodes_range(&line.slots, &from, &to)) {
            return true;
        }
    }
    return false;
}

static void on_answer(struct rlock__router *router, const struct rlock__reply *reply)
{
    router->asking = false;
    if (rlock__reply_is_error(reply) || !tells(rlock__reply_str(reply, 0))) {
        fail_refused(router, reply);
    } else {
        rlock__router_learn(router, rlock__reply_str(reply, 0));
    }
}

static struct rlock__node *after(const struct rlock__router *router, struct rlock__node *node)
{
    node = atomic_load(&node->next);
    return node != NULL ? node : router->client->nodes;
}

/*
 * Whom to ask: the same as before while that answers and nobody says that the map is old. A link to
 * it is confirmed by another one. Those that did not answer of late are passed over, unless there
 * are no others.
 */
RLOCK__REQUIRES(core)
static struct rlock__node *choose(const struct rlock__router *router, int64_t now)
{
    struct rlock__node *node = router->asked, *it;

    if (node == NULL) {
        return router->client->nodes;
    }
    if (router->failures == 0 && !router->was_wanted && !rlock__router_is_unconfirmed(node) &&
        (router->itself == NULL || !rlock__router_is_unconfirmed(router->itself))) {
        return node;
    }
    it = after(router, node);
    while (it != node && it->silent_until > now) {
        it = after(router, it);
    }
    return it == node && node->silent_until > now ? after(router, node) : it;
}

/* Has a connection to that node: the one there is, or another one. Returns 0, or why not. */
static int connect_to(struct rlock__router *router, struct rlock__node *node, int64_t now)
{
    if (router->conn != NULL && router->asked == node && rlock__conn_is_up(router->conn)) {
        return 0;
    }
    router->conn = rlock__conn_free(router->conn);
    router->itself = router->asked == node ? router->itself : NULL;
    router->asked = node;
    router->conn_opts = node->conn_opts;
    router->conn_opts.want_info = false;
    router->conn = rlock__conn_new(&router->conn_opts);
    return router->conn != NULL ? rlock__conn_start(router->conn, NULL, 0, now) : RLOCK_ENOMEM;
}

static void begin(struct rlock__router *router, int64_t now)
{
    static const char question[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n";
    struct rlock__node *node;
    int code;

    rlock__enter(router->client);
    router->was_wanted = router->is_wanted;
    router->is_wanted = false;
    node = choose(router, now);
    rlock__core_mutex_unlock(&router->client->mutex);
    router->asked_at = now;
    router->asking = true;
    router->sent = 0;
    rlock__buf_clear(&router->out);
    code = connect_to(router, node, now);
    if (code == 0 && !rlock__buf_add(&router->out, question, sizeof(question) - 1)) {
        code = RLOCK_ENOMEM;
    }
    if (code != 0) {
        fail_silent(router, code);
    }
}

/* Goes on with what is under way. Returns 0, or why it came to nothing. */
static int go_on(struct rlock__router *router, int64_t now)
{
    struct rlock__reply reply;
    ssize_t n;
    int code = rlock__conn_step(router->conn, now);

    if (code != 0 || !rlock__conn_is_up(router->conn)) {
        return code;
    }
    if (router->sent < router->out.len) {
        if (router->sent == 0) {
            router->asked_at = now;
            rlock__conn_set_reply_cap(router->conn, RLOCK__REPLY_CAP_LARGE);
        }
        n = rlock__conn_write(router->conn, router->out.data + router->sent,
                              router->out.len - router->sent);
        if (n < 0) {
            return (int)n;
        }
        router->sent += (size_t)n;
    }
    code = rlock__conn_read(router->conn);
    code = code > 0 ? rlock__conn_next(router->conn, &reply) : code;
    if (code > 0) {
        on_answer(router, &reply);
    }
    return code < 0 ? code : 0;
}

static int64_t give_up_at(const struct rlock__router *router)
{
    return router->asked_at + (PATIENCE_US << (router->failures < 2 ? router->failures : 2));
}

static bool is_overdue(const struct rlock__router *router, int64_t now)
{
    return router->asking && now >= give_up_at(router);
}

/* When the next question is due. */
RLOCK__REQUIRES(core) static int64_t next_at(const struct rlock__router *router)
{
    int64_t at = router->asked_at + (router->is_wanted ? APART_US : QUIET_US);
    struct rlock__node *node;

    if (router->answered_at == 0 || router->failures > 0) {
        int64_t pause = router->failures < QUICK ? AGAIN_US : APART_US;

        return router->failures > 0 ? router->asked_at + pause : 0;
    }
    RLOCK__EACH_NODE(router->client, node) {
        if (rlock__router_is_unconfirmed(node)) {
            at = rlock__min(
                at, rlock__max(node->greeted_at + RLOCK__CONFIRM_US, router->asked_at + RLOCK__MS));
        }
    }
    return at;
}

int64_t rlock__router_plan(struct rlock__router *router, struct pollfd *ret_fd)
{
    *ret_fd = (struct pollfd){.fd = -1};
    if (router == NULL) {
        return RLOCK__NEVER;
    }
    if (!router->asking) {
        return next_at(router);
    }
    ret_fd->fd = rlock__conn_fd(router->conn);
    ret_fd->events = rlock__conn_events(router->conn);
    return rlock__min(rlock__conn_deadline(router->conn), give_up_at(router));
}

void rlock__router_serve(struct rlock__router *router, int64_t now)
{
    int64_t at;

    if (router == NULL) {
        return;
    }
    rlock__enter(router->client);
    at = next_at(router);
    rlock__core_mutex_unlock(&router->client->mutex);
    if (!router->asking && now >= at) {
        begin(router, now);
    }
    if (router->asking) {
        int code = go_on(router, now);

        if (code != 0 || is_overdue(router, now)) {
            fail_silent(router, code != 0 ? code : RLOCK_ECONN);
        }
    }
}
