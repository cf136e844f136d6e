/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/in_flight.h"

#include <assert.h>

/* NULL: there is no room for another link. */
static struct rlock__open_copy *open_on(struct rlock__in_flight *set, struct rlock__link *link)
{
    unsigned i = 0;

    assert(set->n <= RLOCK__IN_FLIGHT_MAX);
    while (i < set->n && set->open[i].link != link) {
        i++;
    }
    if (i == RLOCK__IN_FLIGHT_MAX) {
        set->beyond = true;
        return NULL;
    }
    if (i == set->n) {
        set->open[set->n++] = (struct rlock__open_copy){.link = link};
    }
    return &set->open[i];
}

void rlock__in_flight_add_lost(struct rlock__in_flight *set, struct rlock__link *link, uint64_t gen)
{
    struct rlock__open_copy *open = gen != 0 ? open_on(set, link) : NULL;

    if (open != NULL) {
        open->lost = rlock__fence_last(&link->pipeline.fence, open->lost, gen);
    }
}

void rlock__in_flight_add_sent(struct rlock__in_flight *set, struct rlock__link *link, uint64_t gen)
{
    struct rlock__open_copy *open = gen != 0 ? open_on(set, link) : NULL;

    assert(gen == 0 || open != NULL || set->beyond);
    if (open != NULL && open->sent < gen) {
        /* that generation has broken since */
        open->lost = rlock__fence_last(&link->pipeline.fence, open->lost, open->sent);
        open->sent = gen;
    }
}

static void add_unproven(struct rlock__in_flight *set, const struct rlock__open_copy *more)
{
    struct rlock__open_copy *open = more->unproven ? open_on(set, more->link) : NULL;

    if (open != NULL) {
        open->unproven = true;
    }
}

void rlock__in_flight_join(struct rlock__in_flight *set, const struct rlock__in_flight *more)
{
    assert(set != more);
    for (unsigned i = 0; i < more->n; i++) {
        rlock__in_flight_add_lost(set, more->open[i].link, more->open[i].lost);
        rlock__in_flight_add_sent(set, more->open[i].link, more->open[i].sent);
        add_unproven(set, &more->open[i]);
    }
    set->beyond |= more->beyond;
    set->ran |= more->ran;
    set->replaced |= more->replaced;
    assert(set->n >= more->n || set->beyond); /* no copy is forgotten */
}

static bool is_fenced(const struct rlock__link *link, uint64_t gen)
{
    assert(gen != 0); /* 0 is not a generation */
    return rlock__fence_has(&link->pipeline.fence, gen);
}

static bool may_run(const struct rlock__open_copy *open)
{
    return (open->lost != 0 && !is_fenced(open->link, open->lost)) ||
           (open->sent != 0 && !is_fenced(open->link, open->sent));
}

static bool can_be_fenced(const struct rlock__open_copy *open)
{
    const struct rlock__fence *fence = &open->link->pipeline.fence;

    return rlock__fence_can(fence, open->lost) && rlock__fence_can(fence, open->sent);
}

bool rlock__in_flight_fence(struct rlock__in_flight *set)
{
    bool any = false;

    for (unsigned i = 0; i < set->n; i++) {
        struct rlock__open_copy *open = &set->open[i];

        if (!open->unproven && !may_run(open)) {
            *open = (struct rlock__open_copy){.link = open->link, .unproven = true};
            any = true;
        }
    }
    return any;
}

void rlock__in_flight_read(struct rlock__in_flight *set, const struct rlock__link *link,
                           uint64_t gen)
{
    for (unsigned i = 0; i < set->n; i++) {
        struct rlock__open_copy *open = &set->open[i];

        if (open->link == link) {
            assert(gen == 0 || open->sent != gen || is_fenced(link, gen) ||
                   (link->pipeline.up && link->pipeline.gen == gen)); /* it was read */
            open->sent = open->sent == gen ? 0 : open->sent;
            open->unproven |= !may_run(open);
        }
    }
}

void rlock__in_flight_answered(struct rlock__in_flight *set, const struct rlock__link *link,
                               uint64_t gen)
{
    assert(gen != 0);
    rlock__in_flight_read(set, link, gen);
    for (unsigned i = set->n; i-- > 0;) {
        assert(i < set->n); /* even after the last one took this place */
        if (set->open[i].link == link || (set->open[i].link->replaced && set->open[i].unproven)) {
            set->open[i].unproven = false;
            if (!may_run(&set->open[i])) {
                set->replaced |= set->open[i].link->replaced;
                set->open[i] = set->open[--set->n];
                set->ran = true;
            }
        }
    }
}

void rlock__in_flight_refuted(struct rlock__in_flight *set)
{
    set->ran = false;
}

bool rlock__in_flight_may_run(const struct rlock__in_flight *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        assert(set->open[i].lost != 0 || set->open[i].sent != 0 || set->open[i].unproven);
        if (may_run(&set->open[i])) {
            return true;
        }
    }
    return set->beyond;
}

bool rlock__in_flight_may_be_fenced(const struct rlock__in_flight *set)
{
    for (unsigned i = 0; i < set->n; i++) {
        const struct rlock__open_copy *open = &set->open[i];

        if (!open->unproven && !open->link->pipeline.up && can_be_fenced(open)) {
            return true;
        }
    }
    return false;
}

bool rlock__in_flight_is_open(const struct rlock__in_flight *set)
{
    return set->n > 0 || set->beyond || set->ran;
}
