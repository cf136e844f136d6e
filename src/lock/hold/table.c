/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of holds: all rows by owner, side and key; granted holds also by number; granted
 * exclusive holds also by lock. */
#include <assert.h>
#include <limits.h>

#include "lock/hold/hold.h"

/* By the high bits of the hash: the table itself uses the low ones. */
static struct rlock__table *table_of(struct rlock__core *core, unsigned hash)
{
    return &core->rows.tables[hash / (UINT_MAX / RLOCK__TABLES + 1)];
}

static struct rlock__table *numbers_of(struct rlock__core *core, uint64_t number)
{
    return &core->rows.numbers[number % RLOCK__TABLES];
}

static struct rlock__table *locks_of(struct rlock__core *core, const struct rlock__spec *spec)
{
    return &core->rows.locks[spec->hash / (UINT_MAX / RLOCK__TABLES + 1)];
}

static unsigned hash_of(const struct rlock__spec *spec, struct rlock__owner owner, char side)
{
    uint64_t mixed = (owner.id * 0x9E3779B97F4A7C15ULL) ^ spec->hash ^ ((uint64_t)side << 32);

    return (unsigned)(mixed * 0xD1342543DE82EF95ULL >> 32);
}

static unsigned hash_of_number(uint64_t number)
{
    return (unsigned)(number / RLOCK__TABLES);
}

struct rlock__hold *rlock__hold_find_side(struct rlock__core *core, const struct rlock__spec *spec,
                                          struct rlock__owner owner, char side)
{
    unsigned hash = hash_of(spec, owner, side);
    struct rlock__table_node *node = rlock__table_first(table_of(core, hash), hash);

    assert(spec->core == core);
    for (; node != NULL; node = rlock__table_next(node)) {
        struct rlock__hold *hold = RLOCK__OF(struct rlock__hold, by_key, node);

        if (hold->owner_id == owner.id && hold->given == owner.given &&
            hold->spec->ops->side == side && rlock__bytes_equal(hold->spec->key, spec->key)) {
            return hold;
        }
    }
    return NULL;
}

struct rlock__hold *rlock__hold_find(struct rlock__core *core, const struct rlock__spec *spec,
                                     struct rlock__owner owner)
{
    return rlock__hold_find_side(core, spec, owner, spec->ops->side);
}

struct rlock__hold *rlock__hold_by_number(struct rlock__core *core, uint64_t number)
{
    struct rlock__table_node *node =
        rlock__table_first(numbers_of(core, number), hash_of_number(number));

    for (; node != NULL; node = rlock__table_next(node)) {
        struct rlock__grant *grant = RLOCK__OF(struct rlock__grant, by_number, node);

        assert(grant->is_numbered);
        if (grant->number == number) {
            assert(grant->hold->grant == grant);
            return grant->hold;
        }
    }
    return NULL;
}

static bool is_exclusive(const struct rlock__spec *spec)
{
    return spec->ops->side != 'r';
}

struct rlock__hold *rlock__hold_by_lock(struct rlock__core *core, const struct rlock__spec *spec,
                                        const struct rlock__hold *before)
{
    struct rlock__table_node *node = before != NULL
                                         ? rlock__table_next(&before->grant->by_lock)
                                         : rlock__table_first(locks_of(core, spec), spec->hash);

    assert(before == NULL || before->grant->is_numbered); /* other grants are in no table */
    assert(before == NULL || is_exclusive(before->spec));
    for (; node != NULL; node = rlock__table_next(node)) {
        struct rlock__grant *grant = RLOCK__OF(struct rlock__grant, by_lock, node);

        assert(grant->is_numbered && is_exclusive(grant->hold->spec));
        if (rlock__bytes_equal(grant->hold->spec->key, spec->key)) {
            return grant->hold;
        }
    }
    return NULL;
}

void rlock__grant_number(struct rlock__grant *grant, uint64_t number)
{
    const struct rlock__spec *spec = grant->hold->spec;

    assert(!grant->is_numbered && number != 0 && number <= spec->core->last_number);
    assert(grant->hold->grant == grant);
    assert(grant->hold->state == RLOCK__HOLD_HELD);
    assert(rlock__hold_by_number(spec->core, number) == NULL); /* no number is used again */
    assert(grant->link->n_granted >= 0);
    grant->number = number;
    grant->is_numbered = true;
    grant->link->n_granted++;
    rlock__table_add(numbers_of(grant->hold->spec->core, number), &grant->by_number,
                     hash_of_number(number));
    if (is_exclusive(spec)) {
        rlock__table_add(locks_of(spec->core, spec), &grant->by_lock, spec->hash);
    }
}

void rlock__grant_unnumber(struct rlock__grant *grant)
{
    const struct rlock__spec *spec = grant->hold->spec;

    if (grant->is_numbered) {
        assert(grant->number != 0);
        assert(grant->link->n_granted > 0);
        grant->is_numbered = false;
        grant->link->n_granted--;
        rlock__table_remove(numbers_of(spec->core, grant->number), &grant->by_number);
        if (is_exclusive(spec)) {
            rlock__table_remove(locks_of(spec->core, spec), &grant->by_lock);
        }
    }
}

void rlock__hold_index(struct rlock__hold *hold)
{
    const struct rlock__owner owner = {.id = hold->owner_id, .given = hold->given};
    unsigned hash = hash_of(hold->spec, owner, hold->spec->ops->side);

    assert(rlock__hold_find(hold->spec->core, hold->spec, owner) == NULL);
    rlock__table_add(table_of(hold->spec->core, hash), &hold->by_key, hash);
}

void rlock__hold_hide(struct rlock__hold *hold)
{
    assert(!hold->is_hidden);
    rlock__table_remove(table_of(hold->spec->core, hold->by_key.hash), &hold->by_key);
    hold->is_hidden = true;
}

void rlock__hold_tables_fini(struct rlock__core *core)
{
    for (size_t i = 0; i < RLOCK__TABLES; i++) {
        assert(core->rows.tables[i].n == 0); /* each row has left its tables */
        assert(core->rows.numbers[i].n == 0);
        assert(core->rows.locks[i].n == 0);
        rlock__table_fini(&core->rows.tables[i]);
        rlock__table_fini(&core->rows.numbers[i]);
        rlock__table_fini(&core->rows.locks[i]);
    }
}
