/* SPDX-License-Identifier: Apache-2.0 */
/* What the lock is in Redis, field by field and message by message, as Redisson has it. */
#include <unistd.h>

#include "rw/peer.h"
#include "rw/room.h"

/* Two clients, and each one's sides. */
struct pair {
    struct rlock_client *a, *b;
    struct rlock_handle *read_a, *write_a, *read_b, *write_b;
};

static struct pair meet(struct fixture *f)
{
    struct pair pair = {.a = client_open(f), .b = client_open(f)};

    pair.read_a = lock_new(f, pair.a);
    pair.write_a = rival_new(f, pair.a);
    pair.read_b = lock_new(f, pair.b);
    pair.write_b = rival_new(f, pair.b);
    return pair;
}

/* Traces 12 and 13. */
ROOM_TEST(readers_are_fields_and_each_level_is_a_key, f)
{
    struct pair p = meet(f);
    const char *a = room_owner(p.a, 1), *b = room_owner(p.b, 1);
    int fd = room_listen(f);

    assert_code(rlock_lock(p.read_a), 0);
    assert_hash(f, "mode read %s 1", a);
    assert_code(TAKE(p.read_a, 0, .lease_ms = 60000), 0);
    assert_code(rlock_lock(p.read_b), 0);
    assert_hash(f, "mode read %s 2 %s 1", a, b);
    assert_lease(room_ttl(f), 60000);
    assert_lease(room_level(f, a, 1), 60000); /* Redisson has 30000: ours never less than asked */
    assert_lease(room_level(f, a, 2), 60000);
    assert_lease(room_level(f, b, 1), 30000);
    assert_int_equal(room_levels(f), 3);
    assert_true(test_server_says(f->server, "1", "GET {" NAME "}:%s:rwlock_timeout:2", a));

    assert_code(rlock_unlock(p.read_a), 0);
    assert_hash(f, "mode read %s 1 %s 1", a, b);
    assert_int_equal(room_level(f, a, 2), -2);
    assert_lease(room_level(f, a, 1), 60000); /* what the deleted level had */
    assert_code(rlock_unlock(p.read_a), 0);
    assert_hash(f, "mode read %s 1", b);
    assert_lease(room_ttl(f), 30000); /* no longer than the last of those who stay */
    assert_int_equal(room_levels(f), 1);
    room_hears_nothing(fd);
    assert_code(rlock_unlock(p.read_b), 0);
    assert_hash(f, "%s", "");
    assert_int_equal(room_levels(f), 0);
    room_hears(fd, "0");
    (void)close(fd);
}

/* Traces 15 and 16. */
ROOM_TEST(a_writer_may_read_and_go_on_reading, f)
{
    struct pair p = meet(f);
    const char *writer = room_owner(p.a, 1), *reader = room_owner(p.a, 2);
    int fd = room_listen(f);

    assert_code(rlock_lock(p.write_a), 0);
    assert_hash(f, "mode write %s:write 1", writer);
    assert_code(rlock_lock(p.write_a), 0);
    assert_lease(room_ttl(f), 30000); /* Redisson adds */
    assert_code(TAKE(p.read_a, 0, .lease_ms = 5000), 0);
    assert_hash(f, "mode write %s:write 2 %s 1", writer, reader);
    assert_code(rlock_try_lock(p.read_b), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), writer));
    assert_code(rlock_unlock(p.write_a), 0);
    room_hears_nothing(fd);
    assert_code(rlock_unlock(p.write_a), 0);
    assert_hash(f, "mode read %s 1", reader);
    room_hears(fd, "1"); /* Redisson is silent, and those who wait sleep on */
    assert_lease(room_level(f, reader, 1), 30000); /* what the hash had is the reader's now */
    assert_lease(room_ttl(f), 30000);
    assert_code(rlock_try_lock(p.read_b), 0);
    assert_code(rlock_unlock(p.read_b), 0);
    assert_code(rlock_unlock(p.read_a), 0);
    room_hears(fd, "0");
    assert_hash(f, "%s", "");
    (void)close(fd);
}

