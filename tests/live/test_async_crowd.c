/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ten thousand async calls of one thread that wait for one name, each of an owner of its own. The
 * one thread in which completions run shows that nobody is beside another.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "support/clients.h"
#include "support/completion.h"

enum { FIRST = 1000 };

struct one {
    struct crowd *crowd;
    uint64_t owner;
};

struct crowd {
    struct rlock_handle *lock;
    struct one *all;
    size_t n;        /* ten thousand; fewer in a build that is slow */
    uint64_t holder; /* whose the lock is now; 0 nobody's */
    atomic_uint granted;
    unsigned left;
    bool in_order; /* they had it in the order in which they asked */
    struct completion end;
};

static void on_left(struct rlock_op *op, void *payload)
{
    struct crowd *crowd = payload;

    TEST_CHECK(rlock_op_code(op) == 0);
    if (++crowd->left == crowd->n) {
        completion_tell(op, &crowd->end);
    }
}

static void on_taken(struct rlock_op *op, void *payload)
{
    struct one *one = payload;
    struct crowd *crowd = one->crowd;

    TEST_CHECK(rlock_op_code(op) == 0 && crowd->holder == 0);
    crowd->holder = one->owner;
    TEST_CHECK(rlock_is_valid_as(crowd->lock, one->owner));
    crowd->in_order = crowd->in_order && one == &crowd->all[crowd->granted];
    crowd->granted++;
    crowd->holder = 0;
    TEST_CHECK(rlock_unlock_async(crowd->lock, one->owner, on_left, crowd, NULL) == 0);
}

static const struct kind reentrant = {.name = "reentrant", .make = rlock_reentrant_new},
                         fair = {.name = "fair", .make = rlock_fair_new};

/* Somebody has the lock, and all begin to wait for it. What ten thousand send at once keeps a
 * server that has a third of a processor busy for seconds, and a call waits behind it. */
static void gather(struct fixture *f, struct crowd *crowd, uint64_t flags)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.flags = flags, .op_timeout_ms = 20000));
    size_t n = test_slack() > 1 ? 2000 : 10000;

    *crowd = (struct crowd){.lock = lock_new(f, client),
                            .all = calloc(n, sizeof(*crowd->all)),
                            .n = n,
                            .in_order = true,
                            .end = COMPLETION};
    assert_code(rlock_lock_for(crowd->lock, 0, RLOCK_TAKE(.owner = FIRST), NULL), 0);
    fixture_count_calls(f);
    for (size_t i = 0; i < n; i++) {
        crowd->all[i] = (struct one){crowd, FIRST + 1 + i};
        assert_code(rlock_lock_async(crowd->lock, RLOCK_FOREVER,
                                     RLOCK_TAKE(.owner = crowd->all[i].owner), on_taken,
                                     &crowd->all[i], NULL),
                    0);
    }
}

/* All have had it, one after the other. On a busy machine that takes a minute, but not one of them
 * takes long. */
static void release(struct crowd *crowd)
{
    unsigned before;

    assert_code(rlock_unlock_as(crowd->lock, FIRST), 0);
    do {
        before = atomic_load(&crowd->granted);
    } while (!TEST_EVENTUALLY(completion_is_there(&crowd->end), 10000) &&
             atomic_load(&crowd->granted) > before);
    if (!completion_is_there(&crowd->end)) {
        test_die("the lock stands still: %u of %zu had it, %u gave it back",
                 atomic_load(&crowd->granted), crowd->n, crowd->left);
    }
    assert_code(completion_await(&crowd->end), 0);
    assert_int_equal(crowd->granted, crowd->n);
    free(crowd->all);
}

/* Each grant is a script, and each release. A release's message may come so late that it wakes the
 * one behind who has had it, which asks in vain. */
FIXTURE_WITH_TEST(of_ten_thousand_that_wait_one_asks_the_server_for_each_grant, f,
                  .kind = &reentrant)
{
    struct crowd crowd;

    gather(f, &crowd, RLOCK_CLIENT_NO_PASS);
    release(&crowd);
    assert_true(crowd.in_order);
    assert_in_range(fixture_calls(f, "evalsha"), 2 * crowd.n, 2 * crowd.n + crowd.n / 5);
}

FIXTURE_WITH_TEST(ten_thousand_that_wait_pass_the_hold_on, f, .kind = &reentrant)
{
    struct crowd crowd;

    gather(f, &crowd, 0);
    release(&crowd);
    assert_true(crowd.in_order);
    assert_in_range(fixture_calls(f, "evalsha"), 1, crowd.n);
}

/* Their order is that in which the server saw them. */
FIXTURE_WITH_TEST(ten_thousand_that_wait_have_ten_thousand_places_in_a_fair_queue, f, .kind = &fair)
{
    struct crowd crowd;

    gather(f, &crowd, 0);
    assert_true(TEST_EVENTUALLY(test_server_int(f->server, "LLEN redisson_lock_queue:{" NAME "}") ==
                                    (long long)crowd.n,
                                30000));
    release(&crowd);
}
