/* SPDX-License-Identifier: Apache-2.0 */
/* WAIT tells of what its own connection wrote: on the next one it would count replicas that have
 * nothing of it. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct rlock__core core;
    struct rlock__server server;
    struct rlock__call call;
};

static struct rlock__link *acks_of(struct scene *s)
{
    return &s->server.links[s->server.n_routed];
}

static struct scene *scene_open(void)
{
    static struct scene s;

    s = (struct scene){.core = {.op_timeout_us = 10 * RLOCK__SECOND,
                                .renewed_lease_us = 30 * RLOCK__SECOND,
                                .acks = 1,
                                .address = "here",
                                .route = alone_route,
                                .unref = alone_unref},
                       .server = {.address = "here"},
                       .call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}}};
    rlock__core_init(&s.core);
    rlock__core_add_server(&s.core, &s.server, 1, 1);
    s.call.spec = rlock__spec_new(&s.core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
    for (unsigned i = 0; i < s.server.n_links; i++) {
        rlock__core_link_up(&s.server.links[i], i + 1, true, NOW);
    }
    return &s;
}

static void scene_close(struct scene *s)
{
    rlock__core_abandon(&s->core);
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->call.spec);
}

static void answers(struct rlock__link *link, const struct rlock__reply *reply)
{
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen, reply, NOW);
}

/* These numbers. */
static void does(struct rlock__link *link, size_t n, const int64_t numbers[])
{
    struct rlock__value values[4];

    for (size_t i = 0; i < n; i++) {
        values[i] = (struct rlock__value){.type = RLOCK__REPLY_INT, .num = numbers[i]};
    }
    answers(link, &(struct rlock__reply){.v = values, .n = n, .is_array = true});
}

static void refuses(struct rlock__link *link, const char *text)
{
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = strlen(text)};

    answers(link, &(struct rlock__reply){.v = &value, .n = 1});
}

/* What the grant is extended by goes out behind the WAIT once more; that one says that the server
 * is a replica now, and the link ends when all on it is answered. */
TEST(what_ran_on_a_link_that_ends_is_told_of_by_no_wait_on_the_next_one)
{
    struct scene *s = scene_open();
    struct rlock__link *link = acks_of(s);

    rlock__core_begin(&s->core, &s->call, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    refuses(link, "NOSCRIPT No matching script. Please use EVAL.");
    refuses(link, "UNBLOCKED force unblock from blocking operation, instance state changed");
    assert_true(link->pipeline.drains);
    does(link, 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    assert_false(link->pipeline.up);
    assert_int_not_equal(s->call.step, RLOCK__ASKING);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "ended", NOW);
    rlock__core_link_up(link, 3, true, NOW);
    assert_null(link->pipeline.sent);
    scene_close(s);
}
