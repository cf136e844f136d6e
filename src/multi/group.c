/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A party's life: taken level by level, left level by level, or lost. What is under way when nobody
 * waits any more is settled as it completes.
 */
#include "multi/group.h"

#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"
#include "multi/effort.h"
#include "multi/member.h"

#define LATE_US (10 * RLOCK__MS) /* beyond its deadline a member's call is not waited for */

/* ---- Parties ---- */

static struct rlock__loss *loss_new(const struct rlock__composite *composite,
                                    struct rlock__owner owner)
{
    struct rlock__loss *loss = calloc(1, sizeof(*loss) + composite->name.len + 1);

    if (loss != NULL) {
        memcpy(loss + 1, composite->name.at, composite->name.len);
        loss->spec = rlock__spec_ref(composite->first);
        loss->kind = composite->ops->kind;
        loss->name = rlock__bytes((const char *)(loss + 1), composite->name.len);
        loss->owner = owner.given ? owner.id : 0;
    }
    return loss;
}

struct rlock__party *rlock__party_new(struct rlock__composite *composite, struct rlock__owner owner,
                                      uint64_t *random)
{
    struct rlock__party *party =
        calloc(1, sizeof(*party) + composite->n * sizeof(struct rlock__slot));

    if (party == NULL) {
        return NULL;
    }
    party->loss = loss_new(composite, owner);
    if (composite->together) {
        party->team = calloc(1, sizeof(*party->team) + composite->n * sizeof(struct rlock__call *));
    }
    if (party->loss == NULL || (composite->together && party->team == NULL)) {
        (void)rlock__loss_free(party->loss);
        free(party->team);
        free(party);
        return NULL;
    }
    party->composite = rlock__composite_ref(composite);
    party->owner = owner;
    party->random = random;
    party->timer_at = RLOCK__NEVER;
    for (size_t i = 0; i < composite->n; i++) {
        party->slots[i].party = party;
        party->slots[i].spec = composite->members[i];
    }
    return party;
}

void rlock__party_free(struct rlock__party *party)
{
    for (size_t i = 0; i < party->composite->n; i++) {
        (void)rlock__claim_unref(party->slots[i].claim);
    }
    (void)rlock__loss_free(party->loss);
    (void)rlock__composite_unref(party->composite);
    free(party->team);
    free(party);
}

size_t rlock__party_running(const struct rlock__party *party)
{
    size_t n = 0;

    for (size_t i = 0; i < party->composite->n; i++) {
        n += party->slots[i].running;
    }
    return n;
}

bool rlock__party_is_over(const struct rlock__party *party)
{
    bool listening = false;

    for (size_t i = 0; i < party->composite->n; i++) {
        listening = listening || party->slots[i].listening;
    }
    return party->count == 0 && party->phase == RLOCK__PARTY_IDLE &&
           rlock__party_running(party) == 0 && !listening;
}

int64_t rlock__party_valid_until(const struct rlock__party *party)
{
    return party->count == 0 || party->lost ? 0 : party->composite->ops->valid_until(party);
}

int64_t rlock__party_random(const struct rlock__party *party, int64_t n)
{
    return rlock__random_below(party->random, n);
}

int64_t rlock__party_remains(const struct rlock__party *party, int64_t now)
{
    if (party->effort.wait_us == 0) {
        return 0;
    }
    return party->deadline == RLOCK__NEVER ? RLOCK__NEVER : rlock__max(party->deadline - now, 0);
}

/* ---- Events ---- */

static void lose(struct rlock__party *party, enum rlock_reason reason)
{
    party->lost = true;
    if (party->loss != NULL) {
        party->loss->reason = reason;
        DL_APPEND(party->untold, party->loss);
        party->loss = NULL;
    }
}

