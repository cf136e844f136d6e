/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks all Sentinels for the primary, in rounds. A round begins every second, when a Sentinel
 * reports a change, and while there is no link to the primary. topology/choice.h decides from the
 * answers which primary the client uses.
 *
 * A primary that was replaced while it was frozen still acts as one for ten seconds. Therefore a
 * new link asks for ROLE, and the Sentinels are asked again after that.
 */
#include "base/clock.h"
#include "router/sentinels.h"

#define QUIET_US RLOCK__SECOND     /* between two rounds */
#define APART_US (100 * RLOCK__MS) /* the same while there is no link */
#define AGAIN_US (20 * RLOCK__MS)  /* after a round that brought nothing */
#define QUICK 6                    /* of the first few such */

/* ---- A round ---- */

/* An answer from before the round counts too if it is news. */
static bool counts(const struct rlock__sentinels *all, const struct rlock__sentinel *sentinel)
{
    return sentinel->said.host[0] != '\0' && (sentinel->said_at >= all->round_at ||
                                              rlock__choice_is_news(&all->choice, &sentinel->said));
}

static bool knows_peer(const struct rlock__sentinels *all, const struct rlock__sentinel *sentinel)
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
static size_t gather(const struct rlock__sentinels *all, size_t most, struct rlock__vote votes[])
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

/* What the client itself knows of the primary, and of its leases. */
static void look_at_primary(const struct rlock__sentinels *all, struct rlock__round *round)
{
    struct rlock_client *client = all->router.client;
    const struct rlock__node *primary;

    rlock__enter(client);
    primary = all->primary;
    round->known_is_out = primary != NULL && rlock__router_waits(primary) == 0 &&
                          rlock__link_is_down(&primary->server.links[0]);
    round->lease_us =
        rlock__max(client->core.opts.renewed_lease_us, client->core.leased_until - round->now);
    rlock__core_mutex_unlock(&client->mutex);
}

static void end_round(struct rlock__sentinels *all)
{
    struct rlock__vote votes[64];
    struct rlock__round round = {
        .votes = votes, .evidence = &all->descent.evidence, .now = rlock__now_us()};
    const int64_t epoch = all->choice.known.epoch;
    enum rlock__verdict verdict;

    all->in_round = false;
    round.n = gather(all, sizeof(votes) / sizeof(votes[0]), votes);
    look_at_primary(all, &round);
    verdict = rlock__choice_round(&all->choice, &round);
    all->descent.evidence = (struct rlock__evidence){.is_primary = false};
    all->probes = all->choice.probe.host[0] != '\0';
    all->asks_again = verdict == RLOCK__ASK_AGAIN;
    rlock__sentinels_report(all);
    if (verdict == RLOCK__DECIDED) {
        rlock__sentinels_learn(all, all->choice.known.epoch < epoch);
    } else {
        rlock__sentinels_wait(all);
    }
    rlock__sentinels_log(all);
}

/* Goes on with the round. */
static void serve_round(struct rlock__sentinels *all, int64_t now)
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
RLOCK__REQUIRES(core) static int64_t next_at(const struct rlock__sentinels *all)
{
    const struct rlock__node *primary = all->primary;
    bool up = primary != NULL && primary->server.links[0].pipeline.up;

    if (all->failures > 0 && all->failures < QUICK) {
        return all->round_at + AGAIN_US;
    }
    if (all->failures > 0) {
        bool waits = rlock__choice_suspends(&all->choice); /* for seconds */
        bool soon = all->router.is_wanted || all->asks_again || (!up && !waits);

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

int64_t rlock__sentinels_plan(struct rlock__router *router)
{
    struct rlock__sentinels *all = rlock__sentinels_of(router);
    int64_t until = all->in_round ? RLOCK__NEVER : next_at(all);

    for (size_t i = 0; i < all->n; i++) {
        until = rlock__min(until, rlock__sentinel_plan(&all->each[i]));
    }
    until = rlock__min(until, rlock__descent_due(&all->descent));
    return rlock__min(until, rlock__question_plan(&all->descent.question));
}

static void register_all(const struct rlock__sentinels *all)
{
    int epoll_fd = all->router.client->threads.nodes_fd;

    for (size_t i = 0; i < all->n; i++) {
        rlock__sentinel_register(&all->each[i], epoll_fd);
    }
    rlock__question_register(&all->descent.question, epoll_fd);
}

/* Asks the server that the round wants evidence of, or the primary itself. */
static void serve_descent(struct rlock__sentinels *all, int64_t now)
{
    const struct rlock__primary *probe = &all->choice.probe;
    const struct rlock__node *node = NULL;

    if (all->probes) {
        all->probes = false;
        node = rlock__router_node(all->router.client, rlock__bytes_of(probe->host), probe->port);
    } else if (now >= rlock__descent_due(&all->descent)) {
        node = all->descent.known;
    }
    if (node != NULL) {
        rlock__descent_ask(&all->descent, node, now);
    }
}

void rlock__sentinels_serve(struct rlock__router *router, int64_t now)
{
    struct rlock__sentinels *all = rlock__sentinels_of(router);
    bool changes = rlock__descent_go_on(&all->descent, now), begins;

    for (size_t i = 0; i < all->n; i++) {
        changes = rlock__sentinel_read_changes(&all->each[i], now) || changes;
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
    serve_descent(all, now);
    register_all(all);
}
