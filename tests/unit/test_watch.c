/* SPDX-License-Identifier: Apache-2.0 */
/* The watch as an object: its states, and the threads to wake in each. tests/sched runs it with
 * threads. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "drive/watch.h"
#include "support/test.h"

#define SOON 1000 /* a time at which the leader wakes up by itself */

struct scene {
    struct rlock__watch watch;
    struct rlock__waiter leader, second, third;
};

/* The first caller leads, the two others are parked. */
static void begin(struct scene *it)
{
    *it = (struct scene){0};
    rlock__watch_init(&it->watch);
    assert_true(rlock__watch_begin(&it->watch, &it->leader));
    assert_false(rlock__watch_begin(&it->watch, &it->second));
    rlock__watch_park(&it->watch, &it->second);
    rlock__watch_park(&it->watch, &it->third);
}

static bool oversleeps(const struct scene *it)
{
    return rlock__watch_oversleeps(&it->watch, SOON);
}

#define WATCH_TEST(name) TEST_AROUND(name, struct scene, it, begin(it), (void)it)

WATCH_TEST(a_leader_that_leaves_is_followed_by_the_caller_that_parked_first)
{
    rlock__watch_end(&it->watch, &it->leader);
    assert_false(it->leader.keeps);
    assert_true(it->second.keeps);
    assert_ptr_equal(it->watch.leader, &it->second);
    assert_int_equal(it->watch.state, RLOCK__WATCH_AWAKE);
    assert_int_equal(atomic_load(&it->second.signal), RLOCK__PARK_KEEP);
    assert_ptr_equal(it->watch.pending, &it->second); /* somebody has to wake it */
    rlock__watch_seen(&it->watch, &it->second);
    assert_null(it->watch.pending);
}

WATCH_TEST(the_last_leader_leaves_the_watch_to_the_service_thread)
{
    rlock__watch_signal(&it->watch, &it->second, RLOCK__PARK_DONE);
    rlock__watch_signal(&it->watch, &it->third, RLOCK__PARK_DONE);
    assert_false(rlock__watch_is_left(&it->watch));
    rlock__watch_end(&it->watch, &it->leader);
    assert_true(rlock__watch_is_left(&it->watch));
    assert_int_equal(it->watch.state, RLOCK__WATCH_VACANT);
    assert_true(rlock__watch_begin(&it->watch, &it->second));
}

WATCH_TEST(only_a_leader_that_sleeps_is_woken)
{
    it->watch.replans = true;
    assert_false(oversleeps(it));
    rlock__watch_plan(&it->watch, SOON);
    assert_false(oversleeps(it));
    assert_true(rlock__watch_oversleeps(&it->watch, SOON - 1));
    it->watch.replans = true;
    assert_true(oversleeps(it));
    rlock__watch_moved(&it->watch);
    assert_false(oversleeps(it));
}

WATCH_TEST(a_leader_that_sleeps_is_woken_when_its_own_call_is_complete)
{
    rlock__watch_plan(&it->watch, SOON);
    rlock__watch_signal(&it->watch, &it->leader, RLOCK__PARK_DONE);
    assert_true(oversleeps(it));
}

WATCH_TEST(a_leader_with_work_that_is_due_does_not_sleep)
{
    rlock__watch_plan(&it->watch, 0);
    assert_int_equal(it->watch.state, RLOCK__WATCH_AWAKE);
}

WATCH_TEST(the_last_caller_that_saw_its_signal_ends_the_collecting)
{
    assert_false(rlock__watch_collect(&it->watch, SOON)); /* nobody was woken */
    rlock__watch_signal(&it->watch, &it->second, RLOCK__PARK_DONE);
    rlock__watch_signal(&it->watch, &it->third, RLOCK__PARK_DONE);
    assert_true(rlock__watch_collect(&it->watch, SOON));
    rlock__watch_seen(&it->watch, &it->third);
    assert_false(oversleeps(it));
    rlock__watch_seen(&it->watch, &it->second);
    assert_true(oversleeps(it));
}

