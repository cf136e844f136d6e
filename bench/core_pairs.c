/* SPDX-License-Identifier: Apache-2.0 */
/* core_pairs <servers> <pairs>: takes and gives back a lock in the core of a client that knows so
 * many servers, with three links to each. callgrind counts the instructions in pairs() behind
 * counted_from_here(), see instructions.cmake. The program itself is the server. */
#include "support/alone.h"
#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>

enum { ACK_LINKS = 2, FIRST = 500 };

static void add_server(struct rlock__core *core, struct rlock__server *server, int64_t now)
{
    server->address = "elsewhere";
    rlock__core_add_server(core, server, 1, ACK_LINKS);
    for (unsigned i = 0; i < server->n_links; i++) {
        (void)rlock__core_link_up(&server->links[i], i + 1, true, now);
    }
}

static int64_t take_and_leave(struct alone_scene *s, int64_t now)
{
    struct rlock__call take = alone_call(s, RLOCK__ACQUIRE);
    struct rlock__call leave = alone_call(s, RLOCK__RELEASE);

    rlock__core_begin(&s->core, &take, now);
    alone_answer(&s->core, 1, (int64_t[]){1}, now + 5);
    s->core.done = NULL;
    TEST_CHECK(take.code == 0 && take.view != NULL);
    (void)rlock__view_unref(take.view);
    rlock__core_begin(&s->core, &leave, now + 10);
    alone_answer(&s->core, 2, (int64_t[]){1, 0}, now + 15);
    s->core.done = NULL;
    TEST_CHECK(leave.code == 0);
    return now + 20;
}

static __attribute__((noinline)) void counted_from_here(void)
{
    __asm__ volatile(""); /* or the call would be left out */
}

static __attribute__((noinline)) int64_t pairs(struct alone_scene *s, size_t n, int64_t now)
{
    for (size_t i = 0; i < n; i++) {
        now = take_and_leave(s, now);
    }
    return now;
}

int main(int argc, char **argv)
{
    const size_t n = argc == 3 ? strtoul(argv[1], NULL, 10) : 1;
    const size_t n_pairs = argc == 3 ? strtoul(argv[2], NULL, 10) : 1;
    struct rlock__server *others = calloc(n, sizeof(*others));
    int64_t now = 1000 * RLOCK__SECOND;
    static struct alone_scene s;

    TEST_CHECK(n > 0 && others != NULL);
    alone_open(&s, now);
    for (size_t i = 1; i < n; i++) {
        add_server(&s.core, &others[i], now);
    }
    now = pairs(&s, FIRST, now);
    counted_from_here();
    (void)pairs(&s, n_pairs, now);
    printf("pairs: %zu\n", n_pairs);
    (void)rlock__spec_unref(s.spec);
    rlock__core_fini(&s.core);
    free(others);
    return 0;
}
