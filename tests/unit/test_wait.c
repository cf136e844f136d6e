/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What replicas have of a grant. WAIT tells of what its own connection wrote: on the next one it
 * would count replicas that have nothing of it. And what is written for it may come too late:
 * behind ASKING, where the key was until its move was called off.
 */
#include "lock/plain.h"
#include "lock/server/route.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

struct scene {
    struct rlock__core core;
    struct rlock__server server, other;
    struct rlock__call call;
};

static struct rlock__link *acks_of(struct rlock__server *server)
{
    return &server->links[server->n_routed];
}

/* The slot is being moved to the other server. */
static enum rlock__redirect redirect(struct rlock__core *core, const struct rlock__link *link,
                                     const struct rlock__reply *reply,
                                     struct rlock__server **ret_server)
{
    bool asks = link->server == core->servers && rlock__reply_str(reply, 0).at[0] == 'A';

    *ret_server = asks ? core->servers->next : NULL;
    return asks ? RLOCK__ASK : RLOCK__NO_REDIRECT;
}

static void add_server(struct scene *s, struct rlock__server *server)
{
    server->address = "here";
    rlock__core_add_server(&s->core, server, 1, 1);
    for (unsigned i = 0; i < server->n_links; i++) {
        rlock__core_link_up(&server->links[i], i + 1, true, NOW);
    }
}

static struct scene *scene_open(void)
{
    static struct scene s;

