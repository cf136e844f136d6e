/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RedLock: one lock on each of N servers that know nothing of each other. An owner that holds
 * most of them holds the RedLock. The client asks all servers at once. The result is certain when
 * enough have answered, and late grants join the hold. After Antirez, "Distributed locks with
 * Redis", with its delayed restarts, and with validities that count from before the first request.
 */
#include <assert.h>
#include <stdio.h>

#include "multi/group.h"
#include "redlock/peers.h"

#define PAUSE_US (5 * RLOCK__MS) /* before another round: up to this, doubling up to the next */
#define PAUSE_MAX_US (160 * RLOCK__MS)
#define PATIENCE_US (5 * RLOCK__MS) /* the shortest wait for silent members */
#define RTT_US (RLOCK__MS / 4)      /* the shortest round trip that counts */
#define TRIPS_MAX 8
#define FIRST_US (250 * RLOCK__MS) /* beside another library: the first member's wait, at most */
#define REST_US (20 * RLOCK__MS)   /* and then for the others */

static size_t held(const struct rlock__group *group)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n += member->state == RLOCK__MEMBER_HELD && atomic_load(&member->view->valid_until) != 0;
    }
    return n;
}

/* Notes what the member's call says about its server. A call without time for an answer says
 * nothing. */
static void note_answer(struct rlock__member *member)
{
    if (member->code == 0 || member->code == RLOCK_EBUSY) {
        member->answer = RLOCK__MEMBER_WORKS;
    } else if (member->code != RLOCK_ETIMEDOUT && member->code != RLOCK_EINDOUBT &&
               member->code != RLOCK_ECANCELED) {
        member->answer = RLOCK__MEMBER_FAILS;
    }
}

/*
 * How many members could grant the lock, now or when their holder is gone. If the round is decided
 * early, a member without an answer counts too. A member that had no time to answer counts as it
 * did before.
 */
static size_t working(const struct rlock__group *group, bool late)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        bool open = member->running || (member->code != 0 && member->code != RLOCK_EBUSY);

        if (!open || (member->running && !late)) {
            n += member->answer != RLOCK__MEMBER_FAILS;
        } else {
            n += group->hurried && member->answer == RLOCK__MEMBER_WORKS;
        }
    }
    return n;
}

/* How many members gave the nested level what it needs. If that is decided early, members without
 * an answer count too. */
static size_t extended(const struct rlock__group *group, bool late)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n += member->running ? !late : member->tried && member->code == 0;
    }
    return n;
}

/* Writes "no quorum: 2 of 5, 3 needed", with "at most" if the effort did not wait for the rest; and
 * why the first of the others did not count. */
static void describe_no_quorum(struct rlock__group *group, size_t n_working, bool late)
{
    const struct rlock__group_spec *spec = group->spec;
    char name[96];
    int n = snprintf(group->texts.detail, sizeof(group->texts.detail),
                     "lock %s: no quorum: %zu of %zu servers can grant it%s, %zu needed",
                     rlock__text(spec->name, name, sizeof(name)), n_working, spec->n,
                     late || rlock__group_running(group) == 0 ? "" : " at most", spec->quorum);

    RLOCK__EACH_MEMBER(member, group) {
        if (member->tried && member->code != 0 && member->code != RLOCK_EBUSY &&
            member->code != RLOCK_ECANCELED && n > 0 && (size_t)n < sizeof(group->texts.detail)) {
            (void)snprintf(group->texts.detail + n, sizeof(group->texts.detail) - (size_t)n, "; %s",
                           member->texts.detail);
            return;
        }
    }
}

/* The code of a round that certainly did not get a quorum. */
static int verdict(struct rlock__group *group, bool late)
{
    size_t n = group->count > 0 ? extended(group, late) : working(group, late);

    if (group->behind_first) {
        rlock__peers_turn(group);
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->tried) {
            continue;
        }
        if (member->code == RLOCK_EINDOUBT && member->call.cancelled) {
            return RLOCK_ECANCELED;
        }
        if (member->code == RLOCK_ECANCELED || member->code == RLOCK_ECLOSED ||
            member->code == RLOCK_EINVAL || member->code == RLOCK_EDEADLOCK) {
            rlock__group_blame(group, member);
            return member->code;
        }
        if (member->code == RLOCK_EBUSY) {
            rlock__group_blame(group, member);
        }
    }
    if (n >= group->spec->quorum) {
        return group->effort.wait_us == 0 ? RLOCK_EBUSY : RLOCK_ETIMEDOUT;
    }
    describe_no_quorum(group, n, late);
    return RLOCK_ENOQUORUM;
}

