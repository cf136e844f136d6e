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
    /* Inputs: op.finish, which begins with rlock__alarm_heard(); op.payload; and the owner. If the
     * owner loses a hold, the alarm rings. */
    struct rlock__op op;
    uint64_t owner;
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
/* Sets the alarm, or moves it. An alarm that has rung is not set again before it was heard. The end
 * of the client rings all alarms, and none can be set after that. */
void rlock__alarm_set(struct rlock_client *client, struct rlock__alarm *alarm, int64_t at)
    RLOCK__REQUIRES(core);
/* The dispatcher has heard the alarm. Returns the reason of the latest loss since the last call;
 * 0: none. */
int rlock__alarm_heard(struct rlock__alarm *alarm) RLOCK__REQUIRES(core);

/* ---- For drive ---- */

/* Rings the alarms that are due. */
void rlock__alarms_ring(struct rlock_client *client, int64_t now) RLOCK__REQUIRES(core);
/* The client is closed: rings all alarms. */
void rlock__alarms_closed(struct rlock_client *client) RLOCK__REQUIRES(core);
/* An owner has lost a hold: rings the alarms of this owner. */
void rlock__alarms_lost(struct rlock_client *client, uint64_t owner, int reason)
    RLOCK__REQUIRES(core);

#endif
