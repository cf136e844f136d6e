/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of holds and grants: it is kept for the next one. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "lock/hold/hold.h"
#include "lock/hold/ticket.h"
#include "lock/server/route.h"

void rlock__grant_clear(struct rlock__grant *grant)
{
    rlock__grant_unset(grant);
    assert(grant->release == NULL || grant->release->subject == NULL);
    if (grant->batch_entry != NULL) {
        assert(*grant->batch_entry == grant);
        *grant->batch_entry = NULL;
    }
    rlock__grant_linger(grant, false);
    rlock__grant_unnumber(grant);
    rlock__tickets_outlive(grant);
    (void)rlock__doubt_close(grant->doubt);
    (void)rlock__doubt_close(grant->owed_doubt);
    (void)rlock__ticket_free(grant->hold->spec->core, grant->ticket);
    *grant = (struct rlock__grant){.hold = grant->hold,
                                   .link = grant->link,
                                   .loss = grant->loss,
                                   .timer = {.fire = grant->timer.fire}};
}

static void grant_free(struct rlock__grant *grant)
{
    assert(!grant->is_numbered);
    assert(!grant->timer.set);
    assert(grant->batch_entry == NULL);
    (void)rlock__loss_free(grant->loss);
    free(grant);
}

/* Keeps a cleared grant for the next hold, or frees it if enough are kept. */
static void grant_put_away(struct rlock__core *core, struct rlock__grant *grant)
{
    assert((core->rows.n_idle_grants == 0) == (core->rows.idle_grants == NULL));
    if (core->rows.n_idle_grants < RLOCK__IDLE) {
        grant->hold = NULL;
        LL_PREPEND2(core->rows.idle_grants, grant, idle_next);
        core->rows.n_idle_grants++;
    } else {
        grant_free(grant);
    }
}

/* The same for an empty row. */
static void put_away(struct rlock__core *core, struct rlock__hold *hold)
{
    assert((core->rows.n_idle == 0) == (core->rows.idle == NULL));
    if (core->rows.n_idle < RLOCK__IDLE) {
        *hold = (struct rlock__hold){0};
        LL_PREPEND(core->rows.idle, hold);
        core->rows.n_idle++;
    } else {
        free(hold);
    }
}

void rlock__hold_free(struct rlock__hold *hold)
{
    struct rlock__core *core = hold->spec->core;

    assert(hold->turn == NULL);
    assert(hold->line == NULL && hold->lined == 0);
    if (hold->grant != NULL) {
        rlock__grant_clear(hold->grant);
        grant_put_away(core, hold->grant);
    }
    if (core->rows.sweep == hold) {
        core->rows.sweep = hold->next;
    }
    if (!hold->is_hidden) {
        rlock__hold_hide(hold);
    }
    DL_DELETE(core->rows.holds, hold);
    if (hold->view != NULL) {
        atomic_store(&hold->view->valid_until, 0);
        atomic_store(&hold->view->count, 0); /* the owner's thread may forget the view */
        hold->view = rlock__view_unref(hold->view);
    }
    rlock__units_drop(hold);
    (void)rlock__spec_unref(hold->spec);
    put_away(core, hold);
}

static struct rlock__view *view_new(struct rlock__spec *spec)
{
    struct rlock__view *view = calloc(1, sizeof(*view));

    if (view != NULL) {
        view->spec = rlock__spec_ref(spec);
        atomic_init(&view->refs, 1);
    }
    return view;
}

bool rlock__hold_view(struct rlock__hold *hold, struct rlock__spec *spec)
{
    assert(hold->spec->core == spec->core);
    assert(hold->spec->ops->side == spec->ops->side); /* the tables find the row by its side */
    assert(rlock__bytes_equal(hold->spec->key, spec->key));
    if (hold->spec->ops != spec->ops) { /* calls kept the row, but its view is of the kind before */
        assert(hold->state == RLOCK__HOLD_NONE);
        hold->view = rlock__view_unref(hold->view);
        rlock__units_drop(hold);
        (void)rlock__spec_unref(hold->spec);
        hold->spec = rlock__spec_ref(spec);
    }
    hold->view = hold->view != NULL ? hold->view : view_new(spec);
    return hold->view != NULL;
}

