/* SPDX-License-Identifier: Apache-2.0 */
/* A listener: when it hears something, where it follows its key, and how it ends. */
#include "lock/server/channel.h"
#include "lock/server/listener.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)
#define CHANNEL "redisson_lock__channel:{a}"

struct scene {
    struct alone_scene alone;
    struct rlock__server other;
    struct rlock__server *owner; /* the server that has the key */
    struct rlock__listener listener;
};

static struct scene scene;

static struct rlock__server *route(struct rlock__core *core, const struct rlock__spec *spec)
{
    (void)core;
    (void)spec;
    return scene.owner;
}

static void says(struct scene *s, struct rlock__server *server, const char *kind)
{
    const struct rlock__value values[] = {
        {.type = RLOCK__REPLY_STR, .str = kind, .len = strlen(kind)},
        {.type = RLOCK__REPLY_STR, .str = CHANNEL, .len = strlen(CHANNEL)},
        {.type = RLOCK__REPLY_INT, .num = 0}};

    (void)s;
    rlock__core_sub_reply(server, &(struct rlock__reply){.v = values, .n = 3, .is_array = true},
                          NOW);
}

/* How often the driver has to report to the listener. */
static unsigned reports(struct scene *s)
{
    struct rlock__listener *heard;
    unsigned n = 0;

    while ((heard = rlock__core_take_heard(&s->alone.core)) != NULL) {
        assert_ptr_equal(heard, &s->listener);
        n++;
    }
    return n;
}

/* The listener listens at the first of two servers, whose subscriber connection is up. */
static void begin(void)
{
    struct scene *s = &scene;

    scene = (struct scene){.owner = &scene.alone.server};
    alone_open(&s->alone, NOW);
    s->alone.core.driver.route = route;
    s->other.address = "other";
    rlock__core_add_server(&s->alone.core, &s->other, 1, 0);
    rlock__core_sub_up(&s->alone.server, NOW);
    s->listener.spec = s->alone.spec;
    rlock__core_listen(&s->alone.core, &s->listener, NOW);
}

static void end(struct scene *s)
{
    rlock__core_ignore(&s->alone.core, &s->listener, NOW);
    (void)reports(s);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}

#define LISTENER_TEST(name)                                                                        \
    static void name##_in(struct scene *s);                                                        \
    TEST(name)                                                                                     \
    {                                                                                              \
        begin();                                                                                   \
        name##_in(&scene);                                                                         \
        end(&scene);                                                                               \
    }                                                                                              \
    static void name##_in(struct scene *s)

LISTENER_TEST(a_listener_hears_that_its_channel_is_live_and_each_message)
{
    assert_int_equal(reports(s), 0);
    says(s, &s->alone.server, "subscribe");
    assert_int_equal(reports(s), 1);
    says(s, &s->alone.server, "message");
    says(s, &s->alone.server, "message"); /* before the driver looked: they are reported once */
    assert_int_equal(reports(s), 1);
    assert_false(s->listener.is_over);
}

LISTENER_TEST(a_listener_on_a_live_channel_hears_something_at_once)
{
    struct rlock__listener second = {.spec = s->alone.spec};

    says(s, &s->alone.server, "subscribe");
    (void)reports(s);
    rlock__core_listen(&s->alone.core, &second, NOW);
    assert_ptr_equal(rlock__core_take_heard(&s->alone.core), &second);
    rlock__core_ignore(&s->alone.core, &second, NOW);
    assert_ptr_equal(rlock__core_take_heard(&s->alone.core), &second);
    assert_true(second.is_over);
}

LISTENER_TEST(a_listener_follows_its_key_to_another_server)
{
    s->owner = &s->other;
    rlock__core_rerouted(&s->alone.core, NOW);
    rlock__core_sub_up(&s->other, NOW);
    says(s, &s->other, "subscribe");
    assert_int_equal(reports(s), 1);
    assert_ptr_equal(s->listener.channel->server, &s->other);
    assert_null(rlock__channel_find(&s->alone.server, rlock__bytes_of(CHANNEL))->listeners);
}

LISTENER_TEST(a_listener_is_over_when_it_is_ended)
{
    rlock__core_ignore(&s->alone.core, &s->listener, NOW);
    assert_true(s->listener.is_over);
    assert_int_equal(reports(s), 1);
    says(s, &s->alone.server, "message");
    assert_int_equal(reports(s), 0);
}

LISTENER_TEST(a_listener_is_over_when_the_client_is_closed)
{
    struct rlock__listener late = {.spec = s->alone.spec};

    rlock__core_close(&s->alone.core, NOW);
    assert_true(s->listener.is_over);
    assert_int_equal(reports(s), 1);
    rlock__core_listen(&s->alone.core, &late, NOW);
    assert_true(late.is_over);
    assert_ptr_equal(rlock__core_take_heard(&s->alone.core), &late);
}

LISTENER_TEST(a_listener_keeps_its_channel_subscribed)
{
    const struct rlock__buf *out = &s->alone.server.sub.out;

    says(s, &s->alone.server, "subscribe");
    assert_false(rlock__bytes_have(rlock__bytes(out->data, out->len), "UNSUBSCRIBE"));
    rlock__core_ignore(&s->alone.core, &s->listener, NOW);
    assert_true(rlock__bytes_have(rlock__bytes(out->data, out->len), "UNSUBSCRIBE"));
}
