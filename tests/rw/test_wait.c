/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, what wakes them, and what is refused instead. */
#include <signal.h>
#include <unistd.h>

#include "rw/peer.h"
#include "rw/room.h"

#define FOR_EVER RLOCK_TAKE(.wait_ms = RLOCK_FOREVER)

static struct rlock *writer_with(struct world *w, struct rlock_client *client, const char *name,
                                 const struct rlock_opts *opts)
{
    struct rlock *lock = NULL;

    (void)w;
    assert_code(rlock_write_new(client, name, opts, &lock), 0);
    return lock;
}

/* ---- No upgrade, but a downgrade ---- */

ROOM_TEST(an_upgrade_is_refused_before_anything_is_sent, w)
{
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, client);

    assert_code(rlock_lock(read), 0);
    conf_count_from_here(w);
    assert_code(rlock_lock(write), RLOCK_EDEADLOCK);
    assert_code(rlock_try_lock(write), RLOCK_EDEADLOCK);
    assert_non_null(strstr(rlock_detail(), NAME));
    assert_int_equal(conf_calls(w, "evalsha") + conf_calls(w, "eval"), 0);
    assert_true(rlock_is_valid(read));
    assert_false(rlock_is_valid(write));
    assert_code(TAKE(write, .owner = 7), RLOCK_EBUSY); /* who does not read is told the truth */
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_try_lock(write), 0);
    assert_code(rlock_unlock(write), 0);
}

/* The other process's readers, and this one's. */
ROOM_TEST(a_downgrade_lets_waiting_readers_in, w)
{
    struct rlock_client *a = conf_client(w), *b = conf_client(w);
    struct rlock *read = conf_lock(w, a), *write = conf_rival(w, a), *other = conf_lock(w, b);
    struct actor *here = conf_actor(w), *there = conf_actor(w);
    int64_t since_us;

    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    actor_begin(here, act_visit, read, FOR_EVER);
    actor_begin(there, act_visit, other, FOR_EVER);
    conf_await_waiting(a, 1);
    conf_await_waiting(b, 1);
    since_us = test_now_us();
    assert_code(rlock_unlock(write), 0);
    assert_code(actor_end(here), 0);
    assert_code(actor_end(there), 0);
    assert_took(actor_ended_us(here) - since_us, 0, LATE_MS);
    assert_took(actor_ended_us(there) - since_us, 0, LATE_MS);
    assert_true(rlock_is_valid(read));
    assert_code(rlock_unlock(read), 0);
}

ROOM_TEST(a_writer_waits_for_the_last_of_its_own_process_too, w)
{
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, client);
    struct actor *waiter = conf_actor(w);
    struct inside inside[2];
    int64_t since_us;

    assert_code(TAKE(read, .owner = 1), 0);
    inside[0] = room_enter(read);
    assert_code(TAKE(read, .owner = 2), 0);
    inside[1] = room_enter(read);
    actor_begin(waiter, act_visit, write, FOR_EVER);
    conf_await_waiting(client, 1);
    conf_count_from_here(w);
    room_leave(inside[0]);
    assert_code(rlock_unlock_as(read, 1), 0);
    assert_true(STAYS(actor_is_busy(waiter), 50));
    assert_int_equal(conf_calls(w, "evalsha"), 1); /* the release: nobody looked in vain */
    room_leave(inside[1]);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(read, 2), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - since_us, 0, LATE_MS);
}

/* Without messages too: who releases wakes those of its own process. */
ROOM_TEST(waiters_of_the_process_need_no_message, w)
{
    struct rlock_client *client;
    struct rlock *read, *write;
    struct actor *reader = conf_actor(w), *writer = conf_actor(w);
    int64_t since_us;

    assert_true(test_server_says(conf_server(w), "OK", "ACL SETUSER default resetchannels"));
    client = conf_client(w);
    read = conf_lock(w, client);
    write = conf_rival(w, client);
    assert_code(TAKE(write, .owner = 1), 0);
    actor_begin(reader, act_take, read, RLOCK_TAKE(.owner = 2, .wait_ms = RLOCK_FOREVER));
    (void)STAYS(true, 60);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(write, 1), 0);
    assert_code(actor_end(reader), 0);
    assert_took(actor_ended_us(reader) - since_us, 0, 100);
    actor_begin(writer, act_visit, write, FOR_EVER);
    (void)STAYS(true, 60);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(read, 2), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - since_us, 0, 100);
    assert_true(test_server_says(conf_server(w), "OK", "ACL SETUSER default allchannels"));
}

