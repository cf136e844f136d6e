/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of timers against a model that anybody can see is right: a row that is searched. */
#include "base/timer.h"
#include "support/test.h"

enum { N = 60, MAX_FIRED = 4 * N };

struct item {
    struct rlock__timer timer;
    int64_t set_again_for; /* what it does when it fires; 0 nothing */
};

/* The model, and what the heap did. */
static struct rlock__timers timers;
static struct item items[N];
static struct {
    bool set;
    int64_t at;
    uint64_t order;
} model[N];
static uint64_t last_order;
static int fired[MAX_FIRED];
static int n_fired;
static uint64_t seed;

static int index_of(const struct rlock__timer *timer)
{
    return (int)((const struct item *)(const void *)timer - items);
}

static void model_set(int i, int64_t at)
{
    model[i].set = at != RLOCK__NEVER;
    model[i].at = at;
    model[i].order = at != RLOCK__NEVER ? ++last_order : 0;
}

static void on_fire(struct rlock__timer *timer, int64_t now)
{
    const int i = index_of(timer);

    assert_false(timer->set);
    assert_true(n_fired < MAX_FIRED);
    fired[n_fired++] = i;
    if (items[i].set_again_for != 0) {
        rlock__timer_set(&timers, timer, now + items[i].set_again_for);
    }
}

static int set_up(void **state)
{
    (void)state;
    memset(&timers, 0, sizeof(timers));
    memset(items, 0, sizeof(items));
    memset(model, 0, sizeof(model));
    last_order = 0;
    n_fired = 0;
    seed = 88172645463325252ULL;
    for (int i = 0; i < N; i++) {
        items[i].timer.fire = on_fire;
    }
    return 0;
}

#define TIMER_TEST(name) TEST_BETWEEN(set_up, NULL, name)

static int64_t random_below(int64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (int64_t)(seed % (uint64_t)n);
}

/* The model's next: the earliest, of equals the one that was set first. -1 none. */
static int model_next(void)
{
    int next = -1;

    for (int i = 0; i < N; i++) {
        if (model[i].set &&
            (next < 0 || model[i].at < model[next].at ||
             (model[i].at == model[next].at && model[i].order < model[next].order))) {
            next = i;
        }
    }
    return next;
}

/* Fires both and compares. What fires sets itself again for later only. */
static void fire(int64_t now)
{
    const uint64_t before = last_order;
    int expected[MAX_FIRED], n = 0;

    n_fired = 0;
    (void)rlock__timers_fire(&timers, now, SIZE_MAX);
    for (int i = model_next(); i >= 0 && model[i].at <= now && model[i].order <= before;
         i = model_next()) {
        expected[n++] = i;
        model[i].set = false;
        if (items[i].set_again_for != 0) {
            model_set(i, now + items[i].set_again_for);
        }
    }
    assert_int_equal(n_fired, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(fired[i], expected[i]);
    }
}

TIMER_TEST(random_operations_match_a_search)
{
    int64_t now = 0;

    for (int step = 0; step < 200000; step++) {
        const int i = (int)random_below(N), next = model_next();
        const int64_t at = now + random_below(50) - 5; /* many equal, some in the past */

        assert_true(rlock__timers_next(&timers) == (next < 0 ? RLOCK__NEVER : model[next].at));
        switch (random_below(8)) {
        case 0:
            rlock__timer_unset(&timers, &items[i].timer);
            model_set(i, RLOCK__NEVER);
            break;
        case 1:
            items[i].set_again_for = random_below(3) == 0 ? 1 + random_below(20) : 0;
            break;
        case 2:
            now += random_below(8);
            fire(now);
            break;
        case 3: /* several in a row for one time */
            for (int j = i; j < N && j < i + 5; j++) {
                rlock__timer_set(&timers, &items[j].timer, at);
                model_set(j, at);
            }
            break;
        default:
            rlock__timer_set(&timers, &items[i].timer, at);
            model_set(i, at);
        }
        assert_int_equal(items[i].timer.set, model[i].set);
    }
}

TIMER_TEST(an_empty_heap_has_no_next)
{
    assert_true(rlock__timers_next(&timers) == RLOCK__NEVER);
    (void)rlock__timers_fire(&timers, INT64_MAX - 1, SIZE_MAX);
    assert_int_equal(n_fired, 0);
}