WATCH_TEST(a_leader_that_left_something_undone_is_stalled_until_it_moves)
{
    rlock__watch_plan(&it->watch, SOON);
    rlock__watch_tick(&it->watch, true, 2 * SOON); /* it moved since the last tick: it planned */
    assert_false(rlock__watch_is_left(&it->watch));
    rlock__watch_tick(&it->watch, true, 3 * SOON);
    assert_true(rlock__watch_is_left(&it->watch));
    assert_int_equal(it->watch.tick_at, 3 * SOON);
    assert_true(rlock__watch_oversleeps(&it->watch, SOON - 1)); /* it still sleeps, and is woken */
    rlock__watch_moved(&it->watch);
    assert_false(rlock__watch_is_left(&it->watch));
    assert_int_equal(it->watch.state, RLOCK__WATCH_AWAKE);
}

WATCH_TEST(a_stalled_leader_is_relied_on_again_after_a_tick_that_finds_nothing_undone)
{
    rlock__watch_plan(&it->watch, SOON);
    rlock__watch_tick(&it->watch, false, 2 * SOON);
    rlock__watch_tick(&it->watch, true, 3 * SOON);
    assert_int_equal(it->watch.state, RLOCK__WATCH_STALLED);
    rlock__watch_tick(&it->watch, false, 4 * SOON);
    assert_int_equal(it->watch.state, RLOCK__WATCH_ASLEEP);
    assert_int_equal(it->watch.until, SOON);
}

WATCH_TEST(a_tick_wakes_again_each_caller_that_has_not_seen_its_signal)
{
    rlock__watch_signal(&it->watch, &it->second, RLOCK__PARK_DONE);
    rlock__watch_signal(&it->watch, &it->third, RLOCK__PARK_DONE);
    it->watch.pending = NULL; /* a thread has taken the note, and stalls before it wakes them */
    rlock__watch_seen(&it->watch, &it->second);
    rlock__watch_tick(&it->watch, false, SOON);
    assert_ptr_equal(it->watch.pending, &it->third);
}

WATCH_TEST(ticks_go_on_while_there_is_a_leader_or_a_caller_to_wake)
{
    rlock__watch_signal(&it->watch, &it->second, RLOCK__PARK_DONE);
    rlock__watch_signal(&it->watch, &it->third, RLOCK__PARK_DONE);
    rlock__watch_end(&it->watch, &it->leader);
    rlock__watch_seen(&it->watch, &it->third);
    rlock__watch_tick(&it->watch, false, SOON);
    assert_true(rlock__watch_wants_ticks(&it->watch)); /* for the second caller */
    rlock__watch_seen(&it->watch, &it->second);
    assert_false(rlock__watch_wants_ticks(&it->watch));
}

/* Runs it in a process of its own. Returns whether that aborted. */
static bool aborts(void (*run)(struct scene *it), struct scene *it)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        (void)freopen("/dev/null", "w", stderr);
        run(it);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void leave_as_another(struct scene *it)
{
    rlock__watch_end(&it->watch, &it->third);
}

static void park_without_a_leader(struct scene *it)
{
    rlock__watch_init(&it->watch);
    rlock__watch_park(&it->watch, &it->second);
}

static void sleep_without_a_leader(struct scene *it)
{
    rlock__watch_init(&it->watch);
    rlock__watch_plan(&it->watch, SOON);
}

WATCH_TEST(a_step_that_the_states_do_not_allow_aborts)
{
#ifdef NDEBUG
    (void)aborts, (void)leave_as_another, (void)park_without_a_leader, (void)sleep_without_a_leader;
    skip();
#else
    assert_true(aborts(leave_as_another, it));
    assert_true(aborts(park_without_a_leader, it));
    assert_true(aborts(sleep_without_a_leader, it));
#endif
}
