/* SPDX-License-Identifier: Apache-2.0 */
/* How an effort ends: with success, or by giving back what it took. */
#include <assert.h>
#include <stdio.h>

#include "multi/internal.h"
#include "multi/view.h"

#define REST_SIZE 16 /* of the text " and 64 more" */

void rlock__effort_phase(struct rlock__group *group, enum rlock__group_phase phase)
{
#define PHASE(phase) (1U << RLOCK__GROUP_##phase)
    static const unsigned follow[] = {
        [RLOCK__GROUP_IDLE] = PHASE(IDLE) | PHASE(TAKING) | PHASE(LEAVING) | PHASE(EXTENDING),
        [RLOCK__GROUP_TAKING] = PHASE(BACKING_OUT) | PHASE(IDLE),
        [RLOCK__GROUP_BACKING_OUT] = PHASE(BACKING_OUT) | PHASE(PAUSING) | PHASE(IDLE),
        [RLOCK__GROUP_PAUSING] = PHASE(TAKING) | PHASE(BACKING_OUT) | PHASE(IDLE),
        [RLOCK__GROUP_LEAVING] = PHASE(IDLE),
        [RLOCK__GROUP_EXTENDING] = PHASE(IDLE),
    };
#undef PHASE
    bool may = (follow[group->phase] & (1U << phase)) != 0;

    assert(may);
    (void)may;
    group->phase = phase;
}

void rlock__effort_end(struct rlock__group *group, int code)
{
    char name[96];

    rlock__group_ignore(group);
    rlock__effort_phase(group, RLOCK__GROUP_IDLE);
    atomic_store(&group->awaited, code != 0);
    group->timer_at = RLOCK__NEVER;
    group->code = code;
    rlock__group_tidy(group);
    if (code == RLOCK_ELOST) {
        group->texts.facts.reason = group->reason;
    }
    if (code != 0 && group->texts.detail[0] == '\0') {
        (void)snprintf(group->texts.detail, sizeof(group->texts.detail), "lock %s: %s",
                       rlock__text(group->spec->name, name, sizeof(name)), rlock_strerror(code));
    }
}

void rlock__group_blame(struct rlock__group *group, const struct rlock__member *member)
{
    group->texts = member->texts;
}

int64_t rlock__effort_lease(const struct rlock__group *group)
{
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;

    for (size_t i = 0; i < group->spec->n; i++) {
        int64_t most = group->spec->members[i]->tuning->max_hold_us;

        lease = most != 0 ? rlock__min(lease, most) : lease;
    }
    return lease;
}

void rlock__group_taken(struct rlock__group *group, int64_t now)
{
    group->since = group->count == 0 ? now : group->since;
    group->count++;
    rlock__group_view_show(group);
    group->lease_granted_us = rlock__effort_lease(group);
    if (rlock__group_valid_until(group) <= now) { /* taken, and over already */
        rlock__group_drop(group, 1);
        rlock__group_back_out(group, rlock__group_left(group) > 0 ? RLOCK_ELOST : RLOCK_ETIMEDOUT,
                              now);
        return;
    }
    if (group->effort.lease_us == 0 && group->renewed_from == 0) {
        group->renewed_from = group->count;
    }
    if (group->owed > 0) {
        rlock__group_replace_owed(group);
    }
    RLOCK__EACH_MEMBER(member, group) {
        member->todo.finalize = member->state == RLOCK__MEMBER_HELD && member->provisional;
    }
    rlock__effort_end(group, 0);
}

/* Whether the effort is in doubt about a member. An effort for a nested level asks only the members
 * that are held. A closed client takes care of its own members. */
static bool is_in_doubt(const struct rlock__group *group, const struct rlock__member *member)
{
    if (group->phase == RLOCK__GROUP_LEAVING) {
        return rlock__member_is_in_doubt(member) ||
               (member->code == RLOCK_EINDOUBT && member->call.kind == RLOCK__RELEASE);
    }
    return (group->count == 0 || member->tried) &&
           (member->running || member->code != RLOCK_ECLOSED) && rlock__member_is_in_doubt(member);
}

/* Whether the outcome of an effort to take the group is in doubt. A quorum of members without doubt
 * proves that the effort has no quorum, and that others can get one. */
static bool is_open(const struct rlock__group *group)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n += is_in_doubt(group, member);
    }
    return n > group->spec->n - group->spec->quorum;
}

/* By when a member is free, whatever became of its call. */
static int64_t free_by(const struct rlock__member *member, int64_t now)
{
    const struct rlock__group *group = member->group;
    const struct rlock__effort *effort = &group->effort;
    int64_t asked = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;
    int64_t known = member->running ? 0 : rlock__doubt_free_by(member->call.doubt);

    return known != 0 ? known : rlock__free_by(now, rlock__max(asked, group->lease_granted_us));
}

