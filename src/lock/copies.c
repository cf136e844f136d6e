/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/copies.h"

void rlock__copies_add(struct rlock__copies *copies, struct rlock__link *link, uint64_t gen)
{
    unsigned i = 0;

    while (i < copies->n && copies->open[i].link != link) {
        i++;
    }
    if (i == RLOCK__COPIES_MAX) {
        copies->beyond = true;
        return;
    }
    if (i == copies->n) {
        copies->open[copies->n++].gen = 0;
    }
    copies->open[i].link = link;
    copies->open[i].gen = gen > copies->open[i].gen ? gen : copies->open[i].gen;
}

void rlock__copies_join(struct rlock__copies *copies, const struct rlock__copies *more)
{
    for (unsigned i = 0; i < more->n; i++) {
        rlock__copies_add(copies, more->open[i].link, more->open[i].gen);
    }
    copies->beyond |= more->beyond;
    copies->ran |= more->ran;
}

static bool is_fenced(const struct rlock__link *link, uint64_t gen)
{
    return rlock__pipeline_is_fenced(&link->pipeline, gen);
}

static void forget(struct rlock__copies *copies, unsigned i)
{
    copies->open[i] = copies->open[--copies->n];
    copies->ran = true;
}

bool rlock__copies_fence(struct rlock__copies *copies)
{
    unsigned before = copies->n;

    for (unsigned i = copies->n; i-- > 0;) {
        if (is_fenced(copies->open[i].link, copies->open[i].gen)) {
            forget(copies, i);
        }
    }
    return copies->n < before;
}

void rlock__copies_answered(struct rlock__copies *copies, const struct rlock__link *link,
                            uint64_t gen)
{
    for (unsigned i = copies->n; i-- > 0;) {
        if (copies->open[i].link == link &&
            (copies->open[i].gen == gen || is_fenced(link, copies->open[i].gen))) {
            forget(copies, i);
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
        if (!is_fenced(copies->open[i].link, copies->open[i].gen)) {
            return true;
        }
    }
    return copies->beyond;
}

bool rlock__copies_are_open(const struct rlock__copies *copies)
{
    return copies->n > 0 || copies->beyond || copies->ran;
}