/* A writer in line, and readers in none, on one name. */
ROOM_TEST(a_line_of_writers_does_not_hold_up_readers, w)
{
    enum { N = 4 };
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, client);
    struct actor *writers[N], *readers[N];
    struct inside inside;

    assert_code(rlock_lock(read), 0);
    inside = room_enter(read);
    for (int i = 0; i < N; i++) {
        writers[i] = conf_actor(w);
        actor_begin(writers[i], act_visit, write, FOR_EVER);
        conf_await_waiting(client, (size_t)i + 1);
    }
    for (int i = 0; i < N; i++) {
        readers[i] = conf_actor(w);
        assert_code(actor_do(readers[i], act_visit, read, FOR_EVER), 0);
    }
    room_leave(inside);
    assert_code(rlock_unlock(read), 0);
    for (int i = 0; i < N; i++) {
        assert_code(actor_end(writers[i]), 0);
    }
}

/* ---- Readers that died ---- */

enum { SAYS_READY = 1 };

static int read_until_killed(struct test_peer *peer, void *payload)
{
    struct world *w = payload;
    const struct rlock_client_opts opts =
        conf_opts(w, &RLOCK_CLIENT_OPTS(.renewed_lease_ms = conf_ms(600)));
    struct rlock_client *client = NULL;
    struct rlock *lock = NULL;

    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    TEST_CHECK(rlock_read_new(client, NAME, NULL, &lock) == 0);
    TEST_CHECK(rlock_lock(lock) == 0);
    test_peer_send(peer, SAYS_READY);
    for (;;) {
        (void)pause();
    }
}

static int64_t kill_reader(struct test_child *child)
{
    int64_t killed_us;

    assert_int_equal(test_child_recv(child, 10000), SAYS_READY);
    killed_us = test_now_us();
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 10000), 128 + SIGKILL);
    return killed_us;
}

enum { VISITORS = 20 };

/* 20 readers that come and go, each with a lease of 30 s. */
static void begin_visits(struct world *w, struct rlock *lock, struct actor *visitors[VISITORS])
{
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = conf_actor(w);
        actor_begin(visitors[i], act_keep_visiting, lock, FOR_EVER);
    }
}

static void end_visits(struct actor *visitors[VISITORS])
{
    room_stop_visits();
    for (int i = 0; i < VISITORS; i++) {
        assert_code(actor_end(visitors[i]), 0);
    }
}

ROOM_TEST(a_killed_reader_is_forgotten_when_the_others_leave, w)
{
    struct test_child *child = test_child_spawn(read_until_killed, w);
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, conf_client(w));
    struct actor *visitors[VISITORS], *writer = conf_actor(w);
    int64_t killed_us = kill_reader(child), stopped_us;

    assert_code(rlock_lock(read), 0); /* somebody reads all the time */
    begin_visits(w, read, visitors);
    actor_begin(writer, act_visit, write, FOR_EVER);
    (void)STAYS(true, conf_ms(600) + 100 - test_elapsed_us(killed_us) / 1000);
    assert_true(actor_is_busy(writer));
    end_visits(visitors);
    stopped_us = test_now_us();
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - stopped_us, 0, LATE_MS);
}

ROOM_TEST(a_killed_reader_delays_a_preferred_writer_by_its_lease, w)
{
    const struct rlock_opts opts = RLOCK_OPTS(.prefer_writers = true);
    struct test_child *child = test_child_spawn(read_until_killed, w);
    struct rlock *read = conf_lock_with(w, conf_client(w), NAME, &opts);
    struct rlock *write = writer_with(w, conf_client(w), NAME, &opts);
    struct actor *visitors[VISITORS], *writer = conf_actor(w);
    int64_t killed_us;

    begin_visits(w, read, visitors);
    killed_us = kill_reader(child);
    assert_code(actor_do(writer, act_visit, write, FOR_EVER), 0);
    assert_took(actor_ended_us(writer) - killed_us, 100, conf_ms(600) + LATE_MS);
    end_visits(visitors);
    assert_null(rlock_free(write));
    free(test_server_cmd(conf_server(w), "DEL " ASKS));
}

/* 60 of them, dropped as they are found; and none that lives. */
ROOM_TEST(a_writer_drops_the_dead_and_spares_the_living, w)
{
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, conf_client(w));

    assert_code(rlock_lock(read), 0);
    for (int i = 0; i < 60; i++) {
        free(test_server_cmd(conf_server(w), "HSET " NAME " J:%d 3", i));
    }
    peer_says(w, "", peer_read, "J:alive", 20000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_server_int(conf_server(w), "HLEN " NAME), 63 - 16 * i);
        assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    }
    assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    assert_hash(w, "mode read %s 1 J:alive 1", room_owner(client, 1));
    peer_says(w, "0", peer_read_release, "J:alive", 0);
    for (int i = 0; i < 60; i++) {
        free(test_server_cmd(conf_server(w), "HSET " NAME " J:%d 3", i));
    }
    assert_code(rlock_unlock(read), 0); /* the last that lived: the dead go with it */
    assert_int_equal(conf_keys(w), 0);
}

