/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timer.h"

#define ORDER_MAX ((UINT64_C(1) << 48) - 1)

static bool earlier(const struct rlock__timer *a, const struct rlock__timer *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static uint64_t rank(const struct rlock__timer *timer)
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
    timer->rank = (rank(timer->child[1]) + 1) & 0xff;
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

/* What was below `parent` in this place is `next` from now on. */
static void put(struct rlock__timers *timers, struct rlock__timer *parent,
                const struct rlock__timer *place, struct rlock__timer *next)
{
    if (next != NULL) {
        next->parent = parent;
    }
    *(parent != NULL ? &parent->child[parent->child[1] == place] : &timers->root) = next;
}

static void leave_heap(struct rlock__timers *timers, const struct rlock__timer *timer)
{
    struct rlock__timer *parent = timer->parent;

    put(timers, parent, timer, merge(timer->child[0], timer->child[1]));
    for (bool changed = true; changed && parent != NULL; parent = parent->parent) {
        uint64_t before = parent->rank;

        lean(parent);
        changed = parent->rank != before;
    }
}

/* The next of the chain takes the first one's place. */
static void follow(struct rlock__timers *timers, const struct rlock__timer *first)
{
    struct rlock__timer *next = first->behind;

    put(timers, first->parent, first, next);
    next->chained = false;
    next->rank = first->rank;
    for (int i = 0; i < 2; i++) {
        next->child[i] = first->child[i];
        if (next->child[i] != NULL) {
            next->child[i]->parent = next;
        }
    }
}

static void leave_chain(struct rlock__timer *timer)
{
    timer->before->behind = timer->behind;
    if (timer->behind != NULL) {
        timer->behind->before = timer->before;
    }
}

void rlock__timer_unset(struct rlock__timers *timers, struct rlock__timer *timer)
{
    if (!timer->set) {
        return;
    }
    if (timers->latest == timer) {
        timers->latest = timer->chained ? timer->before : NULL;
    }
    if (timer->chained) {
        leave_chain(timer);
    } else if (timer->behind != NULL) {
        follow(timers, timer);
    } else {
        leave_heap(timers, timer);
    }
    timer->parent = timer->child[0] = timer->child[1] = NULL;
    timer->behind = NULL;
    timer->set = timer->chained = false;
}

void rlock__timer_set(struct rlock__timers *timers, struct rlock__timer *timer, int64_t at)
{
    struct rlock__timer *latest;

    rlock__timer_unset(timers, timer);
    if (at == RLOCK__NEVER) {
        return;
    }
    latest = timers->latest;
    timers->latest = timer;
    timer->at = at;
    timer->order = ++timers->order & ORDER_MAX;
    timer->set = true;
    if (latest != NULL && latest->at == at) {
        latest->behind = timer;
        timer->before = latest;
        timer->chained = true;
        timer->rank = 0;
        return;
    }
    timer->rank = 1;
    timers->root = merge(timers->root, timer);
    timers->root->parent = NULL;
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
