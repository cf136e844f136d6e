/* SPDX-License-Identifier: Apache-2.0 */
/* Waiters whose processes are killed or stopped: how long the next one waits for them, and that the
 * order of the others does not suffer. Children are forked before anything here has threads. */
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fair/hall.h"

/* What a child is told to do; QUEUE comes with a number of threads. */
enum { TAKE_IT = 1, LEAVE, QUEUE_UP, END };

enum { MOST = 200 };

/* What all processes of a test know. */
struct plan {
    struct fixture *f;
    int64_t slot_ms;          /* of the lock; 0 the default */
    int64_t renewed_lease_ms; /* 0 the default */
    int hold_us;
    uint64_t number; /* of the child that is forked next */
};

static struct plan plan; /* the children have it by fork */

/* Who is in the lock: the visitors of a child are numbered. */
static uint64_t visitor(uint64_t child, uint64_t i)
{
    return child * 1000 + i;
}

static int act_visit(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    static atomic_uint_least64_t visitors;
    uint64_t id = visitor(plan.number, atomic_fetch_add(&visitors, 1) + 1);

    TEST_CHECK(rlock_lock_for(lock, wait_ms, take, NULL) == 0);
    witness_enter(plan.f->witness, 0, id);
    if (plan.hold_us != 0) {
        (void)usleep((useconds_t)plan.hold_us);
    }
    witness_leave(plan.f->witness, 0, id);
    return rlock_unlock(lock);
}

static struct rlock_handle *open_lock(struct rlock_client **ret_client)
{
    const struct rlock_client_opts opts =
        client_opts(plan.f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = plan.renewed_lease_ms));
    struct rlock_handle *lock = NULL;

    TEST_CHECK(rlock_client_open(&opts, ret_client) == 0);
    TEST_CHECK(rlock_fair_new(*ret_client, NAME, RLOCK_OPTS(.fair_slot_ms = plan.slot_ms), &lock) ==
               0);
    return lock;
}

static int child_main(struct test_peer *peer, void *payload)
{
    struct actor *actors[MOST];
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = open_lock(&client);
    size_t n = 0;
    uint64_t word;

    (void)payload;
    while ((word = test_peer_recv(peer, 120000)) != END) {
        if (word == TAKE_IT) {
            TEST_CHECK(rlock_lock(lock) == 0);
        } else if (word == LEAVE) {
            TEST_CHECK(rlock_unlock(lock) == 0);
            _exit(0);
        }
        for (uint64_t i = 0; (word & 0xff) == QUEUE_UP && i < word >> 8; i++) {
            actors[n] = actor_new();
            actor_begin(actors[n++], act_visit, lock, RLOCK_FOREVER, NULL);
        }
        test_peer_send(peer, word);
    }
    while (n > 0) {
        TEST_CHECK(actor_end(actors[--n]) == 0);
        actor_free(actors[n]);
    }
    (void)rlock_free(lock);
    (void)rlock_client_close(client);
    return 0;
}

static struct test_child *spawn(void)
{
    plan.number++;
    return test_child_spawn(child_main, NULL);
}

static void tell(struct test_child *child, uint64_t word)
{
    test_child_send(child, word);
    assert_int_equal(test_child_recv(child, 20000), word);
}

static void queue_up(struct fixture *f, struct test_child *child, uint64_t n)
{
    size_t before = hall_queued(f);

    tell(child, QUEUE_UP | n << 8);
    hall_await_queued(f, before + n);
}

static void kill_it(struct test_child *child)
{
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
}

static void end_it(struct test_child *child)
{
    test_child_send(child, END);
    assert_int_equal(test_child_wait(child, 30000), 0);
}

/* Ours: one who holds, one who waits behind the children. */
struct ours {
    struct rlock_client *clients[2];
    struct rlock_handle *holder, *waiting;
    struct actor *actor;
};

static void meet(struct fixture *f, struct ours *ours)
{
    for (size_t i = 0; i < 2; i++) {
        ours->clients[i] = client_open(f);
    }
    ours->holder = lock_with(f, ours->clients[0], NAME, RLOCK_OPTS(.fair_slot_ms = plan.slot_ms));
    ours->waiting = lock_with(f, ours->clients[1], NAME, RLOCK_OPTS(.fair_slot_ms = plan.slot_ms));
    ours->actor = actor_open(f);
}

static void wait_behind(struct fixture *f, struct ours *ours)
{
    hall_line_up(f, &ours->actor, &ours->waiting, 1, act_take, RLOCK_FOREVER, NULL);
}

