/* SPDX-License-Identifier: Apache-2.0 */
#include "router/cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lock/server/listing.h"
#include "topology/redirect.h"
#include "topology/slot.h"

/* No server that was silent for less is replaced, where cluster-node-timeout is 500 ms or more:
 * the election takes half a second more. Until a node has told the timeout. */
#define FAILOVER_US RLOCK__SECOND
#define DEFAULT_TIMEOUT_MS 15000 /* cluster-node-timeout, where no node tells it */
/* So many primaries are connected to as soon as they are known: the first lock on each need not
 * wait until its link is confirmed. With more each is connected to when a key needs it. */
#define AT_ONCE_MAX 64

static struct rlock__cluster *cluster_of(struct rlock__core *core)
{
    return RLOCK__OF(struct rlock__cluster, router, rlock__client_of(core)->router);
}

/* ---- For the core ---- */

RLOCK__ALONE static struct rlock__server *route(struct rlock__core *core,
                                                const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__server *server = rlock__map_find(&cluster_of(core)->map, spec->slot);
    struct rlock__node *node;

    if (server != NULL) {
        return server;
    }
    RLOCK__EACH_NODE(client, node) { /* any knows it, or says why not */
        if (atomic_load(&node->is_used)) {
            return &node->server;
        }
    }
    return &client->nodes->server;
}

/* An empty host is that of the node that says so. */
static struct rlock__bytes host_of(struct rlock__bytes host, const struct rlock__node *says)
{
    return host.len != 0 ? host : rlock__bytes_of(says->uri.host);
}

static struct rlock__node *find(const struct rlock__node *says, struct rlock__bytes host,
                                uint16_t port)
{
    return rlock__router_find(says->client, host_of(host, says), port);
}

RLOCK__ALONE static enum rlock__redirect redirect(struct rlock__core *core,
                                                  const struct rlock__link *link,
                                                  const struct rlock__reply *reply,
                                                  struct rlock__server **ret_server)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__redirection to;
    struct rlock__node *node;

    *ret_server = NULL;
    if (!rlock__redirection_read(reply, &to)) {
        return RLOCK__NO_REDIRECT;
    }
    node = find(rlock__node_of(link->server), to.host, to.port);
    if (node != NULL) {
        rlock__node_use(node, true);
        *ret_server = &node->server;
    }
    if (to.ask) {
        return RLOCK__ASK;
    }
    core->moved_at = rlock__now_us();
    rlock__router_want(client->router);
    if (cluster_of(core)->says == NULL) {
        cluster_of(core)->says = rlock__node_of(link->server);
    }
    if (node != NULL) { /* without memory another one says it again */
        (void)rlock__map_told(&cluster_of(core)->map, to.slot, *ret_server, rlock__now_us());
    }
    return RLOCK__MOVED;
}

/* ---- New links ---- */

/* Whether no other node has answered of late. What no answer names is another name of one. */
static bool is_last(const struct rlock__cluster *cluster)
{
    const struct rlock__node *node;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        if (node != cluster->asked && node != cluster->itself && node->id[0] != '\0' &&
            node->silent_until <= cluster->question.asked_at) {
            return false;
        }
    }
    return true;
}

/* An answer came. That of a node itself confirms its link where no other node answers. Who does not
 * say which node it is may be any. */
RLOCK__REQUIRES(core) static void confirm(const struct rlock__cluster *cluster)
{
    struct rlock__node *node;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        int64_t asked_at = cluster->question.asked_at;
        bool own = node == cluster->asked || node == cluster->itself || cluster->is_nameless;

        if (!own || is_last(cluster)) {
            rlock__router_confirm(node, asked_at - RLOCK__CONFIRM_US, own ? asked_at : 0);
        }
    }
}

/* ---- The answer ---- */

/* Has a node for each server that the answer names. Without memory one may be missing. */
static void add_nodes(struct rlock__cluster *cluster, struct rlock__bytes text)
{
    struct rlock__nodes_line line;
    struct rlock__node *node;
    unsigned n_primaries = 0;

    while (rlock__nodes_next(&text, cluster->endpoint, &line)) {
        if (line.is_away || rlock__bytes_equal(line.host, rlock__bytes_of("?"))) {
            continue;
        }
        node = rlock__router_node(cluster->router.client, host_of(line.host, cluster->asked),
                                  line.port);
        if (node != NULL && line.is_primary && node->led_at != cluster->answered_at) {
            node->led_at = cluster->answered_at;
            n_primaries++; /* it may have several lines */
        }
    }
    cluster->is_large = n_primaries > AT_ONCE_MAX;
}

