/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orphans for later. A call has one from its first attempt on, for what it may leave on the server:
 * giving up must not fail for want of memory. They are large, and nearly no call needs its own. So
 * a few are kept, and go from call to call; a hold has none. What a hold leaves when it is lost
 * takes memory then. Without any it ends with its lease.
 */
#include <assert.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/hold/orphan.h"

struct rlock__orphan *rlock__orphan_alloc(struct rlock__core *core)
{
    struct rlock__orphan *orphan = core->recovery.spares;

    if (orphan == NULL) {
        return calloc(1, sizeof(*orphan));
    }
    assert(core->recovery.n_spares > 0);
    LL_DELETE(core->recovery.spares, orphan);
    orphan->next = NULL;
    assert(orphan->core == NULL); /* as new */
    core->recovery.n_spares--;
    return orphan;
}

/* One that is as it was made. */
static void keep(struct rlock__core *core, struct rlock__orphan *orphan)
{
    assert(orphan->core == NULL);
    assert((core->recovery.n_spares == 0) == (core->recovery.spares == NULL));
    if (core->recovery.n_spares < RLOCK__IDLE) {
        LL_PREPEND(core->recovery.spares, orphan);
        core->recovery.n_spares++;
    } else {
        free(orphan);
    }
}

void rlock__orphan_put_away(struct rlock__core *core, struct rlock__orphan *orphan)
{
    assert(!orphan->timer.set);
    assert(orphan->doubt == NULL); /* else a group would be in doubt for ever */
    *orphan = (struct rlock__orphan){0};
    keep(core, orphan);
}

bool rlock__orphan_spare(struct rlock__call *call)
{
    assert(call->kind == RLOCK__ACQUIRE && call->hold->turn == call);
    call->acquire.spare =
        call->acquire.spare != NULL ? call->acquire.spare : rlock__orphan_alloc(call->core);
    return call->acquire.spare != NULL;
}

void rlock__orphan_unspare(struct rlock__call *call)
{
    assert(call->kind == RLOCK__ACQUIRE);
    if (call->acquire.spare != NULL) {
        keep(call->core, call->acquire.spare);
    }
    call->acquire.spare = NULL;
}

struct rlock__orphan *rlock__orphan_take_spare(const struct rlock__hold *hold)
{
    struct rlock__call *call = hold->turn;
    struct rlock__orphan *spare = NULL;

    assert(call == NULL || call->hold == hold);
    if (call != NULL && call->kind == RLOCK__ACQUIRE) {
        spare = call->acquire.spare;
        call->acquire.spare = NULL;
    }
    assert(spare == NULL || spare->core == NULL); /* as new */
    return spare;
}

void rlock__orphans_trim(struct rlock__core *core)
{
    struct rlock__orphan *orphan, *after;

    LL_FOREACH_SAFE(core->recovery.spares, orphan, after) {
        free(orphan);
    }
    core->recovery.spares = NULL;
    core->recovery.n_spares = 0;
}
