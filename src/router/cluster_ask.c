/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses which node of a cluster the service thread asks for the slot map, and when. */
#include <stdio.h>

#include "base/clock.h"
#include "base/random.h"
#include "lock/server/classify.h"
#include "router/cluster.h"
#include "topology/slot.h"
#include "topology/slots.h"

#define APART_US (100 * RLOCK__MS)    /* between two questions, unless they are for a link */
#define QUIET_US (10 * RLOCK__SECOND) /* the same when nobody says that the map is old */
#define COUNT_US RLOCK__SECOND        /* the same where replicas are counted */
#define HURRY_US (20 * RLOCK__SECOND) /* a server that is down so long is not replaced soon */
#define AGAIN_US (20 * RLOCK__MS) /* after a question without an answer the next node is asked */
/* One word: servers before 7.0 take no more. */
#define GET_CONFIG "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$9\r\n*cluster*\r\n"
#define NODES "*2\r\n$7\r\nCLUSTER\r\n$5\r\nNODES\r\n"
#define ID_AND_SLOTS                                                                               \
    "*2\r\n$7\r\nCLUSTER\r\n$4\r\nMYID\r\n"                                                        \
    "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"
#define SILENT_US (5 * RLOCK__SECOND) /* who did not answer is passed over for so long */
#define QUICK 6                       /* of the first few that come to nothing */

/* The question came to nothing. While no map is known, calls that wait are told why. final: trying
 * again will not help. */
static void fail(struct rlock__cluster *cluster, int code, bool final, const char *why)
{
    rlock__question_failed(&cluster->question);
    cluster->asked->silent_until = rlock__now_us() + SILENT_US;
    if (cluster->answered_at == 0) {
        rlock__router_tell(cluster->asked, code, final, why);
    }
}

/* It had no answer. */
static void fail_silent(struct rlock__cluster *cluster, int code)
{
    const char *said = rlock__question_error(&cluster->question);
    char why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "%s%s", said != NULL ? said : cluster->asked->address,
                   said != NULL ? "" : ": no answer");
    fail(cluster, code, rlock__conn_error_is_final(&cluster->question.conn_opts, code), why);
}

static const char *how_refused(const struct rlock__cluster *cluster)
{
    return cluster->lacks_nodes ? " is not supported by the server" : " is not permitted";
}

/* What came is no answer: why not. */
static void fail_refused(struct rlock__cluster *cluster, const struct rlock__reply *reply,
                         const char *none)
{
    bool error = rlock__reply_is_error(reply);
    char said[120], why[RLOCK__DETAIL_SIZE];

    (void)snprintf(why, sizeof(why), "%s: CLUSTER NODES%s%s: %s", cluster->asked->address,
                   cluster->asks_slots ? how_refused(cluster) : "",
                   cluster->asks_slots ? "; CLUSTER SLOTS" : "",
                   error ? rlock__text(rlock__reply_str(reply, 0), said, sizeof(said)) : none);
    fail(cluster, RLOCK_ECONN, error && rlock__classify(reply).way == RLOCK__GIVE_UP, why);
}

static bool is_set_to(const struct rlock__reply *reply, const char *name, const char *value)
{
    return rlock__bytes_equal(rlock__reply_field(reply, name), rlock__bytes_of(value));
}

/* Where CONFIG GET is not permitted a second counts, and names go before addresses. */
static void on_config(struct rlock__cluster *cluster, const struct rlock__reply *reply)
{
    int64_t ms = rlock__bytes_number(rlock__reply_field(reply, "cluster-node-timeout"), 0);

    if (ms > 0 && (cluster->timeout_ms == 0 || ms < cluster->timeout_ms)) {
        cluster->timeout_ms = ms;
    }
    cluster->longest_ms = rlock__max(cluster->longest_ms, ms);
    cluster->endpoint = RLOCK__NAME_OR_ADDRESS;
    if (is_set_to(reply, "cluster-preferred-endpoint-type", "ip")) {
        cluster->endpoint = RLOCK__ADDRESS;
    } else if (is_set_to(reply, "cluster-preferred-endpoint-type", "unknown-endpoint")) {
        cluster->endpoint = RLOCK__HOST_ASKED;
    }
    cluster->names_plain =
        cluster->asked->conn_opts.tls != NULL && is_set_to(reply, "tls-cluster", "no");
}

/* ---- If the server refuses CLUSTER NODES ---- */

/* Whether it is not permitted, or the server does not support it. */
static bool is_refused(struct rlock__cluster *cluster, const struct rlock__reply *reply)
{
    cluster->lacks_nodes = rlock__error_is(reply, RLOCK__LACKING);
    return cluster->lacks_nodes ||
           (rlock__reply_is_error(reply) && rlock__classify(reply).code == RLOCK_EPERM);
}

