/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits for whom, what wakes them, and what is refused instead. */
#include <rlock/stats.h>
#include <signal.h>
#include <unistd.h>

#include "rw/peer.h"
#include "rw/room.h"

static struct rlock_handle *writer_with(struct fixture *f, struct rlock_client *client,
                                        const char *name, const struct rlock_opts *opts)
{
    struct rlock_handle *lock = NULL;

    (void)f;
    assert_code(rlock_write_new(client, name, opts, &lock), 0);
    return lock;
}

/* ---- No upgrade, but a downgrade ---- */

ROOM_TEST(an_upgrade_is_refused_before_anything_is_sent, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);

    assert_code(rlock_lock(read), 0);
    fixture_count_calls(f);
    assert_code(rlock_lock(write), RLOCK_EDEADLOCK);
    assert_code(rlock_try_lock(write), RLOCK_EDEADLOCK);
    assert_non_null(strstr(rlock_detail(), NAME));
    assert_int_equal(fixture_calls(f, "evalsha") + fixture_calls(f, "eval"), 0);
    assert_true(rlock_is_valid(read));
    assert_false(rlock_is_valid(write));
    assert_code(TAKE(write, 0, .owner = 7), RLOCK_EBUSY); /* this owner does not read */
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_try_lock(write), 0);
    assert_code(rlock_unlock(write), 0);
}

/* The other process's readers, and this one's. */
ROOM_TEST(a_downgrade_lets_waiting_readers_in, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *read = lock_new(f, a), *write = rival_new(f, a), *other = lock_new(f, b);
    struct actor *here = actor_open(f), *there = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    actor_begin(here, act_visit, read, RLOCK_FOREVER, NULL);
    actor_begin(there, act_visit, other, RLOCK_FOREVER, NULL);
    await_waiting(a, 1);
    await_waiting(b, 1);
    since_us = test_now_us();
    assert_code(rlock_unlock(write), 0);
    assert_code(actor_end(here), 0);
    assert_code(actor_end(there), 0);
    assert_took(actor_ended_us(here) - since_us, 0, LATE_MS);
    assert_took(actor_ended_us(there) - since_us, 0, LATE_MS);
    assert_true(rlock_is_valid(read));
    assert_code(rlock_unlock(read), 0);
}

static uint64_t attempts_of(const struct rlock_client *client)
{
    struct rlock_stats stats = RLOCK_STATS_INIT;

    assert_code(rlock_client_stats(client, &stats), 0);
    return stats.attempts;
}

ROOM_TEST(a_writer_waits_for_the_last_of_its_own_process_too, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    struct actor *waiter = actor_open(f);
    struct inside inside[2];
    int64_t since_us;

    assert_code(TAKE(read, 0, .owner = 1), 0);
    inside[0] = room_enter(read);
    assert_code(TAKE(read, 0, .owner = 2), 0);
    inside[1] = room_enter(read);
    actor_begin(waiter, act_visit, write, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    /* two readers'; and three until it has entered the queue, and hears other readers */
    assert_true(TEST_EVENTUALLY(attempts_of(client) == 2 + 3, 5000));
    fixture_count_calls(f);
    room_leave(inside[0]);
    assert_code(rlock_unlock_as(read, 1), 0);
    assert_true(STAYS(actor_is_busy(waiter), 50));
    assert_int_equal(fixture_calls(f, "evalsha"), 1); /* the release: nobody looked in vain */
    room_leave(inside[1]);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(read, 2), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - since_us, 0, LATE_MS);
}

/* Without messages too: who releases wakes those of its own process. */
ROOM_TEST(waiters_of_the_process_need_no_message, f)
{
    struct rlock_client *client;
    struct rlock_handle *read, *write;
    struct actor *reader = actor_open(f), *writer = actor_open(f);
    int64_t since_us;

    assert_true(test_server_says(f->server, "OK", "ACL SETUSER default resetchannels"));
    client = client_open(f);
    read = lock_new(f, client);
    write = rival_new(f, client);
    assert_code(TAKE(write, 0, .owner = 1), 0);
    actor_begin(reader, act_take, read, RLOCK_FOREVER, RLOCK_TAKE(.owner = 2));
    (void)STAYS(true, 60);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(write, 1), 0);
    assert_code(actor_end(reader), 0);
    assert_took(actor_ended_us(reader) - since_us, 0, 100);
    actor_begin(writer, act_visit, write, RLOCK_FOREVER, NULL);
    (void)STAYS(true, 60);
    since_us = test_now_us();
    assert_code(rlock_unlock_as(read, 2), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - since_us, 0, 100);
    assert_true(test_server_says(f->server, "OK", "ACL SETUSER default allchannels"));
}

