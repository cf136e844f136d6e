/* SPDX-License-Identifier: Apache-2.0 */
#include "client/held.h"

#include "base/of.h"

#define SWEEP_FIRST 16 /* views there are before the table is swept */

static struct rlock__view *view_of(struct rlock__table_node *node)
{
    return RLOCK__OF(struct rlock__view, node, node);
}

static bool is_over(const struct rlock__view *view)
{
    return atomic_load_explicit(&view->count, memory_order_relaxed) == 0;
}

/* The lock's view, over or not. */
static struct rlock__view *find(const struct rlock__held *held, const struct rlock__spec *spec,
                                unsigned hash)
{
    struct rlock__table_node *node = rlock__table_first(&held->views, hash);

    while (node != NULL && !rlock__spec_equal(view_of(node)->spec, spec)) {
        node = rlock__table_next(node);
    }
    return node != NULL ? view_of(node) : NULL;
}

static void take_out(struct rlock__held *held, struct rlock__view *view)
{
    rlock__table_remove(&held->views, &view->node);
    (void)rlock__view_unref(view);
}

void rlock__held_add(struct rlock__held *held, struct rlock__view *view)
{
    struct rlock__view *before = find(held, view->spec, view->spec->hash);

    if (before != NULL) {
        take_out(held, before);
    } else if (held->views.n >= SWEEP_FIRST && held->views.n >= 2 * held->n_swept) {
        rlock__held_sweep(held);
    }
    rlock__table_add(&held->views, &view->node, view->spec->hash);
}

const struct rlock__view *rlock__held_find(const struct rlock__held *held,
                                           const struct rlock__spec *spec, unsigned hash)
{
    const struct rlock__view *view = find(held, spec, hash);

    return view != NULL && !is_over(view) ? view : NULL;
}

void rlock__held_forget(struct rlock__held *held, const struct rlock__spec *spec)
{
    struct rlock__view *view = find(held, spec, spec->hash);

    if (view != NULL && is_over(view)) {
        take_out(held, view);
    }
}

static bool drop_if_over(struct rlock__table_node *node)
{
    return is_over(view_of(node)) && rlock__view_unref(view_of(node)) == NULL;
}

void rlock__held_sweep(struct rlock__held *held)
{
    rlock__table_sweep(&held->views, drop_if_over);
    held->n_swept = held->views.n;
}

struct rlock__view *rlock__held_take(struct rlock__held *held, size_t *inout_chain)
{
    struct rlock__table_node *node = rlock__table_take(&held->views, inout_chain);

    return node != NULL ? view_of(node) : NULL;
}
