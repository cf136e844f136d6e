/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which members are in doubt, by the numbers that an effort asked with and what their cores go on
 * with: a recovery, or a release that nobody waits for. The group keeps other books.
 */
#include <string.h>
#include <utlist.h>

#include "groups.h"
#include "lock/hold/recovery.h"

static void violate(const struct sim_owner *owner, const char *what)
{
    sim_violate(sim_home(owner->process->all), "process %u owner %llu, lock %u: %s",
                owner->process->index, (unsigned long long)owner->owner.id, owner->lock, what);
}

/* Two locks that have the same members have one group. */
static struct sim_asked *asked_of(struct sim_owner *owner, const struct rlock__member *member)
{
    const struct sim_process *process = owner->process;
    unsigned lock = 0;

    while (!rlock__group_spec_equal(process->locks[lock], member->group->spec)) {
        lock++;
    }
    return &owner->asked[lock][member - member->group->members];
}

/* over: a lost hold counts too, because its release may be under way. */
static const struct rlock__hold *hold_of(const struct rlock__member *member, bool over)
{
    const struct rlock__hold *hold =
        rlock__hold_find(member->spec->core, member->spec, member->group->owner);

    if (hold == NULL || hold->grant == NULL) {
        return NULL;
    }
    return hold->state == RLOCK__HOLD_HELD || (over && hold->state == RLOCK__HOLD_LOST) ? hold
                                                                                        : NULL;
}

static const struct rlock__ticket *ticket_of(const struct rlock__member *member, uint64_t number)
{
    const struct rlock__ticket *ticket;

    DL_FOREACH(member->spec->core->recovery.tickets, ticket) {
        if (ticket->number == number) {
            return ticket;
        }
    }
    return NULL;
}

/* Whether the member's core goes on with a number, for a call that is complete; or will do so as
 * soon as another call of the owner leaves the turn. */
static bool goes_on(const struct rlock__member *member, uint64_t number, bool over)
{
    const struct rlock__hold *hold = hold_of(member, over);

    if (ticket_of(member, number) != NULL) {
        return true;
    }
    return hold != NULL && hold->grant->number == number &&
           (hold->owed.n != 0 ||
            (hold->turn == NULL && (hold->grant->releasing || hold->grant->release != NULL)));
}

static bool is_in_use(const struct rlock__member *member, uint64_t number)
{
    const struct rlock__hold *hold = hold_of(member, true);

    return (member->running && member->call.number == number) || goes_on(member, number, true) ||
           (hold != NULL && hold->grant->number == number);
}

static void forget(struct sim_asked *asked, uint64_t number)
{
    for (size_t i = asked->n; i-- > 0;) {
        if (asked->numbers[i] == number) {
            asked->numbers[i] = asked->numbers[--asked->n];
        }
    }
}

static void prune(struct sim_asked *asked, const struct rlock__member *member)
{
    for (size_t i = asked->n; i-- > 0;) {
        if (!is_in_use(member, asked->numbers[i])) {
            asked->numbers[i] = asked->numbers[--asked->n];
        }
    }
}

/* A call that tries anew has another number each time. */
static void note(struct sim_owner *owner, const struct rlock__member *member)
{
    struct sim_asked *asked = asked_of(owner, member);
    const struct rlock__hold *hold = hold_of(member, false);
    bool asks = member->running && !member->todo.begin && member->call.kind == RLOCK__ACQUIRE;

    if (hold != NULL) {
        asked->held = hold->grant->number;
    }
    prune(asked, member); /* after a restart a number is released again that was settled */
    if (!asks || member->call.number == 0) {
        return;
    }
    forget(asked, member->call.number);
    if (asked->n == SIM_ASKED) {
        violate(owner, "leaves more numbers in doubt than the simulator keeps");
        return;
    }
    asked->numbers[asked->n++] = member->call.number;
}

void sim_doubt_look(struct sim_owner *owner)
{
    for (size_t i = 0; i < owner->group->spec->n; i++) {
        note(owner, &owner->group->members[i]);
    }
}

