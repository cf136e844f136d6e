/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fair lock's queue in virtual time, with our scripts and peers': what may happen to it, step by
 * step, and then at random.
 */
#include "fair/town.h"
#include "support/run.h"
#include "support/test.h"

#define SECOND 1000LL
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define SLOT TOWN_SLOT_MS

static const struct town_habit ours = {.wait = -1, .lease = 30000, .hold = 10, .think = 5};
static const struct town_habit peers = {
    .is_peer = true, .wait = -1, .lease = 30000, .hold = 10, .think = 5};

/* The same habit, for one call. */
static struct town_habit once(struct town_habit habit)
{
    habit.once = true;
    return habit;
}

static struct town_habit holding(struct town_habit habit, int64_t lease, int64_t hold)
{
    habit.lease = lease;
    habit.hold = hold;
    habit.once = true;
    return habit;
}

static struct town_habit waiting(struct town_habit habit, int64_t wait)
{
    habit.wait = wait;
    return habit;
}

static void assert_well(const struct town *town)
{
    assert_int_equal(town->report.second_holders, 0);
    assert_int_equal(town->report.inversions, 0);
    assert_int_equal(town->report.thrown_by_ours, 0);
    assert_int_equal(town->report.thrown_by_peers, 0);
    assert_int_equal(town->report.endless, 0);
}

/* ---- Scores ---- */

struct wait {
    int64_t ms;
    uint64_t thrown_by_peers;
};

/* So many of ours go through a queue in front of peers, the third of whom is dead. Gives what the
 * last of them waits for from when the dead one stands in front. */
static struct wait wait_behind_ours(int n)
{
    struct town *town = town_new(1, SLOT);
    struct town_habit first = holding(ours, 30 * SECOND, 20 * SECOND), one = once(ours),
                      peer = once(peers);
    struct town_person *jvms[6];
    struct wait wait;

    (void)town_add(town, &first, 0);
    for (int i = 0; i < n; i++) {
        (void)town_add(town, &one, 100 + i);
    }
    for (int i = 0; i < 6; i++) {
        jvms[i] = town_add(town, &peer, SECOND + i * 10);
    }
    town_run(town, 10 * SECOND);
    town_kill(jvms[2]);
    town_run(town, 20 * SECOND + n * 30);
    assert_in_range(jvms[0]->grants + jvms[1]->grants, 2, 2);
    assert_int_equal(town_place(town, jvms[2]), 1);
    assert_in_range(town_score(town, jvms[2]), 0, 2 * SLOT + 30 * SECOND);
    wait.ms = -town->now;
    assert_true(town_run_until_granted(town, jvms[5], 1, 10 * SLOT));
    wait.ms += town->now;
    wait.thrown_by_peers = town->report.thrown_by_peers;
    assert_int_equal(town->report.second_holders, 0);
    assert_int_equal(town->report.thrown_by_ours, 0);
    (void)town_free(town);
    return wait;
}

/* Whatever a Redisson makes of one that is dead, by itself: many of ours in front add a slot to it,
 * and not one each. */
TEST(places_of_ours_leave_nothing_behind)
{
    struct wait alone = wait_behind_ours(0), behind = wait_behind_ours(512);

    assert_in_range(behind.ms, 0, alone.ms + SLOT);
    assert_int_equal(behind.thrown_by_peers, alone.thrown_by_peers);
}

/* What a peer was told to wait for may be long past when the holder, renewed, dies, or be no end at
 * all: those of ours who wait wake it. */
TEST(a_renewed_peer_that_is_killed_holds_nobody_up)
{
    struct town *town = town_new(12, SLOT);
    struct town_habit first = holding(peers, 30 * SECOND, HOUR), one = once(ours),
                      peer = once(peers);
    struct town_person *holder = town_add(town, &first, 0), *last = NULL;

    for (int i = 0; i < 6; i++) {
        last = town_add(town, i % 3 != 2 ? &peer : &one, SECOND + i * 10);
    }
    town_run(town, 20 * MINUTE);
    assert_int_equal(holder->state, TOWN_HOLDS);
    town_kill(holder);
    assert_true(town_run_until_granted(town, last, 1, MINUTE));
    assert_int_equal(town->report.grants, 7);
    assert_well(town);
    (void)town_free(town);
}

/* A holder of ours keeps the lock for long, renewed; sums of peers stand still meanwhile. None of
 * them is put out by its time though another peer lowers all when it is let in. */
