/* SPDX-License-Identifier: Apache-2.0 */
/* What an actor does: takes, holds and gives back, in ways that its scenario allows. */
#include <stdio.h>

#include "begun.h"
#include "system.h"

/* A lock that it takes, and what it concerns. */
struct aim {
    struct rlock_handle *lock;
    unsigned client, cells;
};

static struct aim aim_at(struct actor *actor, bool multi)
{
    unsigned client = (unsigned)sched_roll(&actor->dice, stage.n_clients);
    unsigned name = (unsigned)sched_roll(&actor->dice, stage.n_names);
    unsigned server = stage.scenario->own_servers ? client : 0;

    if (stage.scenario->redlock) {
        return (struct aim){.lock = stage.group, .cells = 1};
    }
    if (multi) {
        return (struct aim){.lock = stage.group, .cells = 1U | 1U << STAGE_NAMES_MAX};
    }
    return (struct aim){.lock = stage.locks[client][name],
                        .client = client,
                        .cells = 1U << (server * STAGE_NAMES_MAX + name)};
}

static enum move any_move(struct actor *actor)
{
    enum move move;

    do {
        move = (enum move)(1 << sched_roll(&actor->dice, 9));
    } while ((stage.scenario->moves & move) == 0);
    return move;
}

static void *fire(void *arg)
{
    struct actor *actor = arg;

    sched_set_name("cancels");
    if (sched_chance(&actor->dice, 700)) {
        sched_sleep(sched_roll(&actor->dice, stage.scenario->wait_us));
    }
    actor->fired = true;
    if (actor->op != NULL && sched_chance(&actor->dice, 500)) {
        rlock_op_cancel(actor->op);
    } else {
        rlock_cancel_fire(actor->cancel);
    }
    if (actor->doing == TAKES_WAITING && !actor->deaf) {
        actor->deadline = rlock__min(actor->deadline, sched_now());
    }
    return NULL;
}

static int64_t wait_of(struct actor *actor, enum move move)
{
    if (move == MOVE_TRY) {
        return 0;
    }
    return move == MOVE_WAIT ? 1 + sched_roll(&actor->dice, stage.scenario->wait_us / RLOCK__MS)
                             : RLOCK_FOREVER;
}

/* Whoever fires may end it as well. */
static void begin_take(struct begun *begun, struct actor *actor, struct rlock_handle *lock,
                       int64_t wait_ms, const struct rlock_take *take)
{
    begun_take(begun, lock, wait_ms, take);
    if (actor->cancel != NULL && begun->op != NULL) {
        actor->op = rlock_op_ref(begun->op);
    }
}

/* What an actor does in one way or the other. */
static int take_lock(struct actor *actor, struct rlock_handle *lock, int64_t wait_ms,
                     const struct rlock_take *take, struct rlock_grant *ret_grant)
{
    struct begun begun;

    if (!stage.begins) {
        return rlock_lock_for(lock, wait_ms, take, ret_grant);
    }
    begin_take(&begun, actor, lock, wait_ms, take);
    return begun_end(&begun, ret_grant);
}

static int leave_lock(const struct actor *actor, struct rlock_handle *lock)
{
    struct begun begun;

    if (!stage.begins) {
        return rlock_unlock_as(lock, actor->owner);
    }
    begun_leave(&begun, lock, actor->owner);
    return begun_end(&begun, NULL);
}

static int take(struct actor *actor, const struct aim *aim, int64_t wait_ms)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int code;

    sched_trace("takes %s, wait %lld ms", rlock_name(aim->lock, NULL), (long long)wait_ms);
    check_begin(actor, wait_ms == 0 ? TAKES : TAKES_WAITING,
                wait_ms < 0 ? RLOCK__NEVER : wait_ms * RLOCK__MS, aim->cells);
    code = take_lock(actor, aim->lock, wait_ms,
                     RLOCK_TAKE(.owner = actor->owner, .cancel = actor->cancel), &grant);
    sched_trace("takes %s: %s %s", rlock_name(aim->lock, NULL), rlock_code_name(code),
                code != 0 ? rlock_detail() : "");
    check_end(actor, code);
    if (code == 0) {
        check_enter(actor, aim->cells, grant.valid_ms);
        actor->levels++;
        check_levels(actor, aim->lock);
    }
    return code;
}

/* last: it is not held any more then. */
static void give_back(struct actor *actor, const struct aim *aim, bool last)
{
    bool was_closed = stage.closed;
    int code;

    if (last) {
        check_leave(actor, aim->cells);
    }
    check_begin(actor, GIVES_BACK, 0, aim->cells);
    code = leave_lock(actor, aim->lock);
    sched_trace("gives back %s: %s", rlock_name(aim->lock, NULL), rlock_code_name(code));
    check_end(actor, code);
    actor->levels--;
    if (last && was_closed) { /* close has told that it is lost */
        stage.n_losses++;
    }
    if (code == 0) {
        check_levels(actor, aim->lock);
    }
}

