/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas of one primary: which of them must have what the primary grants. Pure.
 *
 * A map (the Sentinels, or CLUSTER NODES) knows the replicas that a failover may promote. The
 * primary lists the replicas that follow it (INFO replication, ROLE). A known replica is *in* until
 * the client is sure of three things: the primary does not list it, the primary was alive well
 * after that began, and the replica is held down or has been missing for long. If the replica
 * itself reports that it has had no link for long, a new client need not wait that long again. Then
 * the replica is *out*, until the primary lists it again.
 *
 * The second condition makes this safe. If the network is cut between the primary with its clients
 * on one side, and the replica with the Sentinels on the other, the replica looks dead to the
 * clients, and the Sentinels promote it. But then they do not see the primary alive any more.
 */
#ifndef RLOCK_LOCK_REPLICAS_H
#define RLOCK_LOCK_REPLICAS_H

#include "base/time.h"
#include "wire/reply.h"

#define RLOCK__REPLICAS 32   /* of one primary. If there are more, only their number counts */
#define RLOCK__PLACE_SIZE 72 /* of "address:port" */
#define RLOCK__LAG_MOST 2    /* s without a sign of life: with more, a replica is not listed */
#define RLOCK__FRESH_US (15 * RLOCK__SECOND) /* a new replica reaches the map within that time */

/* What a map says of one replica. */
struct rlock__replica_word {
    char place[RLOCK__PLACE_SIZE]; /* as the primary lists it; "": unknown */
    bool is_barred;                /* no failover promotes it */
    bool is_held_down;             /* by most Sentinels, or by the cluster */
    bool is_free;                  /* it is neither, by most Sentinels or the cluster */
    bool is_unlinked;              /* it has had no link to the primary for as long as 5 s */
    bool was_replaced;             /* it was the primary, and was held down as such */
    unsigned n_down, n_asked;      /* Sentinels that hold it down, of so many; 0: a cluster */
};

struct rlock__replica {
    char place[RLOCK__PLACE_SIZE];         /* "": the row is free */
    bool is_known;                         /* the map has it: a failover may promote it */
    bool is_barred, is_held_down, is_free; /* by the map */
    bool is_unlinked;                      /* the same */
    bool is_listed;                        /* by the primary, and it acknowledges */
    bool is_seen;                          /* in the primary's latest list, alive or not */
    bool is_linked, was_linked;            /* online in the latest list, and in the one before */
    bool is_out;
    bool is_foreign;       /* listed for so long that the map would know it */
    bool is_told;          /* the log has that it is out, or foreign */
    int64_t since;         /* when the primary listed it first */
    int64_t missing_since; /* 0: it is listed, or the primary has listed none yet */
    int64_t out_since;
    unsigned n_down, n_asked;
};

/* Zero: no map has said anything. */
struct rlock__replicas {
    struct rlock__replica each[RLOCK__REPLICAS];
    unsigned n_known;       /* replicas that may be promoted; some may have no row */
    bool is_vague;          /* the map gives no places, or too many */
    int64_t listed_at;      /* when the primary's list was last read; 0: never */
    bool was_matched;       /* the list had a known place */
    bool is_strange;        /* the list never had a place that the map knows */
    uint32_t quick;         /* rows that had the writes of the latest WAIT */
    unsigned changes;       /* rows that mean another replica than before */
    int64_t alive_at;       /* when the primary was last known to be alive */
    int64_t was_alive_at;   /* the same, when the list was asked for */
    int64_t alive_after_us; /* the primary must live so long after a replica went missing; 0: 2 s */
    int64_t gone_after_us;  /* a replica that is missing for so long is out; 0: 5 s */
};

/* Which replicas must have a write. */
struct rlock__need {
    uint32_t must, may; /* rows: all of the first, and n of the second */
    unsigned n;
    unsigned count; /* if places are of no use, so many replicas; 0: none */
};

/* A map reports which replicas the primary has. */
void rlock__replicas_known(struct rlock__replicas *all, const struct rlock__replica_word words[],
                           size_t n, int64_t now);
/* A map knows so many replicas, and no places. */
void rlock__replicas_counted(struct rlock__replicas *all, unsigned n);
/* INFO replication is sent. */
void rlock__replicas_ask(struct rlock__replicas *all);
/* INFO replication was answered. */
void rlock__replicas_listed(struct rlock__replicas *all, struct rlock__bytes info, int64_t now);
/* The primary answered ROLE. Returns the rows of the replicas that have what the primary had
 * written when its own offset was this. */
uint32_t rlock__replicas_role(struct rlock__replicas *all, const struct rlock__reply *role,
                              int64_t offset, int64_t now);
/* The offset of a primary in its answer to ROLE; -1: it is not a primary's. */
int64_t rlock__role_offset(const struct rlock__reply *role);
/* The primary was alive at this time. */
void rlock__replicas_alive(struct rlock__replicas *all, int64_t at);
/* Another server is the primary, or this one again: forgets what is known of its replicas. */
void rlock__replicas_reset(struct rlock__replicas *all);

/* Whether the client can tell by name which replicas acknowledge. */
bool rlock__replicas_have_names(const struct rlock__replicas *all);
/* Which replicas are needed now. acks: RLOCK_ACKS_…, or a number. */
struct rlock__need rlock__replicas_need(const struct rlock__replicas *all, int acks);
/* Whether these rows are enough. */
bool rlock__need_is_met(const struct rlock__need *need, uint32_t have);
/* How many replicas that is at least. */
unsigned rlock__need_size(const struct rlock__need *need);
unsigned rlock__rows(uint32_t rows);

#endif