TEST(sums_that_have_become_old_are_mended)
{
    struct town *town = town_new(2, SLOT);
    struct town_habit first = holding(ours, 30 * SECOND, 40 * MINUTE), one = once(ours),
                      peer = once(peers);
    struct town_person *holder = town_add(town, &first, 0), *last = NULL;

    peer.hold = SECOND;
    for (int i = 0; i < 8; i++) {
        last = town_add(town, i < 5 ? &peer : &one, SECOND + i * 10);
    }
    while (holder->state != TOWN_GONE) {
        town_run(town, 10 * SECOND);
        town_type(town, (const char *const[]){"PEXPIRE", TOWN_LOCK, "30000", NULL});
    }
    assert_true(town_run_until_granted(town, last, 1, HOUR));
    assert_int_equal(town->report.grants, 9);
    assert_well(town);
    (void)town_free(town);
}

/* A lease of hours that ends early is not what the next head counts for, whoever that is. */
TEST(a_long_lease_given_back_early_leaves_no_long_score)
{
    struct town *town = town_new(11, SLOT);
    struct town_habit first = holding(ours, 10 * HOUR, 4 * SECOND), peer = once(peers);
    struct town_person *dead;

    (void)town_add(town, &first, 0);
    dead = town_add(town, &peer, 100);
    town_run(town, SECOND);
    assert_in_range(town_score(town, dead), SLOT - SECOND, SLOT);
    town_kill(dead);
    town_run(town, 5 * SECOND);
    assert_int_equal(town_place(town, dead), 1);
    assert_in_range(town_score(town, dead), SLOT / 2, 2 * SLOT);
    (void)town_free(town);
}

/* Peers whose waits differ: a head with too much is lowered alone, the others have no more. */
TEST(lowering_a_head_puts_nobody_out)
{
    struct town *town = town_new(3, SLOT);
    struct town_person *last;

    for (int i = 0; i < 12; i++) {
        struct town_habit habit = waiting(i % 3 == 0 ? ours : peers, i % 2 == 0 ? -1 : 20 * SECOND);

        habit.hold = 300;
        (void)town_add(town, &habit, i * 50);
    }
    town_run(town, 30 * MINUTE);
    last = town_add(town, &ours, 0);
    assert_true(town_run_until_granted(town, last, 1, MINUTE));
    assert_well(town);
    (void)town_free(town);
}

/* The slot is the longest wait that any peer passes: then a longer tryLock() puts nobody out. */
TEST(long_waits_of_peers_are_borne_by_a_slot_of_their_length)
{
    struct town *town = town_new(4, HOUR);
    struct town_habit patient = waiting(peers, HOUR);

    patient.hold = 100;
    patient.think = 2 * SECOND;
    for (int i = 0; i < 6; i++) {
        (void)town_add(town, i % 2 == 0 ? &patient : &ours, i * 30);
    }
    town_run(town, 10 * MINUTE);
    assert_true(town->report.grants > 3000);
    assert_well(town);
    (void)town_free(town);
}

/* A peer whose clock is far ahead puts out every head: among themselves too. Nobody waits for ever
 * for that, and no two hold the lock. */
TEST(a_peers_clock_far_ahead_hurts_order_alone)
{
    struct town *town = town_new(5, SLOT);
    struct town_habit ahead = peers;
    struct town_person *person[4];

    ahead.ahead = 10 * MINUTE;
    (void)town_add(town, &ahead, 0);
    for (int i = 0; i < 4; i++) {
        person[i] = town_add(town, &ours, 20 + i);
    }
    town_run(town, 10 * MINUTE);
    for (int i = 0; i < 4; i++) {
        assert_true(person[i]->grants > 10);
    }
    assert_int_equal(town->report.second_holders, 0);
    assert_int_equal(town->report.thrown_by_ours, 0);
    (void)town_free(town);
}

/* ---- The dead ---- */

/* Lost messages are no silence: who is asked four times and more hears one of them. */
TEST(lost_messages_put_nobody_out)
{
    struct town *town = town_new(6, SLOT);

    town->loss = 20;
    for (int i = 0; i < 5; i++) {
        struct town_habit habit = i < 3 ? peers : waiting(ours, 0);

        habit.hold = 100;
        habit.think = 8 * SECOND;
        (void)town_add(town, &habit, i * 20);
    }
    town_run(town, 3 * HOUR);
    assert_true(town->report.grants > 1000);
    assert_int_equal(town->report.second_holders, 0);
    assert_int_equal(town->report.thrown_by_ours, 0);
    (void)town_free(town);
}

