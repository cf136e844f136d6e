/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timer.h"

static bool earlier(const struct rlock__timer *a, const struct rlock__timer *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static unsigned rank(const struct rlock__timer *timer)
{
    return timer != NULL ? timer->rank : 0;
}

/* The child of the smaller rank is the right one. */
static void lean(struct rlock__timer *timer)
{
    struct rlock__timer *left = timer->child[0], *right = timer->child[1];

    if (rank(left) < rank(right)) {
        timer->child[0] = right;
        timer->child[1] = left;
    }
    timer->rank = rank(timer->child[1]) + 1;
}

/* Makes one heap of two, along their right edges; either may be empty. */
static struct rlock__timer *merge(struct rlock__timer *a, struct rlock__timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (earlier(b, a)) {
        return merge(b, a);
    }
    a->child[1] = merge(a->child[1], b);
    a->child[1]->parent = a;
    lean(a);
    return a;
}

void rlock__timer_unset(struct rlock__timers *timers, struct rlock__timer *timer)
{
    struct rlock__timer *parent = timer->parent, *rest;

    if (!timer->set) {
        return;
    }
    rest = merge(timer->child[0], timer->child[1]);
    if (rest != NULL) {
        rest->parent = parent;
    }
    *(parent != NULL ? &parent->child[parent->child[1] == timer] : &timers->root) = rest;
    for (bool changed = true; changed && parent != NULL; parent = parent->parent) {
        unsigned before = parent->rank;

        lean(parent);
        changed = parent->rank != before;
    }
    timer->parent = timer->child[0] = timer->child[1] = NULL;
    timer->set = false;
}

void rlock__timer_set(struct rlock__timers *timers, struct rlock__timer *timer, int64_t at)
{
    rlock__timer_unset(timers, timer);
    if (at == RLOCK__NEVER) {
        return;
    }
    timer->at = at;
    timer->order = ++timers->order;
    timer->rank = 1;
    timer->set = true;
    timers->root = merge(timers->root, timer);
    timers->root->parent = NULL;
}

int64_t rlock__timers_next(const struct rlock__timers *timers)
{
    return timers->root != NULL ? timers->root->at : RLOCK__NEVER;
}

size_t rlock__timers_fire(struct rlock__timers *timers, int64_t now, size_t most)
{
    uint64_t before = timers->order;
    size_t n = 0;

    while (n < most && timers->root != NULL && timers->root->at <= now &&
           timers->root->order <= before) {
        struct rlock__timer *timer = timers->root;

        rlock__timer_unset(timers, timer);
        timer->fire(timer, now);
        n++;
    }
    return n;
}
