/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random async operations, canceled at random, on clients that close in the middle: each that began
 * completes once, nobody is beside another, and nothing is left on the servers.
 *
 * Each round opens a client with threads and one that a loop runs, with many owners on each. An
 * owner's operations come one after the other, begun by the completion of the one before. Another
 * thread cancels what it meets. RLOCK_TEST_OPS says how many operations there are in all.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/fixture.h"
#include "support/proxy.h"
#include "support/stall.h"
#include "support/witness.h"

enum { SERVERS = 3, LOCKS = 9, OWNERS = 24, SIDES = 2, READ = 4, WRITE = 5, MULTI = 7 };

/* The clients of one side, and its handles. */
struct side {
    struct storm *storm;
    bool looped;
    struct rlock_client *clients[SERVERS];
    struct rlock_handle *locks[LOCKS];
    struct agent *agents;
    size_t first;     /* the loop runs this client and those behind it */
    pthread_t thread; /* that runs the loop */
    atomic_bool stop;
};

/* An owner. */
struct agent {
    struct side *side;
    pthread_mutex_t mutex; /* for op */
    struct rlock_op *op;   /* under way; NULL none, or it is complete */
    uint64_t owner, random;
    size_t lock;
    enum { IDLE, TAKES, LEAVES, LOOKS } doing;
};

struct storm {
    struct fixture f;
    struct witness *witness;
    struct side sides[SIDES];
    struct agent agents[SIDES][OWNERS];
    atomic_llong begun, completed, granted, canceled;
    long long most; /* operations of a round */
    atomic_bool over;
};

static unsigned draw(struct agent *agent, unsigned n)
{
    agent->random ^= agent->random << 13;
    agent->random ^= agent->random >> 7;
    agent->random ^= agent->random << 17;
    return (unsigned)(agent->random >> 33) % n;
}

/* ---- An owner's steps ---- */

static void on_done(struct rlock_op *op, void *payload);

/* Another operation; done when the client is closed, or there were enough. */
static void go_on(struct agent *agent, bool holds)
{
    struct rlock_handle *lock;
    struct rlock_op *op = NULL;
    int code;

    if (!holds) {
        agent->lock = draw(agent, LOCKS);
    }
    lock = agent->side->locks[agent->lock];
    (void)pthread_mutex_lock(&agent->mutex); /* a completion elsewhere waits until op is there */
    if (holds) {
        agent->doing = LEAVES;
        code = rlock_unlock_async(lock, agent->owner, on_done, agent, &op);
    } else if (atomic_load(&agent->side->storm->over) ||
               atomic_load(&agent->side->storm->begun) >= agent->side->storm->most) {
        agent->doing = IDLE;
        code = RLOCK_ECLOSED;
    } else if (draw(agent, 8) == 0) {
        agent->doing = LOOKS;
        code = rlock_inspect_async(lock, on_done, agent, &op);
    } else {
        static const int64_t waits[] = {0, 1, 20, RLOCK_FOREVER};

        agent->doing = TAKES;
        code = rlock_lock_async(
            lock, waits[draw(agent, 4)],
            RLOCK_TAKE(.owner = agent->owner, .lease_ms = draw(agent, 3) == 0 ? 20000 : 0), on_done,
            agent, &op);
    }
    TEST_CHECK(code == 0 || code == RLOCK_ECLOSED || code == RLOCK_ELOST);
    if (code == 0) {
        (void)atomic_fetch_add(&agent->side->storm->begun, 1);
        agent->op = op;
    }
    (void)pthread_mutex_unlock(&agent->mutex);
}

/* What was granted is used, if it may be still: the client may be closed meanwhile. */
static void use(struct agent *agent)
{
    struct witness *witness = agent->side->storm->witness;
    const struct rlock_handle *lock = agent->side->locks[agent->lock];

    (void)atomic_fetch_add(&agent->side->storm->granted, 1);
    if (!rlock_is_valid_as(lock, agent->owner)) {
        return;
    }
    if (agent->lock == READ) {
        witness_enter_shared(witness, WRITE, agent->owner);
        witness_leave_shared(witness, WRITE, agent->owner);
    } else {
        witness_enter(witness, agent->lock, agent->owner);
        witness_leave(witness, agent->lock, agent->owner);
    }
}