static void note_once(struct rlock__cluster *cluster, const char *what)
{
    struct rlock_client *client = cluster->router.client;

    rlock__enter(client);
    if (!cluster->is_told) {
        rlock__note(
            &client->core, RLOCK_LOG_WARNING, rlock__about("cluster", cluster->asked->address, 0),
            "server %s: CLUSTER NODES%s: %s%s", cluster->asked->address, how_refused(cluster), what,
            cluster->lacks_nodes ? "" : ": permit +cluster|nodes");
    }
    rlock__leave(client);
    cluster->is_told = true;
}

/* The same server is asked for CLUSTER SLOTS, unless replicas are to be counted. */
static void on_refused(struct rlock__cluster *cluster)
{
    char why[RLOCK__DETAIL_SIZE];
    int code;

    if (cluster->router.client->core.opts.acks != RLOCK_ACKS_OFF) {
        note_once(cluster, "nobody says how many replicas have to acknowledge");
        (void)snprintf(why, sizeof(why),
                       "%s: CLUSTER NODES%s, so nobody says how many replicas have to "
                       "acknowledge: %sturn acks off",
                       cluster->asked->address, how_refused(cluster),
                       cluster->lacks_nodes ? "" : "permit +cluster|nodes, or ");
        fail(cluster, RLOCK_ECONN, true, why);
        return;
    }
    note_once(cluster, "CLUSTER SLOTS has to do, which does not tell who was replaced");
    cluster->asks_slots = true;
    code = rlock__question_begin(&cluster->question, rlock__bytes_of(ID_AND_SLOTS), 2,
                                 rlock__now_us());
    if (code != 0) {
        fail_silent(cluster, code);
    }
}

/* Where that is not permitted either nobody knows which of the nodes it is. */
static void on_id(struct rlock__cluster *cluster, const struct rlock__reply *reply)
{
    struct rlock__bytes id =
        rlock__reply_is_error(reply) ? rlock__bytes("", 0) : rlock__reply_str(reply, 0);

    (void)snprintf(cluster->id, sizeof(cluster->id), "%.*s", (int)id.len, id.at);
}

/* ---- Answers ---- */

/* Ahead of the map. */
static void on_first(struct rlock__cluster *cluster, const struct rlock__reply *reply)
{
    (cluster->asks_slots ? on_id : on_config)(cluster, reply);
}

static void on_map(struct rlock__cluster *cluster, const struct rlock__reply *reply)
{
    struct rlock__bytes text = rlock__reply_str(reply, 0);
    bool good = true;
    unsigned n;

    if (!cluster->asks_slots && is_refused(cluster, reply)) {
        on_refused(cluster);
        return;
    }
    if (cluster->asks_slots) {
        good = rlock__slots_rewrite(reply, rlock__bytes_of(cluster->id), &cluster->text);
        text = rlock__bytes(cluster->text.data, cluster->text.len);
    }
    n = good ? rlock__nodes_count(text) : 0;
    if (rlock__reply_is_error(reply) || n == 0 || n > RLOCK__SLOTS) {
        fail_refused(cluster, reply, good && n == 0 ? "it knows of no slots" : "it makes no sense");
    } else {
        rlock__cluster_learn(cluster, text);
    }
}

static struct rlock__node *after(const struct rlock__cluster *cluster, struct rlock__node *node)
{
    node = atomic_load(&node->next);
    return node != NULL ? node : cluster->router.client->nodes;
}

/*
 * Whom to ask: who says that the map is old, since that one knows a newer map. Else the same as
 * before while that answers. A link to it is confirmed by another one. Those that did not answer of
 * late are passed over, unless there are no others.
 */
RLOCK__REQUIRES(core)
static struct rlock__node *choose(struct rlock__cluster *cluster, int64_t now)
{
    struct rlock__node *node = cluster->asked, *says = cluster->says, *it;

    cluster->says = NULL;
    if (node == NULL) {
        return cluster->router.client->nodes;
    }
    if (says != NULL && says->silent_until <= now) {
        return says;
    }
    if (cluster->question.failures == 0 && !cluster->was_wanted && !cluster->is_nameless &&
        rlock__router_waits(node) == 0 &&
        (cluster->itself == NULL || rlock__router_waits(cluster->itself) == 0)) {
        return node;
    }
    it = after(cluster, node);
    while (it != node && it->silent_until > now) {
        it = after(cluster, it);
    }
    return it == node && node->silent_until > now ? after(cluster, node) : it;
}

/* Whether a server of slots is out of reach, and not let go: another one may take its place. */
RLOCK__REQUIRES(core) static bool is_any_down(const struct rlock__cluster *cluster)
{
    struct rlock__node *node;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        const struct rlock__server *server = &node->server;

        if (atomic_load(&node->is_used) && !server->links[0].pipeline.up && !server->is_let_go &&
            rlock__router_waits(node) == 0 && rlock__map_has(&cluster->map, server)) {
            return true;
        }
    }
    return false;
}

