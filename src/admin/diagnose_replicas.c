/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis of a primary's replicas: which of them have a link to it, and which count. */
#include "admin/diagnosis.h"

#include "base/clock.h"
#include "lock/server/route.h"
#include "net/hello.h"

/* Reads the primary's list of its replicas. Returns how many have a link to it; -1: unknown. */
static int64_t list_replicas(struct rlock__diagnosis *d, struct rlock__replicas *inout_all)
{
    struct rlock__reply reply;
    struct rlock__bytes info;

    if (rlock__asker_words(&d->asker, &reply, "INFO", "replication", NULL) != 0 ||
        rlock__reply_is_error(&reply)) {
        return -1;
    }
    info = rlock__reply_str(&reply, 0);
    rlock__replicas_listed(inout_all, info, rlock__now_us());
    return rlock__bytes_number(rlock__info_field(info, "\nconnected_slaves:"), -1);
}

static long long seconds_since(int64_t at)
{
    return (long long)((rlock__now_us() - at) / RLOCK__SECOND);
}

/* The replicas that do not count now, one by one. */
static void look_at_rows(struct rlock__diagnosis *d, const struct rlock__replicas *all)
{
    for (size_t i = 0; i < RLOCK__REPLICAS; i++) {
        const struct rlock__replica *it = &all->each[i];

        if (it->is_out) {
            rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                           "replica %s is left out since %lld s: if it is promoted before it has "
                           "caught up, it loses what is granted now",
                           it->place, seconds_since(it->out_since));
        } else if (it->is_seen && it->is_barred) {
            rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                           "replica %s does not count: no failover promotes it", it->place);
        } else if (it->is_seen && !it->is_known && rlock__replicas_have_names(all)) {
            rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                           "replica %s does not count: no failover promotes it, unless it joined "
                           "just now",
                           it->place);
        }
    }
    if (all->is_vague || all->is_strange) {
        rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                       "their addresses are not those that the primary lists, so their number "
                       "counts: a copy that no failover promotes counts too");
    }
}

void rlock__look_at_replicas(struct rlock__diagnosis *d)
{
    const struct rlock__server *server = &d->node->server;
    struct rlock__replicas all;
    unsigned known, needed;
    int64_t connected;

    rlock__core_mutex_lock(&d->client->mutex);
    all = server->replicas;
    known = server->replicas.n_known;
    needed = rlock__acks_needed(server) - d->client->core.opts.acks_on_disk;
    rlock__core_mutex_unlock(&d->client->mutex);
    connected = list_replicas(d, &all);
    if (known == 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                       "none: when it fails its locks cannot be reached, and nobody acknowledges "
                       "what it grants");
    } else if (connected >= 0 && connected < known) {
        rlock__finding(d, RLOCK_LOG_WARNING, "replicas",
                       "%u of %u have no link to it: a failover to one of those loses locks; %u "
                       "must acknowledge a grant",
                       known - (unsigned)connected, known, needed);
    } else if (needed < known) {
        rlock__finding(d, RLOCK_LOG_INFO, "replicas",
                       "%u, of which %u must acknowledge a grant: a failover to another one may "
                       "lose it",
                       known, needed);
    } else {
        rlock__finding(d, RLOCK_LOG_INFO, "replicas", "%u, and %u must acknowledge a grant", known,
                       needed);
    }
    look_at_rows(d, &all);
}