/* NULL without memory. */
static struct rlock__grant *grant_new(struct rlock__hold *hold)
{
    struct rlock__core *core = hold->spec->core;
    struct rlock__grant *grant = core->rows.idle_grants;

    assert(hold->grant == NULL);
    if (grant != NULL) {
        assert(core->rows.n_idle_grants > 0);
        LL_DELETE2(core->rows.idle_grants, grant, idle_next);
        core->rows.n_idle_grants--;
    } else {
        grant = calloc(1, sizeof(*grant));
    }
    if (grant != NULL) {
        grant->hold = hold;
        grant->link = rlock__route(hold->spec);
        grant->timer.fire = core->on_grant_due;
    }
    return grant;
}

bool rlock__hold_prepare(struct rlock__call *call)
{
    struct rlock__hold *hold = call->hold;

    assert(call->kind == RLOCK__ACQUIRE && hold->turn == call);
    assert(hold->grant == NULL || hold->grant->hold == hold);
    if (call->acquire.ticket == NULL) {
        call->acquire.ticket = rlock__ticket_new(call->core, RLOCK__TICKET_CALL, call->number);
    }
    if (call->acquire.ticket == NULL || !rlock__hold_view(hold, call->spec) ||
        (rlock__has_units(call->spec) && !rlock__units_reserve(call))) {
        return false;
    }
    if (call->acquire.adopts != NULL && call->acquire.ticket->adopts == NULL) {
        call->acquire.ticket->adopts = strdup(call->acquire.adopts);
        if (call->acquire.ticket->adopts == NULL) {
            return false;
        }
    }
    hold->grant = hold->grant != NULL ? hold->grant : grant_new(hold);
    if (hold->grant != NULL && hold->grant->loss == NULL) {
        hold->grant->loss = calloc(1, sizeof(*hold->grant->loss));
    }
    return hold->grant != NULL && hold->grant->loss != NULL;
}

/* NULL without memory. */
static struct rlock__hold *hold_new(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner)
{
    struct rlock__hold *hold = core->rows.idle;

    if (hold != NULL) {
        assert(core->rows.n_idle > 0);
        LL_DELETE(core->rows.idle, hold);
        hold->next = NULL;
        core->rows.n_idle--;
    } else {
        hold = calloc(1, sizeof(*hold));
    }
    if (hold == NULL) {
        return NULL;
    }
    hold->spec = rlock__spec_ref(spec);
    hold->owner_id = owner.id;
    hold->given = owner.given;
    rlock__hold_index(hold);
    DL_APPEND(core->rows.holds, hold);
    return hold;
}

struct rlock__hold *rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, owner);

    return hold != NULL ? hold : hold_new(core, spec, owner);
}

void rlock__holds_trim(struct rlock__core *core)
{
    struct rlock__hold *hold, *after;
    struct rlock__grant *grant, *grant_after;

    LL_FOREACH_SAFE(core->rows.idle, hold, after) {
        free(hold);
    }
    LL_FOREACH_SAFE2(core->rows.idle_grants, grant, grant_after, idle_next)
    {
        grant_free(grant);
    }
    core->rows.idle = NULL;
    core->rows.idle_grants = NULL;
    core->rows.n_idle = core->rows.n_idle_grants = 0;
}

void rlock__holds_fini(struct rlock__core *core)
{
    struct rlock__hold *hold, *after;

    DL_FOREACH_SAFE(core->rows.holds, hold, after) {
        if (hold->grant != NULL && hold->grant->release != NULL) {
            hold->grant->release->subject = NULL;
        }
        rlock__hold_free(hold);
    }
    rlock__holds_trim(core);
    rlock__hold_tables_fini(core);
}