/* How long the waiter waited after a moment; then it gives the lock up. */
static int64_t end_wait(struct ours *ours, int64_t since_us)
{
    int64_t took_us;

    assert_code(actor_end(ours->actor), 0);
    took_us = actor_ended_us(ours->actor) - since_us;
    assert_code(actor_do(ours->actor, act_unlock, ours->waiting, 0, NULL), 0);
    return took_us;
}

static void dead_open(struct fixture *f)
{
    fixture_open(f, &(struct fixture_opts){.kind = &kind_fair});
    plan = (struct plan){.f = f};
}

#define DEAD_TEST(name, f) TEST_AROUND(name, struct fixture, f, dead_open(f), fixture_close(f))

/* ---- Killed ---- */

/* A process that is killed with so many waiters costs the one behind them no more than that. */
static void killed_waiters_cost(struct fixture *f, uint64_t n, int64_t most_ms)
{
    struct test_child *child = spawn();
    struct ours ours;
    int64_t unlocked_us;

    meet(f, &ours);
    assert_code(rlock_lock(ours.holder), 0);
    queue_up(f, child, n);
    wait_behind(f, &ours);
    kill_it(child);
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(ours.holder), 0);
    assert_took(end_wait(&ours, unlocked_us), 0, most_ms);
}

DEAD_TEST(a_killed_head_costs_two_seconds, f)
{
    killed_waiters_cost(f, 1, 2000);
}

DEAD_TEST(a_killed_process_with_sixteen_waiters_costs_no_more, f)
{
    killed_waiters_cost(f, 16, 2000);
}

DEAD_TEST(two_hundred_killed_waiters_cost_four_seconds, f)
{
    killed_waiters_cost(f, MOST, 4000);
}

/* What a call has seen stays on the server: calls that are over at once get past a dead one too. */
DEAD_TEST(calls_that_do_not_wait_get_past_a_killed_one, f)
{
    struct test_child *child = spawn();
    struct ours ours;
    int64_t seen_us;

    meet(f, &ours);
    assert_code(rlock_lock(ours.holder), 0);
    queue_up(f, child, 1);
    kill_it(child);
    assert_code(rlock_unlock(ours.holder), 0);
    seen_us = test_now_us();
    assert_code(rlock_try_lock(ours.holder), RLOCK_EBUSY);
    assert_true(TEST_EVENTUALLY(rlock_try_lock(ours.waiting) == 0, 5000));
    assert_took(test_elapsed_us(seen_us), 990, 2000);
    assert_code(rlock_unlock(ours.waiting), 0);
    assert_int_equal(test_server_int(f->server, "DBSIZE"), 0);
}

/* Those who wait find it out when the lease has ended: a lease, and then as above. */
DEAD_TEST(a_process_that_is_killed_as_holder_and_head_costs_its_lease_more, f)
{
    struct test_child *child;
    struct ours ours;
    int64_t killed_us;

    plan.renewed_lease_ms = test_ms(1000);
    child = spawn();
    tell(child, TAKE_IT);
    queue_up(f, child, 2);
    meet(f, &ours);
    wait_behind(f, &ours);
    killed_us = test_now_us();
    kill_it(child);
    assert_took(end_wait(&ours, killed_us), 600, 1000 + 2000);
}

DEAD_TEST(a_killed_holders_lock_goes_to_the_head_when_its_lease_ends, f)
{
    struct test_child *child;
    struct ours ours;
    int64_t killed_us;

    plan.renewed_lease_ms = test_ms(500);
    child = spawn();
    tell(child, TAKE_IT);
    meet(f, &ours);
    wait_behind(f, &ours);
    killed_us = test_now_us();
    kill_it(child);
    assert_took(end_wait(&ours, killed_us), 300, 600);
}

/* Nobody is left who saw the release: the waiter finds out when it looks, here every second. */
DEAD_TEST(a_releaser_that_is_gone_costs_the_next_look_more, f)
{
    struct test_child *dead, *releaser;
    struct ours ours;
    int64_t left_us;

    plan.slot_ms = 3000;
    dead = spawn();
    releaser = spawn();
    tell(releaser, TAKE_IT);
    queue_up(f, dead, 2);
    meet(f, &ours);
    wait_behind(f, &ours);
    kill_it(dead);
    left_us = test_now_us();
    test_child_send(releaser, LEAVE);
    assert_int_equal(test_child_wait(releaser, 5000), 0);
    assert_took(end_wait(&ours, left_us), 0, 1000 + 2000);
}

/* ---- Stopped ---- */