void sim_doubt_begin(struct sim_owner *owner)
{
    for (size_t i = 0; i < owner->group->spec->n; i++) {
        const struct rlock__member *member = &owner->group->members[i];
        struct sim_asked *asked = asked_of(owner, member);

        asked->earlier = member->running;
        if (!member->running && (owner->group->count == 0 || member->levels > 0)) {
            asked->n = member->levels > 0;
            asked->numbers[0] = asked->held;
        }
    }
}

void sim_doubt_hear(struct sim_owner *owner, const struct rlock__member *member)
{
    struct sim_asked *asked = asked_of(owner, member);
    const struct rlock__call *call = &member->call;

    if (call->kind == RLOCK__RELEASE && (call->code == RLOCK_ELOST || call->code == 0)) {
        asked->over = asked->held;
    } else if (call->kind == RLOCK__ACQUIRE && call->code == 0) {
        asked->n = 1;
        asked->numbers[0] = call->number;
    } else if (call->kind == RLOCK__ACQUIRE && call->code != RLOCK_EINDOUBT &&
               call->code != RLOCK_ECLOSED) {
        forget(asked, call->number); /* its core says that nothing is left of it */
    }
}

/* Whether the server has forgotten the number: its lease has ended, and its release is still owed
 * to a server that does not answer. */
static bool is_forgotten(const struct rlock__member *member, uint64_t number, int64_t now)
{
    const struct rlock__ticket *ticket = ticket_of(member, number);

    return ticket != NULL && now >= ticket->free_by;
}

/* over: rather counts too many than too few. Two more cases count then: a hold that was left or
 * lost, or whose lease has ended, if its core still works on it; and a call that has not begun. */
static bool is_in_doubt(struct sim_owner *owner, size_t i, bool over)
{
    const struct rlock__member *member = &owner->group->members[i];
    const struct sim_asked *asked = asked_of(owner, member);
    int64_t now = sim_process_clock(owner->process);

    if (member->running ? over || !member->todo.begin
                        : over && asked->earlier && rlock__doubt_is_open(member->call.doubt)) {
        return true;
    }
    for (size_t j = 0; j < asked->n; j++) {
        uint64_t number = asked->numbers[j];

        if (goes_on(member, number, over) &&
            (over || (number != asked->over && !is_forgotten(member, number, now)))) {
            return true;
        }
    }
    return false;
}

void sim_groups_check_doubt(struct sim_owner *owner)
{
    const struct rlock__group *group = owner->group;
    bool multi = group->spec->ops == &rlock__multi_ops, taking = owner->taking;
    size_t most = multi ? 0 : group->spec->n - group->spec->quorum;
    size_t least = 0, n = 0;
    int code = group->code;
    bool denies = group->count == 0 && owner->given_up == 0 &&
                  (taking ? code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT ||
                                code == RLOCK_ENOQUORUM || code == RLOCK_ECANCELED
                          : code == 0);

    for (size_t i = 0; i < group->spec->n; i++) {
        const struct rlock__member *member = &group->members[i];
        /* a nested level that failed left something open on it */
        bool open = !taking && owner->failed_inside && rlock__member_is_in_doubt(member);

        denies &= !member->spec->core->closed; /* its end gives back what is there */
        if (!taking || group->count == 0 || member->tried) {
            least += is_in_doubt(owner, i, false);
            n += is_in_doubt(owner, i, true) || open ||
                 (member->call.kind == RLOCK__RELEASE && member->code == RLOCK_EINDOUBT);
        }
    }
    if (code == RLOCK_EINDOUBT && n <= most && (taking || !multi)) {
        violate(owner, "is told that it is in doubt, and too few of its members are");
    }
    if (code == RLOCK_EINDOUBT && strstr(group->texts.detail, "free") == NULL) {
        violate(owner, "is told that it is in doubt, and not when it is free");
    }
    if (code == RLOCK_ECANCELED &&
        (owner->is_ended || strstr(group->texts.detail, "if it was granted") != NULL)) {
        return; /* the client gives it back, and says when it is free */
    }
    if (denies && least > most && (taking || !multi) && sim_twin_next(owner, NULL) == NULL) {
        violate(owner, "is told that it has nothing, and so many members are in doubt");
    }
}