ROOM_TEST(a_read_release_under_a_write_leaves_it_a_write, f)
{
    struct pair p = meet(f);
    int fd = room_listen(f);

    assert_code(rlock_lock(p.write_a), 0);
    assert_code(rlock_lock(p.read_a), 0);
    assert_code(rlock_unlock(p.read_a), 0);
    assert_hash(f, "mode write %s:write 1", room_owner(p.a, 1));
    assert_int_equal(room_levels(f), 0);
    room_hears_nothing(fd);
    assert_code(rlock_unlock(p.write_a), 0);
    room_hears(fd, "1");
    assert_hash(f, "%s", "");
    (void)close(fd);
}

ROOM_TEST(nested_leases_keep_the_longest_and_survive_a_partial_unlock, f)
{
    struct pair p = meet(f);
    const char *a = room_owner(p.a, 1);

    assert_code(TAKE(p.read_a, 0, .lease_ms = 10000), 0);
    assert_code(TAKE(p.read_a, 0, .lease_ms = 40000), 0);
    assert_code(TAKE(p.read_a, 0, .lease_ms = 2000), 0);
    assert_hash(f, "mode read %s 3", a);
    assert_lease(room_ttl(f), 40000);
    assert_code(rlock_unlock(p.read_a), 0); /* the short one */
    assert_lease(room_level(f, a, 2), 40000);
    assert_code(rlock_unlock(p.read_a), 0);
    assert_lease(room_level(f, a, 1), 40000); /* it was promised to this hold */
    assert_true(rlock_valid_ms(p.read_a) > 30000);
    assert_lease(room_ttl(f), 40000);
    assert_int_equal(room_levels(f), 1);
    assert_code(rlock_unlock(p.read_a), 0);
    assert_int_equal(room_levels(f), 0);

    assert_code(TAKE(p.write_a, 0, .lease_ms = 40000), 0);
    assert_code(TAKE(p.write_a, 0, .lease_ms = 2000), 0);
    assert_lease(room_ttl(f), 40000);
    assert_code(rlock_unlock(p.write_a), 0);
    assert_lease(room_ttl(f), 40000);
    assert_code(rlock_unlock(p.write_a), 0);
}

/* Trace 22. */
ROOM_TEST(a_renewal_extends_every_level_of_its_own_and_nobody_elses, f)
{
    struct rlock_client *client = client_open_renewing(f, 600);
    struct rlock_handle *lock = lock_new(f, client);
    const char *mine = room_owner(client, 1);

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_lock(lock), 0);
    peer_says(f, "", peer_read, "J:1", 20000);
    test_server_do(f->server, "PEXPIRE " NAME " 21000");
    for (int i = 1; i <= 2; i++) {
        assert_true(TEST_EVENTUALLY(room_level(f, mine, i) < 450, 5000));
        assert_true(TEST_EVENTUALLY(room_level(f, mine, i) > 500, 5000));
    }
    assert_true(room_level(f, "J:1", 1) < 20000);
    assert_true(room_ttl(f) > 19000);
    /* a level that somebody deleted is there again with the next renewal */
    test_server_do(f->server, "DEL {" NAME "}:%s:rwlock_timeout:1", mine);
    assert_true(TEST_EVENTUALLY(room_level(f, mine, 1) > 500, 5000));
    peer_says(f, "0", peer_read_release, "J:1", 0);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(lock), 0);
}

ROOM_TEST(a_hundred_reads_are_renewed_together, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(3000));
    enum { N = 120 };
    struct rlock_handle *locks[N];
    char name[32];
    int64_t since_us;
    long long calls;

    for (int i = 0; i < N; i++) {
        test_text(name, sizeof(name), "lock-%d", i);
        locks[i] = lock_named(f, client, name);
        assert_code(rlock_lock(locks[i]), 0);
    }
    fixture_count_calls(f);
    since_us = test_now_us();
    (void)STAYS(true, test_ms(2200));
    calls = fixture_calls(f, "evalsha") + fixture_calls(f, "eval");
    assert_true(calls >= 4);
    assert_true(calls <= 100 || /* of 240 renewals */
                test_missed(since_us, test_elapsed_us(since_us) / 10));
    for (int i = 0; i < N; i++) {
        assert_true(rlock_is_valid(locks[i]));
        assert_code(rlock_unlock(locks[i]), 0);
    }
}

