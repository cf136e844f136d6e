/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations of ours and of peers on the simulated server, with random deaths and pauses, in
 * virtual time: after each one the server must have exactly what the model says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fair/table.h"
#include "support/run.h"

static void take(struct table *t, struct actor *actor, bool waits)
{
    bool granted =
        actor->peer ? table_peer_attempt(t, actor, waits) : table_attempt(t, actor, 1, waits);

    if (granted) {
        table_be_holder(t, actor);
    }
}

static void turn_idle(struct table *t, struct actor *actor)
{
    bool waits = table_chance(t, 80);

    take(t, actor, actor->peer && waits);
    if (actor->standing == IDLE && waits) {
        actor->standing = WAITS;
        if (table_chance(t, 95)) { /* some cannot, or not yet */
            table_listen_to(t, actor);
        }
        take(t, actor, true);
    } else if (actor->standing == IDLE && !actor->peer && table_chance(t, 30)) {
        table_look(t, actor);
    }
}

static void turn_waiting(struct table *t, struct actor *actor)
{
    int64_t dice = table_below(t, 100);

    if (dice < 80) {
        take(t, actor, true);
    } else if (dice < 88) {
        if (actor->peer) {
            table_peer_leave(t, actor);
        } else {
            table_release(t, actor);
        }
        table_be_idle(t, actor);
    } else if (dice < 91) { /* its process is killed */
        table_be_idle(t, actor);
    } else if (dice < 94) { /* its process is stopped, or its machine is */
        actor->asleep_until = t->model.now + table_below(t, 12000);
    }
}

static void turn_holding(struct table *t, struct actor *actor)
{
    int64_t dice = table_below(t, 100);

    if (dice < 70) {
        if (actor->peer) {
            table_peer_leave(t, actor);
        } else {
            table_release(t, actor);
        }
        table_be_idle(t, actor);
    } else if (dice < 80 && !actor->peer && model_ttl(&t->model) != -2 &&
               strcmp(t->model.holder, actor->name) == 0) {
        assert_true(table_attempt(t, actor, ++actor->depth, false));
    } else if (dice < 84) {
        table_be_idle(t, actor);
    }
}

static void delete_by_hand(struct table *t)
{
    table_send_words(t, t->conn, (const char *const[]){"DEL", KEY, NULL});
    t->model.holder[0] = '\0';
}

static void pass_time(struct table *t)
{
    int64_t dice = table_below(t, 100);

    t->model.now += dice < 60   ? table_below(t, 3)
                    : dice < 95 ? table_below(t, 200)
                    : dice < 99 ? table_below(t, 1500)
                                : table_below(t, 8000);
    table_tell_time(t);
}

static void turn(struct table *t)
{
    struct actor *actor = &t->actors[table_below(t, (int64_t)t->n_actors)];

    if (t->model.now < actor->asleep_until) {
        return;
    }
    if (actor->standing == IDLE) {
        turn_idle(t, actor);
    } else if (actor->standing == WAITS) {
        turn_waiting(t, actor);
    } else {
        turn_holding(t, actor);
    }
    if (table_below(t, 500) == 0) {
        delete_by_hand(t);
    }
}

static void play(uint64_t seed, const struct game *game)
{
    const int turns = game->turns / (test_slack() > 1 ? 6 : 1);
    struct table t;

    table_begin(&t, seed, game);
    for (int i = 0; i < turns; i++) {
        pass_time(&t);
        turn(&t);
        table_compare(&t);
    }
    assert_true(t.grants > (uint64_t)turns / 100);
    table_end(&t);
}

static void among_ourselves_the_server_has_what_the_model_says(void **state)
{
    (void)state;
    play(1, &(struct game){.n_ours = 40, .slot = 300000, .turns = 60000});
    play(2, &(struct game){.n_ours = 5, .slot = 300000, .turns = 60000});
}

static void short_slots_put_out_whom_the_model_puts_out(void **state)
{
    (void)state;
    play(3, &(struct game){.n_ours = 20, .slot = 3000, .turns = 60000});
}

static void with_peers_the_server_has_what_the_model_says(void **state)
{
    (void)state;
    play(4, &(struct game){20, 20, .slot = 300000, .peers_wait = 300000, .turns = 30000});
    play(5, &(struct game){3, 3, .slot = 300000, .peers_wait = 300000, .turns = 30000});
    play(6, &(struct game){10, 10, .slot = 3000, .peers_wait = 3000, .turns = 30000});
}

static void with_peers_that_wait_for_less_too(void **state)
{
    (void)state;
    play(7, &(struct game){6, 6, .slot = 300000, .peers_wait = 10000, .turns = 60000});
}

/* Rounds in a queue that is never empty: each holder queues again behind all others. Returns how
 * many slots beyond now and the lease the latest score ever was. */
static double go_round(uint64_t seed, int rounds, int64_t deaths_per_mille)
{
    const struct game game = {.n_ours = 6, .slot = 300000};
    struct table t;
    int64_t most = 0;

    table_begin(&t, seed, &game);
    for (int round = 0; round < rounds; round++) {
        struct actor *actor = &t.actors[(size_t)round % game.n_ours];

        t.model.now += table_below(&t, 400);
        table_tell_time(&t);
        if (actor->standing == HOLDS) {
            table_release(&t, actor);
            table_be_idle(&t, actor);
        } else if (actor->standing == WAITS && table_below(&t, 1000) < deaths_per_mille) {
            table_be_idle(&t, actor);
        }
        if (actor->standing == IDLE) {
            actor->standing = WAITS;
            table_listen_to(&t, actor);
        }
        take(&t, actor, true);
        table_compare(&t);
        for (size_t i = 0; i < t.model.n; i++) {
            int64_t left = t.model.queue[i].score - t.model.now;

            assert_true(left > 0);
            most = left > most ? left : most;
        }
    }
    assert_true(t.grants > (uint64_t)rounds / game.n_ours / 3);
    table_end(&t);
    return (double)(most - LEASE_MS) / (double)game.slot;
}

static void scores_do_not_drift_in_a_hundred_thousand_rounds(void **state)
{
    const int rounds = 100000 / (test_slack() > 1 ? 10 : 1);
    double slots;

    (void)state;
    slots = go_round(8, rounds, 0);
    assert_true(slots <= 6);
    slots = go_round(9, rounds, 2);
    assert_true(slots <= 6 + 3); /* the dead, who are there for a while, and leave their slot */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(among_ourselves_the_server_has_what_the_model_says),
        cmocka_unit_test(short_slots_put_out_whom_the_model_puts_out),
        cmocka_unit_test(with_peers_the_server_has_what_the_model_says),
        cmocka_unit_test(with_peers_that_wait_for_less_too),
        cmocka_unit_test(scores_do_not_drift_in_a_hundred_thousand_rounds),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("fair_model", tests, NULL, NULL);
}
