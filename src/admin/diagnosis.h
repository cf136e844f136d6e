/* SPDX-License-Identifier: Apache-2.0 */
/* A diagnosis: the findings so far, the callback that receives them, and the functions that its
 * files share. */
#ifndef RLOCK_ADMIN_DIAGNOSIS_H
#define RLOCK_ADMIN_DIAGNOSIS_H

#include <rlock/admin.h>

#include "admin/primaries.h"
#include "client/lock.h"
#include "drive/ask.h"
#include "topology/slot.h"

/* What a right is for. */
enum rlock__use {
    RLOCK__FOR_ALL,
    RLOCK__FOR_FENCED,
    RLOCK__FOR_FAIR,
    RLOCK__FOR_RW,
    RLOCK__FOR_SETNX,
    RLOCK__FOR_PERMITS,
    RLOCK__FOR_EASE
};

struct rlock__diagnosis {
    struct rlock_client *client;
    struct rlock__node *node;   /* that is looked at now */
    struct rlock__asker asker;  /* of it */
    const char *about;          /* its address, where there are several servers */
    bool is_open[RLOCK__SLOTS]; /* it says that the slot is being moved */
    rlock_finding_fn *fn;
    void *payload;
    int code;                    /* of the first finding that prevents locks */
    bool lacks[RLOCK__FOR_EASE]; /* some right, by what it is for */
};

/* ---- finding.c ---- */

/* code: what calls on some locks will return; 0: the finding prevents none. */
void rlock__finding_with(struct rlock__diagnosis *d, int level, int code, const char *subject,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));
#define rlock__finding(d, level, subject, ...)                                                     \
    rlock__finding_with(d, level, 0, subject, __VA_ARGS__)
/* A finding that prevents locks: the code, and the thread's detail. */
void rlock__prevented(struct rlock__diagnosis *d, const char *subject, int code);
/* How a server refused what a doctor asks for: "is not permitted", or "is not supported". */
const char *rlock__refused_how(const struct rlock__reply *reply);
/* A number among the node's settings; none, of which the findings have told, where that is not
 * permitted. */
int64_t rlock__setting_number(struct rlock__diagnosis *d, const char *name, int64_t none);
/* Whether releases are announced on sharded channels at the node. */
bool rlock__announces_sharded(const struct rlock__diagnosis *d);

/* ---- diagnose_cluster.c, diagnose_replicas.c, diagnose_sentinels.c ---- */

/* Reports which replicas of the map have a link to their primary, and which of them count. */
void rlock__look_at_replicas(struct rlock__diagnosis *d);
/* What the node says of slots, and of the cluster; of all: once. */
void rlock__look_at_cluster(struct rlock__diagnosis *d, bool of_all);
/* Each Sentinel, and whether they agree. */
void rlock__look_at_sentinels(struct rlock__diagnosis *d);
/* What the primary's settings mean behind Sentinels. */
void rlock__look_at_primary(struct rlock__diagnosis *d);

/* ---- rights.c ---- */

/* Tries each right on names that begin with the client's prefix. key: one that nobody uses. Leaves
 * nothing on the server. Returns 0, or why the server cannot be asked. */
int rlock__rights_try(struct rlock__diagnosis *d, struct rlock__bytes key);

/* ---- probe.c ---- */

typedef int rlock__new_fn(struct rlock_client *client, const char *name,
                          const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/* A lock of a name that nobody else uses: it has this word in it. In a cluster it is one of the
 * node's. NULL: that was told. */
struct rlock_handle *rlock__probe_new(struct rlock__diagnosis *d, const char *word,
                                      rlock__new_fn *make);
/* Whether any lock with the client's prefix may be on the node. */
bool rlock__probe_is_possible(const struct rlock__diagnosis *d);
/* Tries what every lock needs, and then the other kinds that the rights allow. At its end the
 * asker's connection is a subscriber's. */
void rlock__probe(struct rlock__diagnosis *d);

#endif
