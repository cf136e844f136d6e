/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of a client behind Sentinel. All Sentinels are asked for the primary at a time: every
 * second, when one of them says that it has changed, and while there is no link to it. Which
 * primary is used then is for cluster/choice.h.
 *
 * A primary that was replaced while it was frozen goes on as one for ten seconds. So a new link
 * says ROLE, and the Sentinels are asked again after that.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/choice.h"
#include "drive/router.h"
#include "drive/sentinel.h"

#define QUIET_US RLOCK__SECOND     /* between two rounds */
#define APART_US (100 * RLOCK__MS) /* the same while there is no link */
#define AGAIN_US (20 * RLOCK__MS)  /* after a round that brought nothing */
#define QUICK 6                    /* of the first few such */

struct sentinels {
    struct rlock__router router; /* first: the core's router is found by it */
    RLOCK__GUARDED_BY(core) struct {
        struct rlock__node *primary; /* NULL unknown */
        char trouble[RLOCK__WHY_SIZE];
    };

    /* the service thread's own */
    int64_t round_at; /* when the latest round began */
    bool in_round;
    unsigned failures; /* rounds in a row that brought nothing */
    bool asks_again;   /* the latest round may have come just before the Sentinels agree */
    struct rlock__choice choice;
    struct rlock__evidence evidence;
    size_t n;
    struct rlock__sentinel each[];
};

static struct sentinels *of(struct rlock__router *router)
{
    return RLOCK__OF(struct sentinels, router, router);
}

/* ---- For the core ---- */

RLOCK__ALONE static struct rlock__server *route(struct rlock__core *core,
                                                const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(core);
    struct rlock__node *primary = of(client->router)->primary;

    (void)spec; /* there is one primary */
    return primary != NULL ? &primary->server : &client->nodes->server;
}

/* ---- A round ---- */

/* The newest configuration names this node. */
RLOCK__REQUIRES(core)
static void use(struct sentinels *all, struct rlock__node *node, int64_t now)
{
    struct rlock_client *client = all->router.client;
    struct rlock__node *before = all->primary;

    if (node == before) {
        return;
    }
    all->primary = node;
    if (before != NULL) {
        atomic_store(&before->is_used, false);
        rlock__core_replaced(&before->server, now);
    }
    atomic_store(&node->is_used, true);
    client->service_looks = true;
    rlock__core_rerouted(&client->core, now);
}

/* The round has decided. */
static void learn(struct sentinels *all)
{
    struct rlock_client *client = all->router.client;
    const struct rlock__primary *known = &all->choice.known;
    struct rlock__node *node =
        rlock__router_node(client, rlock__bytes_of(known->host), known->port);

    if (node == NULL) {
        return; /* the next round decides it again */
    }
    all->failures = 0;
    rlock__enter(client);
    rlock__router_set_silence(client, known->down_after_ms);
    if (node->server.replicas != known->replicas) {
        node->server.replicas = (unsigned)known->replicas;
        rlock__core_rerouted(&client->core, rlock__now_us());
    }
    use(all, node, rlock__now_us());
    rlock__router_confirm(node, all->round_at, 0);
    rlock__leave_and_drive(client);
}