/* Whether the line is of a primary that failed, and is a replica since. Says so once. */
RLOCK__REQUIRES(core)
static bool had_failed(const struct rlock__cluster *cluster, const struct rlock__nodes_line *line)
{
    struct rlock__node *node;
    bool had = false;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        if (rlock__bytes_equal(line->id, rlock__bytes_of(node->id))) {
            had = node->had_failed;
            node->had_failed = false;
        }
    }
    return had;
}

/* The replicas of a primary, as it lists them: by their addresses. Returns how many. */
RLOCK__REQUIRES(core)
static size_t put_words(const struct rlock__cluster *cluster, struct rlock__bytes text,
                        const struct rlock__node *node, struct rlock__replica_word words[])
{
    struct rlock__nodes_line line;
    size_t n = 0;

    while (n <= RLOCK__REPLICAS && rlock__nodes_next(&text, RLOCK__ADDRESS, &line)) {
        struct rlock__bytes host = host_of(line.host, cluster->asked);
        int len;

        if (line.is_primary || !rlock__bytes_equal(line.primary, rlock__bytes_of(node->id))) {
            continue;
        }
        words[n] = (struct rlock__replica_word){.is_barred = line.is_barred,
                                                .is_held_down = line.has_failed,
                                                .is_free = !line.is_barred && !line.has_failed,
                                                .was_replaced = had_failed(cluster, &line)};
        len = snprintf(words[n].place, RLOCK__PLACE_SIZE, "%.*s:%u", (int)host.len, host.at,
                       line.port);
        if (line.is_away || len < 0 || len >= RLOCK__PLACE_SIZE) {
            words[n].place[0] = '\0';
        }
        n++;
    }
    return n;
}

/* A primary that is cut off stops after the timeout. Where that is unknown it is the servers'
 * default. */
RLOCK__REQUIRES(core)
static void set_patience(const struct rlock__cluster *cluster, struct rlock__replicas *replicas)
{
    int64_t timeout =
        rlock__reported_ms(cluster->longest_ms != 0 ? cluster->longest_ms : DEFAULT_TIMEOUT_MS);

    replicas->alive_after_us = timeout + RLOCK__SECOND;
    replicas->gone_after_us = rlock__max(5 * RLOCK__SECOND, timeout + 2 * RLOCK__SECOND);
}

/* Notes the replicas of each primary. Those that are down may be promoted later. */
RLOCK__REQUIRES(core)
static void note_replicas(struct rlock__cluster *cluster, struct rlock__bytes text)
{
    struct rlock__replica_word words[RLOCK__REPLICAS + 1];
    struct rlock__node *node;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        size_t n = node->id[0] != '\0' ? put_words(cluster, text, node, words) : 0;

        set_patience(cluster, &node->server.replicas);
        cluster->is_recounted |= rlock__listing_known(&node->server, words, n, rlock__now_us());
    }
}

/* Since when there has been no link to it. */
RLOCK__REQUIRES(core) static void note_down(struct rlock__node *node, int64_t now)
{
    const struct rlock__server *server = &node->server;
    bool down = atomic_load(&node->is_used) && !server->links[0].pipeline.up &&
                !server->is_let_go && rlock__router_waits(node) == 0;

    node->down_since = !down ? 0 : node->down_since != 0 ? node->down_since : now;
    node->is_gone = down && now >= node->down_since + node->client->core.opts.failover_us;
}

/* For the map: whether another server may have a range of this one, with a lower epoch. */
static bool lets_go(void *server)
{
    struct rlock__node *node = rlock__node_of(server);

    node->is_outrun = node->is_outrun || node->is_gone;
    return node->is_gone;
}

/* The answer names the server of a range. One that has it with a lower epoch, while nobody can ask
 * the server before, must say so itself: it is asked next. */
RLOCK__REQUIRES(core)
static void learn_range(struct rlock__cluster *cluster, struct rlock__node *node,
                        const struct rlock__nodes_line *line, unsigned from, unsigned to)
{
    int64_t asked_at = cluster->question.asked_at;
    struct rlock__server *owner;

    (void)rlock__map_learn(&cluster->map, from, to, &node->server, line->epoch, asked_at,
                           line->is_asked ? lets_go : NULL);
    if (line->is_asked) {
        return;
    }
    owner = rlock__map_newer(&cluster->map, from, &node->server, line->epoch);
    if (owner != NULL && rlock__node_of(owner)->is_gone && cluster->says == NULL) {
        cluster->says = node;
        cluster->router.is_wanted = true;
    }
}

