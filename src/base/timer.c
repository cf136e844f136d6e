/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timer.h"

#include <stddef.h>

static bool earlier(const struct rlock__timer *a, const struct rlock__timer *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* Joins two heaps: the later root becomes the leftmost child of the earlier. */
static struct rlock__timer *meld(struct rlock__timer *a, struct rlock__timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (earlier(b, a)) {
        struct rlock__timer *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL) {
        a->child->prev = b;
    }
    a->child = b;
    return a;
}

/* Joins a row of siblings: in pairs from the left, then the pairs from the right. */
static struct rlock__timer *meld_row(struct rlock__timer *first)
{
    struct rlock__timer *pairs = NULL, *heap = NULL;

    while (first != NULL) {
        struct rlock__timer *a = first, *b = a->next;

        first = b != NULL ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b != NULL) {
            b->next = b->prev = NULL;
        }
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct rlock__timer *a = pairs;

        pairs = a->next;
        a->next = NULL;
        heap = meld(heap, a);
    }
    return heap;
}

void rlock__timer_unset(struct rlock__timers *timers, struct rlock__timer *timer)
{
    struct rlock__timer *rest;

    if (!timer->set) {
        return;
    }
    rest = meld_row(timer->child);
    if (timers->root == timer) {
        timers->root = rest;
    } else {
        if (timer->prev->child == timer) {
            timer->prev->child = timer->next;
        } else {
            timer->prev->next = timer->next;
        }
        if (timer->next != NULL) {
            timer->next->prev = timer->prev;
        }
        timers->root = meld(timers->root, rest);
    }
    timer->child = timer->next = timer->prev = NULL;
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
    timers->root = meld(timers->root, timer);
}

int64_t rlock__timers_next(const struct rlock__timers *timers)
{
    return timers->root != NULL ? timers->root->at : RLOCK__NEVER;
}

void rlock__timers_fire(struct rlock__timers *timers, int64_t now)
{
    uint64_t before = timers->order;

    while (timers->root != NULL && timers->root->at <= now && timers->root->order <= before) {
        struct rlock__timer *timer = timers->root;

        rlock__timer_unset(timers, timer);
        timer->fire(timer, now);
    }
}