/* One attempt is enough, however many died. */
ROOM_TEST(a_try_is_not_refused_for_the_dead, w)
{
    struct rlock *write = conf_rival(w, conf_client(w));

    free(test_server_cmd(conf_server(w), "HSET " NAME " mode read"));
    for (int i = 0; i < 40; i++) {
        free(test_server_cmd(conf_server(w), "HSET " NAME " J:%d 1", i));
    }
    free(test_server_cmd(conf_server(w), "PEXPIRE " NAME " 30000"));
    assert_code(rlock_try_lock(write), 0);
    assert_code(rlock_unlock(write), 0);
}

/* The longest lease goes, and with it what a waiting writer was told. */
ROOM_TEST(a_writer_learns_that_the_rest_ends_sooner, w)
{
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock(w, client), *write = conf_rival(w, conf_client(w));
    struct actor *writer = conf_actor(w);
    int64_t since_us;

    assert_code(rlock_lock(read), 0);
    since_us = test_now_us();
    peer_says(w, "", peer_read, "J:1", conf_ms(300)); /* and will never release it */
    actor_begin(writer, act_visit, write, FOR_EVER);
    (void)STAYS(true, 50);
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - since_us, conf_ms(300) - 5, conf_ms(300) + LATE_MS);
}

/* ---- Writers first ---- */

ROOM_TEST(preferred_writers_go_before_new_readers, w)
{
    const struct rlock_opts opts = RLOCK_OPTS(.prefer_writers = true);
    struct rlock_client *a = conf_client(w), *b = conf_client(w);
    struct rlock *read = conf_lock_with(w, a, NAME, &opts), *plain = conf_lock(w, a);
    struct rlock *write = writer_with(w, b, NAME, &opts);
    struct actor *writer = conf_actor(w), *reader = conf_actor(w);

    assert_code(rlock_lock(read), 0);
    assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    assert_false(conf_has_key(w, ASKS)); /* who does not wait asks for nothing */
    actor_begin(writer, act_take, write, FOR_EVER);
    assert_true(TEST_EVENTUALLY(conf_has_key(w, ASKS), 5000));
    assert_in_range(test_server_int(conf_server(w), "PTTL " ASKS), 1, 5000);
    assert_code(TAKE(read, .owner = 1), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), rlock_client_uuid(b)));
    assert_code(TAKE(plain, .owner = 2), 0); /* asked nobody */
    assert_code(rlock_unlock_as(plain, 2), 0);
    assert_code(rlock_lock(read), 0); /* reads already */
    assert_code(rlock_unlock(read), 0);
    actor_begin(reader, act_take, read, FOR_EVER);
    conf_await_waiting(a, 1);
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_false(conf_has_key(w, ASKS));
    assert_true(actor_is_busy(reader));
    assert_code(actor_do(writer, act_unlock, write, NULL), 0);
    assert_code(actor_end(reader), 0);
    assert_code(actor_do(reader, act_unlock, read, NULL), 0);
    assert_null(rlock_free(write));
}

ROOM_TEST(what_a_writer_asked_for_ends_with_it, w)
{
    const struct rlock_opts opts = RLOCK_OPTS(.prefer_writers = true);
    struct rlock_client *client = conf_client(w);
    struct rlock *read = conf_lock_with(w, client, NAME, &opts);
    struct rlock *write = writer_with(w, conf_client(w), NAME, &opts);
    struct actor *reader = conf_actor(w);
    int64_t since_us;

    assert_code(rlock_lock(read), 0);
    assert_code(TAKE(write, .wait_ms = 500), RLOCK_ETIMEDOUT);
    assert_true(conf_has_key(w, ASKS));
    assert_code(rlock_unlock(read), 0);
    assert_code(TAKE(read, .wait_ms = 300), RLOCK_ETIMEDOUT); /* free, but asked for */
    actor_begin(reader, act_visit, read, FOR_EVER);
    conf_await_waiting(client, 1);
    since_us = test_now_us();
    free(test_server_cmd(conf_server(w), "DEL " ASKS)); /* as if its 5 s were over */
    assert_code(actor_end(reader), 0);
    assert_took(actor_ended_us(reader) - since_us, 0, 1000 + LATE_MS);
    assert_null(rlock_free(write));
}

ROOM_TEST(a_long_wait_keeps_asking, w)
{
    const struct rlock_opts opts = RLOCK_OPTS(.prefer_writers = true);
    struct rlock *read = conf_lock_with(w, conf_client(w), NAME, &opts);
    struct rlock *write = writer_with(w, conf_client(w), NAME, &opts);
    struct actor *writer = conf_actor(w);

    assert_code(rlock_lock(read), 0);
    actor_begin(writer, act_visit, write, FOR_EVER);
    assert_true(TEST_EVENTUALLY(conf_has_key(w, ASKS), 5000));
    assert_true(STAYS(test_server_int(conf_server(w), "PTTL " ASKS) > 1000, 6000));
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_null(rlock_free(write));
}
