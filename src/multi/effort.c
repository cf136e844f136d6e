/* SPDX-License-Identifier: Apache-2.0 */
/* How an effort ends: well, or by backing out of what it took. */
#include "multi/effort.h"

#include <stdio.h>

#include "multi/member.h"

static void say(struct rlock__party *party, int code)
{
    char name[96];

    (void)snprintf(party->detail, sizeof(party->detail), "lock %s: %s",
                   rlock__text(party->composite->name, name, sizeof(name)), rlock_strerror(code));
}

void rlock__effort_end(struct rlock__party *party, int code)
{
    rlock__party_ignore(party);
    party->phase = RLOCK__PARTY_IDLE;
    party->timer_at = RLOCK__NEVER;
    party->code = code;
    party->complete = true;
    if (party->lost || party->count == 0) { /* also by the end of a client, meanwhile */
        rlock__party_shed(party);
    }
    for (size_t i = 0; i < party->composite->n; i++) {
        rlock__slot_settle_renewal(&party->slots[i]);
    }
    if (code != 0 && party->detail[0] == '\0') {
        say(party, code);
    }
}

void rlock__party_blame(struct rlock__party *party, const struct rlock__slot *slot)
{
    (void)snprintf(party->detail, sizeof(party->detail), "%s", slot->call.detail);
}

static void seal(struct rlock__party *party)
{
    for (size_t i = 0; i < party->composite->n; i++) {
        struct rlock__slot *slot = &party->slots[i];

        slot->seal = slot->state == RLOCK__SLOT_HELD && slot->kept;
    }
}

void rlock__party_taken(struct rlock__party *party, int64_t now)
{
    party->count++;
    party->lease_granted_us =
        party->effort.lease_us != 0 ? party->effort.lease_us : party->effort.renewed_lease_us;
    if (rlock__party_valid_until(party) <= now) { /* taken, and over already */
        party->count--;
        rlock__party_back_out(party, party->count > 0 ? RLOCK_ELOST : RLOCK_ETIMEDOUT, now);
        return;
    }
    if (party->effort.lease_us == 0 && party->renewed_from == 0) {
        party->renewed_from = party->count;
    }
    seal(party);
    rlock__effort_end(party, 0);
    if (party->composite->ops->counts_alone) { /* what a level more was asked for is there */
        rlock__party_shed_levels(party);
    }
}

/* Members whose outcome is open: in this round, or since an earlier one. */
static size_t doubts(const struct rlock__party *party, int64_t now)
{
    size_t n = rlock__party_running(party);

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        n += !slot->running &&
             (slot->code == RLOCK_EINDOUBT || slot->unheard || now < slot->open_until);
    }
    return n;
}

bool rlock__effort_is_open(const struct rlock__party *party, int64_t now)
{
    size_t n = doubts(party, now);

    return n > 0 && party->composite->ops->in_doubt(party, n);
}

void rlock__effort_listen(struct rlock__party *party, int64_t now)
{
    rlock__party_listen(party);
    if (rlock__party_has_spoken(party)) {
        party->composite->ops->heard(party, now);
    }
}

void rlock__effort_backed_out(struct rlock__party *party, int64_t now)
{
    bool nested = party->count > 0; /* a level more is asked for once: nobody waits for it */
    int64_t at = nested ? RLOCK__NEVER : party->composite->ops->again_at(party, now);

    if (at == RLOCK__NEVER && rlock__effort_is_open(party, now)) {
        party->detail[0] = '\0';
        rlock__effort_end(party, RLOCK_EINDOUBT);
    } else if (at == RLOCK__NEVER) {
        rlock__effort_end(party, party->code);
    } else {
        party->phase = RLOCK__PARTY_PAUSING;
        party->timer_at = at;
        rlock__effort_listen(party, now);
    }
}

bool rlock__effort_is_back(struct rlock__party *party, int64_t now)
{
    const struct rlock__composite_ops *ops = party->composite->ops;

    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];

        if (slot->running && (!ops->counts_alone || slot->state == RLOCK__SLOT_LEAVING)) {
            return false;
        }
    }
    return rlock__party_running(party) == 0 ||
           (party->count == 0 && ops->again_at(party, now) != RLOCK__NEVER);
}

void rlock__party_back_out(struct rlock__party *party, int code, int64_t now)
{
    int64_t until = rlock__min(party->deadline, now + party->effort.op_timeout_us);
    bool patient = code != RLOCK_ECANCELED && !party->composite->ops->counts_alone;

    party->phase = RLOCK__PARTY_BACKING_OUT;
    party->code = code;
    party->timer_at = rlock__max(now + RLOCK__GRACE_US, patient ? until : 0);
    rlock__party_shed(party);
    if (rlock__effort_is_back(party, now)) {
        rlock__effort_backed_out(party, now);
    }
}
