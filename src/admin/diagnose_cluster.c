/* SPDX-License-Identifier: Apache-2.0 */
/* The diagnosis of a cluster: its slots, its primaries, and the settings that matter for locks. */
#include "admin/diagnosis.h"
#include "topology/nodes.h"

#define LEAST_TIMEOUT_MS 500 /* below that a server is replaced that had a short pause */
#define NAMED 3              /* so many slots that are being moved are named */

/* ---- Slots ---- */

/* What the slots that are being moved mean: a few by their numbers, and how many there are. */
static void look_at_open_slots(struct rlock__diagnosis *d, struct rlock__bytes slots)
{
    unsigned slot, n = 0;
    bool leaves;

    while (rlock__nodes_open(&slots, &slot, &leaves)) {
        d->is_open[slot] = true;
        if (n++ < NAMED) {
            rlock__finding(
                d, RLOCK_LOG_WARNING, "slots",
                "slot %u is being moved %s: until that ends, fair, fenced, read/write and "
                "multi-locks there may have to wait, and holds of readers may be lost",
                slot, leaves ? "away" : "here");
        }
    }
    if (n > NAMED) {
        rlock__finding(d, RLOCK_LOG_WARNING, "slots", "%u are being moved, these among them", n);
    }
}

static void look_at_own(struct rlock__diagnosis *d, struct rlock__bytes text)
{
    struct rlock__nodes_line line;

    while (rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line)) {
        if (line.is_asked) {
            look_at_open_slots(d, line.slots);
        }
    }
}

/* ---- The cluster ---- */

static unsigned count_slots(struct rlock__bytes slots)
{
    unsigned from, to, n = 0;

    while (rlock__nodes_range(&slots, &from, &to)) {
        n += to - from + 1;
    }
    return n;
}

/* What this server says of all. */
static void look_at_whole(struct rlock__diagnosis *d, struct rlock__bytes text)
{
    struct rlock__nodes_line line;
    unsigned primaries = 0, served = 0;

    while (rlock__nodes_next(&text, RLOCK__NAME_OR_ADDRESS, &line)) {
        unsigned n = line.is_primary ? count_slots(line.slots) : 0;

        primaries += n != 0;
        served += n;
    }
    d->about = NULL;
    if (served < RLOCK__SLOTS) {
        rlock__finding(d, RLOCK_LOG_WARNING, "slots",
                       "%u have no server: locks there do not work, and none do where "
                       "cluster-require-full-coverage is yes",
                       RLOCK__SLOTS - served);
    }
    if (primaries < 3) {
        rlock__finding(d, RLOCK_LOG_WARNING, "primaries",
                       "%u have slots: when one fails there is no majority to replace it, and its "
                       "locks cannot be reached",
                       primaries);
    }
    d->about = d->node->address;
}

/* ---- Settings ---- */

static void look_at_timeout(struct rlock__diagnosis *d)
{
    int64_t ms = rlock__setting_number(d, "cluster-node-timeout", -1), silence_us;

    rlock__core_mutex_lock(&d->client->mutex);
    silence_us = d->client->core.opts.failover_us;
    rlock__core_mutex_unlock(&d->client->mutex);
    if (ms < 0) {
        rlock__finding(d, RLOCK_LOG_WARNING, "cluster-node-timeout",
                       "not known, CONFIG GET is not permitted: answers that take %lld ms are not "
                       "believed; if it is below %d ms, holds may be lost by short pauses",
                       (long long)(silence_us / RLOCK__MS), LEAST_TIMEOUT_MS);
    } else if (ms < LEAST_TIMEOUT_MS) {
        rlock__finding(d, RLOCK_LOG_WARNING, "cluster-node-timeout",
                       "is %lld ms: a server that pauses for so long may be replaced, and holds "
                       "lost; set %d or more",
                       (long long)ms, LEAST_TIMEOUT_MS);
    } else {
        rlock__finding(d, RLOCK_LOG_INFO, "cluster-node-timeout",
                       "%lld ms: answers that take %lld ms are not believed, a failover could have "
                       "come before",
                       (long long)ms, (long long)(silence_us / RLOCK__MS));
    }
}

static void look_at_coverage(struct rlock__diagnosis *d)
{
    struct rlock__reply reply;

    if (rlock__asker_words(&d->asker, &reply, "CONFIG", "GET", "cluster-require-full-coverage",
                           NULL) == 0 &&
        rlock__bytes_equal(rlock__reply_str(&reply, 1), rlock__bytes_of("yes"))) {
        rlock__finding(d, RLOCK_LOG_INFO, "cluster-require-full-coverage",
                       "yes: while any slot has no server no lock works, wherever it is");
    }
}

static void look_at_least_replicas(struct rlock__diagnosis *d)
{
    int64_t n = rlock__setting_number(d, "min-replicas-to-write", 0);

    if (n > 0) {
        rlock__finding(
            d, RLOCK_LOG_WARNING, "min-replicas-to-write",
            "is %lld: with fewer replicas unlocks and renewals are refused too, and holds "
            "are lost; in a cluster it protects no lock, set acks instead",
            (long long)n);
    }
}

void rlock__look_at_cluster(struct rlock__diagnosis *d, bool of_all)
{
    struct rlock__reply reply;
    int code = rlock__asker_words(&d->asker, &reply, "CLUSTER", "NODES", NULL);

    if (code != 0) {
        rlock__prevented(d, "cluster", code);
        return;
    }
    if (!rlock__reply_is_error(&reply)) { /* that it is not permitted is told among the rights */
        look_at_own(d, rlock__reply_str(&reply, 0));
        if (of_all) {
            look_at_whole(d, rlock__reply_str(&reply, 0));
        }
        rlock__look_at_replicas(d);
    }
    look_at_timeout(d);
    look_at_least_replicas(d);
    if (of_all) {
        look_at_coverage(d);
    }
}
