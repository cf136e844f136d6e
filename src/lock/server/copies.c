/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/server/copies.h"

#include <assert.h>

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* NULL: there is no room for it. */
static struct rlock__open_copy *open_on(struct rlock__copies *copies, struct rlock__link *link)
{
    unsigned i = 0;

    assert(copies->n <= RLOCK__COPIES_MAX);
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

    assert(gen == 0 || open != NULL || copies->beyond);
    if (open != NULL && open->sent < gen) {
        open->lost = later(open->lost, open->sent); /* that generation has broken since */
        open->sent = gen;
    }
}

static void add_unproven(struct rlock__copies *copies, const struct rlock__open_copy *more)
{
    struct rlock__open_copy *open = more->unproven ? open_on(copies, more->link) : NULL;

    if (open != NULL) {
        open->unproven = true;
    }
}

void rlock__copies_join(struct rlock__copies *copies, const struct rlock__copies *more)
{
    assert(copies != more);
    for (unsigned i = 0; i < more->n; i++) {
        rlock__copies_add_lost(copies, more->open[i].link, more->open[i].lost);
        rlock__copies_add_sent(copies, more->open[i].link, more->open[i].sent);
        add_unproven(copies, &more->open[i]);
    }
    copies->beyond |= more->beyond;
    copies->ran |= more->ran;
    copies->replaced |= more->replaced;
    assert(copies->n >= more->n || copies->beyond); /* none of them is forgotten */
}

static bool is_fenced(const struct rlock__link *link, uint64_t gen)
{
    assert(gen != 0); /* that is no generation */
    return rlock__pipeline_is_fenced(&link->pipeline, gen);
}

static bool may_run(const struct rlock__open_copy *open)
{
    return (open->lost != 0 && !is_fenced(open->link, open->lost)) ||
           (open->sent != 0 && !is_fenced(open->link, open->sent));
}

bool rlock__copies_fence(struct rlock__copies *copies)
{
    bool any = false;

    for (unsigned i = 0; i < copies->n; i++) {
        struct rlock__open_copy *open = &copies->open[i];

        if (!open->unproven && !may_run(open)) {
            *open = (struct rlock__open_copy){.link = open->link, .unproven = true};
            any = true;
        }
    }
    return any;
}

void rlock__copies_read(struct rlock__copies *copies, const struct rlock__link *link, uint64_t gen)
{
    for (unsigned i = 0; i < copies->n; i++) {
        struct rlock__open_copy *open = &copies->open[i];

        if (open->link == link) {
            assert(gen == 0 || open->sent != gen || is_fenced(link, gen) ||
                   (link->pipeline.up && link->pipeline.gen == gen)); /* a server read it */
            open->sent = open->sent == gen ? 0 : open->sent;
            open->unproven |= !may_run(open);
        }
    }
}

void rlock__copies_answered(struct rlock__copies *copies, const struct rlock__link *link,
                            uint64_t gen)
{
    assert(gen != 0);
    rlock__copies_read(copies, link, gen);
    for (unsigned i = copies->n; i-- > 0;) {
        assert(i < copies->n); /* also where another one has taken the place of one */
        if (copies->open[i].link == link ||
            (copies->open[i].link->replaced && copies->open[i].unproven)) {
            copies->open[i].unproven = false;
            if (!may_run(&copies->open[i])) {
                copies->replaced |= copies->open[i].link->replaced;
                copies->open[i] = copies->open[--copies->n];
                copies->ran = true;
            }
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
        assert(copies->open[i].lost != 0 || copies->open[i].sent != 0 || copies->open[i].unproven);
        if (may_run(&copies->open[i])) {
            return true;
        }
    }
    return copies->beyond;
}

bool rlock__copies_may_be_fenced(const struct rlock__copies *copies)
{
    for (unsigned i = 0; i < copies->n; i++) {
        const struct rlock__open_copy *open = &copies->open[i];

        if (!open->unproven && !open->link->pipeline.up && !open->link->unfenceable) {
            return true;
        }
    }
    return false;
}

bool rlock__copies_are_open(const struct rlock__copies *copies)
{
    return copies->n > 0 || copies->beyond || copies->ran;
}
