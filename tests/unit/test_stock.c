/* SPDX-License-Identifier: Apache-2.0 */
/* The channels that are subscribed ahead for waiters who queue on the server. */
#include "lock/server/stock.h"

#include "lock/server/channel.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct alone_scene alone;
    struct rlock__spec *fair;
    struct rlock__call call;
};

static void says(struct scene *s, const char *kind, struct rlock__bytes channel)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = channel.at, .len = channel.len},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    rlock__core_sub_reply(&s->alone.server,
                          &(struct rlock__reply){.v = values, .n = 3, .is_array = true}, NOW);
}

static void refuses(struct scene *s)
{
    static const char text[] = "NOPERM no such channel for you";
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};

    rlock__core_sub_reply(&s->alone.server, &(struct rlock__reply){.v = &value, .n = 1}, NOW);
}

/* Five calls have found a fair lock busy: four channels are asked for, the last two by one
 * command. */
static struct scene *scene_open(void)
{
    static struct scene s;

    s = (struct scene){.call = {.kind = RLOCK__ACQUIRE, .acquire.wait_us = -1}};
    alone_open(&s.alone, NOW);
    memset(s.alone.core.opts.uuid, 'u', RLOCK__UUID_LEN);
    s.fair = rlock__spec_new(&s.alone.core, &rlock__fair_ops, rlock__bytes_of("f"), NULL);
    s.call.core = &s.alone.core;
    s.call.spec = s.fair;
    rlock__core_sub_up(&s.alone.server, NOW);
    for (int i = 0; i < 5; i++) {
        rlock__stock_fill(&s.call, NOW);
    }
    assert_int_equal(s.alone.server.channels.n, 4);
    return &s;
}

static void scene_close(struct scene *s)
{
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->fair);
    (void)rlock__spec_unref(s->alone.spec);
}

static void acknowledge_next(struct scene *s)
{
    char name[128];
    struct rlock__bytes asked = s->alone.server.sub.asked->name;

    assert_true(asked.len < sizeof(name));
    memcpy(name, asked.at, asked.len);
    says(s, "subscribe", rlock__bytes(name, asked.len));
}

TEST(a_channel_is_taken_only_once_its_subscription_is_acknowledged)
{
    struct scene *s = scene_open();

    assert_false(rlock__stock_take(&s->call));
    acknowledge_next(s);
    assert_true(rlock__stock_take(&s->call));
    assert_int_equal(s->call.number, 1);
    assert_true(rlock__channel_is_live(&s->call));
    rlock__channel_leave(&s->call);
    assert_false(rlock__stock_take(&s->call));
    scene_close(s);
}

TEST(one_refusal_is_of_all_channels_of_its_command)
{
    struct scene *s = scene_open();

    acknowledge_next(s);
    acknowledge_next(s);
    refuses(s);
    assert_null(s->alone.server.sub.asked);
    assert_int_equal(s->alone.server.channels.n, 2);
    assert_true(s->alone.server.sub.refused);
    scene_close(s);
}

TEST(a_stock_that_nobody_comes_to_is_given_up_by_one_command)
{
    static const char command[] = "*5\r\n$11\r\nUNSUBSCRIBE\r\n";
    struct scene *s = scene_open();

    for (int i = 0; i < 4; i++) {
        acknowledge_next(s);
    }
    rlock__buf_clear(&s->alone.server.sub.out);
    rlock__core_tick(&s->alone.core, NOW + RLOCK__SECOND - 1);
    assert_int_equal(s->alone.server.sub.out.len, 0);
    while (rlock__core_changed(&s->alone.core) != NULL) {
    }
    rlock__core_tick(&s->alone.core, NOW + RLOCK__SECOND);
    assert_memory_equal(s->alone.server.sub.out.data, command, sizeof(command) - 1);
    assert_ptr_equal(rlock__core_changed(&s->alone.core), &s->alone.server);
    scene_close(s);
}

TEST(a_connection_that_breaks_takes_its_stock_along)
{
    struct scene *s = scene_open();

    acknowledge_next(s);
    rlock__core_sub_down(&s->alone.server, NOW);
    assert_false(rlock__stock_take(&s->call));
    assert_int_equal(s->alone.server.channels.n, 0);
    scene_close(s);
}

/* Its slot is at another server. */
TEST(a_subscription_that_the_server_ends_leaves_the_stock)
{
    struct scene *s = scene_open();
    struct rlock__channel *first = s->alone.server.sub.asked;

    for (int i = 0; i < 4; i++) {
        acknowledge_next(s);
    }
    says(s, "unsubscribe", first->name);
    assert_int_equal(s->alone.server.channels.n, 3);
    assert_true(rlock__stock_take(&s->call));
    assert_int_equal(s->call.number, 2);
    rlock__channel_leave(&s->call);
    scene_close(s);
}
