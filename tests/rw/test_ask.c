/* SPDX-License-Identifier: Apache-2.0 */
/* Asking who holds, and opening by force; what somebody else left under the name. */
#include <rlock/admin.h>
#include <stdatomic.h>
#include <unistd.h>

#include "rw/peer.h"
#include "rw/room.h"

static struct rlock_info ask(struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(lock, &info), 0);
    return info;
}

/* Both sides' answers: whether locked, and by how many. */
static void assert_sides(struct rlock_handle *read, struct rlock_handle *write, const char *mode,
                         unsigned int readers, unsigned int writers)
{
    struct rlock_info reading = ask(read), writing = ask(write);

    assert_string_equal(reading.mode, mode);
    assert_string_equal(writing.mode, mode);
    assert_int_equal(reading.locked, readers != 0);
    assert_int_equal(writing.locked, writers != 0);
    assert_int_equal(reading.holders, readers);
    assert_int_equal(writing.holders, writers);
}

ROOM_TEST(each_side_is_locked_for_itself, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *read = lock_new(f, a), *write = rival_new(f, a), *other = lock_new(f, b);

    assert_sides(read, write, "", 0, 0);
    assert_code(rlock_lock(read), 0);
    assert_code(rlock_lock(other), 0);
    assert_code(rlock_lock(other), 0);
    assert_sides(read, write, "read", 2, 0);
    assert_true(ask(read).mine);
    assert_int_equal(ask(read).count, 1);
    assert_code(rlock_unlock(read), 0);
    assert_false(ask(read).mine);
    assert_int_equal(ask(read).count, 2);
    assert_string_equal(ask(read).holder, room_owner(b, 1));
    assert_code(rlock_unlock(other), 0);
    assert_code(rlock_unlock(other), 0);
    assert_code(rlock_lock(write), 0);
    assert_sides(read, write, "write", 0, 1);
    assert_string_equal(ask(write).holder, room_owner(a, 2));
    assert_true(ask(write).mine);
    assert_code(rlock_lock(read), 0); /* Redisson: reads under a write count */
    assert_sides(read, write, "write", 1, 1);
    assert_code(rlock_unlock(write), 0);
    assert_sides(read, write, "read", 1, 0);
    assert_code(rlock_unlock(read), 0);
    assert_sides(read, write, "", 0, 0);
}

ROOM_TEST(a_dead_reader_holds_nothing, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);

    test_server_do(f->server, "HSET " NAME " mode read J:1 2");
    test_server_do(f->server, "PEXPIRE " NAME " 30000");
    assert_sides(read, write, "read", 0, 0);
    assert_code(rlock_try_lock(write), 0);
    assert_hash(f, "mode write %s:write 1", room_owner(client, 1));
    assert_code(rlock_unlock(write), 0);
}

/* ---- By force ---- */

ROOM_TEST(force_on_the_other_side_does_nothing, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    bool was_locked = true;

    assert_code(rlock_lock(read), 0);
    assert_code(rlock_force_unlock(write, &was_locked), 0);
    assert_false(was_locked);
    assert_true(rlock_is_valid(read));
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_lock(write), 0);
    was_locked = true;
    assert_code(rlock_force_unlock(read, &was_locked), 0);
    assert_false(was_locked);
    assert_true(rlock_is_valid(write));
    assert_code(rlock_unlock(write), 0);
}

