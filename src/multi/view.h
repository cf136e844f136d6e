/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view of a group: the part that its owner's thread reads without a mutex. It has the number of
 * levels, and the views of the members. There is one for each hold of the group. It is reference
 * counted: the group has one reference, the thread another.
 *
 * A member's view that was shown here stays until the group's view is freed, because a thread may
 * stop anywhere while it reads.
 */
#ifndef RLOCK_MULTI_VIEW_H
#define RLOCK_MULTI_VIEW_H

#include "multi/group.h"

/* The views that a member showed: of its first hold, and of later ones, if the member was taken
 * again. */
struct rlock__shown {
    struct rlock__view *view; /* a reference; NULL: none yet */
    struct rlock__shown *next;
};

struct rlock__group_view {
    struct rlock__table_node node; /* in the owning thread's table */
    struct rlock__group_spec *spec;
    atomic_uint count; /* levels; 0: it is not held, or lost */
    atomic_bool over;  /* nobody has to unlock it any more */
    atomic_uint refs;
    struct {
        _Atomic(struct rlock__view *) shown; /* NULL: the member is not held */
        struct rlock__shown all;
    } members[];
};

/* NULL without memory. */
struct rlock__group_view *rlock__group_view_new(struct rlock__group_spec *spec);
struct rlock__group_view *rlock__group_view_ref(struct rlock__group_view *view);
struct rlock__group_view *rlock__group_view_unref(struct rlock__group_view *view);
/* Writes the group's present state into its view, under the mutex that protects the group. */
void rlock__group_view_show(const struct rlock__group *group);
/* Writes the present state of one member. If its last level is being released, the member does not
 * count. */
void rlock__group_view_show_member(const struct rlock__member *member);
/* Until when the owner may rely on the group; 0: it is not held, or lost. */
int64_t rlock__group_view_valid_until(const struct rlock__group_view *view);

#endif