/* While it holds. Says when it finds that it holds no more. */
static bool hold(struct actor *actor, const struct aim *aim)
{
    int64_t until = sched_now() + sched_roll(&actor->dice, stage.scenario->hold_us + 1);
    int64_t valid_ms;

    do {
        sched_sleep(rlock__min(until - sched_now(), 50 * RLOCK__MS));
        valid_ms = rlock_valid_ms_as(aim->lock, actor->owner);
        if (valid_ms == 0) {
            sched_trace("has lost %s", rlock_name(aim->lock, NULL));
            return false;
        }
        check_enter(actor, aim->cells, valid_ms);
    } while (sched_now() < until);
    return true;
}

static void play_held(struct actor *actor, const struct aim *aim, enum move move)
{
    bool was_locked;

    if (!hold(actor, aim) && !stage.disturbed && !stage.closing && sched_n_stalls() == 0) {
        sched_fail("actor %u has lost a hold that was renewed", actor->number);
    }
    if (move == MOVE_NEST && take(actor, aim, sched_chance(&actor->dice, 500) ? 0 : 10) == 0) {
        (void)hold(actor, aim);
        give_back(actor, aim, false);
    }
    if (move == MOVE_FORCE) {
        stage.disturbed = true;
        check_leave(actor, aim->cells);
        (void)rlock_force_unlock(aim->lock, &was_locked);
    }
    give_back(actor, aim, true);
}

/* Waits for one that was begun. */
static void play_begun(struct actor *actor, const struct aim *aim, struct begun *begun)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int code;

    check_begin(actor, TAKES_WAITING, RLOCK__NEVER, aim->cells);
    if (actor->fired && !actor->deaf) { /* before this */
        actor->deadline = sched_now();
    }
    code = begun_end(begun, &grant);
    sched_trace("takes %s: %s", rlock_name(aim->lock, NULL), rlock_code_name(code));
    check_end(actor, code);
    if (code == 0) {
        check_enter(actor, aim->cells, grant.valid_ms);
        actor->levels++;
    }
}

/* Begins to take a lock twice: the second one is cancelled, in line behind the first or not. */
static void play_line(struct actor *actor, const struct aim *aim)
{
    struct begun first, second;

    sched_trace("takes %s twice", rlock_name(aim->lock, NULL));
    begun_take(&first, aim->lock, RLOCK_FOREVER, RLOCK_TAKE(.owner = actor->owner));
    begin_take(&second, actor, aim->lock, RLOCK_FOREVER,
               RLOCK_TAKE(.owner = actor->owner, .cancel = actor->cancel));
    play_begun(actor, aim, &second);
    actor->deaf = true;
    play_begun(actor, aim, &first);
    actor->deaf = false;
    while (actor->levels > 0) {
        give_back(actor, aim, actor->levels == 1);
    }
}

/* False: it ends, and what it has with it. */
static bool play_round(struct actor *actor, enum move move)
{
    bool in_line = stage.begins && move == MOVE_CANCEL && stage.group != NULL;
    struct aim aim = aim_at(actor, move == MOVE_MULTI || in_line);
    pthread_t firing;

    actor->owner = move == MOVE_GIVEN ? rlock_owner_new(stage.clients[aim.client]) : 0;
    if (stage.begins && actor->owner == 0) { /* one for all clients */
        actor->owner = actor->number;
    }
    if (move == MOVE_CANCEL) {
        actor->fired = false;
        (void)rlock_cancel_new(&actor->cancel);
        (void)pthread_create(&firing, NULL, fire, actor);
    }
    if (in_line) {
        play_line(actor, &aim);
    } else if (take(actor, &aim, wait_of(actor, move)) == 0) {
        if (move == MOVE_EXIT) {
            (void)hold(actor, &aim); /* which its lease protects when it has ended */
            stage.n_losses++;
            return false;
        }
        play_held(actor, &aim, move);
    }
    if (move == MOVE_CANCEL) {
        (void)pthread_join(firing, NULL);
        actor->cancel = rlock_cancel_free(actor->cancel);
        actor->op = rlock_op_unref(actor->op);
    }
    return true;
}

void *actor_main(void *arg)
{
    struct actor *actor = arg;
    int64_t rounds = sched_between(&actor->dice, 1, stage.scenario->rounds);

    (void)snprintf(actor->name, sizeof(actor->name), "actor %u", actor->number);
    sched_set_name(actor->name);
    for (bool goes_on = true; rounds > 0 && goes_on && !stage.closing; rounds--) {
        sched_sleep(sched_roll(&actor->dice, stage.scenario->pause_us + 1));
        goes_on = play_round(actor, any_move(actor));
    }
    return NULL;
}