static void on_done(struct rlock_op *op, void *payload)
{
    struct agent *agent = payload;
    int code = rlock_op_code(op);
    bool holds;

    (void)pthread_mutex_lock(&agent->mutex);
    TEST_CHECK(agent->op == op); /* it was told of no other one, and once */
    agent->op = rlock_op_unref(agent->op);
    (void)pthread_mutex_unlock(&agent->mutex);
    (void)atomic_fetch_add(&agent->side->storm->completed, 1);
    if (code == RLOCK_ECANCELED) {
        (void)atomic_fetch_add(&agent->side->storm->canceled, 1);
    }
    holds = agent->doing == TAKES && code == 0;
    if (holds) {
        use(agent);
    }
    go_on(agent, holds);
}

/* ---- Rounds ---- */

static void *run_loop(void *arg)
{
    struct side *side = arg;
    struct pollfd fds[SERVERS];

    for (size_t i = side->first; i < SERVERS; i++) {
        fds[i] = (struct pollfd){.fd = rlock_client_fd(side->clients[i]), .events = POLLIN};
    }
    while (!atomic_load(&side->stop)) {
        for (size_t i = side->first; i < SERVERS; i++) {
            TEST_CHECK(rlock_client_dispatch(side->clients[i]) == 0);
        }
        (void)poll(&fds[side->first], SERVERS - side->first, 10);
    }
    return NULL;
}

static void loop_begin(struct side *side, size_t first)
{
    side->first = first;
    atomic_store(&side->stop, false);
    TEST_CHECK(pthread_create(&side->thread, NULL, run_loop, side) == 0);
}

static void loop_end(struct side *side)
{
    atomic_store(&side->stop, true);
    (void)pthread_join(side->thread, NULL);
}

