/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes take turns: owners of several clients want one lock all the time, each for a while, and
 * what is counted is who had it how often, and how long it was free.
 */
#include "base/random.h"
#include "plain/stage.h"
#include "support/test.h"
#include <stdio.h>

#define HOLD RLOCK__MS

struct player {
    struct crowd *crowd;
    struct rlock__call call;
    size_t client;
    int64_t leaves; /* when it unlocks; 0 it has not got the lock */
    int64_t wants;  /* when it wants the lock again; 0: it does */
};

struct crowd {
    struct stage stage;
    struct player players[STAGE_CLIENTS * STAGE_OWNERS];
    int64_t grants[STAGE_CLIENTS];
    size_t had_last;        /* the client */
    int64_t in_a_row, most; /* of one client's grants */
    int64_t free_since, gap, longest_gap;
    int64_t hold_us,
        rest_us; /* a holder has it for so long, and wants it again after such a rest */
};

static void begin(struct player *player, enum rlock__call_kind kind, int64_t wait)
{
    size_t owner = (size_t)(player - player->crowd->players);

    player->leaves = 0;
    player->call = (struct rlock__call){.kind = kind,
                                        .acquire.wait_us = wait,
                                        .owner = {.id = owner + 1, .given = true},
                                        .payload = player};
    stage_begin(&player->crowd->stage, player->client, &player->call);
}

static void on_done(void *payload, struct rlock__call *call)
{
    struct crowd *crowd = payload;
    struct player *player = call->payload;
    int64_t now = crowd->stage.now;

    assert_int_equal(call->code, 0);
    (void)rlock__view_unref(call->view);
    call->view = NULL;
    if (call->kind == RLOCK__RELEASE) {
        crowd->free_since = now;
        return;
    }
    player->leaves = now + crowd->hold_us;
    crowd->grants[player->client]++;
    crowd->in_a_row = player->client == crowd->had_last ? crowd->in_a_row + 1 : 1;
    crowd->most = rlock__max(crowd->most, crowd->in_a_row);
    crowd->had_last = player->client;
    crowd->gap = now - crowd->free_since;
    crowd->longest_gap = rlock__max(crowd->longest_gap, crowd->gap);
}

static void on_lost(void *payload, size_t client, const struct rlock__loss *loss)
{
    (void)payload;
    (void)client;
    (void)loss;
    fail_msg("a lock is lost");
}

static void nothing(void *payload)
{
    (void)payload;
}

static void open_crowd_of(struct crowd *crowd, const struct rlock_ops *kind)
{
    const struct stage_events events = {.on_done = on_done,
                                        .on_lost = on_lost,
                                        .on_time = nothing,
                                        .on_rest = nothing,
                                        .payload = crowd};

    *crowd = (struct crowd){.had_last = STAGE_CLIENTS, .hold_us = HOLD};
    stage_open(&crowd->stage, kind, RLOCK__SECOND, &events);
    crowd->free_since = crowd->stage.now;
}

static void open_crowd(struct crowd *crowd)
{
    open_crowd_of(crowd, &rlock__reentrant_ops);
}

static void join(struct crowd *crowd, size_t client, size_t owner)
{
    struct player *player = &crowd->players[client * STAGE_OWNERS + owner];

    player->crowd = crowd;
    player->client = client;
    begin(player, RLOCK__ACQUIRE, -1);
}

/* Who has it gives it back when its time has come, and wants it again at once. */
static void play(struct crowd *crowd, int64_t long_us)
{
    int64_t end = crowd->stage.now + long_us;

    while (crowd->stage.now < end) {
        struct player *holder = NULL;

        for (size_t i = 0; i < STAGE_CLIENTS * STAGE_OWNERS; i++) {
            holder = crowd->players[i].leaves != 0 ? &crowd->players[i] : holder;
        }
        stage_wait(&crowd->stage, holder != NULL ? holder->leaves : crowd->stage.now + 100);
        if (holder != NULL) {
            begin(holder, RLOCK__RELEASE, 0);
            begin(holder, RLOCK__ACQUIRE, -1);
        }
    }
}

TEST(processes_have_a_lock_in_rotation)
{
    struct crowd crowd;
    int64_t all = 0;

    open_crowd(&crowd);
    for (size_t i = 0; i < STAGE_CLIENTS * STAGE_OWNERS; i++) {
        join(&crowd, i / STAGE_OWNERS, i % STAGE_OWNERS);
    }
    play(&crowd, RLOCK__SECOND);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        all += crowd.grants[i];
    }
    assert_true(all > 900);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        assert_in_range(crowd.grants[i] * STAGE_CLIENTS, all * 9 / 10, all * 11 / 10);
    }
    assert_int_equal(crowd.most, 1);
    stage_close(&crowd.stage);
}

