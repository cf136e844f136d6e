/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a group that its owner's thread reads without a mutex: how many levels it has, and
 * until when its members are valid. One for each hold of the whole, reference counted: the group
 * has one reference, the thread another.
 *
 * A member's claim that was shown here stays until the whole is freed, since who reads it may stand
 * still.
 */
#ifndef RLOCK_MULTI_CLAIM_H
#define RLOCK_MULTI_CLAIM_H

#include "multi/group.h"

/* What a member showed: its first hold, and those that it had to take anew. */
struct rlock__kept {
    struct rlock__claim *claim; /* a reference; NULL none yet */
    struct rlock__kept *next;
};

struct rlock__group_claim {
    struct rlock__table_node node; /* in the owning thread's table */
    struct rlock__group_spec *spec;
    atomic_uint count; /* levels; 0 it is not held, or lost */
    atomic_bool over;  /* nobody has to unlock it any more */
    atomic_uint refs;
    struct {
        _Atomic(struct rlock__claim *) shown; /* NULL: the member is not held */
        struct rlock__kept kept;
    } members[];
};

/* NULL without memory. */
struct rlock__group_claim *rlock__group_claim_new(struct rlock__group_spec *spec);
struct rlock__group_claim *rlock__group_claim_ref(struct rlock__group_claim *claim);
struct rlock__group_claim *rlock__group_claim_unref(struct rlock__group_claim *claim);
/* Writes down what the group is now. Under the mutex that protects the group. */
void rlock__group_claim_show(const struct rlock__group *group);
/* Until when the owner may rely on it; 0 it is not held, or lost. */
int64_t rlock__group_claim_valid_until(const struct rlock__group_claim *claim);

#endif