/* A writer in line, and readers in none, on one name. */
ROOM_TEST(a_line_of_writers_does_not_hold_up_readers, f)
{
    enum { N = 4 };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    struct actor *writers[N], *readers[N];
    struct inside inside;

    assert_code(rlock_lock(read), 0);
    inside = room_enter(read);
    for (int i = 0; i < N; i++) {
        writers[i] = actor_open(f);
        actor_begin(writers[i], act_visit, write, RLOCK_FOREVER, NULL);
        await_waiting(client, (size_t)i + 1);
    }
    for (int i = 0; i < N; i++) {
        readers[i] = actor_open(f);
        assert_code(actor_do(readers[i], act_visit, read, RLOCK_FOREVER, NULL), 0);
    }
    room_leave(inside);
    assert_code(rlock_unlock(read), 0);
    for (int i = 0; i < N; i++) {
        assert_code(actor_end(writers[i]), 0);
    }
}

/* ---- Readers that died ---- */

enum { VISITORS = 20 };

/* 20 readers that come and go, each with a lease of 30 s. */
static void begin_visits(struct fixture *f, struct rlock_handle *lock,
                         struct actor *visitors[VISITORS])
{
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = actor_open(f);
        actor_begin(visitors[i], act_keep_visiting, lock, RLOCK_FOREVER, NULL);
    }
}

static void end_visits(struct actor *visitors[VISITORS])
{
    room_stop_visits();
    for (int i = 0; i < VISITORS; i++) {
        assert_code(actor_end(visitors[i]), 0);
    }
}

ROOM_TEST(a_killed_reader_is_forgotten_when_the_others_leave, f)
{
    struct test_child *child = victim_spawn(&(struct victim){f, rlock_read_new, test_ms(600)});
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client_open(f));
    struct actor *visitors[VISITORS], *writer = actor_open(f);
    int64_t killed_us, stopped_us;

    victim_await(child);
    killed_us = victim_kill(child);
    assert_code(rlock_lock(read), 0); /* somebody reads all the time */
    begin_visits(f, read, visitors);
    actor_begin(writer, act_visit, write, RLOCK_FOREVER, NULL);
    (void)STAYS(true, test_ms(600) + 100 - test_elapsed_us(killed_us) / 1000);
    assert_true(actor_is_busy(writer));
    end_visits(visitors);
    stopped_us = test_now_us();
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - stopped_us, 0, LATE_MS);
}

ROOM_TEST(a_killed_reader_delays_a_preferred_writer_by_its_lease, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct test_child *child = victim_spawn(&(struct victim){f, rlock_read_new, test_ms(600)});
    struct rlock_handle *read = lock_with(f, client_open(f), NAME, opts);
    struct rlock_handle *write = writer_with(f, client_open(f), NAME, opts);
    struct actor *visitors[VISITORS], *writer = actor_open(f);
    int64_t killed_us;

    begin_visits(f, read, visitors);
    victim_await(child);
    killed_us = victim_kill(child);
    assert_code(actor_do(writer, act_visit, write, RLOCK_FOREVER, NULL), 0);
    assert_took(actor_ended_us(writer) - killed_us, 100, test_ms(600) + LATE_MS);
    end_visits(visitors);
    assert_null(rlock_free(write));
    test_server_do(f->server, "DEL " ASKS);
}

/* 60 of them, dropped as they are found; and none that lives. */
ROOM_TEST(a_writer_drops_the_dead_and_spares_the_living, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client_open(f));

    assert_code(rlock_lock(read), 0);
    for (int i = 0; i < 60; i++) {
        test_server_do(f->server, "HSET " NAME " J:%d 3", i);
    }
    peer_says(f, "", peer_read, "J:alive", 20000);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(test_server_int(f->server, "HLEN " NAME), 63 - 16 * i);
        assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    }
    assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    assert_hash(f, "mode read %s 1 J:alive 1", room_owner(client, 1));
    peer_says(f, "0", peer_read_release, "J:alive", 0);
    for (int i = 0; i < 60; i++) {
        test_server_do(f->server, "HSET " NAME " J:%d 3", i);
    }
    assert_code(rlock_unlock(read), 0); /* the last that lived: the dead go with it */
    assert_int_equal(fixture_keys(f), 0);
}

/* One attempt is enough, however many died. */
ROOM_TEST(a_try_is_not_refused_for_the_dead, f)
{
    struct rlock_handle *write = rival_new(f, client_open(f));

    test_server_do(f->server, "HSET " NAME " mode read");
    for (int i = 0; i < 40; i++) {
        test_server_do(f->server, "HSET " NAME " J:%d 1", i);
    }
    test_server_do(f->server, "PEXPIRE " NAME " 30000");
    assert_code(rlock_try_lock(write), 0);
    assert_code(rlock_unlock(write), 0);
}

/* The longest lease goes, and with it what a waiting writer was told. later_ms: so much later than
 * that lease the hash ends. */