/* One that is there, and does not take the lock when it could, holds up the others for moments. */
TEST(who_does_not_come_is_not_waited_for)
{
    struct crowd crowd;

    open_crowd(&crowd);
    stage_type(&crowd.stage,
               (const char *const[]){"SUBSCRIBE", "redisson_lock__channel:{" STAGE_KEY "}", NULL});
    join(&crowd, 0, 0);
    join(&crowd, 0, 1);
    play(&crowd, RLOCK__SECOND);
    assert_in_range(crowd.longest_gap, RLOCK__MS, 4 * RLOCK__MS);
    assert_true(crowd.grants[0] > 200);
    stage_close(&crowd.stage);
}

/* For those who hear nothing of a release: a line that has the lock for itself leaves it, for no
 * longer than another hold would take, after every eighth. */
TEST(a_line_leaves_a_gap_after_eight_grants)
{
    struct crowd crowd;
    int64_t gaps = 0, grants;

    open_crowd(&crowd);
    for (size_t i = 0; i < STAGE_OWNERS; i++) {
        join(&crowd, 0, i);
    }
    for (grants = crowd.grants[0]; grants < 200; grants = crowd.grants[0]) {
        play(&crowd, 1);
        gaps += crowd.grants[0] != grants && crowd.gap != 0;
    }
    assert_in_range(gaps, 23, 25);
    assert_in_range(crowd.longest_gap, 1, HOLD + HOLD / 4);
    stage_close(&crowd.stage);
}

TEST(who_is_alone_never_pauses)
{
    struct crowd crowd;

    open_crowd(&crowd);
    join(&crowd, 0, 0);
    play(&crowd, RLOCK__SECOND);
    assert_int_equal(crowd.longest_gap, 0);
    assert_true(crowd.grants[0] >= 1000);
    stage_close(&crowd.stage);
}

TEST(who_does_not_wait_asks_at_once)
{
    struct crowd crowd;
    struct player *other;

    open_crowd(&crowd);
    join(&crowd, 0, 0);
    join(&crowd, 1, 0);
    stage_wait(&crowd.stage, crowd.stage.now + HOLD);
    stage_type(&crowd.stage,
               (const char *const[]){"SUBSCRIBE", "redisson_lock__channel:{" STAGE_KEY "}", NULL});
    begin(&crowd.players[0], RLOCK__RELEASE, 0);
    stage_wait(&crowd.stage, crowd.players[STAGE_OWNERS].leaves);
    begin(&crowd.players[STAGE_OWNERS], RLOCK__RELEASE, 0);
    other = &crowd.players[STAGE_OWNERS + 1]; /* of the client that pauses now */
    other->crowd = &crowd;
    other->client = 1;
    begin(other, RLOCK__ACQUIRE, 0);
    assert_int_not_equal(other->leaves, 0);
    stage_close(&crowd.stage);
}

/* ---- Beside another library that polls ---- */

enum { POLLERS = 3 };
#define RETURN                                                                                     \
    (RLOCK__MS / 3) /* a poller that gives the lock back asks for it again so much later */

/* The threads of a Redisson with a spin lock: each asks by itself, and after each refusal twice as
 * much later, up to 128 ms. One that has the lock is `holder`. */
struct pollers {
    struct crowd *crowd;
    int64_t at[POLLERS], pause[POLLERS]; /* the next look, and the pause behind that one */
    int64_t leaves, grants;
    size_t holder; /* POLLERS: none */
    uint64_t random;
};

static void open_pollers(struct pollers *pollers, struct crowd *crowd, uint64_t seed)
{
    *pollers = (struct pollers){.crowd = crowd, .holder = POLLERS, .random = seed};
    for (size_t i = 0; i < POLLERS; i++) {
        pollers->at[i] = crowd->stage.now + 1 + (int64_t)i * 100;
        pollers->pause[i] = RLOCK__MS;
    }
}

static struct player *holder_of(struct crowd *crowd)
{
    struct player *holder = NULL;

    for (size_t i = 0; i < STAGE_CLIENTS * STAGE_OWNERS; i++) {
        holder = crowd->players[i].leaves != 0 ? &crowd->players[i] : holder;
    }
    return holder;
}

static int64_t next_of(const struct pollers *pollers)
{
    int64_t next = pollers->holder != POLLERS ? pollers->leaves : RLOCK__NEVER;

    for (size_t i = 0; i < POLLERS; i++) {
        next = i != pollers->holder ? rlock__min(next, pollers->at[i]) : next;
    }
    return next;
}

static void take(struct pollers *pollers, size_t i)
{
    struct stage *stage = &pollers->crowd->stage;
    char owner[64];

    (void)snprintf(owner, sizeof(owner), "11111111-0000-4000-8000-000000000001:%zu", i);
    stage_type(stage, (const char *const[]){"HSET", STAGE_KEY, owner, "1", NULL});
    stage_type(stage, (const char *const[]){"PEXPIRE", STAGE_KEY, "30000", NULL});
    pollers->holder = i;
    pollers->leaves = stage->now + pollers->crowd->hold_us;
    pollers->grants++;
}

