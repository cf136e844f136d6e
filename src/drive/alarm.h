/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alarms: what the dispatcher is to do at a given time, or when an owner has lost a hold. The
 * service thread hands an alarm that is due to the dispatcher, which runs op.finish with no mutex
 * held.
 */
#ifndef RLOCK_DRIVE_ALARM_H
#define RLOCK_DRIVE_ALARM_H

#include "drive/group_op.h"

struct rlock__alarm {
    struct rlock__op
        op;         /* finish and payload are inputs. finish begins with rlock__alarm_heard() */
    uint64_t owner; /* input: it rings as well when this owner has lost a hold */
    /* under the client's mutex */
    struct rlock__timer timer;
    bool is_rung;                     /* the dispatcher has it */
    int reason;                       /* RLOCK_LOST_… of the latest loss; 0: none */
    struct rlock__alarm *prev, *next; /* in client.to_serve */
};

void rlock__alarm_add(struct rlock_client *client, struct rlock__alarm *alarm)
    RLOCK__REQUIRES(core);
/* Returns false if it has rung: then its finish is still to run. */
bool rlock__alarm_remove(struct rlock_client *client, struct rlock__alarm *alarm)
    RLOCK__REQUIRES(core);
/* Sets it, or moves it. One that has rung stays so. Once the client is closed, which rings it, no
 * alarm rings any more. */
void rlock__alarm_set(struct rlock_client *client, struct rlock__alarm *alarm, int64_t at)
    RLOCK__REQUIRES(core);
/* It has been heard. Returns the reason of the latest loss since the last call; 0: none. */
int rlock__alarm_heard(struct rlock__alarm *alarm) RLOCK__REQUIRES(core);

/* ---- For drive ---- */

/* Rings those that are due. */
void rlock__alarms_ring(struct rlock_client *client, int64_t now) RLOCK__REQUIRES(core);
/* Rings all: the client is closed. */
void rlock__alarms_closed(struct rlock_client *client) RLOCK__REQUIRES(core);
/* An owner has lost a hold. */
void rlock__alarms_lost(struct rlock_client *client, uint64_t owner, int reason)
    RLOCK__REQUIRES(core);

#endif
