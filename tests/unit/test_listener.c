/* SPDX-License-Identifier: Apache-2.0 */
/* A listener: when it hears something, where it follows its key, and how it ends. */
#include "lock/server/channel.h"
#include "lock/server/listener.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define CHANNEL "redisson_lock__channel:{a}"

struct scene {
    struct alone_pair pair;
    struct rlock__listener listener;
    struct rlock__call call; /* open when a test ends */
};

static void says(struct rlock__server *server, const char *kind)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = CHANNEL, .len = strlen(CHANNEL)},
        {.type = RLOCK__REPLY_INT, .num = 0}};

    rlock__core_sub_reply(server, &(struct rlock__reply){.v = values, .n = 3, .is_array = true},
                          NOW);
}

/* How often the driver has to report to the listener. */
static unsigned reports(struct scene *s)
{
    struct rlock__listener *notified;
    unsigned n = 0;

    while ((notified = rlock__core_take_notified(&s->pair.alone.core)) != NULL) {
        assert_ptr_equal(notified, &s->listener);
        n++;
    }
    return n;
}

static bool was_sent(const struct rlock__server *server, const char *word)
{
    return rlock__bytes_have(rlock__bytes(server->sub.out.data, server->sub.out.len), word);
}

/* The listener listens at the first of two servers. The subscriber connection is up. */
static void begin(struct scene *s)
{
    *s = (struct scene){.listener.is_over = false};
    alone_pair_open(&s->pair, NOW);
    rlock__core_sub_up(&s->pair.alone.server, NOW);
    s->listener.spec = s->pair.alone.spec;
    rlock__core_listen(&s->pair.alone.core, &s->listener, NOW);
}

#define LISTENER_TEST(name) TEST_AROUND(name, struct scene, s, begin(s), alone_pair_close(&s->pair))

LISTENER_TEST(a_listener_hears_that_its_channel_is_live_and_each_message)
{
    assert_int_equal(reports(s), 0);
    says(&s->pair.alone.server, "subscribe");
    assert_int_equal(reports(s), 1);
    says(&s->pair.alone.server, "message");
    says(&s->pair.alone.server, "message"); /* before the driver looked: they are reported once */
    assert_int_equal(reports(s), 1);
    assert_false(s->listener.is_over);
}

LISTENER_TEST(a_listener_on_a_live_channel_hears_something_at_once)
{
    struct rlock__listener second = {.spec = s->pair.alone.spec};

    says(&s->pair.alone.server, "subscribe");
    (void)reports(s);
    rlock__core_listen(&s->pair.alone.core, &second, NOW);
    assert_ptr_equal(rlock__core_take_notified(&s->pair.alone.core), &second);
    rlock__core_ignore(&s->pair.alone.core, &second, NOW);
    assert_ptr_equal(rlock__core_take_notified(&s->pair.alone.core), &second);
    assert_true(second.is_over);
}

LISTENER_TEST(a_listener_follows_its_key_to_another_server)
{
    s->pair.is_moved = true;
    rlock__core_rerouted(&s->pair.alone.core, NOW);
    rlock__core_sub_up(&s->pair.other, NOW);
    says(&s->pair.other, "subscribe");
    assert_int_equal(reports(s), 1);
    assert_ptr_equal(s->listener.channel->server, &s->pair.other);
    assert_null(rlock__channel_find(&s->pair.alone.server, rlock__bytes_of(CHANNEL))->listeners);
}

LISTENER_TEST(a_listener_is_over_when_it_is_ended)
{
    rlock__core_ignore(&s->pair.alone.core, &s->listener, NOW);
    assert_true(s->listener.is_over);
    assert_int_equal(reports(s), 1);
    says(&s->pair.alone.server, "message");
    assert_int_equal(reports(s), 0);
}

LISTENER_TEST(a_listener_is_over_when_the_client_is_closed)
{
    struct rlock__listener late = {.spec = s->pair.alone.spec};

    rlock__core_close(&s->pair.alone.core, NOW);
    assert_true(s->listener.is_over);
    assert_int_equal(reports(s), 1);
    rlock__core_listen(&s->pair.alone.core, &late, NOW);
    assert_true(late.is_over);
    assert_ptr_equal(rlock__core_take_notified(&s->pair.alone.core), &late);
}

LISTENER_TEST(a_listener_keeps_its_channel_subscribed)
{
    struct rlock__server *server = &s->pair.alone.server;

    says(server, "subscribe");
    assert_false(was_sent(server, "UNSUBSCRIBE"));
    rlock__core_ignore(&s->pair.alone.core, &s->listener, NOW);
    assert_true(was_sent(server, "UNSUBSCRIBE"));
}

/* ---- A key that was away ---- */

/* The server has read the SUBSCRIBE, and names the server that has the key. */
static void redirect(struct scene *s)
{
    static const char text[] = "MOVED 15495 there:1";
    const struct rlock__value value = {
        .type = RLOCK__REPLY_ERROR, .str = text, .len = sizeof(text) - 1};
    struct rlock__server *server = &s->pair.alone.server;

    assert_true(was_sent(server, "SUBSCRIBE"));
    rlock__buf_clear(&server->sub.out);
    rlock__core_sub_reply(server, &(struct rlock__reply){.v = &value, .n = 1}, NOW);
    assert_false(was_sent(server, "SUBSCRIBE"));
}

/* The server reads the SUBSCRIBE while the key is away; then the key is back. */
static void come_back(struct scene *s)
{
    s->pair.is_moved = true;
    redirect(s);
    s->pair.is_moved = false;
}

LISTENER_TEST(a_listener_subscribes_again_when_its_key_comes_back)
{
    come_back(s);
    rlock__core_rerouted(&s->pair.alone.core, NOW);
    assert_true(was_sent(&s->pair.alone.server, "SUBSCRIBE"));
}

/* The call's attempt is under way while the key is away, and is answered by the server that has the
 * key again. */
LISTENER_TEST(a_waiter_subscribes_again_when_its_key_comes_back)
{
    struct rlock__core *core = &s->pair.alone.core;

    rlock__core_ignore(core, &s->listener, NOW);
    s->call = alone_call(&s->pair.alone, RLOCK__ACQUIRE);
    s->call.acquire.wait_us = -1;
    rlock__core_begin(core, &s->call, NOW);
    alone_busy(core, NOW);
    assert_non_null(s->call.channel);
    rlock__core_tick(core, NOW + RLOCK__POLL_US); /* it asks once more */
    assert_int_equal(s->call.step, RLOCK__ASKING);
    come_back(s);
    alone_busy(core, NOW + RLOCK__POLL_US);
    assert_true(was_sent(&s->pair.alone.server, "SUBSCRIBE"));
}

/* It would be asked again and again. */
LISTENER_TEST(a_server_that_names_itself_refuses_the_subscription)
{
    redirect(s);
    rlock__core_rerouted(&s->pair.alone.core, NOW);
    assert_false(was_sent(&s->pair.alone.server, "SUBSCRIBE"));
    assert_true(s->pair.alone.server.sub.refused);
}