TIMER_TEST(equal_times_fire_in_the_order_of_setting)
{
    for (int i = N; i-- > 0;) {
        rlock__timer_set(&timers, &items[i].timer, 7);
    }
    rlock__timer_set(&timers, &items[30].timer, 7); /* moved to the end */
    (void)rlock__timers_fire(&timers, 7, SIZE_MAX);
    assert_int_equal(n_fired, N);
    assert_int_equal(fired[0], N - 1);
    assert_int_equal(fired[N - 1], 30);
}

/* However many fire between two of them, and whichever of them is unset. */
TIMER_TEST(timers_of_one_time_share_a_place)
{
    for (int i = 0; i < N; i++) {
        rlock__timer_set(&timers, &items[i].timer, i / 10);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(items[i].timer.rank != 0, i % 10 == 0); /* that one is in the heap */
    }
    rlock__timer_unset(&timers, &items[20].timer);
    rlock__timer_unset(&timers, &items[25].timer);
    rlock__timer_unset(&timers, &items[59].timer);
    (void)rlock__timers_fire(&timers, N, SIZE_MAX);
    assert_int_equal(n_fired, N - 3);
    for (int i = 1; i < n_fired; i++) {
        assert_true(fired[i - 1] < fired[i]);
    }
}

TIMER_TEST(what_a_timer_sets_for_now_waits_for_the_next_time)
{
    items[0].set_again_for = -1;
    rlock__timer_set(&timers, &items[0].timer, 5);
    (void)rlock__timers_fire(&timers, 5, SIZE_MAX);
    assert_int_equal(n_fired, 1);
    assert_true(rlock__timers_next(&timers) == 4);
    (void)rlock__timers_fire(&timers, 5, SIZE_MAX);
    assert_int_equal(n_fired, 2);
}

TIMER_TEST(no_more_fire_than_asked_for)
{
    for (int i = N; i-- > 0;) {
        rlock__timer_set(&timers, &items[i].timer, i / 2);
    }
    assert_int_equal(rlock__timers_fire(&timers, N, 10), 10);
    assert_int_equal(n_fired, 10);
    assert_true(rlock__timers_next(&timers) == 5);
    assert_int_equal(rlock__timers_fire(&timers, 5, 10), 2); /* the others are not due */
    assert_int_equal(rlock__timers_fire(&timers, N, SIZE_MAX), N - 12);
}

static struct rlock__timer *victim;

static void unset_another(struct rlock__timer *timer, int64_t now)
{
    (void)timer;
    (void)now;
    rlock__timer_unset(&timers, victim);
    n_fired++;
}

TIMER_TEST(a_timer_may_unset_another_that_is_due)
{
    items[0].timer.fire = unset_another;
    victim = &items[1].timer;
    for (int i = 0; i < 3; i++) {
        rlock__timer_set(&timers, &items[i].timer, 1);
    }
    (void)rlock__timers_fire(&timers, 1, SIZE_MAX);
    assert_int_equal(n_fired, 2);
    assert_false(victim->set);
    rlock__timer_unset(&timers, victim); /* harmless */
}

TIMER_TEST(never_unsets)
{
    rlock__timer_set(&timers, &items[0].timer, 1);
    rlock__timer_set(&timers, &items[0].timer, RLOCK__NEVER);
    assert_false(items[0].timer.set);
    assert_true(rlock__timers_next(&timers) == RLOCK__NEVER);
}

TIMER_TEST(sums_stop_at_never)
{
    assert_true(rlock__later(5, 7) == 12);
    assert_true(rlock__later(5, RLOCK__NEVER) == RLOCK__NEVER);
    assert_true(rlock__later(RLOCK__NEVER - 3, 4) == RLOCK__NEVER);
    assert_true(rlock__later(RLOCK__NEVER, 0) == RLOCK__NEVER);
    assert_int_equal(rlock__ms_up(0), 0);
    assert_int_equal(rlock__ms_up(1), 1);
    assert_int_equal(rlock__ms_up(1000), 1);
    assert_int_equal(rlock__ms_up(1001), 2);
}

TEST(times_that_a_server_reports_are_from_0_to_a_thousand_years)
{
    assert_int_equal(rlock__reported_ms(7), 7000);
    assert_int_equal(rlock__reported_ms(INT64_MIN), 0);
    assert_int_equal(rlock__reported_ms(INT64_MAX), rlock__reported_ms(RLOCK__MOST_MS));
    assert_true(rlock__reported_ms(INT64_MAX) < RLOCK__NEVER / 100);
}