/* Since when that is so. */
RLOCK__REQUIRES(core) static void note_down(struct rlock__cluster *cluster, int64_t now)
{
    if (!is_any_down(cluster)) {
        cluster->down_since = 0;
    } else if (cluster->down_since == 0) {
        cluster->down_since = now;
    }
}

/* The longest between two questions. */
RLOCK__REQUIRES(core) static int64_t quiet_us(const struct rlock__cluster *cluster)
{
    return cluster->router.client->core.opts.acks != RLOCK_ACKS_OFF ? COUNT_US : QUIET_US;
}

/* The timeout is asked for less often: where that is not permitted, each time would be logged. So
 * is what CLUSTER NODES says, where CLUSTER SLOTS has to do. */
static void begin(struct rlock__cluster *cluster, int64_t now)
{
    struct rlock__question *question = &cluster->question;
    const char *commands = GET_CONFIG NODES;
    struct rlock__node *node;
    bool both;
    int code;

    rlock__enter(cluster->router.client);
    cluster->was_wanted = cluster->router.is_wanted;
    note_down(cluster, now);
    cluster->router.is_wanted = false;
    cluster->jitter_us =
        rlock__random_below(&cluster->router.client->core.random, quiet_us(cluster) / 8);
    node = choose(cluster, now);
    rlock__core_mutex_unlock(&cluster->router.client->mutex);
    both = node != cluster->asked || now >= cluster->timeout_at + QUIET_US;
    if (both) {
        cluster->timeout_at = now;
        cluster->asks_slots = false;
    } else {
        commands = cluster->asks_slots ? ID_AND_SLOTS : NODES;
    }
    if (node != cluster->asked) {
        rlock__question_close(question);
        cluster->asked = node;
        cluster->itself = NULL;
        cluster->is_nameless = false;
        question->conn_opts = node->conn_opts;
        question->conn_opts.want_info = false;
    }
    code = rlock__question_begin(question, rlock__bytes_of(commands),
                                 both || cluster->asks_slots ? 2 : 1, now);
    if (code != 0) {
        fail_silent(cluster, code);
    }
}

/* When the next question is due. Visits all nodes. */
RLOCK__REQUIRES(core) static int64_t find_next(const struct rlock__cluster *cluster)
{
    int64_t quiet = quiet_us(cluster) - cluster->jitter_us;
    bool hurries =
        is_any_down(cluster) &&
        (cluster->down_since == 0 || cluster->question.asked_at < cluster->down_since + HURRY_US);
    bool wanted = cluster->router.is_wanted || hurries;
    int64_t at = cluster->question.asked_at + (wanted ? APART_US : quiet);
    struct rlock__node *node;

    if (cluster->answered_at == 0 || cluster->question.failures > 0) {
        int64_t pause = cluster->question.failures < QUICK ? AGAIN_US : APART_US;

        return cluster->question.failures > 0 ? cluster->question.asked_at + pause : 0;
    }
    RLOCK__EACH_NODE(cluster->router.client, node) {
        int64_t since = rlock__router_waits(node);

        if (since != 0) {
            at = rlock__min(
                at, rlock__max(since + RLOCK__CONFIRM_US, cluster->question.asked_at + RLOCK__MS));
        }
    }
    return at;
}

/* The same. Visits the nodes only if something has changed: a message must cost the same in a large
 * cluster. */
RLOCK__REQUIRES(core) static int64_t next_at(struct rlock__cluster *cluster)
{
    if (cluster->router.replans) {
        cluster->router.replans = false;
        cluster->next_at = find_next(cluster);
    }
    return cluster->next_at;
}

int64_t rlock__cluster_plan(struct rlock__router *router)
{
    struct rlock__cluster *cluster = RLOCK__OF(struct rlock__cluster, router, router);

    return rlock__question_is_open(&cluster->question) ? rlock__question_plan(&cluster->question)
                                                       : next_at(cluster);
}

/* Takes what has come of the answer. */
static void go_on(struct rlock__cluster *cluster, int64_t now)
{
    struct rlock__reply reply;
    int code = 0;

    while (rlock__question_is_open(&cluster->question) &&
           (code = rlock__question_go_on(&cluster->question, &reply, now)) > 0) {
        (rlock__question_is_open(&cluster->question) ? on_first : on_map)(cluster, &reply);
    }
    if (code < 0) {
        fail_silent(cluster, code);
    }
}

void rlock__cluster_serve(struct rlock__router *router, int64_t now)
{
    struct rlock__cluster *cluster = RLOCK__OF(struct rlock__cluster, router, router);
    bool begins, is_open = rlock__question_is_open(&cluster->question);

    rlock__enter(router->client);
    begins = !is_open && now >= next_at(cluster);
    router->replans = router->replans || begins || is_open; /* when it is not open any more */
    rlock__core_mutex_unlock(&router->client->mutex);
    if (begins) {
        begin(cluster, now);
    }
    if (begins || is_open) {
        go_on(cluster, now);
        rlock__question_register(&cluster->question, router->client->threads.nodes_fd);
    }
}