/* A peer queues before it subscribes, and uses its name again: to be seen so twice, with the lock
 * taken in between, is not to be dead. */
TEST(notes_of_an_earlier_standstill_do_not_count)
{
    struct town *town = town_new(7, SLOT);
    static const char peer[] = "00000000-0000-4000-8000-000000000000:1";
    struct town_habit look = once(waiting(ours, 0));
    struct town_person *looker;

    for (int i = 0; i < 3; i++) {
        town_type(town, (const char *const[]){"RPUSH", "redisson_lock_queue:{" TOWN_LOCK "}", peer,
                                              NULL});
        looker = town_add(town, &look, 0);
        town_run(town, 100); /* it looks, and nobody hears the peer yet */
        assert_int_equal(looker->refusals, 1);
        town_type(town, (const char *const[]){"DEL", "redisson_lock_queue:{" TOWN_LOCK "}",
                                              "redisson_lock_timeout:{" TOWN_LOCK "}", NULL});
        town_run(town, 2 * MINUTE);
    }
    (void)town_free(town);
}

/* Five of one host that stands still, and one that waits behind them. */
TEST(a_silent_host_is_passed_over_at_once)
{
    struct town *town = town_new(8, SLOT);
    struct town_habit first = holding(ours, 30 * SECOND, 2 * SECOND), one = once(ours);
    struct town_person *host[200], *live;

    for (int many = 5; many <= 200; many += 195) {
        (void)town_add(town, &first, 0);
        for (int i = 0; i < many; i++) {
            host[i] = town_add(town, &one, 10 + i);
        }
        live = town_add(town, &one, 300);
        town_run(town, 400);
        for (int i = 0; i < many; i++) {
            town_stop(host[i], HOUR);
        }
        assert_true(town_run_until_granted(town, live, 1, (2 + 5 + (many == 5 ? 4 : 11)) * SECOND));
        for (int i = 0; i < many; i++) {
            town_kill(host[i]);
        }
        town_run(town, MINUTE);
    }
    assert_int_equal(town->report.thrown_by_ours, 0);
    (void)town_free(town);
}

/* Where the server does not say how many hear a channel, who is alive answers. */
TEST(without_counts_only_the_silent_are_passed_over)
{
    struct town *town = town_new(9, SLOT);
    struct town_habit habit = ours;
    struct town_person *dead, *live;

    town->counts_unknown = true;
    habit.hold = 200;
    dead = town_add(town, &habit, 0);
    for (int i = 0; i < 6; i++) {
        live = town_add(town, &habit, 10 + i);
    }
    town_run(town, MINUTE);
    town_kill(dead);
    assert_true(town_run_until_granted(town, live, live->grants + 20, MINUTE));
    assert_well(town);
    (void)town_free(town);
}

/* Short waits, and none: what they have seen stays, so that they get past the dead. */
TEST(short_waits_get_past_the_dead)
{
    for (int64_t wait = 0; wait <= 300; wait += 300) {
        struct town *town = town_new(10, SLOT);
        struct town_habit first = holding(ours, 30 * SECOND, SECOND), dead = once(ours),
                          hasty = waiting(ours, wait);
        struct town_person *person;

        hasty.think = SECOND;
        (void)town_add(town, &first, 0);
        person = town_add(town, &dead, 100);
        town_run(town, 500);
        town_kill(person);
        town_run(town, SECOND);
        person = town_add(town, &hasty, 0);
        assert_true(town_run_until_granted(town, person, 1, 3 * SECOND));
        assert_well(town);
        (void)town_free(town);
    }
}

/* ---- Keys ---- */

/* The other scripts are run all the time, here and in the simulator: these two are not. */
TEST(inspect_and_force_ask_for_the_keys_that_they_do_not_declare)
{
    struct town *town = town_new(13, SLOT);
    const struct rlock__args nobody = {.owner = rlock__bytes("", 0)};
    struct town_habit first = holding(ours, 30 * SECOND, 20 * SECOND), one = once(ours);
    struct rlock__cmd cmds[3] = {{0}};

    (void)town_add(town, &first, 0);
    (void)town_add(town, &one, 100);
    town_run(town, SECOND);
    sim_server_want_keys(town->server, true);
    rlock__fair_ops.inspect(town->spec, &cmds[0]);
    rlock__fair_ops.force(town->spec, &(struct rlock__args){.seen = rlock__bytes_of(town->holder)},
                          &cmds[1]);
    rlock__fair_ops.force(town->spec, &nobody, &cmds[2]);
    for (int i = 0; i < 3; i++) {
        struct rlock__buf bytes = {0};

        (void)rlock__cmd_encode(&cmds[i], true, &bytes);
        assert_true(sim_server_command(town->server, town->conn, bytes.data, bytes.len));
        assert_null(sim_server_unsupported(town->server));
        rlock__buf_fini(&bytes);
        rlock__cmd_fini(&cmds[i]);
    }
    (void)town_free(town);
}