void rlock__party_take(struct rlock__party *party, const struct rlock__effort *effort, int64_t now)
{
    int64_t wait = effort->wait_us == 0 ? effort->op_timeout_us : effort->wait_us;

    party->effort = *effort;
    party->complete = false;
    if (party->loss == NULL) { /* reported, the last time */
        party->loss = loss_new(party->composite, party->owner);
    }
    party->code = 0;
    party->detail[0] = '\0';
    party->rounds = 0;
    party->apart = party->team == NULL;
    party->deadline = effort->wait_us < 0 ? RLOCK__NEVER : rlock__later(now, wait);
    if (party->loss == NULL) {
        rlock__effort_end(party, RLOCK_ENOMEM);
        return;
    }
    party->phase = RLOCK__PARTY_TAKING;
    party->timer_at = rlock__later(party->deadline, LATE_US);
    for (size_t i = 0; i < party->composite->n; i++) {
        party->slots[i].tried = false;
        party->slots[i].answer = RLOCK__SLOT_UNHEARD;
        party->slots[i].open_until = 0;
        party->slots[i].unheard = false;
    }
    if (party->count > 0 && !party->lost && rlock__party_valid_until(party) <= now) {
        lose(party, RLOCK_LOST_EXPIRED);
        rlock__party_shed(party);
    }
    if (party->lost) {
        rlock__effort_end(party, RLOCK_ELOST);
    } else if (party->count > 0) {
        party->composite->ops->nest(party, now);
    } else {
        party->composite->ops->take(party, now);
    }
}

/* The code of an unlock, once its members have been left. */
static void check_left(struct rlock__party *party)
{
    int code = 0;

    if (party->composite->ops->left(party, &code)) {
        rlock__effort_end(party, code);
    }
}

static void drop_level(struct rlock__party *party)
{
    party->count--;
    party->renewed_from = party->renewed_from > party->count ? 0 : party->renewed_from;
}

static void leave_lost(struct rlock__party *party)
{
    drop_level(party);
    rlock__effort_end(party, RLOCK_ELOST); /* and gives back what is there still */
    party->lost = party->count > 0;
}

void rlock__party_leave(struct rlock__party *party, int64_t now)
{
    party->complete = false;
    party->detail[0] = '\0';
    if (party->count == 0) {
        rlock__effort_end(party, RLOCK_ENOTOWNER);
        return;
    }
    if (!party->lost && rlock__party_valid_until(party) <= now) {
        lose(party, RLOCK_LOST_EXPIRED);
        rlock__party_shed(party);
    }
    if (party->lost) {
        leave_lost(party);
        return;
    }
    party->phase = RLOCK__PARTY_LEAVING;
    drop_level(party);
    if (party->count > 0 && party->composite->ops->counts_alone) {
        rlock__effort_end(party, 0);
        return;
    }
    party->timer_at = now + party->effort.op_timeout_us + LATE_US;
    rlock__party_shed(party);
    check_left(party);
}

static void heard(struct rlock__slot *slot, int64_t now)
{
    slot->spoke = true;
    if (slot->ear.step == RLOCK__COMPLETE) {
        slot->listening = false;
    } else if (slot->party->phase == RLOCK__PARTY_PAUSING) {
        slot->party->composite->ops->heard(slot->party, now);
    }
}

void rlock__party_done(struct rlock__call *call, int64_t now)
{
    struct rlock__slot *slot = call->payload;
    struct rlock__party *party = slot->party;

    if (call == &slot->ear) {
        heard(slot, now);
        return;
    }
    rlock__slot_done(slot, now);
    switch (party->phase) {
    case RLOCK__PARTY_TAKING:
        if (!slot->tried) { /* left over from an earlier effort */
            rlock__slot_tidy(slot);
        }
        party->composite->ops->moved(party, slot, now);
        break;
    case RLOCK__PARTY_BACKING_OUT:
        rlock__slot_tidy(slot);
        if (rlock__effort_is_back(party, now)) {
            rlock__effort_backed_out(party, now);
        }
        break;
    case RLOCK__PARTY_LEAVING:
        rlock__slot_tidy(slot);
        check_left(party);
        break;
    case RLOCK__PARTY_IDLE:
        rlock__slot_tidy(slot);
        break;
    case RLOCK__PARTY_PAUSING: /* which did not wait for a silent member's refusal */
        rlock__slot_tidy(slot);
        rlock__effort_listen(party, now);
        break;
    }
}