/* Adds a member to the group's text. first: no member is in the text yet. Returns false if there is
 * no room. */
static bool name_member(struct rlock__group *group, const struct rlock__member *member, bool first)
{
    const struct rlock__spec *spec = member->spec;
    bool alike = rlock__bytes_equal(spec->name, group->spec->name);
    size_t len = strlen(group->texts.detail), room = sizeof(group->texts.detail) - REST_SIZE - len;
    char name[96];
    int n = snprintf(group->texts.detail + len, room, "%s%s%sserver %s", first ? "" : ", ",
                     alike ? "" : rlock__text(spec->name, name, sizeof(name)), alike ? "" : " on ",
                     spec->core->opts.address);
    bool fits = n >= 0 && (size_t)n < room;

    group->texts.detail[fits ? len + (size_t)n : len] = '\0';
    return fits;
}

static void name_members(struct rlock__group *group)
{
    size_t named = 0, rest = 0;

    RLOCK__EACH_MEMBER(member, group) {
        if (is_in_doubt(group, member) && rest == 0 && name_member(group, member, named == 0)) {
            named++;
        } else {
            rest += is_in_doubt(group, member);
        }
    }
    if (rest > 0) {
        size_t len = strlen(group->texts.detail);

        (void)snprintf(group->texts.detail + len, REST_SIZE, " and %zu more", rest);
    }
}

void rlock__effort_end_in_doubt(struct rlock__group *group, int64_t now)
{
    bool leaves = group->phase == RLOCK__GROUP_LEAVING;
    bool canceled = !leaves && group->code == RLOCK_ECANCELED;
    int code = canceled ? RLOCK_ECANCELED : RLOCK_EINDOUBT;
    int64_t last = now;
    char name[96];

    RLOCK__EACH_MEMBER(member, group) {
        last = is_in_doubt(group, member) ? rlock__max(last, free_by(member, now)) : last;
    }
    (void)snprintf(group->texts.detail, sizeof(group->texts.detail),
                   "lock %s: %s; %s in %lld ms; in doubt: ",
                   rlock__text(group->spec->name, name, sizeof(name)), rlock_strerror(code),
                   leaves ? "it is free" : "if it was granted, it is free again",
                   (long long)rlock__ms_up(last - now));
    name_members(group);
    group->texts.facts.free_at = last;
    rlock__effort_end(group, code);
}

void rlock__effort_end_untaken(struct rlock__group *group, int64_t now)
{
    if (group->lost && group->code != RLOCK_ECANCELED) { /* the end gives back what is held */
        rlock__texts_clear(&group->texts);
        rlock__effort_end(group, RLOCK_ELOST);
        return;
    }
    if (is_open(group)) {
        rlock__effort_end_in_doubt(group, now);
        return;
    }
    if (group->code == RLOCK_ECANCELED) {
        rlock__texts_clear(&group->texts);
    }
    if (group->code == RLOCK_EINDOUBT) { /* a member was in doubt, and is not now */
        group->code = group->effort.wait_us == 0 ? RLOCK_ECONN : RLOCK_ETIMEDOUT;
        rlock__texts_clear(&group->texts);
    }
    rlock__effort_end(group, group->code);
}

void rlock__effort_backed_out(struct rlock__group *group, int64_t now)
{
    bool nested = group->count > 0; /* a nested level has one round */
    int64_t at = nested ? RLOCK__NEVER : group->spec->ops->again_at(group, now);

    if (at == RLOCK__NEVER) {
        rlock__effort_end_untaken(group, now);
    } else {
        rlock__effort_phase(group, RLOCK__GROUP_PAUSING);
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

/* How long the answers of members that are given back may take. If the group counts alone, the next
 * round does not wait for silent members. */
static int64_t release_time(const struct rlock__group *group)
{
    int64_t most = group->effort.op_timeout_us;

    return group->spec->ops->counts_alone
               ? rlock__min(RLOCK__PATIENCE_TRIPS * rlock__group_round_trip(group), most)
               : most;
}

void rlock__group_back_out(struct rlock__group *group, int code, int64_t now)
{
    int64_t until = rlock__min(rlock__group_last(group), now + release_time(group));
    bool patient = code != RLOCK_ECANCELED;

    rlock__effort_phase(group, RLOCK__GROUP_BACKING_OUT);
    group->code = code;
    group->timer_at = rlock__max(now + RLOCK__GRACE_US, patient ? until : 0);
    rlock__group_shed(group);
    if (rlock__effort_is_back(group, now)) {
        rlock__effort_backed_out(group, now);
    }
}