/* No primary is known yet: calls that wait for one learn why. */
static void tell_failure(const struct sentinels *all)
{
    const struct rlock__sentinel *first = NULL;
    bool final = true;

    if (all->choice.known.host[0] != '\0') {
        return;
    }
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

/* What the Sentinels do not agree on is logged once; errors tell it as long as it lasts. */
static void report(struct sentinels *all)
{
    const struct rlock__choice *choice = &all->choice;
    struct rlock__core *core = &all->router.client->core;

    if (choice->discord == RLOCK__AGREED && core->trouble == NULL) {
        return;
    }
    rlock__enter(all->router.client);
    (void)snprintf(all->trouble, sizeof(all->trouble), "%s", choice->why);
    core->trouble = choice->discord != RLOCK__AGREED ? all->trouble : NULL;
    if (choice->is_new) {
        rlock__note(core, RLOCK_LOG_WARNING, "%s", choice->why);
    }
    rlock__leave(all->router.client);
}

/* An answer from before the round counts too if it is news. */
static bool counts(const struct sentinels *all, const struct rlock__sentinel *sentinel)
{
    return sentinel->said.host[0] != '\0' && (sentinel->said_at >= all->round_at ||
                                              rlock__choice_is_news(&all->choice, &sentinel->said));
}

static bool knows_peer(const struct sentinels *all, const struct rlock__sentinel *sentinel)
{
    for (size_t i = 0; i < all->n; i++) {
        if (&all->each[i] != sentinel && rlock__sentinel_knows(sentinel, &all->each[i])) {
            return true;
        }
    }
    return false;
}

/* Takes the answers that count, with the shortest of their times and the most of their replicas.
 * Returns how many. */
static size_t gather(const struct sentinels *all, size_t most, struct rlock__vote votes[])
{
    int64_t down_after_ms = INT64_MAX / RLOCK__MS, replicas = 0;
    size_t n = 0;

    for (size_t i = 0; i < all->n && n < most; i++) {
        const struct rlock__sentinel *sentinel = &all->each[i];

        if (counts(all, sentinel)) {
            votes[n++] = (struct rlock__vote){.primary = sentinel->said,
                                              .sentinel = sentinel->address,
                                              .knows_peer = knows_peer(all, sentinel)};
            down_after_ms = rlock__min(down_after_ms, sentinel->said.down_after_ms);
            replicas = rlock__max(replicas, sentinel->said.replicas);
        }
    }
    for (size_t i = 0; i < n; i++) {
        votes[i].primary.down_after_ms = down_after_ms;
        votes[i].primary.replicas = replicas;
    }
    return n;
}

static void end_round(struct sentinels *all)
{
    struct rlock__vote votes[64];
    struct rlock__round round = {.votes = votes, .evidence = &all->evidence};
    enum rlock__verdict verdict;

    all->in_round = false;
    round.n = gather(all, sizeof(votes) / sizeof(votes[0]), votes);
    round.now = rlock__now_us();
    verdict = rlock__choice_round(&all->choice, &round);
    all->asks_again = verdict == RLOCK__ASK_AGAIN;
    report(all);
    if (verdict == RLOCK__DECIDED) {
        learn(all);
    } else {
        all->failures++;
        tell_failure(all);
    }
}

/* Goes on with the round. */
static void serve_round(struct sentinels *all, int64_t now)
{
    const char *name = all->router.client->uri.primary;
    bool waits = false, open = false;
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++) {
        struct rlock__sentinel *sentinel = &all->each[i];

        while (!rlock__question_is_open(&sentinel->question) && sentinel->said_at < all->round_at) {
            rlock__sentinel_ask(sentinel, name, all->choice.few > 0, now);
            rlock__sentinel_go_on(sentinel, now);
        }
        open = open || rlock__question_is_open(&sentinel->question);
        waits = waits || (rlock__question_is_open(&sentinel->question) && !sentinel->is_silent);
        n += counts(all, sentinel);
    }
    if (2 * n > all->n || (n > 0 && all->choice.few > 1) ? !waits : !open) {
        end_round(all);
    }
}

/* ---- For the service thread ---- */

/* When the next round is due. */
RLOCK__REQUIRES(core) static int64_t next_at(const struct sentinels *all)
{
    const struct rlock__node *primary = all->primary;
    bool up = primary != NULL && primary->server.links[0].pipeline.up;

    if (all->failures > 0 && all->failures < QUICK) {
        return all->round_at + AGAIN_US;
    }
    if (all->failures > 0) {
        bool soon = !up || all->router.is_wanted || all->asks_again;

        return all->round_at + (soon ? APART_US : QUIET_US);
    }
    if (primary == NULL) {
        return 0;
    }
    if (rlock__router_waits(primary) != 0) {
        return rlock__max(rlock__router_waits(primary), all->round_at + RLOCK__MS);
    }
    return all->round_at + (all->router.is_wanted || !up ? APART_US : QUIET_US);
}

