/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a group: their calls, what comes of them, and their ears. */
#include "multi/member.h"

#include "lock/internal.h"

static void begin(struct rlock__slot *slot, const struct rlock__call *call)
{
    slot->call = *call;
    slot->call.spec = slot->spec;
    slot->call.owner = slot->group->owner;
    slot->call.member = true;
    slot->running = true;
    slot->wish = RLOCK__WISH_BEGIN;
}

void rlock__slot_take(struct rlock__slot *slot, int64_t wait_us, bool kept, int64_t now)
{
    struct rlock__group *group = slot->group;
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;
    int64_t once = rlock__min(effort->op_timeout_us, rlock__max(group->deadline - now, 1));

    if (group->composite->ops->counts_alone) { /* well below the lease */
        once = rlock__min(once, rlock__max(lease / 4, RLOCK__MS));
    }
    group->hurried = once < effort->op_timeout_us;
    slot->state = RLOCK__SLOT_TAKING;
    slot->tried = true;
    slot->spoke = false;
    slot->code = 0;
    begin(slot, &(struct rlock__call){.kind = RLOCK__ACQUIRE,
                                      .wait_us = wait_us == RLOCK__NEVER ? -1 : wait_us,
                                      .lease_us = effort->lease_us,
                                      .timeout_us = once,
                                      .timed = group->hurried && effort->wait_us != 0,
                                      .min_uptime_us = group->composite->max_lease_us,
                                      .prompt = group->composite->ops->counts_alone,
                                      .kept = kept && effort->lease_us != 0,
                                      .renewed = effort->lease_us == 0 && slot->renewed_from == 0,
                                      .cancel = effort->cancel});
}

static void leave(struct rlock__slot *slot)
{
    slot->state = RLOCK__SLOT_LEAVING;
    slot->seal = false;
    begin(slot, &(struct rlock__call){.kind = RLOCK__RELEASE,
                                      .kept = slot->kept,
                                      .renewed = slot->renewed_from == slot->levels});
}

void rlock__group_listen(struct rlock__group *group)
{
    for (size_t i = 0; group->composite->ops->heard != NULL && i < group->composite->n; i++) {
        struct rlock__slot *slot = &group->slots[i];

        if (slot->tried && slot->code == RLOCK_EBUSY && !slot->listening &&
            (slot->spec->ops->caps & RLOCK__CAP_QUEUES) == 0 && slot->spec->ops->pause == NULL) {
            slot->listening = true;
            slot->ear_wish = RLOCK__WISH_BEGIN;
        }
    }
}

bool rlock__group_has_spoken(const struct rlock__group *group)
{
    for (size_t i = 0; i < group->composite->n; i++) {
        const struct rlock__slot *slot = &group->slots[i];

        if (slot->tried && slot->code == RLOCK_EBUSY && slot->spoke) {
            return true;
        }
    }
    return false;
}

void rlock__group_ignore(struct rlock__group *group)
{
    for (size_t i = 0; i < group->composite->n; i++) {
        struct rlock__slot *slot = &group->slots[i];

        slot->listening = slot->listening && slot->ear_wish != RLOCK__WISH_BEGIN;
        slot->ear_wish = slot->listening ? RLOCK__WISH_GIVE_UP : RLOCK__WISH_NONE;
    }
}

/* A call that was not begun yet is not begun. */
static void give_up(struct rlock__slot *slot)
{
    if (slot->wish == RLOCK__WISH_BEGIN) {
        slot->wish = RLOCK__WISH_NONE;
        slot->running = false;
        slot->state = slot->levels > 0 ? RLOCK__SLOT_HELD : RLOCK__SLOT_OUT;
        slot->code = RLOCK_ECANCELED;
    } else {
        slot->wish = RLOCK__WISH_GIVE_UP;
    }
}

/* What the levels that are held have of a member, at most. */
static uint32_t due_levels(const struct rlock__group *group)
{
    if (group->count == 0 || group->lost) {
        return 0;
    }
    return group->composite->ops->counts_alone ? 1 : group->count;
}

