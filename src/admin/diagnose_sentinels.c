/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis of Sentinels: what each reports about the primary, whether all agree, and what
 * their settings mean for locks. */
#include <stdio.h>

#include "admin/diagnosis.h"
#include "router/router.h"

#define LEAST_SENTINELS 3
#define LEAST_DOWN_AFTER_MS 500 /* below that a primary is replaced that had a short pause */

/* What one Sentinel says. */
struct said {
    char place[300]; /* of the primary */
    int64_t epoch, quorum, others, down_after_ms;
};

/* All that have answered. */
struct summary {
    size_t n, asked;
    struct said first;
    int64_t most, shortest_ms; /* Sentinels that one knows, with itself; of the times */
    bool disagree, other_quorum;
};

static int64_t number(const struct rlock__reply *reply, const char *name)
{
    return rlock__bytes_number(rlock__reply_field(reply, name), 0);
}

/* Why a Sentinel says nothing of use. */
static void tell_silent(struct rlock__diagnosis *d, const char *why)
{
    rlock__finding(d, RLOCK_LOG_WARNING, "sentinel",
                   "%s: it is missing where most must agree on a failover", why);
}

static bool ask(struct rlock__diagnosis *d, const struct rlock__conn_opts *opts,
                struct rlock__reply *ret_reply)
{
    int code = rlock__asker_dial(&d->asker, d->client, opts, RLOCK__NEVER);
    char text[200];

    code = code == 0 ? rlock__asker_words(&d->asker, ret_reply, "SENTINEL", "MASTER",
                                          d->client->uri.primary, NULL)
                     : code;
    if (code != 0) {
        tell_silent(d, rlock_detail());
    } else if (rlock__reply_is_error(ret_reply)) {
        tell_silent(d, rlock__text(rlock__reply_str(ret_reply, 0), text, sizeof(text)));
    }
    return code == 0 && !rlock__reply_is_error(ret_reply);
}

static void add(struct summary *all, const struct said *said)
{
    if (all->n == 0) {
        all->first = *said;
        all->shortest_ms = said->down_after_ms;
    }
    all->disagree = all->disagree || said->epoch != all->first.epoch ||
                    strcmp(said->place, all->first.place) != 0;
    all->other_quorum = all->other_quorum || said->quorum != all->first.quorum;
    all->most = rlock__max(all->most, said->others + 1);
    all->shortest_ms = rlock__min(all->shortest_ms, said->down_after_ms);
    all->n++;
}

static void look_at_one(struct rlock__diagnosis *d, size_t which, struct summary *all)
{
    const struct rlock__conn_opts opts = rlock__sentinel_opts(d->client, which);
    struct rlock__bytes host;
    struct rlock__reply reply;
    struct said said;
    char address[300];

    rlock__uri_address(opts.uri, address, sizeof(address));
    d->about = address;
    if (ask(d, &opts, &reply)) {
        host = rlock__reply_field(&reply, "ip");
        said = (struct said){.epoch = number(&reply, "config-epoch"),
                             .quorum = number(&reply, "quorum"),
                             .others = number(&reply, "num-other-sentinels"),
                             .down_after_ms = number(&reply, "down-after-milliseconds")};
        (void)snprintf(said.place, sizeof(said.place), "%.*s:%lld",
                       (int)rlock__min((int64_t)host.len, 255), host.at,
                       (long long)number(&reply, "port"));
        rlock__finding(d, RLOCK_LOG_INFO, "sentinel",
                       "names %s, configuration epoch %lld, quorum %lld, with %lld others",
                       said.place, (long long)said.epoch, (long long)said.quorum,
                       (long long)said.others);
        add(all, &said);
    }
    d->about = NULL;
    rlock__asker_fini(&d->asker);
}

static void look_at_number(struct rlock__diagnosis *d, const struct summary *all)
{
    if (all->most < LEAST_SENTINELS) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "there are %lld: when one fails the rest is no majority, and no primary is "
                       "replaced; have %d",
                       (long long)all->most, LEAST_SENTINELS);
    }
    if ((int64_t)all->asked < all->most) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "the URL names %zu of %lld: those may have missed a failover; name all",
                       all->asked, (long long)all->most);
    }
    if (2 * (int64_t)all->n <= all->most) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "%zu of %lld answer: that is no majority, and no primary is replaced",
                       all->n, (long long)all->most);
    }
    if (all->first.quorum > all->most) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "quorum %lld is more than there are: no primary is ever replaced",
                       (long long)all->first.quorum);
    }
}

static void look_at_agreement(struct rlock__diagnosis *d, const struct summary *all)
{
    if (all->disagree) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "they name different primaries or configuration epochs: clients use what "
                       "more than half of them name; without a failover just now, a Sentinel has "
                       "lost the others, or belongs to another deployment");
    }
    if (all->other_quorum) {
        rlock__finding(d, RLOCK_LOG_WARNING, "sentinels",
                       "their quorums differ: whether a primary is replaced depends on which of "
                       "them see it down");
    }
    if (all->shortest_ms < LEAST_DOWN_AFTER_MS) {
        rlock__finding(d, RLOCK_LOG_WARNING, "down-after-milliseconds",
                       "is %lld ms: a primary that pauses for so long may be replaced, and holds "
                       "lost; set %d or more",
                       (long long)all->shortest_ms, LEAST_DOWN_AFTER_MS);
    } else {
        rlock__finding(d, RLOCK_LOG_INFO, "down-after-milliseconds",
                       "%lld ms at the least: answers that take as long are not believed, a "
                       "failover could have come before",
                       (long long)all->shortest_ms);
    }
}

void rlock__look_at_sentinels(struct rlock__diagnosis *d)
{
    struct summary all = {.asked = d->client->uri.n_places};

    for (size_t i = 0; i < all.asked; i++) {
        look_at_one(d, i, &all);
    }
    if (all.n != 0) { /* else the primary is not known either, which is told then */
        look_at_number(d, &all);
        look_at_agreement(d, &all);
    }
}

void rlock__look_at_primary(struct rlock__diagnosis *d)
{
    int64_t n = rlock__setting_number(d, "min-replicas-to-write", -1);

    rlock__look_at_replicas(d);
    if (n > 0) {
        rlock__finding(d, RLOCK_LOG_INFO, "min-replicas-to-write",
                       "%lld: with fewer replicas locks, unlocks and renewals are refused",
                       (long long)n);
    } else {
        rlock__finding(d, RLOCK_LOG_WARNING, "min-replicas-to-write",
                       "%s: a primary that was replaced while it stood still goes on granting to "
                       "others for seconds; set 1, with min-replicas-max-lag 1",
                       n < 0 ? "not known, CONFIG GET is not permitted; if it is 0" : "is 0");
    }
}
