/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/alarm.h"

#include <utlist.h>

RLOCK__REQUIRES(core) static void ring(struct rlock_client *client, struct rlock__alarm *alarm)
{
    rlock__timer_unset(&client->to_serve.alarms_due, &alarm->timer);
    if (!alarm->is_rung) {
        alarm->is_rung = true;
        DL_APPEND(client->finished, &alarm->op);
    }
}

void rlock__alarm_add(struct rlock_client *client, struct rlock__alarm *alarm)
{
    DL_APPEND(client->to_serve.alarms, alarm);
}

bool rlock__alarm_remove(struct rlock_client *client, struct rlock__alarm *alarm)
{
    DL_DELETE(client->to_serve.alarms, alarm);
    rlock__timer_unset(&client->to_serve.alarms_due, &alarm->timer);
    return !alarm->is_rung;
}

void rlock__alarm_set(struct rlock_client *client, struct rlock__alarm *alarm, int64_t at)
{
    if (!client->core.closed && !alarm->is_rung) {
        rlock__timer_set(&client->to_serve.alarms_due, &alarm->timer, at);
    }
}

int rlock__alarm_heard(struct rlock__alarm *alarm)
{
    int reason = alarm->reason;

    alarm->reason = 0;
    alarm->is_rung = false;
    return reason;
}

void rlock__alarms_ring(struct rlock_client *client, int64_t now)
{
    while (rlock__timers_next(&client->to_serve.alarms_due) <= now) {
        ring(client, RLOCK__OF(struct rlock__alarm, timer, client->to_serve.alarms_due.root));
    }
}

void rlock__alarms_closed(struct rlock_client *client)
{
    struct rlock__alarm *alarm;

    DL_FOREACH(client->to_serve.alarms, alarm) {
        ring(client, alarm);
    }
}

void rlock__alarms_lost(struct rlock_client *client, uint64_t owner, int reason)
{
    struct rlock__alarm *alarm;

    DL_FOREACH(client->to_serve.alarms, alarm) {
        if (alarm->owner == owner) {
            alarm->reason = reason;
            ring(client, alarm);
        }
    }
}