ROOM_TEST(force_ends_every_reader_and_tells_those_of_this_process, f)
{
    struct rlock_client *a = client_open(f), *b = client_open_renewing(f, test_ms(300));
    struct rlock_handle *read = lock_new(f, a), *other = lock_new(f, b);
    int fd = room_listen(f);
    bool was_locked = false;

    assert_code(TAKE(read, 0, .owner = 1), 0);
    assert_code(TAKE(read, 0, .owner = 2), 0);
    assert_code(TAKE(read, 0, .owner = 2), 0);
    assert_code(rlock_lock(other), 0);
    assert_code(rlock_force_unlock(read, &was_locked), 0);
    assert_true(was_locked);
    room_hears(fd, "0");
    assert_int_equal(room_levels(f), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_false(rlock_is_valid_as(read, 1) || rlock_is_valid_as(read, 2));
    (void)expect_loss(f, RLOCK_LOST_DELETED); /* the other finds out at its renewal */
    assert_code(rlock_unlock_as(read, 1), RLOCK_ELOST);
    assert_code(rlock_unlock_as(read, 2), RLOCK_ELOST);
    assert_code(rlock_unlock_as(read, 2), RLOCK_ELOST);
    assert_code(rlock_unlock(other), RLOCK_ELOST);
    (void)close(fd);
}

ROOM_TEST(force_of_a_writer_ends_its_reads_and_wakes_who_waits, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *read = lock_new(f, a), *write = rival_new(f, a), *other = lock_new(f, b);
    struct actor *waiter = actor_open(f);
    int64_t opened_us;

    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    actor_begin(waiter, act_visit, other, RLOCK_FOREVER, NULL);
    await_waiting(b, 1);
    opened_us = test_now_us();
    assert_code(rlock_force_unlock(write, NULL), 0);
    assert_code(actor_end(waiter), 0);
    assert_took(actor_ended_us(waiter) - opened_us, 0, LATE_MS);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(write), RLOCK_ELOST);
    assert_code(rlock_unlock(read), RLOCK_ELOST);
}

ROOM_TEST(force_of_reads_under_a_write_leaves_the_writer, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);
    bool was_locked = false;

    assert_code(rlock_lock(write), 0);
    assert_code(rlock_lock(read), 0);
    assert_code(rlock_force_unlock(read, &was_locked), 0);
    assert_true(was_locked);
    assert_hash(f, "mode write %s:write 1", room_owner(client, 1));
    assert_int_equal(room_levels(f), 0);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_true(rlock_is_valid(write));
    assert_code(rlock_unlock(read), RLOCK_ELOST);
    assert_code(rlock_unlock(write), 0);
}

static struct fixture *the_fixture;
static _Atomic bool enough;

/* Peers read in turns, each handing over to the next: never free, never the same ones. */
static int act_take_turns(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    char names[2][16] = {"J:0", "J:0"};

    (void)lock;
    (void)wait_ms;
    (void)take;
    for (int i = 1; !atomic_load(&enough); i++) {
        test_text(names[i % 2], sizeof(names[0]), "J:%d", i);
        free(peer_run(the_fixture, peer_read, names[i % 2], 5000));
        free(peer_run(the_fixture, peer_read_release, names[(i + 1) % 2], 5000));
    }
    return 0;
}

ROOM_TEST(force_opens_only_for_those_who_were_seen, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct actor *peers = actor_open(f);
    int code;

    the_fixture = f;
    atomic_store(&enough, false);
    assert_false(is_locked(lock)); /* connected */
    actor_begin(peers, act_take_turns, lock, 0, NULL);
    do {
        code = rlock_force_unlock(lock, NULL);
    } while (code == 0);
    assert_code(code, RLOCK_EBUSY);
    atomic_store(&enough, true);
    assert_code(actor_end(peers), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0); /* now it stands still */
    test_server_do(f->server, "FLUSHDB");           /* levels of peers who were stopped midway */
}

/* ---- What others left there ---- */

static void by_hand(struct fixture *f, const char *fields, long long ttl_ms)
{
    test_server_do(f->server, "DEL " NAME);
    test_server_do(f->server, "HSET " NAME " %s", fields);
    if (ttl_ms > 0) {
        test_server_do(f->server, "PEXPIRE " NAME " %lld", ttl_ms);
    }
}

