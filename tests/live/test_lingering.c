/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that linger: after the last unlock the client keeps the lock for its next call. */
#include "support/clients.h"
#include "support/counts.h"
#include "support/raw.h"

#include <unistd.h>

enum { LINGER_MS = 10, PAIRS = 3000, TRIES = 50 };

static struct rlock_handle *lingering_lock(struct fixture *f, struct rlock_client *client,
                                           const char *name)
{
    return lock_with(f, client, name, RLOCK_OPTS(.linger_ms = LINGER_MS));
}

static void pass_through(struct rlock_handle *lock)
{
    assert_code(rlock_lock(lock), 0);
    assert_true(rlock_is_valid(lock));
    assert_code(rlock_unlock(lock), 0);
    assert_false(rlock_is_valid(lock));
    assert_int_equal(rlock_hold_count(lock), 0);
}

/* Whether an unlock just now has left the lock on the server, and the next call finds it there. A
 * release that is on its way leaves it there too, for a moment. */
static bool lingers(struct fixture *f, struct rlock_handle *lock, const char *name)
{
    long long scripts;

    pass_through(lock);
    if (!fixture_has_key(f, name)) {
        return false;
    }
    scripts = fixture_calls(f, "evalsha");
    pass_through(lock);
    return fixture_calls(f, "evalsha") == scripts && fixture_has_key(f, name);
}

/* The first unlock subscribes to the client's own channel, and holds linger from then on. */
static void await_lingering(struct fixture *f, struct rlock_handle *lock, const char *name)
{
    assert_true(TEST_EVENTUALLY(lingers(f, lock, name), 5000));
}

LOCK_TEST(a_hold_that_lingers_is_taken_again_without_the_server, f)
{
    struct rlock_handle *lock = lingering_lock(f, client_open(f), NAME);
    int64_t began_us, ms;

    await_lingering(f, lock, NAME);
    fixture_count_calls(f);
    began_us = test_now_us();
    for (int i = 0; i < PAIRS; i++) {
        pass_through(lock);
    }
    ms = (test_now_us() - began_us) / 1000;
    /* the server is asked, and the lock given back, once in 10 ms */
    assert_in_range(fixture_calls(f, "evalsha"), 0, 2 * (ms / (LINGER_MS - 1) + 2));
    print_message("%d pairs in %lld ms\n", PAIRS, (long long)ms);
}

LOCK_TEST(a_hold_that_lingers_is_over_for_its_owner, f)
{
    struct rlock_handle *lock = lingering_lock(f, client_open(f), NAME);

    await_lingering(f, lock, NAME);
    assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
    assert_code(rlock_extend(lock, 0, 0, NULL), RLOCK_ENOTOWNER);
}

LOCK_TEST(a_lock_is_free_soon_after_its_last_unlock, f)
{
    struct rlock_handle *lock = lingering_lock(f, client_open(f), NAME);

    await_lingering(f, lock, NAME);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, NAME), 1000));
}

static int64_t wait_behind(struct fixture *f, struct rlock_client *owner,
                           struct rlock_client *other, const char *name)
{
    struct rlock_handle *lock = lingering_lock(f, owner, name);
    struct rlock_handle *rival = lock_named(f, other, name);
    int64_t began_us, us;

    await_lingering(f, lock, name);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, name), 5000));
    pass_through(lock); /* a new grant, which lingers for the whole time */
    began_us = test_now_us();
    assert_code(rlock_lock(rival), 0);
    us = test_now_us() - began_us;
    assert_code(rlock_unlock(rival), 0);
    return us;
}

/* The first call in the lock's queue makes the server tell the client that keeps the lock. */
LOCK_TEST(a_client_that_waits_gets_the_lock_at_once, f)
{
    struct rlock_client *owner = client_open(f), *other = client_open(f);
    int64_t least_us = INT64_MAX;

    (void)wait_behind(f, owner, other, "warm"); /* connections are made */
    for (int i = 0; i < TRIES && least_us > LINGER_MS * 1000 / 2; i++) {
        char name[16];
        int64_t us;

        test_text(name, sizeof(name), "n%d", i); /* a client lingers on a name that nobody wanted */
        us = wait_behind(f, owner, other, name);
        least_us = us < least_us ? us : least_us;
    }
    assert_in_range(least_us, 0, LINGER_MS * 1000 / 2); /* otherwise it is what is left of 10 ms */
}

