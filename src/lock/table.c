/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of holds: by owner, side and key; those that were granted also by their number. */
#include <limits.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"

/* Builds the row's key in the core's scratch buffer; NULL without memory. */
static struct rlock__bytes hold_key(struct rlock__core *core, const struct rlock__spec *spec,
                                    struct rlock__owner owner, char side)
{
    struct rlock__buf *buf = &core->scratch;

    rlock__buf_clear(buf);
    (void)rlock__buf_add(buf, &owner.id, sizeof(owner.id));
    (void)rlock__buf_add(buf, owner.given ? "g" : "t", 1);
    (void)rlock__buf_add(buf, &side, 1);
    (void)rlock__buf_add(buf, spec->key.at, spec->key.len);
    return rlock__bytes(buf->failed ? NULL : buf->data, buf->len);
}

/* By the high bits of the hash: the table itself uses the low ones. */
static struct rlock__hold **table_of(struct rlock__core *core, unsigned hash)
{
    return &core->tables[hash / (UINT_MAX / RLOCK__TABLES + 1)];
}

static struct rlock__hold **numbers_of(struct rlock__core *core, uint64_t number)
{
    return &core->numbers[number % RLOCK__TABLES];
}

struct rlock__hold *rlock__hold_find_side(struct rlock__core *core, const struct rlock__spec *spec,
                                          struct rlock__owner owner, char side)
{
    struct rlock__bytes key = hold_key(core, spec, owner, side);
    struct rlock__hold *hold = NULL;
    unsigned hash;

    if (key.at != NULL) {
        HASH_VALUE(key.at, key.len, hash);
        HASH_FIND_BYHASHVALUE(hh, *table_of(core, hash), key.at, key.len, hash, hold);
    }
    return hold;
}

struct rlock__hold *rlock__hold_find(struct rlock__core *core, const struct rlock__spec *spec,
                                     struct rlock__owner owner)
{
    return rlock__hold_find_side(core, spec, owner, spec->ops->side);
}

struct rlock__hold *rlock__hold_by_number(struct rlock__core *core, uint64_t number)
{
    struct rlock__hold *hold = NULL;

    HASH_FIND(by_number, *numbers_of(core, number), &number, sizeof(number), hold);
    return hold;
}

/* Without memory it is in no table, and one that is forced open is told by its renewal alone. */
void rlock__hold_number(struct rlock__hold *hold, uint64_t number)
{
    hold->number = number;
    HASH_ADD(by_number, *numbers_of(hold->core, number), number, sizeof(hold->number), hold);
}

void rlock__hold_unnumber(struct rlock__hold *hold)
{
    if (hold->by_number.tbl != NULL) {
        HASH_DELETE(by_number, *numbers_of(hold->core, hold->number), hold);
        hold->by_number.tbl = NULL;
    }
}

void rlock__hold_free(struct rlock__hold *hold)
{
    struct rlock__core *core = hold->core;

    rlock__timer_unset(&core->crowd, &hold->timer);
    rlock__timer_unset(&hold->link->due, &hold->urgency);
    if (hold->batch_entry != NULL) {
        *hold->batch_entry = NULL;
    }
    rlock__hold_unnumber(hold);
    rlock__orphans_outlive(hold);
    if (core->sweep == hold) {
        core->sweep = hold->next;
    }
    if (hold->hh.tbl != NULL) {
        HASH_DELETE(hh, *table_of(core, hold->hh.hashv), hold);
        DL_DELETE(core->holds, hold);
    }
    if (hold->claim != NULL) {
        atomic_store(&hold->claim->valid_until, 0);
        atomic_store(&hold->claim->count, 0); /* its thread may forget it */
        hold->claim = rlock__claim_unref(hold->claim);
    }
    hold->loss = rlock__loss_free(hold->loss);
    hold->spare = rlock__orphan_unspare(hold->spare);
    hold->spec = rlock__spec_unref(hold->spec);
    free(hold->key);
    free(hold);
}

static struct rlock__claim *claim_new(struct rlock__spec *spec)
{
    struct rlock__claim *claim = calloc(1, sizeof(*claim));

    if (claim != NULL) {
        claim->spec = rlock__spec_ref(spec);
        claim->hash = spec->hash;
        atomic_init(&claim->refs, 1);
    }
    return claim;
}

/* The row was of another kind under this name, and outlived that for the calls on it. */
static bool change_kind(struct rlock__hold *hold, struct rlock__spec *spec)
{
    struct rlock__claim *claim = claim_new(spec);

    if (claim == NULL) {
        return false;
    }
    (void)rlock__claim_unref(hold->claim);
    hold->claim = claim;
    (void)rlock__spec_unref(hold->spec);
    hold->spec = rlock__spec_ref(spec);
    hold->loss = rlock__loss_free(hold->loss);
    return true;
}

bool rlock__hold_prepare(struct rlock__hold *hold, struct rlock__spec *spec)
{
    if (hold->spec->ops != spec->ops && !change_kind(hold, spec)) {
        return false;
    }
    if (hold->loss == NULL) {
        hold->loss = calloc(1, sizeof(*hold->loss));
        if (hold->loss == NULL) {
            return false;
        }
        hold->loss->spec = rlock__spec_ref(hold->spec);
        hold->loss->owner = hold->owner.given ? hold->owner.id : 0;
        hold->loss->owner_id = hold->owner.id;
    }
    if (hold->spare == NULL) {
        hold->spare = rlock__orphan_spare();
    }
    return hold->spare != NULL;
}

/* A row with all that a grant, a loss and giving up will need: once an attempt is sent, nothing of
 * these can fail for want of memory. */
static struct rlock__hold *hold_new(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner, struct rlock__bytes key)
{
    struct rlock__hold *hold = calloc(1, sizeof(*hold));
    unsigned hash;

    if (hold == NULL) {
        return NULL;
    }
    hold->core = core;
    hold->spec = rlock__spec_ref(spec);
    hold->link = rlock__route(spec);
    hold->timer.fire = core->on_hold_due;
    hold->owner = owner;
    hold->key = malloc(key.len);
    hold->claim = claim_new(spec);
    if (hold->key != NULL && hold->claim != NULL && rlock__hold_prepare(hold, spec)) {
        memcpy(hold->key, key.at, key.len);
        HASH_VALUE(hold->key, key.len, hash);
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, *table_of(core, hash), hold->key, key.len, hash, hold);
    }
    if (hold->hh.tbl == NULL) {
        rlock__hold_free(hold);
        return NULL;
    }
    DL_APPEND(core->holds, hold);
    return hold;
}

struct rlock__hold *rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                    struct rlock__owner owner)
{
    struct rlock__hold *hold = rlock__hold_find(core, spec, owner);
    struct rlock__bytes key = rlock__bytes(core->scratch.data, core->scratch.len);

    if (hold != NULL || core->scratch.failed) {
        return hold;
    }
    return hold_new(core, spec, owner, key);
}

void rlock__holds_fini(struct rlock__core *core)
{
    struct rlock__hold *hold, *after;

    DL_FOREACH_SAFE(core->holds, hold, after) {
        if (hold->release != NULL) {
            hold->release->subject = NULL;
        }
        rlock__hold_free(hold);
    }
}
