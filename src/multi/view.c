/* SPDX-License-Identifier: Apache-2.0 */
#include "multi/view.h"

#include <stdlib.h>

struct rlock__group_view *rlock__group_view_new(struct rlock__group_spec *spec)
{
    struct rlock__group_view *view = calloc(1, sizeof(*view) + spec->n * sizeof(view->members[0]));

    if (view != NULL) {
        view->spec = rlock__group_spec_ref(spec);
        atomic_init(&view->refs, 1);
    }
    return view;
}

struct rlock__group_view *rlock__group_view_ref(struct rlock__group_view *view)
{
    (void)atomic_fetch_add(&view->refs, 1);
    return view;
}

struct rlock__group_view *rlock__group_view_unref(struct rlock__group_view *view)
{
    if (view != NULL && atomic_fetch_sub(&view->refs, 1) == 1) {
        for (size_t i = 0; i < view->spec->n; i++) {
            struct rlock__shown *first = &view->members[i].all;

            (void)rlock__view_unref(first->view);
            while (first->next != NULL) {
                struct rlock__shown *later = first->next;

                first->next = later->next;
                (void)rlock__view_unref(later->view);
                free(later);
            }
        }
        (void)rlock__group_spec_unref(view->spec);
        free(view);
    }
    return NULL;
}

/* Keeps a reference to a view that is shown. Returns false without memory. */
static bool keep(struct rlock__shown *first, struct rlock__view *view)
{
    while (first->view != NULL && first->view != view) {
        if (first->next == NULL) {
            first->next = calloc(1, sizeof(*first));
        }
        if (first->next == NULL) {
            return false;
        }
        first = first->next;
    }
    if (first->view == NULL) {
        first->view = rlock__view_ref(view);
    }
    return true;
}

void rlock__group_view_show_member(const struct rlock__member *member)
{
    struct rlock__group_view *view = member->group->view;
    size_t i = (size_t)(member - member->group->members);
    struct rlock__view *held = rlock__member_staying(member) > 0 ? member->view : NULL;

    if (view != NULL && member->group->count > 0) {
        bool shows = held != NULL && keep(&view->members[i].all, held);

        atomic_store(&view->members[i].shown, shows ? held : NULL);
    }
}

void rlock__group_view_show(const struct rlock__group *group)
{
    struct rlock__group_view *view = group->view;

    if (view == NULL) {
        return;
    }
    RLOCK__EACH_MEMBER(member, group) {
        rlock__group_view_show_member(member);
    }
    atomic_store(&view->count, group->lost ? 0 : rlock__group_left(group));
    atomic_store(&view->over, rlock__group_left(group) == 0);
}

int64_t rlock__group_view_valid_until(const struct rlock__group_view *view)
{
    int64_t untils[RLOCK__MEMBERS_MAX];

    if (atomic_load(&view->count) == 0) {
        return 0;
    }
    for (size_t i = 0; i < view->spec->n; i++) {
        const struct rlock__view *member = atomic_load(&view->members[i].shown);

        untils[i] = member != NULL ? atomic_load(&member->valid_until) : 0;
    }
    return view->spec->ops->valid_until(view->spec, untils);
}
