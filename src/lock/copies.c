/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/copies.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* NULL: there is no room for it. */
static struct rlock__open_copy *open_on(struct rlock__copies *copies, struct rlock__link *link)
{
    unsigned i = 0;

    while (i < copies->n && copies->open[i].link != link) {
        i++;
    }
    if (i == RLOCK__COPIES_MAX) {
        copies->beyond = true;
        return NULL;
    }
    if (i == copies->n) {
        copies->open[copies->n++] = (struct rlock__open_copy){.link = link};
    }
    return &copies->open[i];
}

void rlock__copies_add_lost(struct rlock__copies *copies, struct rlock__link *link, uint64_t gen)
{
    struct rlock__open_copy *open = gen != 0 ? open_on(copies, link) : NULL;

    if (open != NULL) {
        open->lost = later(open->lost, gen);
    }
}

void rlock__copies_add_sent(struct rlock__copies *copies, struct rlock__link *link, uint64_t gen)
{
    struct rlock__open_copy *open = gen != 0 ? open_on(copies, link) : NULL;

    if (open != NULL && open->sent < gen) {
        open->lost = later(open->lost, open->sent); /* that generation has broken since */
        open->sent = gen;
    }
}

void rlock__copies_join(struct rlock__copies *copies, const struct rlock__copies *more)
{
    for (unsigned i = 0; i < more->n; i++) {
        rlock__copies_add_lost(copies, more->open[i].link, more->open[i].lost);
        rlock__copies_add_sent(copies, more->open[i].link, more->open[i].sent);
    }
    copies->beyond |= more->beyond;
    copies->ran |= more->ran;
}

static bool is_fenced(const struct rlock__link *link, uint64_t gen)
{
    return rlock__pipeline_is_fenced(&link->pipeline, gen);
}

static bool may_run(const struct rlock__open_copy *open)
{
    return (open->lost != 0 && !is_fenced(open->link, open->lost)) ||
           (open->sent != 0 && !is_fenced(open->link, open->sent));
}

/* Forgets the i-th if none of it may run. */
static void settle(struct rlock__copies *copies, unsigned i)
{
    if (!may_run(&copies->open[i])) {
        copies->open[i] = copies->open[--copies->n];
        copies->ran = true;
    }
}

bool rlock__copies_fence(struct rlock__copies *copies)
{
    unsigned before = copies->n;

    for (unsigned i = copies->n; i-- > 0;) {
        settle(copies, i);
    }
    return copies->n < before;
}

void rlock__copies_answered(struct rlock__copies *copies, const struct rlock__link *link,
                            uint64_t gen)
{
    for (unsigned i = copies->n; i-- > 0;) {
        if (copies->open[i].link == link) {
            copies->open[i].sent = copies->open[i].sent == gen ? 0 : copies->open[i].sent;
            settle(copies, i);
        }
    }
}

void rlock__copies_refuted(struct rlock__copies *copies)
{
    copies->ran = false;
}

bool rlock__copies_may_run(const struct rlock__copies *copies)
{
    for (unsigned i = 0; i < copies->n; i++) {
        if (may_run(&copies->open[i])) {
            return true;
        }
    }
    return copies->beyond;
}

bool rlock__copies_are_open(const struct rlock__copies *copies)
{
    return copies->n > 0 || copies->beyond || copies->ran;
}
