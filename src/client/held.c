/* SPDX-License-Identifier: Apache-2.0 */
#include "client/held.h"

#include <stdlib.h>

static size_t n_chains(const struct rlock__held *held)
{
    return held->more != NULL ? held->n_more : RLOCK__HELD_FIRST;
}

/* The chain of a hash, or of an index. */
static struct rlock__claim **chain(struct rlock__held *held, size_t hash)
{
    struct rlock__claim **chains = held->more != NULL ? held->more : held->first;

    return &chains[hash & (n_chains(held) - 1)];
}

static bool is_over(const struct rlock__claim *claim)
{
    return atomic_load_explicit(&claim->count, memory_order_relaxed) == 0;
}

/* Where the lock's claim is linked, or would be. */
static struct rlock__claim **place(struct rlock__held *held, const struct rlock__spec *spec,
                                   unsigned hash)
{
    struct rlock__claim **at = chain(held, hash);

    while (*at != NULL && (*at)->spec != spec &&
           ((*at)->hash != hash || !rlock__spec_equal((*at)->spec, spec))) {
        at = &(*at)->next;
    }
    return at;
}

static struct rlock__claim *unlink_at(struct rlock__held *held, struct rlock__claim **at)
{
    struct rlock__claim *claim = *at;

    *at = claim->next;
    held->n--;
    return claim;
}

static void link_in(struct rlock__held *held, struct rlock__claim *claim)
{
    struct rlock__claim **at = chain(held, claim->hash);

    claim->next = *at;
    *at = claim;
    held->n++;
}

/* Four times as many chains, if there is memory. */
static void grow(struct rlock__held *held)
{
    struct rlock__held large = {.n_more = 4 * RLOCK__HELD_FIRST};
    struct rlock__claim *claim;
    size_t from = 0;

    while (large.n_more <= n_chains(held)) {
        large.n_more *= 4;
    }
    large.more = (struct rlock__claim **)calloc(large.n_more, sizeof(struct rlock__claim *));
    if (large.more == NULL) {
        return;
    }
    while ((claim = rlock__held_take(held, &from)) != NULL) {
        link_in(&large, claim);
    }
    *held = large;
}

void rlock__held_add(struct rlock__held *held, struct rlock__claim *claim)
{
    struct rlock__claim **at = place(held, claim->spec, claim->hash);

    if (*at != NULL) {
        (void)rlock__claim_unref(unlink_at(held, at));
    } else if (held->n >= n_chains(held) / 2) {
        rlock__held_sweep(held);
        if (held->n >= n_chains(held) / 4) {
            grow(held);
        }
    }
    link_in(held, claim);
}

const struct rlock__claim *rlock__held_find(struct rlock__held *held,
                                            const struct rlock__spec *spec, unsigned hash)
{
    const struct rlock__claim *claim = *place(held, spec, hash);

    return claim != NULL && !is_over(claim) ? claim : NULL;
}

void rlock__held_forget(struct rlock__held *held, const struct rlock__spec *spec)
{
    struct rlock__claim **at = place(held, spec, spec->hash);

    if (*at != NULL && is_over(*at)) {
        (void)rlock__claim_unref(unlink_at(held, at));
    }
}

void rlock__held_sweep(struct rlock__held *held)
{
    for (size_t i = 0; i < n_chains(held); i++) {
        struct rlock__claim **at = chain(held, i);

        while (*at != NULL) {
            if (is_over(*at)) {
                (void)rlock__claim_unref(unlink_at(held, at));
            } else {
                at = &(*at)->next;
            }
        }
    }
}

struct rlock__claim *rlock__held_take(struct rlock__held *held, size_t *inout_chain)
{
    for (; held->n > 0 && *inout_chain < n_chains(held); (*inout_chain)++) {
        struct rlock__claim **at = chain(held, *inout_chain);

        if (*at != NULL) {
            return unlink_at(held, at);
        }
    }
    free(held->more);
    *held = (struct rlock__held){0};
    return NULL;
}