/* By hand, or because the server's memory was short: the field alone is no hold. */
ROOM_TEST(a_reader_without_any_level_is_lost, f)
{
    struct rlock_client *client = client_open_renewing(f, 300);
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    peer_says(f, "", peer_read, "J:1", 20000); /* keeps the hash */
    test_server_do(f->server, "DEL {" NAME "}:%s:rwlock_timeout:1", room_owner(client, 1));
    (void)expect_loss(f, RLOCK_LOST_DELETED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    peer_says(f, "1", peer_read_release, "J:1", 0); /* with nobody left alive */
    assert_hash(f, "%s", "");
}

ROOM_TEST(a_taken_lock_is_lost_to_its_readers, f)
{
    struct rlock_client *client = client_open_renewing(f, 300);
    struct rlock_handle *lock = lock_new(f, client);

    assert_code(rlock_lock(lock), 0);
    test_server_do(f->server, "DEL " NAME);
    peer_says(f, "", peer_write, "J:1", 20000);
    (void)expect_loss(f, RLOCK_LOST_TAKEN);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_hash(f, "mode write J:1:write 1");
    peer_says(f, "1", peer_write_release, "J:1", 0);
    test_server_do(f->server, "DEL {" NAME "}:%s:rwlock_timeout:1", room_owner(client, 1));
}

ROOM_TEST(a_name_with_braces_is_its_own_tag, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_named(f, client, "a:{b}:c");
    char key[128];

    assert_code(rlock_lock(lock), 0);
    test_text(key, sizeof(key), "a:{b}:c:%s:rwlock_timeout:1", room_owner(client, 1));
    assert_true(fixture_has_key(f, key));
    assert_int_equal(fixture_keys(f), 2);
    assert_code(rlock_unlock(lock), 0);
}

/* ---- A server that refuses ---- */

ROOM_TEST(a_full_server_lets_go_nests_and_renews, f)
{
    struct rlock_client *client = client_open_renewing(f, test_ms(300));
    struct rlock_handle *read = lock_new(f, client), *write = lock_named(f, client, "other");
    struct rlock_handle *other = NULL;

    assert_code(rlock_write_new(client, "other", NULL, &other), 0);
    assert_code(rlock_lock(read), 0);
    assert_code(rlock_lock(other), 0);
    assert_code(rlock_lock(write), 0); /* its read side, to stay */
    assert_true(test_server_says(f->server, "OK", "CONFIG SET maxmemory 1"));
    assert_code(rlock_try_lock(read), 0);
    assert_code(rlock_try_lock(other), 0);
    (void)STAYS(true, test_ms(700));
    assert_true(rlock_is_valid(read) && rlock_is_valid(other) && rlock_is_valid(write));
    assert_code(TAKE(lock_named(f, client, "third"), 0, .lease_ms = 1000), RLOCK_EREFUSED);
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_unlock(read), 0);
    assert_code(rlock_unlock(other), 0);
    assert_code(rlock_unlock(other), 0); /* to a readers' lock */
    assert_code(rlock_unlock(write), 0);
    assert_true(test_server_says(f->server, "OK", "CONFIG SET maxmemory 0"));
    assert_null(rlock_free(other));
}

static void forbid(struct fixture *f, const char *rule)
{
    assert_true(test_server_says(f->server, "OK", "ACL SETUSER default %s", rule));
}

/* A lock without an end would be worse than none. */
ROOM_TEST(where_leases_are_forbidden_nothing_is_left, f)
{
    struct pair p = meet(f);

    forbid(f, "-pexpire");
    assert_code(rlock_try_lock(p.read_a), RLOCK_EPERM);
    assert_code(rlock_try_lock(p.write_a), RLOCK_EPERM);
    assert_int_equal(fixture_keys(f), 0);
    forbid(f, "+pexpire");
    forbid(f, "-set");
    assert_code(rlock_try_lock(p.read_a), RLOCK_EPERM);
    assert_int_equal(fixture_keys(f), 0);
    assert_code(rlock_try_lock(p.write_a), 0); /* needs none */
    assert_code(rlock_unlock(p.write_a), 0);
    forbid(f, "+set");
}

ROOM_TEST(a_release_that_may_not_be_announced_is_a_release, f)
{
    struct pair p = meet(f);

    forbid(f, "resetchannels");
    assert_code(rlock_lock(p.read_a), 0);
    assert_code(rlock_unlock(p.read_a), 0);
    assert_code(rlock_lock(p.write_a), 0);
    assert_code(rlock_lock(p.read_a), 0);
    assert_code(rlock_unlock(p.write_a), 0);
    assert_code(rlock_unlock(p.read_a), 0);
    assert_int_equal(fixture_keys(f), 0);
    forbid(f, "allchannels");
}
