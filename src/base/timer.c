/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timer.h"

#include <stddef.h>

static bool earlier(const struct rlock__timer *a, const struct rlock__timer *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* Where the n-th node hangs, counted from 1 level by level: the bits of n below the highest one are
 * the turns on the way down. ret_parent: the node that it hangs from; NULL none. */
static struct rlock__timer **slot_of(struct rlock__timers *timers, size_t n,
                                     struct rlock__timer **ret_parent)
{
    struct rlock__timer **slot = &timers->root;
    unsigned bits = 0;

    while (n >> (bits + 1) != 0) {
        bits++;
    }
    *ret_parent = NULL;
    while (bits-- > 0) {
        *ret_parent = *slot;
        slot = &(*slot)->child[n >> bits & 1];
    }
    return slot;
}

/* What points to a node. */
static struct rlock__timer **link_to(struct rlock__timers *timers, const struct rlock__timer *timer)
{
    struct rlock__timer *parent = timer->parent;

    return parent == NULL ? &timers->root : &parent->child[parent->child[1] == timer];
}

static void adopt(struct rlock__timer *timer, struct rlock__timer *const child[static 2])
{
    for (int i = 0; i < 2; i++) {
        timer->child[i] = child[i];
        if (child[i] != NULL) {
            child[i]->parent = timer;
        }
    }
}

/* Puts a node in an old one's place. */
static void settle(struct rlock__timers *timers, struct rlock__timer *timer,
                   struct rlock__timer *old)
{
    *link_to(timers, old) = timer;
    adopt(timer, old->child);
    timer->parent = old->parent; /* last: it may have been the old one's child itself */
}

/* Lets a node and its parent change places. */
static void rise(struct rlock__timers *timers, struct rlock__timer *timer)
{
    struct rlock__timer *parent = timer->parent, old = *timer;
    const int side = parent->child[1] == timer;

    settle(timers, timer, parent);
    timer->child[side] = parent;
    parent->parent = timer;
    adopt(parent, old.child);
}

static void sift(struct rlock__timers *timers, struct rlock__timer *timer)
{
    while (timer->parent != NULL && earlier(timer, timer->parent)) {
        rise(timers, timer);
    }
    for (;;) {
        struct rlock__timer *first = timer->child[0];

        if (timer->child[1] != NULL && earlier(timer->child[1], first)) {
            first = timer->child[1];
        }
        if (first == NULL || earlier(timer, first)) {
            return;
        }
        rise(timers, first);
    }
}

/* The last node takes the place of the one that goes. */
void rlock__timer_unset(struct rlock__timers *timers, struct rlock__timer *timer)
{
    struct rlock__timer *parent, *last, **slot;

    if (!timer->set) {
        return;
    }
    slot = slot_of(timers, timers->n--, &parent);
    last = *slot;
    *slot = NULL;
    if (last != timer) {
        settle(timers, last, timer);
        sift(timers, last);
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
    timer->set = true;
    *slot_of(timers, ++timers->n, &timer->parent) = timer;
    sift(timers, timer);
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