DEAD_TEST(a_stopped_head_costs_a_look_and_five_seconds_and_its_place, f)
{
    struct test_child *child = spawn();
    struct ours ours;
    int64_t unlocked_us;

    meet(f, &ours);
    assert_code(rlock_lock(ours.holder), 0);
    queue_up(f, child, 1);
    wait_behind(f, &ours);
    test_freeze(test_child_pid(child));
    unlocked_us = test_now_us();
    assert_code(rlock_unlock(ours.holder), 0);
    assert_took(end_wait(&ours, unlocked_us), 2900, 5000 + 5000); /* until it looks, and then */
    assert_int_equal(hall_queued(f), 0);
    test_thaw(test_child_pid(child));
    end_it(child); /* it queues again, and gets the lock */
}

/* The head stands still for a moment only: it keeps its turn. */
DEAD_TEST(a_head_that_comes_back_in_time_keeps_its_place, f)
{
    struct test_child *child = spawn();
    struct chronicle *chronicle;
    struct ours ours;
    size_t leavers;

    meet(f, &ours);
    assert_code(rlock_lock(ours.holder), 0);
    chronicle = chronicle_begin(f);
    queue_up(f, child, 1);
    wait_behind(f, &ours);
    test_freeze(test_child_pid(child));
    assert_code(rlock_unlock(ours.holder), 0);
    assert_true(STAYS(actor_is_busy(ours.actor), 1500));
    test_thaw(test_child_pid(child));
    (void)end_wait(&ours, 0);
    assert_true(chronicle_end(chronicle, NULL, &leavers));
    assert_int_equal(leavers, 0);
    end_it(child);
}

/* ---- Many ---- */

enum { PROCESSES = 8 };

static uint64_t waiters_each(void)
{
    const char *given = getenv("RLOCK_TEST_WAITERS");

    return given != NULL ? strtoull(given, NULL, 10) : 6;
}

/* Each lets so many queue, all at a time. */
static void all_queue_up(struct fixture *f, struct test_child *const *children, uint64_t n)
{
    size_t before = hall_queued(f);

    for (size_t i = 0; i < PROCESSES; i++) {
        test_child_send(children[i], QUEUE_UP | n << 8);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        (void)test_child_recv(children[i], 20000);
    }
    hall_await_queued(f, before + PROCESSES * n);
}

static unsigned int draw(unsigned int *seed, uint64_t n)
{
    return (unsigned int)rand_r(seed) % (unsigned int)n;
}

/* Eight processes queue at once, one of them dies at some moment; the order of the others' grants
 * is that in which the server queued them. */
DEAD_TEST(a_crowd_of_processes_is_served_in_order_though_one_is_killed, f)
{
    struct test_child *children[PROCESSES];
    struct chronicle *chronicle;
    struct ours ours;
    uint64_t each = waiters_each();
    size_t grants, leavers;
    int64_t came_us;
    unsigned int seed = (unsigned int)test_now_us();
    const size_t victim = draw(&seed, PROCESSES);
    const size_t left = (PROCESSES - 1) * each - draw(&seed, PROCESSES / 2 * each);

    print_message("number %zu is killed when fewer than %zu wait\n", victim, left);
    plan.hold_us = each < 10 ? 5000 : 500;
    plan.renewed_lease_ms = test_ms(1000);
    for (size_t i = 0; i < PROCESSES; i++) {
        children[i] = spawn();
    }
    meet(f, &ours);
    assert_code(rlock_lock(ours.holder), 0);
    chronicle = chronicle_begin(f);
    all_queue_up(f, children, each / 2);
    all_queue_up(f, children, each - each / 2); /* so that nobody has all places in front */
    assert_code(rlock_unlock(ours.holder), 0);
    assert_true(TEST_EVENTUALLY(hall_queued(f) < left, 60000));
    kill_it(children[victim]);
    for (uint64_t i = 0; i <= each; i++) { /* one of them may have been inside */
        witness_evict(plan.f->witness, 0, visitor(victim + 1, i));
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        if (i != victim) {
            test_child_send(children[i], END);
        }
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        if (i != victim) {
            assert_int_equal(test_child_wait(children[i], 240000), 0);
        }
    }
    came_us = test_now_us();
    actor_begin(ours.actor, act_take, ours.waiting, RLOCK_FOREVER,
                NULL); /* the dead behind all others go, too */
    assert_took(end_wait(&ours, came_us), 0, 20000);
    assert_true(chronicle_end(chronicle, &grants, &leavers));
    print_message("%zu grants, %zu passed over\n", grants, leavers);
    assert_in_range(grants, (PROCESSES - 1) * each + 1, PROCESSES * each + 1);
    assert_in_range(grants + leavers, PROCESSES * each, PROCESSES * each + 1);
    assert_true(witness_is_clean(plan.f->witness, stderr));
}
