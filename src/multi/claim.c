/* SPDX-License-Identifier: Apache-2.0 */
#include "multi/claim.h"

#include <stdlib.h>

struct rlock__group_claim *rlock__group_claim_new(struct rlock__group_spec *spec)
{
    struct rlock__group_claim *claim =
        calloc(1, sizeof(*claim) + spec->n * sizeof(claim->members[0]));

    if (claim != NULL) {
        claim->spec = rlock__group_spec_ref(spec);
        atomic_init(&claim->refs, 1);
    }
    return claim;
}

struct rlock__group_claim *rlock__group_claim_ref(struct rlock__group_claim *claim)
{
    (void)atomic_fetch_add(&claim->refs, 1);
    return claim;
}

struct rlock__group_claim *rlock__group_claim_unref(struct rlock__group_claim *claim)
{
    if (claim != NULL && atomic_fetch_sub(&claim->refs, 1) == 1) {
        for (size_t i = 0; i < claim->spec->n; i++) {
            struct rlock__kept *kept = &claim->members[i].kept;

            (void)rlock__claim_unref(kept->claim);
            while (kept->next != NULL) {
                struct rlock__kept *later = kept->next;

                kept->next = later->next;
                (void)rlock__claim_unref(later->claim);
                free(later);
            }
        }
        (void)rlock__group_spec_unref(claim->spec);
        free(claim);
    }
    return NULL;
}

/* Keeps what is to be shown; false without memory. */
static bool keep(struct rlock__kept *kept, struct rlock__claim *claim)
{
    while (kept->claim != NULL && kept->claim != claim) {
        if (kept->next == NULL) {
            kept->next = calloc(1, sizeof(*kept));
        }
        if (kept->next == NULL) {
            return false;
        }
        kept = kept->next;
    }
    if (kept->claim == NULL) {
        kept->claim = rlock__claim_ref(claim);
    }
    return true;
}

void rlock__group_claim_show(const struct rlock__group *group)
{
    struct rlock__group_claim *claim = group->claim;

    if (claim == NULL) {
        return;
    }
    for (size_t i = 0; group->count > 0 && i < group->spec->n; i++) {
        struct rlock__claim *held = group->members[i].claim;
        bool shows = held != NULL && keep(&claim->members[i].kept, held);

        atomic_store(&claim->members[i].shown, shows ? held : NULL);
    }
    atomic_store(&claim->count, group->lost ? 0 : rlock__group_left(group));
    atomic_store(&claim->over, rlock__group_left(group) == 0);
}

int64_t rlock__group_claim_valid_until(const struct rlock__group_claim *claim)
{
    int64_t untils[RLOCK__MEMBERS_MAX];

    if (atomic_load(&claim->count) == 0) {
        return 0;
    }
    for (size_t i = 0; i < claim->spec->n; i++) {
        const struct rlock__claim *member = atomic_load(&claim->members[i].shown);

        untils[i] = member != NULL ? atomic_load(&member->valid_until) : 0;
    }
    return claim->spec->ops->valid_until(claim->spec, untils);
}