    s = (struct scene){.core = {.opts.op_timeout_us = 10 * RLOCK__SECOND,
                                .opts.renewed_lease_us = 30 * RLOCK__SECOND,
                                .opts.acks = 1,
                                .opts.address = "here",
                                .driver.route = alone_route,
                                .driver.redirect = redirect,
                                .driver.unref = alone_unref},
                       .call = {.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}}};
    rlock__core_init(&s.core);
    add_server(&s, &s.server);
    add_server(&s, &s.other);
    s.call.spec = rlock__spec_new(&s.core, &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
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
    struct rlock__link *link = acks_of(&s->server);

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

static void says(struct rlock__link *link, struct rlock__value value)
{
    answers(link, &(struct rlock__reply){.v = &value, .n = 1});
}

/* Another client holds the lock, and its lease ends in ttl_ms. */
static void is_busy(struct rlock__link *link, int64_t ttl_ms)
{
    const struct rlock__value busy[] = {{.type = RLOCK__REPLY_INT, .num = 0},
                                        {.type = RLOCK__REPLY_INT, .num = ttl_ms},
                                        {.type = RLOCK__REPLY_STR, .str = "somebody:1", .len = 10}};

    answers(link, &(struct rlock__reply){.v = busy, .n = 3, .is_array = true});
}

/* The lock is busy, so the call subscribes, and then it asks again. */
static void wait_for_the_lock(struct scene *s, int64_t wait_us)
{
    const struct rlock__value subscribed[] = {
        {.type = RLOCK__REPLY_STR, .str = "subscribe", .len = 9},
        {.type = RLOCK__REPLY_STR,
         .str = s->call.spec->channel.at,
         .len = s->call.spec->channel.len},
        {.type = RLOCK__REPLY_INT, .num = 1}};

    s->call.acquire.wait_us = wait_us;
    rlock__core_sub_up(&s->server, NOW);
    rlock__core_begin(&s->core, &s->call, NOW);
    is_busy(&s->server.links[0], 1000);
    rlock__core_sub_reply(&s->server,
                          &(struct rlock__reply){.v = subscribed, .n = 3, .is_array = true}, NOW);
    assert_int_equal(s->call.step, RLOCK__ASKING);
    rlock__buf_clear(&s->server.sub.out);
}

/* The call sleeps now, and asks the server again by then. */
static void assert_asks_by(struct scene *s, int64_t latest)
{
    assert_int_not_equal(s->call.step, RLOCK__ASKING);
    while (s->call.step != RLOCK__ASKING && rlock__core_next(&s->core) <= latest) {
        rlock__core_tick(&s->core, rlock__core_next(&s->core));
    }
    assert_int_equal(s->call.step, RLOCK__ASKING);
}

/* The message of the release is lost. */
TEST(a_waiter_asks_again_within_five_seconds_however_long_the_lease_is)
{
    const int64_t latest = NOW + 5100 * RLOCK__MS;
    struct scene *s = scene_open();

    wait_for_the_lock(s, RLOCK__SECOND * 60);
    is_busy(&s->server.links[0], 20000);
    assert_asks_by(s, latest);
    scene_close(s);
}

/* As a fair lock: the waiter is to look after its place. */
static struct rlock__answer wants_a_look(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_acquire(spec, reply);

    answer.recheck_ms = 250;
    return answer;
}

TEST(a_waiter_asks_again_when_its_kind_wants_that_however_long_the_lease_is)
{
    const int64_t latest = NOW + 300 * RLOCK__MS;
    struct rlock_ops ops = rlock__reentrant_ops;
    struct scene *s = scene_open();

    ops.read_acquire = wants_a_look;
    (void)rlock__spec_unref(s->call.spec);
    s->call.spec = rlock__spec_new(&s->core, &ops, rlock__bytes_of("a"), NULL);
    wait_for_the_lock(s, RLOCK__SECOND * 60);
    is_busy(&s->server.links[0], 20000);
    assert_asks_by(s, latest);
    scene_close(s);
}

/* The end of the event finds that no WAIT can tell of the grant, and the call, whose grant does not
 * count, leaves its channel then. */
TEST(a_channel_that_is_left_at_the_end_of_an_event_is_given_up_in_that_event)
{
    struct scene *s = scene_open();
    struct rlock__link *link = acks_of(&s->server);

    wait_for_the_lock(s, RLOCK__SECOND);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    refuses(link, "NOSCRIPT No matching script. Please use EVAL.");
    refuses(link, "UNBLOCKED force unblock from blocking operation, instance state changed");
    does(link, 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    assert_null(s->call.channel);
    assert_true(rlock__bytes_have(rlock__bytes(s->server.sub.out.data, s->server.sub.out.len),
                                  "UNSUBSCRIBE"));
    scene_close(s);
}

/* The end of the event finds that no WAIT can tell of the grant, and the call's wait is over. */
TEST(the_next_call_goes_on_in_the_event_that_made_it_ready)
{
    static const struct rlock__value done[] = {
        {.type = RLOCK__REPLY_INT, .num = NOW / RLOCK__SECOND},
        {.type = RLOCK__REPLY_INT, .num = 0},
        {.type = RLOCK__REPLY_INT, .num = 1}};
    struct scene *s = scene_open();
    struct rlock__link *link = acks_of(&s->server);
    struct rlock__call next = s->call;

    next.owner.id = 2;
    next.acquire.wait_us = RLOCK__SECOND;
    wait_for_the_lock(s, 10 * RLOCK__MS);
    rlock__core_begin(&s->core, &next, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    refuses(link, "NOSCRIPT No matching script. Please use EVAL.");
    refuses(link, "UNBLOCKED force unblock from blocking operation, instance state changed");
    assert_int_equal(next.step, RLOCK__QUEUED);
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = done, .n = 3, .is_array = true},
                      NOW + 20 * RLOCK__MS);
    assert_null(s->core.ready);
    assert_int_equal(next.step, RLOCK__ASKING);
    scene_close(s);
}

/* It has a replica, which has the hold. */
static void lock(struct scene *s)
{
    rlock__core_begin(&s->core, &s->call, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    does(acks_of(&s->server), 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    says(acks_of(&s->server), (struct rlock__value){.type = RLOCK__REPLY_INT, .num = 1});
    assert_int_equal(s->call.code, 0);
    assert_int_equal(s->call.step, RLOCK__COMPLETE);
    (void)rlock__view_unref(s->call.view);
    s->core.done = NULL;
}

/* It asks for a whole lease, but nobody says that the replica has that. */
TEST(the_release_of_a_level_extends_no_validity)
{
    const int64_t later = NOW + 10 * RLOCK__SECOND;
    const struct rlock__value done[] = {{.type = RLOCK__REPLY_INT, .num = 1},
                                        {.type = RLOCK__REPLY_INT, .num = 0}};
    struct scene *s = scene_open();
    struct rlock__call first = s->call, leave = s->call;
    struct rlock__link *link = &s->server.links[0];
    int64_t until;

    lock(s);
    s->call = first;
    lock(s); /* a level more */
    until = atomic_load(&s->core.rows.holds->view->valid_until);
    leave.kind = RLOCK__RELEASE;
    rlock__core_begin(&s->core, &leave, later);
    alone_carry(&link->pipeline);
    rlock__core_reply(link, link->pipeline.gen,
                      &(struct rlock__reply){.v = done, .n = 2, .is_array = true}, later);
    assert_int_equal(leave.step, RLOCK__COMPLETE);
    assert_int_equal(leave.code, 0);
    assert_int_equal(atomic_load(&s->core.rows.holds->view->valid_until), until);
    scene_close(s);
}

/* A level is granted behind ASKING, and what is to be acknowledged finds nothing there: the key is
 * back where it was. */
TEST(a_hold_that_is_not_there_behind_asking_is_not_lost)
{
    static const struct rlock__value ok = {.type = RLOCK__REPLY_STATUS, .str = "OK", .len = 2};
    struct scene *s = scene_open();
    struct rlock__call level = s->call;

    lock(s);
    rlock__core_begin(&s->core, &level, NOW);
    refuses(&s->server.links[0], "ASK 15495 there:1");
    says(&s->other.links[0], ok);
    does(&s->other.links[0], 1, (const int64_t[]){1});
    refuses(&s->server.links[0], "ASK 15495 there:1"); /* it is looked whether the grant counts */
    says(acks_of(&s->other), ok);
    does(acks_of(&s->other), 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 0});
    assert_null(s->core.lost);
    assert_int_not_equal(level.code, RLOCK_ELOST);
    assert_int_equal(s->core.rows.holds->state, RLOCK__HOLD_HELD);
    scene_close(s);
}

/* A server stopped the script, maybe after its first write. Then the key moved to another server,
 * and "busy" from there proves nothing about the first one. */
TEST(busy_behind_asking_does_not_refute_what_a_stopped_script_did_elsewhere)
{
    static const struct rlock__value ok = {.type = RLOCK__REPLY_STATUS, .str = "OK", .len = 2};
    struct scene *s = scene_open();

    s->call.acquire.wait_us = RLOCK__SECOND;
    rlock__core_begin(&s->core, &s->call, NOW);
    refuses(&s->server.links[0],
            "ERR Script attempted to access a non local key in a cluster node");
    while (s->call.step != RLOCK__ASKING && rlock__core_next(&s->core) < NOW + RLOCK__SECOND) {
        rlock__core_tick(&s->core, rlock__core_next(&s->core));
    }
    refuses(&s->server.links[0], "ASK 15495 there:1");
    says(&s->other.links[0], ok);
    is_busy(&s->other.links[0], 1000);
    rlock__core_give_up(&s->core, &s->call, RLOCK_ETIMEDOUT, NOW + RLOCK__SECOND);
    assert_int_not_equal(s->call.step, RLOCK__COMPLETE);
    scene_close(s);
}

/* ---- Replicas that are known by name ---- */

#define TEXT(s)                                                                                    \
    {                                                                                              \
        .type = RLOCK__REPLY_STR, .str = (s), .len = sizeof(s) - 1                                 \
    }
#define NUMBER(i)                                                                                  \
    {                                                                                              \
        .type = RLOCK__REPLY_INT, .num = (i)                                                       \
    }
#define ONE "slave0:ip=10.0.0.1,port=6379,state=online,offset=1,lag=0\r\n"
#define TWO "slave1:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0\r\n"

static void lists(struct scene *s, const char *text, int64_t at)
{
    rlock__replicas_ask(&s->server.replicas);
    rlock__replicas_listed(&s->server.replicas, rlock__bytes_of(text), at);
}

static void knows_both(struct scene *s, bool second_is_down, int64_t at)
{
    const struct rlock__replica_word words[] = {
        {.place = "10.0.0.1:6379"}, {.place = "10.0.0.2:6379", .is_held_down = second_is_down}};

    rlock__replicas_known(&s->server.replicas, words, 2, at);
}

/* ROLE is answered: the first replica has all that was written. */
static void has_offset(struct rlock__link *link)
{
    const struct rlock__value values[] = {TEXT("master"), NUMBER(100), TEXT("10.0.0.1"),
                                          TEXT("6379"), TEXT("100")};

    answers(link, &(struct rlock__reply){.v = values, .n = 5, .is_array = true, .is_nested = true});
}

/* The link for acknowledgements: the grant is extended, and ROLE and WAIT are answered. */
static void round_of(struct scene *s, struct rlock__link *link, void (*meanwhile)(struct scene *s))
{
    does(link, 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    has_offset(link);
    meanwhile(s);
    says(link, (struct rlock__value)NUMBER(1));
    has_offset(link);
}

static void second_is_left_out(struct scene *s)
{
    knows_both(s, true, NOW);
    rlock__replicas_alive(&s->server.replicas, NOW);
    lists(s, ONE, NOW);
    assert_int_equal(rlock__acks_needed(&s->server), 1);
}

static void nothing(struct scene *s)
{
    (void)s;
}

/* It was needed when the WAIT went out, and the grant may be older than the reason to leave it
 * out: the grant is extended once more, and the next WAIT does without that replica. */
TEST(a_replica_that_is_left_out_during_a_wait_does_not_help_that_wait)
{
    struct scene *s = scene_open();
    struct rlock__link *link = acks_of(&s->server);

    s->core.opts.acks = RLOCK_ACKS_AUTO;
    knows_both(s, false, NOW - 10 * RLOCK__SECOND);
    lists(s, ONE TWO, NOW - 5 * RLOCK__SECOND);
    lists(s, ONE, NOW - 3 * RLOCK__SECOND);
    assert_int_equal(rlock__acks_needed(&s->server), 2);
    rlock__core_begin(&s->core, &s->call, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    round_of(s, link, second_is_left_out);
    assert_int_equal(s->call.step, RLOCK__ASKING);
    round_of(s, link, nothing);
    assert_int_equal(s->call.step, RLOCK__COMPLETE);
    assert_int_equal(s->call.code, 0);
    (void)rlock__view_unref(s->call.view);
    s->core.done = NULL;
    scene_close(s);
}

/* ---- Numbers beyond all reason, which a broken server may report ---- */

/* WAITAOF reports this of the server's own disk, and of those of its replicas. Returns how many
 * confirmed a grant that does not count. */
static unsigned confirmed(int64_t local, int64_t count)
{
    struct scene *s = scene_open();
    unsigned n;

    s->core.opts.acks_on_disk = true;
    rlock__core_begin(&s->core, &s->call, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    does(acks_of(&s->server), 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    does(acks_of(&s->server), 2, (const int64_t[]){local, count});
    assert_int_equal(s->call.code, RLOCK_ENOTREPLICATED);
    n = s->call.acquire.confirmed;
    scene_close(s);
    return n;
}

TEST(a_number_of_servers_below_0_is_0)
{
    assert_int_equal(confirmed(-5, 1), 1);
    assert_int_equal(confirmed(INT64_MIN, INT64_MIN), 0);
}

TEST(a_number_of_servers_beyond_all_reason_is_limited)
{
    assert_int_equal(confirmed(0, INT64_MAX), INT16_MAX);
}

/* One replica was quicker than the other, so a WAIT goes out for one more than answered. */
TEST(a_wait_for_one_more_asks_for_no_number_beyond_all_reason)
{
    struct scene *s = scene_open();
    struct rlock__link *link = acks_of(&s->server);
    const struct rlock__buf *out = &link->pipeline.out;

    s->core.opts.acks = RLOCK_ACKS_AUTO;
    knows_both(s, false, NOW);
    lists(s, ONE TWO, NOW);
    rlock__core_begin(&s->core, &s->call, NOW);
    does(&s->server.links[0], 1, (const int64_t[]){1});
    does(link, 3, (const int64_t[]){NOW / RLOCK__SECOND, 0, 1});
    has_offset(link);
    says(link, (struct rlock__value)NUMBER(INT64_MAX));
    has_offset(link);
    assert_true(rlock__bytes_have(rlock__bytes(out->data, out->len), "$4\r\nWAIT\r\n$5\r\n32768"));
    scene_close(s);
}

/* ---- Without a connection ---- */

/* The code of a call that waits for 100 ms while there is no connection. */
static int code_without_connection(bool was_connected)
{
    struct alone_scene s;
    struct rlock__call call;

    alone_open(&s, NOW);
    if (!was_connected) {
        s.core.last_gen = 0;
    }
    rlock__core_link_down(alone_link(&s.core), 1, RLOCK_ECONN, false, "the failover", NOW);
    call = alone_call(&s, RLOCK__ACQUIRE);
    call.acquire.wait_us = 100 * RLOCK__MS;
    rlock__core_begin(&s.core, &call, NOW);
    while (call.step != RLOCK__COMPLETE) {
        assert_true(rlock__core_next(&s.core) <= NOW + 2 * RLOCK__SECOND);
        rlock__core_tick(&s.core, rlock__core_next(&s.core));
    }
    s.core.done = NULL;
    rlock__core_fini(&s.core);
    (void)rlock__spec_unref(s.spec);
    return call.code;
}

TEST(a_wait_that_ends_while_the_server_is_out_of_reach_timed_out)
{
    assert_int_equal(code_without_connection(true), RLOCK_ETIMEDOUT);
}

TEST(a_wait_of_a_client_that_never_reached_its_server_has_no_connection)
{
    assert_int_equal(code_without_connection(false), RLOCK_ECONN);
}
