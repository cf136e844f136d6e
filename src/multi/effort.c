/* SPDX-License-Identifier: Apache-2.0 */
/* How an effort ends: well, or by backing out of what it took. */
#include <stdio.h>

#include "multi/claim.h"
#include "multi/internal.h"

void rlock__effort_end(struct rlock__group *group, int code)
{
    char name[96];

    rlock__group_ignore(group);
    group->phase = RLOCK__GROUP_IDLE;
    atomic_store(&group->awaited, code != 0);
    group->timer_at = RLOCK__NEVER;
    group->code = code;
    if (group->lost || group->count == 0) { /* also by the end of a client, meanwhile */
        rlock__group_shed(group);
    }
    RLOCK__EACH_MEMBER(member, group) {
        rlock__member_settle_renewal(member);
    }
    if (code != 0 && group->detail[0] == '\0') {
        (void)snprintf(group->detail, sizeof(group->detail), "lock %s: %s",
                       rlock__text(group->spec->name, name, sizeof(name)), rlock_strerror(code));
    }
}

void rlock__group_blame(struct rlock__group *group, const struct rlock__member *member)
{
    (void)snprintf(group->detail, sizeof(group->detail), "%s", member->texts.detail);
}

void rlock__group_taken(struct rlock__group *group, int64_t now)
{
    group->count++;
    rlock__group_claim_show(group);
    group->lease_granted_us =
        group->effort.lease_us != 0 ? group->effort.lease_us : group->effort.renewed_lease_us;
    if (rlock__group_valid_until(group) <= now) { /* taken, and over already */
        group->count--;
        rlock__group_claim_show(group);
        rlock__group_back_out(group, group->count > 0 ? RLOCK_ELOST : RLOCK_ETIMEDOUT, now);
        return;
    }
    if (group->effort.lease_us == 0 && group->renewed_from == 0) {
        group->renewed_from = group->count;
    }
    RLOCK__EACH_MEMBER(member, group) {
        member->todo.seal = member->state == RLOCK__MEMBER_HELD && member->kept;
    }
    rlock__effort_end(group, 0);
    if (group->spec->ops->counts_alone) { /* what a level more was asked for is there */
        rlock__group_shed_levels(group);
    }
}

bool rlock__effort_is_open(const struct rlock__group *group, int64_t now)
{
    size_t n = rlock__group_running(group);

    RLOCK__EACH_MEMBER(member, group) {
        n += !member->running &&
             (member->code == RLOCK_EINDOUBT || member->unheard || now < member->open_until);
    }
    return n >= ((group->spec->ops->caps & RLOCK__CAP_QUORUM) != 0 ? group->spec->quorum : 1);
}

void rlock__effort_backed_out(struct rlock__group *group, int64_t now)
{
    bool nested = group->count > 0; /* a level more is asked for once: nobody waits for it */
    int64_t at = nested ? RLOCK__NEVER : group->spec->ops->again_at(group, now);

    if (at == RLOCK__NEVER && rlock__effort_is_open(group, now)) {
        group->detail[0] = '\0';
        rlock__effort_end(group, RLOCK_EINDOUBT);
    } else if (at == RLOCK__NEVER) {
        rlock__effort_end(group, group->code);
    } else {
        group->phase = RLOCK__GROUP_PAUSING;
        group->timer_at = at;
        rlock__group_listen(group, now);
    }
}

bool rlock__effort_is_back(struct rlock__group *group, int64_t now)
{
    const struct rlock__group_ops *ops = group->spec->ops;

    RLOCK__EACH_MEMBER(member, group) {
        if (member->running && (!ops->counts_alone || member->state == RLOCK__MEMBER_LEAVING)) {
            return false;
        }
    }
    return rlock__group_running(group) == 0 ||
           (group->count == 0 && ops->again_at(group, now) != RLOCK__NEVER);
}

void rlock__group_back_out(struct rlock__group *group, int code, int64_t now)
{
    int64_t until = rlock__min(group->deadline, now + group->effort.op_timeout_us);
    bool patient = code != RLOCK_ECANCELED && !group->spec->ops->counts_alone;

    group->phase = RLOCK__GROUP_BACKING_OUT;
    group->code = code;
    group->timer_at = rlock__max(now + RLOCK__GRACE_US, patient ? until : 0);
    rlock__group_shed(group);
    if (rlock__effort_is_back(group, now)) {
        rlock__effort_backed_out(group, now);
    }
}