/* For a second after another client waited each unlock releases the lock. */
LOCK_TEST(after_others_waited_no_hold_lingers_for_a_while, f)
{
    struct rlock_client *owner = client_open(f);
    struct rlock_handle *lock = lingering_lock(f, owner, NAME);
    struct rlock_handle *rival = lock_new(f, client_open(f));
    struct actor *waiter = actor_open(f);
    int64_t since_us;

    await_lingering(f, lock, NAME);
    assert_code(rlock_lock(lock), 0);
    actor_begin(waiter, act_pass_through, rival, RLOCK_FOREVER, NULL);
    assert_true(TEST_EVENTUALLY(fixture_has_key(f, "rlock_wait:{" NAME "}"), 5000));
    since_us = test_now_us();
    assert_code(rlock_unlock(lock), 0);
    assert_code(actor_end(waiter), 0);
    await_lingering(f, lock, NAME);
    assert_true(test_now_us() - since_us > 900000);
}

#define CHANNEL "redisson_lock__channel:{" NAME "}"
#define BULK_CHANNEL "$29\r\n" CHANNEL "\r\n"

/* The same if another library heard the release, which comes in 10 ms. */
LOCK_TEST(after_another_library_heard_a_release_no_hold_lingers_for_a_while, f)
{
    struct rlock_handle *lock = lingering_lock(f, client_open(f), NAME);
    int fd = raw_dial(test_server_unix_url(f->server));
    int64_t since_us;

    await_lingering(f, lock, NAME);
    assert_true(TEST_EVENTUALLY(!fixture_has_key(f, NAME), 1000));
    raw_say(fd, "SUBSCRIBE " CHANNEL "\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n" BULK_CHANNEL ":1\r\n"));
    pass_through(lock);
    since_us = test_now_us();
    assert_true(raw_hears(fd, "*3\r\n$7\r\nmessage\r\n" BULK_CHANNEL "$1\r\n0\r\n"));
    assert_in_time(since_us, 5 * LINGER_MS * 1000LL);
    (void)close(fd);
    assert_false(lingers(f, lock, NAME));
    await_lingering(f, lock, NAME);
    assert_true(test_now_us() - since_us > 900000);
}

/* A call that wants another lease, or the lock in a group, gets it behind the release. */
LOCK_TEST(a_call_that_cannot_take_the_hold_over_gets_the_lock_behind_its_release, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lingering_lock(f, client, NAME), *group = NULL;
    int64_t since_us;

    await_lingering(f, lock, NAME);
    since_us = test_now_us();
    assert_code(TAKE(lock, 0, .lease_ms = 5000), 0);
    assert_in_range(rlock_valid_ms(lock), 1, 5000);
    assert_code(rlock_unlock(lock), 0);
    assert_false(fixture_has_key(f, NAME));
    await_lingering(f, lock, NAME);
    assert_code(rlock_multi_new(&lock, 1, NULL, &group), 0);
    assert_code(rlock_lock(group), 0);
    assert_code(rlock_unlock(group), 0);
    assert_in_time(since_us, 5000000);
    group = rlock_free(group);
}

LOCK_TEST(an_inspection_ends_what_lingers, f)
{
    struct rlock_handle *lock = lingering_lock(f, client_open(f), NAME);

    await_lingering(f, lock, NAME);
    pass_through(lock);
    assert_false(is_locked(lock));
}

LOCK_TEST(closing_gives_back_what_lingers, f)
{
    struct rlock_client *client = client_open(f);

    await_lingering(f, lingering_lock(f, client, NAME), NAME);
    client_close(f, client);
    assert_false(fixture_has_key(f, NAME));
}
