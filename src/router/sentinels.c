/* SPDX-License-Identifier: Apache-2.0 */
#include "router/sentinels.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* ---- For the core ---- */

RLOCK__ALONE static struct rlock__server *route(struct rlock__core *core,
                                                const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__node *primary = rlock__sentinels_of(client->router)->primary;

    (void)spec; /* there is one primary */
    return primary != NULL ? &primary->server : &client->nodes->server;
}

/* ---- The primary ---- */

/* This one is used from now on. lower: nothing proves that it knows what was sent to the one
 * before. */
RLOCK__REQUIRES(core)
static void use(struct rlock__sentinels *all, struct rlock__node *node, bool lower, int64_t now)
{
    struct rlock_client *client = all->router.client;
    struct rlock__node *before = all->primary;

    rlock__node_use(node, true);
    if (node == before) {
        return;
    }
    all->primary = node;
    rlock__health_moves(&all->health, before, node, now);
    if (before != NULL) {
        rlock__node_use(before, false);
        if (lower) {
            rlock__router_withhold(before, now);
        } else {
            rlock__core_replaced(&before->server, now);
        }
    }
    client->watch.service_replans = true;
    rlock__core_rerouted(&client->core, now);
}

void rlock__sentinels_learn(struct rlock__sentinels *all, bool lower)
{
    struct rlock_client *client = all->router.client;
    const struct rlock__primary *known = &all->choice.known;
    struct rlock__node *node =
        rlock__router_node(client, rlock__bytes_of(known->host), known->port);

    if (node == NULL) {
        return; /* the next round decides it again */
    }
    all->failures = 0;
    rlock__descent_know(&all->descent, node);
    rlock__enter(client);
    rlock__router_set_silence(client, known->down_after_ms);
    use(all, node, lower, rlock__now_us());
    if (rlock__health_learn(&all->health, node, all->each, all->n, all->round_at,
                            rlock__now_us())) {
        rlock__core_rerouted(&client->core, rlock__now_us());
    }
    rlock__router_confirm(node, all->round_at, 0);
    rlock__leave_and_drive(client);
}

/* Another primary may follow soon, or not. */
static void withhold(struct rlock__sentinels *all)
{
    struct rlock_client *client = all->router.client;
    struct rlock__node *primary;
    bool suspends = rlock__choice_suspends(&all->choice);

    rlock__enter(client);
    primary = all->primary;
    if (primary != NULL) { /* else there was no memory for its node */
        rlock__node_use(primary, !suspends);
    }
    if (primary != NULL && suspends) {
        rlock__router_withhold(primary, rlock__now_us());
    }
    rlock__leave_and_drive(client);
}

/* Why no primary is known. */
static void tell_failure(const struct rlock__sentinels *all)
{
    const struct rlock__sentinel *first = NULL;
    bool final = true;

    for (size_t i = 0; i < all->n; i++) {
        first = first == NULL && all->each[i].code != 0 ? &all->each[i] : first;
        final = final && all->each[i].final && all->each[i].code != 0;
    }
    if (all->choice.discord != RLOCK__AGREED) {
        rlock__router_tell(all->router.client->nodes, RLOCK_ECONN, false, all->choice.why);
    } else if (first != NULL) {
        rlock__router_tell(all->router.client->nodes, first->code, final, first->why);
    }
}

void rlock__sentinels_wait(struct rlock__sentinels *all)
{
    all->failures++;
    if (all->choice.known.host[0] == '\0') {
        tell_failure(all);
    } else {
        withhold(all);
    }
}

void rlock__sentinels_report(struct rlock__sentinels *all)
{
    const struct rlock__choice *choice = &all->choice;
    struct rlock__core *core = &all->router.client->core;

    if (choice->discord == RLOCK__AGREED && core->trouble == NULL) {
        return;
    }
    rlock__enter(all->router.client);
    (void)snprintf(all->trouble, sizeof(all->trouble), "%s", choice->why);
    core->trouble = choice->discord != RLOCK__AGREED ? all->trouble : NULL;
    rlock__core_mutex_unlock(&all->router.client->mutex);
}

void rlock__sentinels_log(struct rlock__sentinels *all)
{
    if (all->choice.is_new) {
        rlock__enter(all->router.client);
        rlock__note(&all->router.client->core, RLOCK_LOG_WARNING,
                    rlock__about("sentinels", NULL, 0), "%s", all->choice.why);
        rlock__leave(all->router.client);
    }
}

/* ---- Beginning and end ---- */

RLOCK__REQUIRES(core)
static bool leads(struct rlock__router *router, const struct rlock__node *node)
{
    return rlock__sentinels_of(router)->primary == node;
}

struct rlock__conn_opts rlock__sentinel_opts(const struct rlock_client *client, size_t which)
{
    struct rlock__conn_opts opts = client->conn_opts;

    opts.uri = &client->uri.places[which];
    opts.user = client->opts.sentinel_user;
    opts.password = client->opts.sentinel_password;
    opts.tls = opts.uri->tls ? client->tls : NULL;
    opts.want_info = opts.want_role = false;
    opts.is_sentinel = true;
    return opts;
}

static struct rlock__router *sentinels_free(struct rlock__router *router)
{
    struct rlock__sentinels *all = rlock__sentinels_of(router);

    for (size_t i = 0; i < all->n; i++) {
        rlock__sentinel_fini(&all->each[i]);
    }
    rlock__question_fini(&all->descent.question);
    free(all);
    return NULL;
}

static void sentinels_close(struct rlock__router *router)
{
    struct rlock__sentinels *all = rlock__sentinels_of(router);

    for (size_t i = 0; i < all->n; i++) {
        rlock__question_close(&all->each[i].question);
        rlock__conn_close(all->each[i].subscription);
    }
    rlock__question_close(&all->descent.question);
}

RLOCK__ALONE struct rlock__router *rlock__sentinels_new(struct rlock_client *client)
{
    static const struct rlock__router_ops ops = {
        sentinels_free, sentinels_close, rlock__sentinels_plan, rlock__sentinels_serve, leads};
    struct rlock__uri *uri = &client->uri;
    struct rlock__sentinels *all = calloc(1, sizeof(*all) + uri->n_places * sizeof(all->each[0]));
    bool good = true;

    if (all == NULL) {
        return NULL;
    }
    all->choice.n_sentinels = uri->n_places;
    all->router = (struct rlock__router){.ops = &ops, .client = client};
    for (size_t i = 0; i < uri->n_places; i++) {
        struct rlock__conn_opts opts = rlock__sentinel_opts(client, i);

        good = rlock__node_map(client, true, &uri->places[i]) && good;
        good = rlock__sentinel_init(&all->each[all->n++], &opts) && good;
    }
    if (!good) {
        return sentinels_free(&all->router);
    }
    client->core.driver.route = route;
    client->core.several = true;
    return &all->router;
}