/* What is no reader or writer that we know stands for as long as the key does. */
ROOM_TEST(odd_hashes_are_somebody_elses, f)
{
    static const char *const odd[] = {
        "uuid:1 1",                   /* a lock without sides */
        "mode write",                 /* a writer that nobody is */
        "mode write x 1",             /* the same */
        "mode read x y",              /* a count that is none */
        "mode read x 999999999999",   /* a count that would take for ever to look at */
        "mode read x:write 1",        /* a writer in the wrong mode */
        "mode read x -1 y 1.5 z 1e9", /* numbers, but not counts */
    };
    struct rlock_client *client = client_open(f);
    struct rlock_handle *write = rival_new(f, client);

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        const int64_t since_us = test_now_us();

        by_hand(f, odd[i], 40);
        assert_code(rlock_try_lock(write), RLOCK_EBUSY);
        assert_took(test_elapsed_us(since_us), 0, 40);
        assert_code(rlock_lock_for(write, 5000, NULL, NULL), 0);
        assert_took(test_elapsed_us(since_us), 39, 40 + LATE_MS);
        assert_code(rlock_unlock(write), 0);
    }
    for (size_t i = 0; i < 3; i++) { /* where a writer may have been it can be opened */
        bool was_locked = false;

        by_hand(f, odd[i], 0);
        assert_true(is_locked(write));
        assert_code(rlock_force_unlock(write, &was_locked), 0);
        assert_true(was_locked);
        assert_int_equal(fixture_keys(f), 0);
    }
}

ROOM_TEST(a_lock_without_sides_and_one_with_them_exclude_each_other, f)
{
    struct rlock_client *a = client_open(f), *b = client_open(f);
    struct rlock_handle *sides[2] = {lock_new(f, a), rival_new(f, a)}, *plain = NULL;

    assert_code(rlock_reentrant_new(b, NAME, NULL, &plain), 0);
    for (int i = 0; i < 2; i++) {
        assert_code(rlock_lock(plain), 0);
        assert_code(rlock_try_lock(sides[i]), RLOCK_EBUSY);
        assert_code(rlock_unlock(plain), 0);
        assert_code(rlock_lock(sides[i]), 0);
        assert_code(rlock_try_lock(plain), RLOCK_EBUSY);
        assert_code(rlock_unlock(sides[i]), 0);
    }
    assert_null(rlock_free(plain));
}

ROOM_TEST(a_key_of_another_type_is_refused_and_kept, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = rival_new(f, client);

    test_server_do(f->server, "SET " NAME " text");
    assert_code(rlock_try_lock(read), RLOCK_EWRONGTYPE);
    assert_code(rlock_try_lock(write), RLOCK_EWRONGTYPE);
    assert_code(rlock_force_unlock(read, NULL), RLOCK_EWRONGTYPE);
    assert_true(test_server_says(f->server, "text", "GET " NAME));
    test_server_do(f->server, "DEL " NAME);
}

/* One key that is ruined costs one hold, not those that are renewed with it. */
ROOM_TEST(a_ruined_key_is_one_loss, f)
{
    struct rlock_client *client = client_open_renewing(f, 300);
    struct rlock_handle *good = lock_new(f, client), *bad = lock_named(f, client, "bad");

    assert_code(rlock_lock(good), 0);
    assert_code(rlock_lock(bad), 0);
    test_server_do(f->server, "SET bad text");
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    (void)STAYS(true, 500);
    assert_true(rlock_is_valid(good));
    assert_code(rlock_unlock(good), 0);
    assert_code(rlock_unlock(bad), RLOCK_ELOST);
    test_server_do(f->server, "DEL bad");
    test_server_do(f->server, "DEL {bad}:%s:rwlock_timeout:1", room_owner(client, 2));
}

struct found {
    struct fixture *f;
    int n;
    char modes[2][8];
};

static int note_found(const struct rlock_found *lock, void *payload)
{
    struct found *found = payload;

    assert_true(lock->key_len == strlen(NAME) || strncmp(lock->key, "other", 5) == 0);
    assert_int_equal(lock->info->holders, 1);
    test_text(found->modes[found->n++], sizeof(found->modes[0]), "%s", lock->info->mode);
    return 0;
}

ROOM_TEST(a_scan_finds_both_sides, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *read = lock_new(f, client), *write = NULL;
    struct found found = {.f = f};

    assert_code(rlock_write_new(client, "other", NULL, &write), 0);
    assert_code(rlock_lock(read), 0);
    assert_code(rlock_lock(write), 0);
    assert_code(rlock_admin_scan(client, NULL, note_found, &found), 0);
    assert_int_equal(found.n, 2);
    assert_string_not_equal(found.modes[0], found.modes[1]);
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_unlock(write), 0);
    assert_null(rlock_free(write));
}