static void look(struct pollers *pollers, size_t i)
{
    int64_t now = pollers->crowd->stage.now;

    if (holder_of(pollers->crowd) == NULL && pollers->holder == POLLERS) {
        take(pollers, i);
        return;
    }
    pollers->at[i] = now + pollers->pause[i] + rlock__random_below(&pollers->random, 4 * RLOCK__MS);
    pollers->pause[i] = rlock__min(2 * pollers->pause[i], 128 * RLOCK__MS);
}

/* What the pollers do at this instant. */
static void poll_all(struct pollers *pollers)
{
    struct stage *stage = &pollers->crowd->stage;

    if (pollers->holder != POLLERS && stage->now >= pollers->leaves) {
        pollers->at[pollers->holder] = stage->now + rlock__max(RETURN, pollers->crowd->rest_us);
        pollers->pause[pollers->holder] = RLOCK__MS;
        pollers->holder = POLLERS;
        stage_type(stage, (const char *const[]){"DEL", STAGE_KEY, NULL});
    }
    for (size_t i = 0; i < POLLERS; i++) {
        if (i != pollers->holder && stage->now >= pollers->at[i]) {
            look(pollers, i);
        }
    }
}

/* Owners of ours do what is due. Returns when the next one has something to do. */
static int64_t play_ours(struct crowd *crowd)
{
    int64_t next = RLOCK__NEVER;

    for (size_t i = 0; i < STAGE_OWNERS; i++) {
        struct player *player = &crowd->players[i];
        const int64_t now = crowd->stage.now;

        if (player->leaves != 0 && now >= player->leaves) {
            begin(player, RLOCK__RELEASE, 0);
            player->wants = now + crowd->rest_us;
        }
        if (player->wants != 0 && now >= player->wants) {
            player->wants = 0;
            begin(player, RLOCK__ACQUIRE, -1);
        }
        next = player->leaves != 0 ? rlock__min(next, player->leaves) : next;
        next = player->wants != 0 ? rlock__min(next, player->wants) : next;
    }
    return next;
}

static void play_beside(struct pollers *pollers, int64_t long_us)
{
    struct crowd *crowd = pollers->crowd;
    int64_t end = crowd->stage.now + long_us;

    while (crowd->stage.now < end) {
        int64_t next = rlock__min(next_of(pollers), play_ours(crowd));

        stage_wait(&crowd->stage, rlock__min(next, crowd->stage.now + RLOCK__MS / 10));
        (void)play_ours(crowd);
        poll_all(pollers);
    }
}

/* So many percent of the grants are ours, where the pollers take part. */
static int64_t share_beside_pollers(struct pollers *pollers, struct crowd *crowd, uint64_t seed,
                                    int64_t hold_us, int64_t rest_us)
{
    open_crowd_of(crowd, &rlock__spin_ops);
    crowd->hold_us = hold_us;
    crowd->rest_us = rest_us;
    crowd->stage.clients[0].core.opts.uuid[14] = '8'; /* the version of ours */
    crowd->stage.clients[0].core.random = seed;
    open_pollers(pollers, crowd, seed);
    for (size_t i = 0; i < STAGE_OWNERS; i++) {
        join(crowd, 0, i);
    }
    play_beside(pollers, 10 * RLOCK__SECOND);
    return crowd->grants[0] * 100 / (crowd->grants[0] + pollers->grants);
}

enum { SEEDS = 20 };

/* With holds of hold_us, and a rest behind each, neither side gets less than 30 %, whatever the
 * pauses are by chance; and there are so many grants in ten seconds. */
static void check_shares(int64_t hold_us, int64_t rest_us, int64_t grants)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct crowd crowd;
        struct pollers pollers;

        assert_in_range(share_beside_pollers(&pollers, &crowd, seed, hold_us, rest_us), 30, 70);
        assert_true(crowd.grants[0] + pollers.grants > grants);
        stage_close(&crowd.stage);
    }
}

TEST(a_library_that_polls_has_its_turns)
{
    check_shares(RLOCK__MS, 0, 6000);
}

/* Often nobody waits here when the lock is given back, and all pollers pause for long. */
TEST(a_library_that_polls_now_and_then_has_its_turns)
{
    check_shares(5 * RLOCK__MS, 5 * RLOCK__MS, 1300);
}

/* And once it is gone nobody pauses for it. */
TEST(a_library_that_polled_is_forgotten)
{
    struct crowd crowd;
    struct pollers pollers;

    (void)share_beside_pollers(&pollers, &crowd, 1, HOLD, 0);
    if (pollers.holder != POLLERS) {
        stage_type(&crowd.stage, (const char *const[]){"DEL", STAGE_KEY, NULL});
    }
    play(&crowd, 2 * RLOCK__SECOND);
    crowd.longest_gap = 0;
    play(&crowd, RLOCK__SECOND);
    assert_in_range(crowd.longest_gap, 1, HOLD + HOLD / 4);
    stage_close(&crowd.stage);
}
