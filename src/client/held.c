/* SPDX-License-Identifier: Apache-2.0 */
#include "client/held.h"

#include "base/of.h"

#define SWEEP_FIRST 16 /* claims there are before the table is swept */

static struct rlock__claim *claim_of(struct rlock__table_node *node)
{
    return RLOCK__OF(struct rlock__claim, node, node);
}

static bool is_over(const struct rlock__claim *claim)
{
    return atomic_load_explicit(&claim->count, memory_order_relaxed) == 0;
}

/* The lock's claim, over or not. */
static struct rlock__claim *find(const struct rlock__held *held, const struct rlock__spec *spec,
                                 unsigned hash)
{
    struct rlock__table_node *node = rlock__table_first(&held->claims, hash);

    while (node != NULL && !rlock__spec_equal(claim_of(node)->spec, spec)) {
        node = rlock__table_next(node);
    }
    return node != NULL ? claim_of(node) : NULL;
}

static void take_out(struct rlock__held *held, struct rlock__claim *claim)
{
    rlock__table_remove(&held->claims, &claim->node);
    (void)rlock__claim_unref(claim);
}

void rlock__held_add(struct rlock__held *held, struct rlock__claim *claim)
{
    struct rlock__claim *before = find(held, claim->spec, claim->spec->hash);

    if (before != NULL) {
        take_out(held, before);
    } else if (held->claims.n >= SWEEP_FIRST && held->claims.n >= 2 * held->n_swept) {
        rlock__held_sweep(held);
    }
    rlock__table_add(&held->claims, &claim->node, claim->spec->hash);
}

const struct rlock__claim *rlock__held_find(const struct rlock__held *held,
                                            const struct rlock__spec *spec, unsigned hash)
{
    const struct rlock__claim *claim = find(held, spec, hash);

    return claim != NULL && !is_over(claim) ? claim : NULL;
}

void rlock__held_forget(struct rlock__held *held, const struct rlock__spec *spec)
{
    struct rlock__claim *claim = find(held, spec, spec->hash);

    if (claim != NULL && is_over(claim)) {
        take_out(held, claim);
    }
}

static bool drop_if_over(struct rlock__table_node *node)
{
    return is_over(claim_of(node)) && rlock__claim_unref(claim_of(node)) == NULL;
}

void rlock__held_sweep(struct rlock__held *held)
{
    rlock__table_sweep(&held->claims, drop_if_over);
    held->n_swept = held->claims.n;
}

struct rlock__claim *rlock__held_take(struct rlock__held *held, size_t *inout_chain)
{
    struct rlock__table_node *node = rlock__table_take(&held->claims, inout_chain);

    return node != NULL ? claim_of(node) : NULL;
}