void rlock__party_timer(struct rlock__party *party, int64_t now)
{
    if (party->phase == RLOCK__PARTY_TAKING && party->composite->ops->patience != NULL) {
        party->timer_at = rlock__min(party->composite->ops->patience(party),
                                     rlock__later(party->deadline, LATE_US));
    }
    if (now < party->timer_at) {
        return;
    }
    party->timer_at = RLOCK__NEVER;
    if (party->phase == RLOCK__PARTY_LEAVING) {
        rlock__effort_end(party, RLOCK_EINDOUBT);
    } else if (party->phase == RLOCK__PARTY_TAKING) {
        rlock__party_back_out(party, party->composite->ops->verdict(party, true), now);
    } else if (party->phase == RLOCK__PARTY_PAUSING) {
        party->phase = RLOCK__PARTY_TAKING;
        party->detail[0] = '\0'; /* what that says is of the round before */
        party->timer_at = rlock__later(party->deadline, LATE_US);
        party->composite->ops->take(party, now);
    } else if (party->phase == RLOCK__PARTY_BACKING_OUT) {
        rlock__effort_backed_out(party, now);
    }
}

void rlock__party_cancel(struct rlock__party *party, int64_t now)
{
    if (party->phase == RLOCK__PARTY_TAKING) { /* its members' calls may not have begun yet */
        rlock__party_back_out(party, RLOCK_ECANCELED, now);
    } else if (party->phase == RLOCK__PARTY_PAUSING) {
        party->detail[0] = '\0';
        rlock__effort_end(party,
                          rlock__effort_is_open(party, now) ? RLOCK_EINDOUBT : RLOCK_ECANCELED);
    } else if (party->phase == RLOCK__PARTY_BACKING_OUT) { /* no round more, and no long wait */
        if (party->composite->ops->again_at(party, now) != RLOCK__NEVER) {
            party->code = RLOCK_ECANCELED;
            party->detail[0] = '\0';
        }
        party->timer_at = rlock__min(party->timer_at, now + RLOCK__GRACE_US);
    }
}

void rlock__party_refuse(struct rlock__party *party, int64_t now)
{
    if (party->phase == RLOCK__PARTY_TAKING) {
        rlock__party_back_out(party, RLOCK_EINVAL, now);
    }
}

void rlock__party_abandon(struct rlock__party *party, enum rlock_reason reason)
{
    if (party->count > 0 && !party->lost) {
        lose(party, reason);
    }
    party->count = party->renewed_from = 0;
    party->lost = false;
    for (size_t i = 0; i < party->composite->n; i++) {
        struct rlock__slot *slot = &party->slots[i];

        if (slot->state == RLOCK__SLOT_HELD) { /* its core forgets it */
            slot->levels = slot->renewed_from = 0;
            slot->kept = false;
            slot->state = RLOCK__SLOT_OUT;
            slot->claim = rlock__claim_unref(slot->claim);
        }
    }
}

void rlock__party_member_lost(struct rlock__party *party, enum rlock_reason reason, int64_t now)
{
    if (party->count == 0 || party->lost || rlock__party_valid_until(party) > now) {
        return;
    }
    lose(party, reason);
    if (reason == RLOCK_LOST_CLOSED) { /* nobody will unlock it */
        party->count = party->renewed_from = 0;
        party->lost = false;
    }
    if (party->phase == RLOCK__PARTY_IDLE || party->phase == RLOCK__PARTY_LEAVING) {
        rlock__party_shed(
            party); /* the others are given back: an unlock waits for that, else nobody */
    }
}