RLOCK__REQUIRES(core)
static int64_t plan(struct rlock__router *router, struct pollfd *ret_fds)
{
    struct sentinels *all = of(router);
    int64_t until = all->in_round ? RLOCK__NEVER : next_at(all);

    for (size_t i = 0; i < all->n; i++) {
        until = rlock__min(
            until, rlock__sentinel_plan(&all->each[i], &ret_fds[2 * i], &ret_fds[2 * i + 1]));
    }
    return until;
}

static void serve(struct rlock__router *router, int64_t now)
{
    struct sentinels *all = of(router);
    bool changes = false, begins;

    for (size_t i = 0; i < all->n; i++) {
        changes = rlock__sentinel_hear(&all->each[i], now) || changes;
        rlock__sentinel_go_on(&all->each[i], now);
        changes = changes || rlock__choice_is_news(&all->choice, &all->each[i].said);
    }
    rlock__enter(router->client);
    router->is_wanted = router->is_wanted || changes;
    begins = !all->in_round && now >= next_at(all);
    if (begins) {
        router->is_wanted = false;
    }
    rlock__core_mutex_unlock(&router->client->mutex);
    if (begins) {
        all->in_round = true;
        all->round_at = now;
    }
    if (all->in_round) {
        serve_round(all, now);
    }
}

/* ---- Beginning and end ---- */

RLOCK__REQUIRES(core)
static bool leads(struct rlock__router *router, const struct rlock__node *node)
{
    return RLOCK__OF(struct sentinels, router, router)->primary == node;
}

struct rlock__conn_opts rlock__sentinel_opts(const struct rlock_client *client, size_t which)
{
    struct rlock__conn_opts opts = client->conn_opts;

    opts.uri = &client->uri.places[which];
    opts.user = client->opts.sentinel_user;
    opts.password = client->opts.sentinel_password;
    opts.tls = opts.uri->tls ? client->tls : NULL;
    opts.want_info = opts.want_role = false;
    return opts;
}

static struct rlock__router *sentinels_free(struct rlock__router *router)
{
    struct sentinels *all = of(router);

    for (size_t i = 0; i < all->n; i++) {
        rlock__sentinel_fini(&all->each[i]);
    }
    free(all);
    return NULL;
}

static void sentinels_close(struct rlock__router *router)
{
    struct sentinels *all = of(router);

    for (size_t i = 0; i < all->n; i++) {
        rlock__question_close(&all->each[i].question);
        rlock__conn_close(all->each[i].ear);
    }
}

RLOCK__ALONE struct rlock__router *rlock__sentinels_new(struct rlock_client *client)
{
    static const struct rlock__router_ops ops = {sentinels_free, sentinels_close, plan, serve,
                                                 leads};
    struct rlock__uri *uri = &client->uri;
    struct sentinels *all = calloc(1, sizeof(*all) + uri->n_places * sizeof(all->each[0]));
    bool good = true;

    if (all == NULL) {
        return NULL;
    }
    all->choice.n_sentinels = uri->n_places;
    all->router =
        (struct rlock__router){.ops = &ops, .client = client, .n_polled = 2 * uri->n_places};
    for (size_t i = 0; i < uri->n_places; i++) {
        struct rlock__conn_opts opts = rlock__sentinel_opts(client, i);

        good = rlock__node_map(client, &uri->places[i]) && good;
        good = rlock__sentinel_init(&all->each[all->n++], &opts) && good;
    }
    if (!good) {
        return sentinels_free(&all->router);
    }
    client->core.route = route;
    client->core.several = true;
    return &all->router;
}
