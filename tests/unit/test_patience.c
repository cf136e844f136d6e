/* SPDX-License-Identifier: Apache-2.0 */
/* A waiter whose rest is shorter than a round trip: it looks again, the link may get faster. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static void on_finish(struct rlock__call *call)
{
    (void)call;
}

static void tick_until(struct rlock__core *core, int64_t until)
{
    while (rlock__core_next(core) <= until) {
        rlock__core_tick(core, rlock__core_next(core));
        alone_carry(&alone_link(core)->pipeline);
    }
}

static size_t acquires_sent(const struct rlock__core *core)
{
    size_t n = 0;

    for (const struct rlock__request *c = alone_link(core)->pipeline.sent; c != NULL; c = c->next) {
        n += strcmp(c->cmd.script->name, "plain/acquire") == 0;
    }
    return n;
}

static void reply(struct rlock__core *core, uint64_t gen, int64_t num)
{
    const struct rlock__value value = {.type = RLOCK__REPLY_INT, .num = num};

    rlock__core_reply(alone_link(core), gen,
                      &(struct rlock__reply){.v = &value, .n = 1, .is_array = true}, NOW);
}

static void subscribed(struct rlock__core *core)
{
    static const char kind[] = "subscribe", channel[] = "redisson_lock__channel:{a}";
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = sizeof(kind) - 1},
        {.type = RLOCK__REPLY_STR, .str = channel, .len = sizeof(channel) - 1},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    rlock__core_sub_up(core->servers, NOW);
    rlock__core_sub_reply(core->servers,
                          &(struct rlock__reply){.v = values, .n = 3, .is_array = true}, NOW);
}

TEST(who_has_no_time_to_ask_asks_once_the_link_is_new)
{
    static struct rlock__core core;
    static struct rlock__server server;
    struct rlock__call first = {
        .kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}, .lease_us = 2 * RLOCK__SECOND};
    struct rlock__call ear = {.kind = RLOCK__LISTEN, .finish = on_finish};
    struct rlock__call release = {.kind = RLOCK__RELEASE, .owner = {.id = 1, .given = true}};
    struct rlock__call second = {
        .kind = RLOCK__ACQUIRE, .owner = {.id = 2, .given = true}, .wait_us = 3 * RLOCK__SECOND};
    const int64_t fired = NOW + 2100 * RLOCK__MS;

    core = (struct rlock__core){.op_timeout_us = 10 * RLOCK__SECOND,
                                .renewed_lease_us = 30 * RLOCK__SECOND,
                                .unref = alone_unref};
    alone_init(&core, &server, "here");
    first.spec = ear.spec = release.spec = second.spec =
        rlock__spec_new(&core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
    first.wait_us = RLOCK__SECOND; /* it stands in line as well */
    rlock__core_link_up(alone_link(&core), 1, false, NOW);
    rlock__core_begin(&core, &ear, NOW); /* the channel is there before anybody waits */
    subscribed(&core);
    rlock__core_begin(&core, &first, NOW);
    rlock__core_begin(&core, &second, NOW);
    alone_carry(&alone_link(&core)->pipeline);
    reply(&core, 1, 1);
    assert_int_equal(first.step, RLOCK__COMPLETE);
    assert_int_equal(first.code, 0);
    rlock__core_begin(&core, &release, NOW);
    alone_carry(&alone_link(&core)->pipeline);
    tick_until(&core, fired);
    assert_int_equal(acquires_sent(&core), 0); /* an answer has taken 2 s so far, and 1 s is left */
    rlock__core_link_down(alone_link(&core), 1, RLOCK_ECONN, false, "cut", fired);
    rlock__core_link_up(alone_link(&core), 2, true, fired);
    alone_carry(&alone_link(&core)->pipeline);
    tick_until(&core, fired + RLOCK__POLL_US);
    assert_int_equal(acquires_sent(&core), 1);
    rlock__core_abandon(&core);
    (void)rlock__claim_unref(first.claim);
    core.done = NULL;
    rlock__core_fini(&core);
    (void)rlock__spec_unref(first.spec);
}