/*
 * A client with a minority keeps others out, and they keep it out. So once the other members have
 * answered, silent ones have limited time: twice the slowest round trip of all members, usual or in
 * this round, less the time for which the silent servers had been silent before. There is no limit
 * while so many are silent that the outcome would be in doubt, or a link connects for the first
 * time.
 */
static int64_t patience(const struct rlock__group *group)
{
    int64_t usual = group->answered_at - group->round_at, silent = RLOCK__NEVER, until;

    if (group->first != NULL) {
        return group->round_at + FIRST_US + PATIENCE_US;
    }
    if (group->count > 0 || held(group) == 0 ||
        rlock__group_running(group) >= group->spec->quorum) {
        return RLOCK__NEVER;
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (member->running && atomic_load(&member->rtt) == 0) {
            return RLOCK__NEVER;
        }
        if (member->running) {
            usual = rlock__max(usual, atomic_load(&member->rtt));
            silent = rlock__min(silent, atomic_load(&member->silent));
        }
    }
    until = rlock__max(group->round_at + 2 * usual, group->answered_at + PATIENCE_US);
    return rlock__max(until - silent, group->answered_at);
}

/* Asks the members that were not asked in this round. */
static void take_rest(struct rlock__group *group, int64_t wait_us, int64_t now)
{
    RLOCK__EACH_MEMBER(member, group) {
        if (!member->tried && !member->running) { /* or after an earlier effort left it */
            rlock__member_take(member, wait_us, false, now);
        }
    }
}

/* A wait for a member, limited by the wait of the whole. */
static int64_t at_most(const struct rlock__group *group, int64_t wait_us, int64_t now)
{
    return rlock__max(rlock__min(wait_us, group->deadline - now), 1);
}

/* The call for the first member is complete. */
static void after_first(struct rlock__group *group, int64_t now)
{
    const struct rlock__effort *effort = &group->effort;
    int64_t lease = effort->lease_us != 0 ? effort->lease_us : effort->renewed_lease_us;
    int64_t rest = rlock__min(REST_US, lease / 4);
    bool held = group->first->code == 0;

    assert(!group->first->running);
    group->first = NULL;
    group->behind_first = held;
    group->round_at = group->answered_at = now;
    if (!held) {
        rlock__peers_forget(group);
    }
    take_rest(group, held ? at_most(group, rest, now) : 0, now);
}

/* Ends the round if it has a quorum, or cannot get one any more. */
static void go_on(struct rlock__group *group, int64_t now)
{
    bool nested = group->count > 0;
    size_t sure = nested ? extended(group, true) : held(group);
    size_t possible = nested ? extended(group, false) : sure + rlock__group_running(group);

    if (sure >= group->spec->quorum) {
        rlock__group_taken(group, now);
    } else if (possible < group->spec->quorum) {
        rlock__group_back_out(group, verdict(group, false), now);
    }
}

static void take(struct rlock__group *group, int64_t now)
{
    group->rounds++;
    group->round_at = group->answered_at = now;
    group->first = rlock__peers_first(group, now);
    group->behind_first = false;
    if (group->first != NULL) {
        rlock__member_take(group->first, at_most(group, FIRST_US, now), false, now);
        return;
    }
    take_rest(group, 0, now);
    go_on(group, now);
}

static void moved(struct rlock__group *group, struct rlock__member *member, int64_t now)
{
    if (member->tried && !member->running) {
        if (member->code == RLOCK_ETIMEDOUT &&
            member->call.acquire.contended) { /* the call waited for a holder */
            member->code = RLOCK_EBUSY;
        }
        note_answer(member);
        rlock__peers_note(group, now);
        group->answered_at =
            member->code == 0 || member->code == RLOCK_EBUSY ? now : group->answered_at;
    }
    if (group->first != NULL && group->first != member) { /* the round waits for the first */
        return;
    }
    if (group->first != NULL) {
        after_first(group, now);
    }
    if (!member->tried && !member->running && (group->count == 0 || member->levels > 0)) {
        rlock__member_take(member, 0, false, now);
    }
    go_on(group, now);
}