static void longest_leaves(struct fixture *f, int later_ms)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client_open(f));
    struct actor *writer = actor_open(f);
    int64_t since_us;

    assert_code(rlock_lock(read), 0);
    since_us = test_now_us();
    peer_says(f, "", peer_read, "J:1", test_ms(300)); /* and will never release it */
    if (later_ms != 0) {
        test_server_do(f->server, "PEXPIRE " NAME " %lld",
                       test_server_int(f->server, "PTTL " NAME) + later_ms);
    }
    actor_begin(writer, act_visit, write, RLOCK_FOREVER, NULL);
    (void)STAYS(true, 50);
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_took(actor_ended_us(writer) - since_us, test_ms(300) - 5, test_ms(300) + LATE_MS);
}

ROOM_TEST(a_writer_learns_that_the_rest_ends_sooner, f)
{
    longest_leaves(f, 0);
}

/* As it does where the server's clock goes on in a script. */
ROOM_TEST(a_writer_learns_that_also_where_the_hash_ends_a_moment_later, f)
{
    longest_leaves(f, 20);
}

/* ---- Writers first ---- */

ROOM_TEST(preferred_writers_go_before_new_readers, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *read = lock_with(f, a, NAME, opts), *plain = lock_new(f, a);
    struct rlock_handle *write = writer_with(f, b, NAME, opts);
    struct actor *writer = actor_open(f), *reader = actor_open(f);

    assert_code(rlock_lock(read), 0);
    assert_code(rlock_try_lock(write), RLOCK_EBUSY);
    assert_false(fixture_has_key(f, ASKS)); /* who does not wait asks for nothing */
    actor_begin(writer, act_take, write, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(fixture_has_key(f, ASKS), 5000));
    assert_in_range(test_server_int(f->server, "PTTL " ASKS), 1, 5000);
    assert_code(TAKE(read, 0, .owner = 1), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), rlock_client_uuid(b)));
    assert_code(TAKE(plain, 0, .owner = 2), 0); /* asked nobody */
    assert_code(rlock_unlock_as(plain, 2), 0);
    assert_code(rlock_lock(read), 0); /* reads already */
    assert_code(rlock_unlock(read), 0);
    actor_begin(reader, act_take, read, RLOCK_FOREVER, NULL);
    await_waiting(a, 1);
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_false(fixture_has_key(f, ASKS));
    assert_true(actor_is_busy(reader));
    assert_code(actor_do(writer, act_unlock, write, 0, NULL), 0);
    assert_code(actor_end(reader), 0);
    assert_code(actor_do(reader, act_unlock, read, 0, NULL), 0);
    assert_null(rlock_free(write));
}

ROOM_TEST(what_a_writer_asked_for_ends_with_its_wait, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_handle *read = lock_new(f, client_open(f));
    struct rlock_handle *write = writer_with(f, client_open(f), NAME, opts);
    struct actor *writer = actor_open(f);

    assert_code(rlock_lock(read), 0);
    actor_begin(writer, act_take, write, test_ms(300), NULL);
    assert_true(TEST_EVENTUALLY(fixture_has_key(f, ASKS), 5000));
    assert_code(actor_end(writer), RLOCK_ETIMEDOUT);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, ASKS), LATE_MS));
    assert_code(rlock_unlock(read), 0);
    assert_null(rlock_free(write));
}

ROOM_TEST(what_a_killed_writer_asked_for_ends, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_with(f, client, NAME, opts);
    struct actor *reader = actor_open(f);
    int64_t since_us;

    test_server_do(f->server, "SET " ASKS " killed:1:write PX 5000");
    assert_code(rlock_lock_for(read, 300, NULL, NULL), RLOCK_ETIMEDOUT); /* free, but asked for */
    actor_begin(reader, act_visit, read, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    since_us = test_now_us();
    test_server_do(f->server, "DEL " ASKS); /* as if its 5 s were over */
    assert_code(actor_end(reader), 0);
    assert_took(actor_ended_us(reader) - since_us, 0, 1000 + LATE_MS);
}

ROOM_TEST(a_long_wait_keeps_asking, f)
{
    const struct rlock_opts *opts = RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    struct rlock_handle *read = lock_with(f, client_open(f), NAME, opts);
    struct rlock_handle *write = writer_with(f, client_open(f), NAME, opts);
    struct actor *writer = actor_open(f);

    assert_code(rlock_lock(read), 0);
    actor_begin(writer, act_visit, write, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(fixture_has_key(f, ASKS), 5000));
    assert_true(STAYS(test_server_int(f->server, "PTTL " ASKS) > 1000, 6000));
    assert_code(rlock_unlock(read), 0);
    assert_code(actor_end(writer), 0);
    assert_null(rlock_free(write));
}