void rlock__group_shed_levels(struct rlock__group *group)
{
    for (size_t i = 0; i < group->composite->n; i++) {
        struct rlock__slot *slot = &group->slots[i];

        if (slot->state == RLOCK__SLOT_HELD && slot->levels > due_levels(group)) {
            leave(slot);
        }
    }
}

void rlock__group_shed(struct rlock__group *group)
{
    for (size_t i = 0; i < group->composite->n; i++) {
        if (group->slots[i].state == RLOCK__SLOT_TAKING) {
            give_up(&group->slots[i]);
        }
    }
    rlock__group_shed_levels(group);
}

void rlock__slot_settle_renewal(struct rlock__slot *slot)
{
    const struct rlock__group *group = slot->group;
    bool stays = slot->levels > (slot->state == RLOCK__SLOT_LEAVING);

    if (group->composite->ops->counts_alone && group->renewed_from == 0 && group->count > 0 &&
        slot->renewed_from != 0 && stays && slot->state != RLOCK__SLOT_TAKING) {
        slot->renewed_from = 0;
        slot->end_renewal = true;
    }
}

/* What came of a member's acquisition. */
static void on_taken(struct rlock__slot *slot)
{
    if (slot->call.code == 0) {
        slot->levels++;
        slot->kept |= slot->call.kept;
        if (slot->call.renewed) {
            slot->renewed_from = slot->group->composite->ops->counts_alone ? 1 : slot->levels;
        }
        (void)rlock__claim_unref(slot->claim);
        slot->claim = slot->call.claim;
        slot->call.claim = NULL;
    }
    slot->state = slot->levels > 0 ? RLOCK__SLOT_HELD : RLOCK__SLOT_OUT;
}

/* What came of a member's release: whatever it was, this level is none of ours any more; but one
 * that never had its turn is tried again. */
static void on_left(struct rlock__slot *slot)
{
    if (slot->code != RLOCK_ETIMEDOUT) {
        slot->levels--;
        slot->kept = false;
        slot->renewed_from = slot->renewed_from > slot->levels ? 0 : slot->renewed_from;
    }
    slot->state = slot->levels > 0 ? RLOCK__SLOT_HELD : RLOCK__SLOT_OUT;
    if (slot->levels == 0) {
        slot->claim = rlock__claim_unref(slot->claim);
    }
}

void rlock__slot_tidy(struct rlock__slot *slot)
{
    rlock__slot_settle_renewal(slot);
    if (slot->state == RLOCK__SLOT_HELD && slot->levels > due_levels(slot->group)) {
        leave(slot);
    } else if (slot->state == RLOCK__SLOT_HELD && slot->kept) {
        slot->seal = true;
    }
}

/* What an effort leaves in doubt stays so, whatever a later round says, until the member is had or
 * its lease has ended: and that begins no later than when something else is heard of the server. */
static void note_doubt(struct rlock__slot *slot, bool took, int64_t now)
{
    const struct rlock__effort *effort = &slot->group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;

    if (slot->code == RLOCK_EINDOUBT) {
        slot->open_until = rlock__free_by(now, lease);
        slot->unheard = true;
    } else if (took && slot->code == 0) {
        slot->open_until = 0;
        slot->unheard = false;
    } else if (slot->unheard && slot->code == RLOCK_EBUSY) { /* it may have run just before that */
        slot->open_until = rlock__max(slot->open_until, rlock__free_by(now, lease));
        slot->unheard = false;
    }
}

void rlock__slot_done(struct rlock__slot *slot, int64_t now)
{
    bool took = slot->state == RLOCK__SLOT_TAKING;

    slot->running = false;
    slot->wish = RLOCK__WISH_NONE;
    slot->code = slot->call.code;
    note_doubt(slot, took, now);
    if (took) {
        on_taken(slot);
    } else {
        on_left(slot);
    }
}