/* How many members may be free: all but those that cannot grant the lock, and those that were busy
 * and whose channel has had no message since. */
static size_t open_to_it(const struct rlock__group *group)
{
    size_t n = 0;

    RLOCK__EACH_MEMBER(member, group) {
        n +=
            member->answer != RLOCK__MEMBER_FAILS && (member->code != RLOCK_EBUSY || member->spoke);
    }
    return n;
}

/*
 * Most of a release's messages come together. If all waiters asked at once, each might get a part.
 * So each waits for a random time of up to a round trip, and of up to more of them after more
 * failed rounds.
 */
static void on_message(struct rlock__group *group, int64_t now)
{
    int64_t trips = rlock__min(group->rounds, TRIPS_MAX);
    int64_t trip = rlock__max(rlock__group_round_trip(group), RTT_US);

    if (open_to_it(group) >= group->spec->quorum) {
        group->timer_at =
            rlock__min(group->timer_at, now + rlock__group_random(group, trips * trip));
    }
}

/* A round that begins within the wait has time for its answers. */
static int64_t again_at(struct rlock__group *group, int64_t now)
{
    int64_t pause = rlock__min(PAUSE_US << (group->rounds < 8 ? group->rounds : 8), PAUSE_MAX_US);
    int64_t last = group->deadline;

    if (group->effort.wait_us == 0 || now + RLOCK__MS >= last ||
        (group->code != RLOCK_ETIMEDOUT && group->code != RLOCK_ENOQUORUM)) {
        return RLOCK__NEVER;
    }
    return now + RLOCK__MS + rlock__group_random(group, rlock__min(pause, last - now - RLOCK__MS));
}

/* Only the group counts levels. If the new level needs what the servers have not given, which is a
 * longer lease or the renewal, the members take a level more, and release it again. */
static void nest(struct rlock__group *group, int64_t now)
{
    const struct rlock__effort *effort = &group->effort;
    bool renewal = effort->lease_us == 0 && group->renewed_from == 0;

    group->round_at = group->answered_at = now;
    if (!renewal && now + effort->lease_us <= rlock__group_valid_until(group)) {
        rlock__group_taken(group, now);
        return;
    }
    RLOCK__EACH_MEMBER(member, group) {
        if (member->state == RLOCK__MEMBER_HELD) { /* others follow once they have left */
            rlock__member_take(member, 0, false, now);
        }
    }
    go_on(group, now);
}

/* The quorum-th largest of the members' validities. */
static int64_t valid_until(const struct rlock__group_spec *spec, const int64_t *untils)
{
    int64_t sorted[RLOCK__MEMBERS_MAX];

    for (size_t i = 0; i < spec->n; i++) { /* the largest first */
        size_t at = i;

        for (; at > 0 && sorted[at - 1] < untils[i]; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = untils[i];
    }
    return sorted[spec->quorum - 1];
}

/* The release is complete when enough members are free that others can get a quorum. The rest
 * follows. */
static bool left(const struct rlock__group *group, int *ret_code)
{
    size_t out = 0, pending = 0;

    RLOCK__EACH_MEMBER(member, group) {
        /* the lease of a member without an answer may end before we know */
        bool unanswered = member->call.kind == RLOCK__RELEASE && member->code == RLOCK_EINDOUBT;

        pending += member->running;
        out += !unanswered && !rlock__member_is_in_doubt(member);
    }
    *ret_code = out >= group->spec->quorum ? 0 : RLOCK_EINDOUBT;
    return out >= group->spec->quorum || pending == 0;
}

const struct rlock__group_ops rlock__redlock_ops = {
    .kind = "redlock",
    .number = RLOCK_KIND_REDLOCK,
    .caps = RLOCK__CAP_MEMBERS | RLOCK__CAP_QUORUM,
    .take = take,
    .moved = moved,
    .verdict = verdict,
    .on_message = on_message,
    .patience = patience,
    .again_at = again_at,
    .nest = nest,
    .valid_until = valid_until,
    .left = left,
    .counts_alone = true,
};
