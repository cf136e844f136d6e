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
    rlock__server_found_version(&s.pair.alone.server, 7);
    s.pair.alone.core.opts.announces_both = true;
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
    rlock__channels_settle(&s.pair.alone.server, NOW);
    rlock__listener_begin(&s.pair.alone.core, &s.comes);
    rlock__channels_settle(&s.pair.alone.server, NOW);
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

/* ---- A cluster that is being upgraded: a server is older than version 7, another is not ---- */

struct mixed {
    struct alone_pair pair;
    struct rlock__listener listener;
};

static bool asked(const struct rlock__server *server, const char *command)
{
    return rlock__bytes_have(rlock__bytes(server->sub.out.data, server->sub.out.len), command);
}

/* The listener listens at the first server, which has the key. */
static void begin_mixed(struct mixed *s, int64_t version)
{
    *s = (struct mixed){.listener.is_over = false};
    alone_pair_open(&s->pair, NOW);
    rlock__server_found_version(&s->pair.alone.server, version);
    rlock__core_sub_up(&s->pair.alone.server, NOW);
    s->listener.spec = s->pair.alone.spec;
    rlock__core_listen(&s->pair.alone.core, &s->listener, NOW);
}

static void acknowledges(struct mixed *s, const char *kind)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = OLD, .len = strlen(OLD)},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    rlock__core_sub_reply(&s->pair.alone.server,
                          &(struct rlock__reply){.v = values, .n = 3, .is_array = true}, NOW);
}

#define MIXED_TEST(name, version)                                                                  \
    TEST_AROUND(name, struct mixed, s, begin_mixed(s, version), alone_pair_close(&s->pair))

MIXED_TEST(a_subscription_at_an_old_server_counts_though_a_newer_server_was_found_meanwhile, 6)
{
    assert_true(asked(&s->pair.alone.server, "$9\r\nSUBSCRIBE"));
    rlock__server_found_version(&s->pair.other, 7);
    acknowledges(s, "subscribe");
    assert_true(rlock__channel_is_subscribed(s->listener.channel));
}

MIXED_TEST(each_server_is_asked_for_the_channels_that_it_has, 7)
{
    assert_true(asked(&s->pair.alone.server, "$10\r\nSSUBSCRIBE"));
    acknowledges(s, "ssubscribe");
    assert_true(rlock__channel_is_subscribed(s->listener.channel));
    s->pair.is_moved = true;
    rlock__server_found_version(&s->pair.other, 6);
    rlock__core_rerouted(&s->pair.alone.core, NOW);
    rlock__core_sub_up(&s->pair.other, NOW);
    assert_true(asked(&s->pair.other, "$9\r\nSUBSCRIBE"));
    assert_true(asked(&s->pair.alone.server, "$12\r\nSUNSUBSCRIBE"));
}

/* The server was restarted as a newer one, and a link found that first. */
MIXED_TEST(a_connection_for_messages_keeps_its_sort_of_channels_until_it_ends, 6)
{
    struct rlock__server *server = &s->pair.alone.server;

    rlock__server_found_version(server, 7);
    acknowledges(s, "subscribe");
    assert_true(rlock__channel_is_subscribed(s->listener.channel));
    rlock__core_sub_down(server, NOW);
    rlock__core_sub_up(server, NOW);
    assert_true(asked(server, "$10\r\nSSUBSCRIBE"));
}

static const char *way_of(const struct mixed *s)
{
    static char text[256];
    struct rlock__cmd cmd = {0};

    rlock__announcement(s->pair.alone.spec, &cmd);
    (void)snprintf(text, sizeof(text), "%.*s", (int)cmd.args.len, cmd.args.data);
    rlock__cmd_fini(&cmd);
    return text;
}

MIXED_TEST(a_release_is_announced_as_its_server_supports_it, 6)
{
    rlock__server_found_version(&s->pair.other, 7);
    assert_non_null(strstr(way_of(s), "$7\r\nPUBLISH\r\n"));
    s->pair.is_moved = true;
    assert_non_null(strstr(way_of(s), "$8\r\nSPUBLISH\r\n"));
}

MIXED_TEST(a_server_that_does_not_tell_its_version_is_taken_for_one_like_the_others, 7)
{
    s->pair.is_moved = true;
    rlock__server_found_version(&s->pair.other, 0);
    assert_non_null(strstr(way_of(s), "$8\r\nSPUBLISH\r\n"));
    rlock__server_found_version(&s->pair.other, 6);
    assert_non_null(strstr(way_of(s), "$7\r\nPUBLISH\r\n"));
}