/* Notes what the answer says of each node. */
RLOCK__REQUIRES(core) static void learn(struct rlock__cluster *cluster, struct rlock__bytes text)
{
    struct rlock_client *client = cluster->router.client;
    const struct rlock__bytes all = text;
    struct rlock__nodes_line line;
    struct rlock__node *node;
    unsigned from, to;

    RLOCK__EACH_NODE(client, node) {
        node->is_primary = node->is_replaced = node->is_outrun = false;
        note_down(node, cluster->question.asked_at);
    }
    cluster->is_nameless = cluster->asks_slots && cluster->id[0] == '\0' && cluster->itself == NULL;
    while (rlock__nodes_next(&text, cluster->endpoint, &line)) {
        node = line.is_away ? NULL : find(cluster->asked, line.host, line.port);
        if (node == NULL) {
            continue;
        }
        node->is_primary = line.is_primary && !line.has_failed;
        node->is_replaced = !node->is_primary;
        node->had_failed = line.is_primary ? line.has_failed : node->had_failed;
        (void)snprintf(node->id, sizeof(node->id), "%.*s", (int)line.id.len, line.id.at);
        node->server.id = node->id;
        /* one that the user says is elsewhere is reached there */
        atomic_store(&node->names_plain,
                     cluster->names_plain && node->place.port == node->uri.port);
        cluster->itself = line.is_asked ? node : cluster->itself;
        cluster->is_nameless = cluster->is_nameless && node != cluster->asked;
        while (line.is_primary && rlock__nodes_range(&line.slots, &from, &to)) {
            if (!atomic_load(&node->is_used)) {
                /* until a key needs it; before the map was known all needed the first one */
                node->server.is_let_go = cluster->is_large && node->server.used_at == 0;
                rlock__node_use(node, true);
            }
            learn_range(cluster, node, &line, from, to);
        }
    }
    if (!cluster->asks_slots) { /* those that failed are not there */
        note_replicas(cluster, all);
    }
}

/* Tells the core what has changed. CLUSTER SLOTS has no epochs: it proves no promotion. */
RLOCK__REQUIRES(core) static void tell(struct rlock__cluster *cluster, int64_t now)
{
    struct rlock__node *node;
    bool any = false;

    RLOCK__EACH_NODE(cluster->router.client, node) {
        bool gone = !node->is_primary && !node->server.links[0].pipeline.up;
        bool replaced = node->is_replaced && !node->is_outrun && !cluster->asks_slots;

        if (!atomic_load(&node->is_used) || rlock__map_has(&cluster->map, &node->server)) {
            continue;
        }
        if (replaced) {
            rlock__core_replaced(&node->server, now);
            rlock__replicas_reset(&node->server.replicas);
        }
        rlock__node_use(node, !replaced && !gone);
        any = any || replaced || gone;
    }
    if (any || cluster->is_recounted || cluster->told != cluster->map.changes) {
        cluster->told = cluster->map.changes;
        cluster->is_recounted = false;
        rlock__core_rerouted(&cluster->router.client->core, now);
    }
}

void rlock__cluster_learn(struct rlock__cluster *cluster, struct rlock__bytes text)
{
    struct rlock_client *client = cluster->router.client;

    cluster->answered_at = cluster->question.asked_at;
    add_nodes(cluster, text);
    rlock__enter(client);
    cluster->question.failures = 0;
    cluster->asked->silent_until = 0;
    learn(cluster, text);
    if (cluster->timeout_ms != 0) {
        rlock__router_set_silence(client, cluster->timeout_ms);
    }
    confirm(cluster);
    tell(cluster, rlock__now_us());
    rlock__leave_and_drive(client);
}

/* ---- Beginning and end ---- */

RLOCK__REQUIRES(core)
static bool leads(struct rlock__router *router, const struct rlock__node *node)
{
    const struct rlock__cluster *cluster = RLOCK__OF(struct rlock__cluster, router, router);

    return node->is_primary || rlock__map_has(&cluster->map, &node->server);
}

RLOCK__ALONE static struct rlock__router *cluster_free(struct rlock__router *router)
{
    struct rlock__cluster *cluster = RLOCK__OF(struct rlock__cluster, router, router);

    rlock__question_fini(&cluster->question);
    rlock__map_fini(&cluster->map);
    rlock__buf_fini(&cluster->text);
    free(cluster);
    return NULL;
}

static void cluster_close(struct rlock__router *router)
{
    rlock__question_close(&RLOCK__OF(struct rlock__cluster, router, router)->question);
}

RLOCK__ALONE struct rlock__router *rlock__cluster_new(struct rlock_client *client)
{
    static const struct rlock__router_ops ops = {cluster_free, cluster_close, rlock__cluster_plan,
                                                 rlock__cluster_serve, leads};
    struct rlock__cluster *cluster = calloc(1, sizeof(*cluster));

    if (cluster == NULL) {
        return NULL;
    }
    cluster->router = (struct rlock__router){.ops = &ops, .client = client, .replans = true};
    client->core.driver.slot = rlock__slot;
    client->core.driver.route = route;
    client->core.driver.redirect = redirect;
    client->core.several = true;
    client->core.opts.failover_us = FAILOVER_US;
    return &cluster->router;
}