/* ---- At random ---- */

static struct town_habit random_habit(struct town *town)
{
    static const int64_t waits[] = {-1, -1, 0, 300, 2000, 20000, 250000};
    struct town_habit habit = town_chance(town, 400) ? peers : ours;

    habit.hears_first = town_chance(town, 200);
    habit.wait = waits[town_below(town, 7)];
    habit.hold = 2 + town_below(town, 60);
    habit.think = 2 + town_below(town, town_chance(town, 200) ? 3000 : 100);
    return habit;
}

static void strike(struct town *town)
{
    struct town_person *person = town->people[town_below(town, (int64_t)town->n)];
    int64_t dice = town_below(town, 100);

    if (person->state == TOWN_GONE) {
        return;
    }
    if (dice < 25 && town->n + 1 < TOWN_MOST) { /* another takes its place */
        struct town_habit habit = random_habit(town);

        town_kill(person);
        (void)town_add(town, &habit, 1 + town_below(town, 3000));
    } else if (dice < 50) {
        town_stop(person, 2000 + town_below(town, 15000));
    }
}

/* Traffic for so long, then rest: nothing stays, and who comes last gets the lock. */
static void live_through(uint64_t seed, int64_t minutes, struct town_report *total)
{
    struct town *town = town_new(seed, SLOT);
    int64_t n = 2 + town_below(town, 20), pause = 500 + town_below(town, 20000);
    struct town_habit last = once(ours);
    struct town_person *person;

    town->loss = town_chance(town, 300) ? 5 : 0;
    town->resends = town_chance(town, 300) ? 10 : 0;
    town->counts_unknown = town_chance(town, 100);
    town->is_plain = town_chance(town, 250);
    for (int64_t i = 0; i < n; i++) {
        struct town_habit habit = random_habit(town);

        (void)town_add(town, &habit, town_below(town, 1000));
    }
    for (int64_t end = town->now + minutes * MINUTE; town->now < end;) {
        town_run(town, pause / 2 + town_below(town, pause));
        strike(town);
    }
    for (size_t i = 0; i < town->n; i++) {
        town_retire(town->people[i]);
    }
    town_run(town, 10 * MINUTE);
    person = town_add(town, &last, 0);
    if (!town_run_until_granted(town, person, 1, HOUR)) {
        fail_msg("seed %llu: the last one waits for ever", (unsigned long long)seed);
    }
    town_run(town, HOUR);
    total->grants += town->report.grants;
    total->pushed += town->report.pushed;
    total->dead_removed += town->report.dead_removed;
    if (town->report.second_holders + town->report.inversions + town->report.thrown_by_ours +
                town->report.thrown_by_peers + town->report.endless !=
            0 ||
        town_keys(town) != 0) {
        fail_msg("seed %llu: %llu second holders, %llu inversions, %llu and %llu put out alive, "
                 "%llu queues of ours without an end, %zu keys left",
                 (unsigned long long)seed, (unsigned long long)town->report.second_holders,
                 (unsigned long long)town->report.inversions,
                 (unsigned long long)town->report.thrown_by_ours,
                 (unsigned long long)town->report.thrown_by_peers,
                 (unsigned long long)town->report.endless, town_keys(town));
    }
    (void)town_free(town);
}

/* RLOCK_TEST_GRANTS says how many grants at least. */
TEST(ours_and_peers_are_served_in_order_whatever_happens)
{
    const char *given = getenv("RLOCK_TEST_GRANTS");
    uint64_t wanted = given != NULL ? strtoull(given, NULL, 10) : 20000, seed = 0;
    struct town_report total = {0};

    while (total.grants < wanted / (test_slack() > 1 ? 4 : 1)) {
        live_through(++seed, given != NULL ? 10 : 2, &total);
    }
    print_message("%llu grants in %llu towns, %llu of them by releases, all in order, and %llu "
                  "places that died\n",
                  (unsigned long long)total.grants, (unsigned long long)seed,
                  (unsigned long long)total.pushed, (unsigned long long)total.dead_removed);
    assert_true(total.pushed > total.grants / 20);
}