static void side_open(struct side *side)
{
    static int (*const make[])(struct rlock_client *, const char *, const struct rlock_opts *,
                               struct rlock_handle **) = {
        rlock_reentrant_new, rlock_fair_new,  rlock_spin_new,        rlock_fenced_new,
        rlock_read_new,      rlock_write_new, rlock_nonreentrant_new};
    const struct fixture *f = &side->storm->f;
    struct rlock_handle *parts[SERVERS];

    for (size_t i = 0; i < SERVERS; i++) {
        struct rlock_client_opts opts = {.size = sizeof(opts),
                                         .url = test_server_url(f->servers[i]),
                                         .ca_file = test_server_cacert(f->servers[i])};

        opts.flags = side->looped ? RLOCK_CLIENT_USER_LOOP : 0;
        opts.op_timeout_ms = opts.connect_timeout_ms = 5000 * test_slack();
        TEST_CHECK(rlock_client_open(&opts, &side->clients[i]) == 0);
        TEST_CHECK(rlock_reentrant_new(side->clients[i], "whole", NULL, &parts[i]) == 0);
    }
    for (size_t i = 0; i < MULTI; i++) {
        const char *names[] = {"r", "fair", "spin", "fenced", "rw", "rw", "non"};

        TEST_CHECK(make[i](side->clients[0], names[i], NULL, &side->locks[i]) == 0);
    }
    TEST_CHECK(rlock_redlock_new(parts, SERVERS, RLOCK_OPTS(.max_lease_ms = -1),
                                 &side->locks[MULTI + 1]) == 0);
    for (size_t i = 0; i < SERVERS; i++) {
        parts[i] = rlock_free(parts[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        TEST_CHECK(rlock_reentrant_new(side->clients[i], i == 0 ? "x" : "y", NULL, &parts[i]) == 0);
    }
    TEST_CHECK(rlock_multi_new(parts, 2, NULL, &side->locks[MULTI]) == 0);
    for (size_t i = 0; i < 2; i++) {
        parts[i] = rlock_free(parts[i]);
    }
    if (side->looped) {
        loop_begin(side, 0);
    }
}

/* A client that closes waits for its groups, and so for the answers that come to the others. */
static void side_close(struct side *side)
{
    for (size_t i = 0; i < SERVERS; i++) {
        if (side->looped) {
            loop_end(side);
            loop_begin(side, i + 1);
        }
        side->clients[i] = rlock_client_close(side->clients[i]);
    }
    if (side->looped) {
        loop_end(side);
    }
    for (size_t i = 0; i < LOCKS; i++) {
        side->locks[i] = rlock_free(side->locks[i]);
    }
}

/* Cancels some of what it meets, until no operation is under way. */
static void cancel_some(struct storm *storm, struct agent *chooser, bool closes)
{
    const long long until = closes ? storm->most / 2 : storm->most;

    while (atomic_load(&storm->begun) < until) {
        struct agent *agent = &storm->agents[draw(chooser, SIDES)][draw(chooser, OWNERS)];
        struct rlock_op *op;

        (void)pthread_mutex_lock(&agent->mutex);
        op = agent->op != NULL ? rlock_op_ref(agent->op) : NULL;
        (void)pthread_mutex_unlock(&agent->mutex);
        if (op != NULL && draw(chooser, 2) == 0) {
            rlock_op_cancel(op);
        }
        (void)rlock_op_unref(op);
        (void)usleep(100);
    }
}

static void go_round(struct storm *storm, struct agent *chooser, long long ops)
{
    bool closes = draw(chooser, 2) == 0;

    storm->most = atomic_load(&storm->begun) + ops;
    atomic_store(&storm->over, false);
    for (size_t i = 0; i < SIDES; i++) {
        side_open(&storm->sides[i]);
        for (size_t k = 0; k < OWNERS; k++) {
            go_on(&storm->agents[i][k], false);
        }
    }
    cancel_some(storm, chooser, closes);
    if (!closes) { /* those that wait get it, since those that hold it leave it */
        atomic_store(&storm->over, true);
        while (atomic_load(&storm->completed) < atomic_load(&storm->begun)) {
            (void)usleep(1000);
        }
    }
    for (size_t i = 0; i < SIDES; i++) {
        side_close(&storm->sides[i]);
    }
    assert_int_equal(atomic_load(&storm->completed), atomic_load(&storm->begun));
}

static void storm_open(struct storm *storm)
{
    *storm = (struct storm){.most = 0};
    fixture_open(&storm->f, &(struct fixture_opts){.servers = SERVERS});
    storm->witness = witness_new(LOCKS);
    for (size_t i = 0; i < SIDES; i++) {
        storm->sides[i] =
            (struct side){.storm = storm, .looped = i == 1, .agents = storm->agents[i]};
        for (size_t k = 0; k < OWNERS; k++) {
            storm->agents[i][k] = (struct agent){.side = &storm->sides[i],
                                                 .mutex = PTHREAD_MUTEX_INITIALIZER,
                                                 .owner = 1 + i * OWNERS + k,
                                                 .random = 88172645463325252U + i * 1000 + k};
        }
    }
}

static void storm_close(struct storm *storm)
{
    assert_true(witness_is_clean(storm->witness, stderr));
    storm->witness = witness_free(storm->witness);
    assert_int_equal(test_server_int(storm->f.server, "DEL redisson_lock_token:{fenced}"), 1);
    fixture_close(&storm->f);
}

#define STORM_TEST(name, storm)                                                                    \
    TEST_AROUND(name, struct storm, storm, storm_open(storm), storm_close(storm))

STORM_TEST(each_of_many_operations_completes_once_and_nothing_is_left, storm)
{
    const char *given = getenv("RLOCK_TEST_OPS");
    const long long usual = test_slack() > 1 ? 4000 : 20000;
    const long long ops = given != NULL ? atoll(given) : usual, rounds = 8;
    struct agent chooser = {.random = 2463534242U};

    for (long long i = 0; i < rounds; i++) {
        go_round(storm, &chooser, ops / rounds);
    }
    print_message("%lld operations, %lld grants, %lld canceled\n", atomic_load(&storm->begun),
                  atomic_load(&storm->granted), atomic_load(&storm->canceled));
    assert_true(atomic_load(&storm->granted) > 0 && atomic_load(&storm->canceled) > 0);
}
