/* SPDX-License-Identifier: Apache-2.0 */
/* What users call on multi-locks and RedLocks: each call is a turn on its owner's party. */
#include "client/composite.h"

#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sized.h"
#include "drive/turn.h"
#include "lock/internal.h"

/* Keeps what the members said, for rlock_members(). With the mutex held. */
static void note_results(struct rlock *lock, const struct rlock__party *party)
{
    for (size_t i = 0; i < party->composite->n; i++) {
        const struct rlock__slot *slot = &party->slots[i];
        struct rlock__result *result = &lock->results[i];
        bool waits = slot->state == RLOCK__SLOT_TAKING;

        result->held = slot->state == RLOCK__SLOT_HELD;
        result->code = waits ? RLOCK_ETIMEDOUT : result->held ? 0 : slot->code;
        (void)snprintf(result->detail, sizeof(result->detail), "%s",
                       result->held    ? ""
                       : slot->running ? "no answer yet"
                                       : slot->call.detail);
    }
}

void rlock__composite_result(const struct rlock *lock, size_t i, struct rlock__result *ret)
{
    rlock__parties_lock();
    *ret = lock->results[i];
    rlock__parties_unlock();
}

/* One effort on a party whose turn it is: with the mutex held, but while it is driven. */
static int run_on(struct rlock *lock, struct rlock__party *party, const struct rlock__turn *turn,
                  const struct rlock__effort *effort, int fd, struct rlock_grant *ret_grant)
{
    int64_t now = rlock__now_us();

    if (effort == NULL) {
        rlock__party_leave(party, now);
    } else {
        struct rlock__effort rest = *effort;

        rest.wait_us = rest.wait_us > 0 ? rlock__max(turn->deadline - now, 1) : rest.wait_us;
        rlock__party_take(party, &rest, now);
    }
    rlock__parties_unlock();
    rlock__turn_drive(party, fd, turn->cancel);
    rlock__parties_lock();
    if (ret_grant != NULL) {
        now = rlock__now_us();
        ret_grant->lease_ms = party->lease_granted_us / RLOCK__MS;
        ret_grant->valid_ms = rlock__max(0, rlock__party_valid_until(party) - now) / RLOCK__MS;
    }
    note_results(lock, party);
    return party->code;
}

/* Runs one effort, NULL an unlock. ret_grant: NULL not wanted. */
static int run(struct rlock *lock, const struct rlock__turn *turn,
               const struct rlock__effort *effort, struct rlock_grant *ret_grant)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct rlock__party *party = NULL;
    char detail[RLOCK__DETAIL_SIZE];
    int code;

    if (fd < 0) {
        return rlock__fail(RLOCK_ERESOURCE, "no file descriptor to wait with");
    }
    rlock__parties_lock();
    code = rlock__turn_begin(turn, &party);
    if (code == 0) {
        code = run_on(lock, party, turn, effort, fd, ret_grant);
        (void)snprintf(detail, sizeof(detail), "%s", party->detail);
        rlock__turn_end(party);
    } else {
        if (code == RLOCK_ETIMEDOUT && effort != NULL && effort->wait_us == 0) {
            code = RLOCK_EBUSY;
        }
        (void)snprintf(detail, sizeof(detail), "lock %s: %s", lock->composite->name.at,
                       rlock_strerror(code));
    }
    rlock__parties_unlock();
    (void)close(fd);
    return code == 0 ? 0 : rlock__fail(code, "%s", detail);
}

/* What the members' clients have in common. */
static int read_clients(const struct rlock *lock, const struct rlock_take *take,
                        struct rlock__effort *inout_effort, int64_t *ret_longest)
{
    const struct rlock__composite *composite = lock->composite;

    inout_effort->op_timeout_us = inout_effort->renewed_lease_us = RLOCK__NEVER;
    for (size_t i = 0; i < composite->n; i++) {
        struct rlock_client *client = rlock__client_of(composite->members[i]->core);
        const struct rlock__core *core = &client->core;
        int code = rlock__client_check(client);

        if (code == 0 && take->cancel != NULL) {
            code = rlock__cancel_watch(client, take->cancel);
        }
        if (code != 0) {
            return code;
        }
        if (inout_effort->lease_us != 0 &&
            rlock__valid_until(core, 0, inout_effort->lease_us) <= 0) {
            return rlock__fail(RLOCK_EINVAL, "lease_ms lies within a client's safety margin");
        }
        inout_effort->op_timeout_us = rlock__min(inout_effort->op_timeout_us, core->op_timeout_us);
        *ret_longest = rlock__max(*ret_longest, core->renewed_lease_us);
        inout_effort->renewed_lease_us =
            rlock__min(inout_effort->renewed_lease_us, core->renewed_lease_us);
    }
    return 0;
}

int rlock__composite_take(struct rlock *lock, const struct rlock_take *take,
                          struct rlock__owner owner, struct rlock_grant *ret_grant)
{
    struct rlock__effort effort = {.wait_us = take->wait_ms * RLOCK__MS,
                                   .lease_us = take->lease_ms * RLOCK__MS,
                                   .cancel = rlock__cancel_id(take->cancel)};
    struct rlock_grant grant = {.size = sizeof(grant)};
    struct rlock__turn turn = {
        .composite = lock->composite, .owner = owner, .cancel = take->cancel};
    int64_t max_lease = lock->composite->max_lease_us, longest = 0, wait;
    int code = read_clients(lock, take, &effort, &longest);

    if (code != 0) {
        return code;
    }
    longest = effort.lease_us != 0 ? effort.lease_us : longest;
    if (max_lease != 0 && longest > max_lease) {
        return rlock__fail(RLOCK_EINVAL, "the lease is longer than the RedLock's max_lease_ms");
    }
    wait = effort.wait_us == 0 ? effort.op_timeout_us : effort.wait_us;
    turn.deadline = effort.wait_us < 0 ? RLOCK__NEVER : rlock__later(rlock__now_us(), wait);
    code = run(lock, &turn, &effort, &grant);
    if (code == 0 && ret_grant != NULL) {
        rlock__sized_give(ret_grant, &grant);
    }
    return code;
}

int rlock__composite_leave(struct rlock *lock, struct rlock__owner owner)
{
    const struct rlock__core *core = lock->spec->core;
    struct rlock__turn turn = {.composite = lock->composite,
                               .owner = owner,
                               .deadline = rlock__later(rlock__now_us(), core->op_timeout_us)};

    return run(lock, &turn, NULL, NULL);
}

int64_t rlock__composite_valid_until(const struct rlock *lock, struct rlock__owner owner,
                                     uint32_t *ret_count)
{
    const struct rlock__party *party;
    int64_t until;

    rlock__parties_lock();
    party = rlock__party_find(lock->composite, owner);
    until = party != NULL ? rlock__party_valid_until(party) : 0;
    *ret_count = party != NULL && !party->lost ? party->count : 0;
    rlock__parties_unlock();
    return until;
}
