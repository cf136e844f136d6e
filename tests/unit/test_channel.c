/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slot moves while waiters come and go: the server ends a subscription unasked, and sends away
 * the command that was to end it. Nothing tells that apart from the answer to the command, and each
 * refusal behind it may be taken for that of the next one.
 */
#include "lock/server/channel.h"
#include "lock/server/listener.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define OLD "redisson_lock__channel:{a}"
#define NEW "redisson_lock__channel:{b}"

struct scene {
    struct alone_pair pair;
    struct rlock__spec *other;
    struct rlock__listener leaves, comes;
};

static void says(struct scene *s, const char *kind, const char *channel)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = channel, .len = strlen(channel)},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    rlock__core_sub_reply(&s->pair.alone.server,
                          &(struct rlock__reply){.v = values, .n = 3, .is_array = true}, NOW);
}

static void sends_away(struct scene *s)
{
    static const char text[] = "MOVED 15495 there:1";
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};

    s->pair.is_moved = true;
    rlock__core_sub_reply(&s->pair.alone.server, &(struct rlock__reply){.v = &value, .n = 1}, NOW);
}

static const struct rlock__channel *channel(struct scene *s, const char *name)
{
    return rlock__channel_find(&s->pair.alone.server, rlock__bytes_of(name));
}

/* Both sorts of channels are heard. One waiter leaves the old channel, another one comes to the new
 * one, and the server has yet to read that. */
static struct scene *scene_open(void)
{
    static struct scene s;

    s = (struct scene){0};
    alone_pair_open(&s.pair, NOW);
    s.pair.alone.core.opts.sharded = s.pair.alone.core.opts.announces_both = true;
    s.other =
        rlock__spec_new(&s.pair.alone.core, &rlock__reentrant_ops, rlock__bytes_of("b"), NULL);
    s.leaves.spec = s.pair.alone.spec;
    s.comes.spec = s.other;
    rlock__listener_begin(&s.pair.alone.core, &s.leaves);
    rlock__core_sub_up(&s.pair.alone.server, NOW);
    says(&s, "subscribe", OLD);
    says(&s, "ssubscribe", OLD);
    assert_true(rlock__channel_is_subscribed(s.leaves.channel));
    rlock__listener_end(&s.leaves);
    rlock__channels_settle(&s.pair.alone.server);
    rlock__listener_begin(&s.pair.alone.core, &s.comes);
    rlock__channels_settle(&s.pair.alone.server);
    return &s;
}

static void scene_close(struct scene *s)
{
    rlock__listener_end(&s->comes);
    (void)rlock__spec_unref(s->other);
    alone_pair_close(&s->pair);
}

/* What the server sends after the end of the old subscription: it has the slot no more. */
static void assert_sent_away(struct scene *s)
{
    sends_away(s); /* SUNSUBSCRIBE */
    says(s, "subscribe", NEW);
    sends_away(s); /* SSUBSCRIBE */
    assert_false(channel(s, NEW)->live);
    assert_true(channel(s, NEW)->plain);
    assert_false(s->pair.alone.server.sub.plain_refused);
    assert_null(channel(s, OLD));
    scene_close(s);
}

TEST(who_announces_on_both_sorts_of_channels_subscribes_to_both)
{
    struct scene *s = scene_open();
    const struct rlock__buf *out = &s->pair.alone.server.sub.out;

    assert_true(rlock__bytes_have(rlock__bytes(out->data, out->len), "$9\r\nSUBSCRIBE"));
    assert_true(rlock__bytes_have(rlock__bytes(out->data, out->len), "$10\r\nSSUBSCRIBE"));
    says(s, "sunsubscribe", OLD);
    says(s, "unsubscribe", OLD);
    assert_sent_away(s);
}

TEST(a_subscription_that_ends_unasked_before_the_plain_one_is_left_answers_nothing)
{
    struct scene *s = scene_open();

    says(s, "sunsubscribe", OLD);
    says(s, "unsubscribe", OLD);
    assert_sent_away(s);
}

TEST(a_subscription_that_ends_unasked_has_no_other_channel_counted_as_live)
{
    struct scene *s = scene_open();

    says(s, "unsubscribe", OLD);
    says(s, "sunsubscribe", OLD);
    assert_sent_away(s);
}
