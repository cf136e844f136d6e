/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several calls of one owner that one script takes, all or none: a team. Each is an acquisition of
 * its own, with its number, its hold, its doubts and its release; what they share is the attempt.
 * It is made once each has the turn on its hold. The call whose lock is found busy leads from then
 * on: it stands in that lock's queue and hears its channel, while the others wait for nothing but
 * it. Nobody holds anything meanwhile, so that nobody waits in a circle, whatever the order that
 * users name their locks in.
 *
 * Hot locks may each be free often, and never all at once. So a team tires, after some rounds or at
 * a time that its user gave: its leader ends as busy.
 */
#include <lua_scripts.h>

#include "lock/acquire.h"

#define ROUNDS 8

/* Whether all of them are there still, and none gives up. */
static bool is_whole(const struct rlock__team *team)
{
    for (size_t i = 0; i < team->n; i++) {
        if (team->calls[i] == NULL || team->calls[i]->step == RLOCK__GIVING_UP) {
            return false;
        }
    }
    return true;
}

/* Whether its owner holds one of them already. Such a team does not wait: it has the turn on that
 * hold, and others who act for the owner could not give it up meanwhile. */
static bool is_nested(const struct rlock__team *team)
{
    for (size_t i = 0; i < team->n; i++) {
        if (team->calls[i] != NULL && team->calls[i]->target > 1) {
            return true;
        }
    }
    return false;
}

/* The call waits for its leader: it has no time of its own. */
static void stand_aside(struct rlock__call *call)
{
    rlock__call_step(call, RLOCK__QUEUED);
    rlock__timer_unset(&call->core->timers, &call->timer);
}

static void lead(struct rlock__call *call)
{
    struct rlock__team *team = call->team;
    struct rlock__call *before = team->leader;

    team->leader = call;
    if (before != NULL && before != call) {
        rlock__acquire_withdraw(before, 0);
        if (before->step != RLOCK__GIVING_UP) {
            stand_aside(before);
        }
    }
}

/* ---- Replies ---- */

/* The i-th call of so many that the reply gives as the reason; n none: all are granted, or there is
 * an error. */
static size_t reason(const struct rlock__reply *reply, size_t n)
{
    int64_t i = reply == NULL ? 0 : rlock__reply_int(reply, 0, 0);

    return i >= 1 && i <= (int64_t)n ? (size_t)i - 1 : n;
}

/* What the reply says of the i-th call, as its own script would have said it. */
static struct rlock__reply part(const struct rlock__reply *reply, size_t i, size_t n)
{
    if (reason(reply, n) == i) {
        return (struct rlock__reply){.v = reply->v + 1, .n = reply->n - 1, .is_array = true};
    }
    return (struct rlock__reply){.v = reply->v + 1 + 2 * i, .n = 2, .is_array = true};
}

/* What the reply says to the i-th call. */
static void hear(struct rlock__call *call, const struct rlock__reply *reply, size_t i, int64_t t0,
                 int64_t now)
{
    struct rlock__bytes text = rlock__reply_str(reply, 1);
    struct rlock__value value = {.type = RLOCK__REPLY_ERROR, .str = text.at, .len = text.len};
    struct rlock__reply its = {.v = &value, .n = 1};

    call->team->partial = rlock__reply_int(reply, 0, 0) == -1;
    if (rlock__reply_is_error(reply)) {
        rlock__acquire_heard(call, reply, t0, now);
        return;
    }
    if (!call->team->partial) {
        its = part(reply, i, call->team->n);
    }
    rlock__acquire_heard(call, &its, t0, now);
}

/* Another call is the reason why this one is not granted. That says nothing of copies that went
 * down with an earlier link. */
static void hear_nothing(struct rlock__call *call, int64_t now)
{
    if (call->step == RLOCK__GIVING_UP) {
        rlock__acquire_late_refusal(call, now);
    } else {
        stand_aside(call);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__team *team = request->subject;
    size_t n = team == NULL ? 0 : team->n, why = reason(reply, n);
    int64_t t0 = request->t0;
    bool garbled = request->garbled;

    if (team != NULL) {
        rlock__team_note(team, request);
    }
    (void)rlock__request_free(request);
    for (size_t i = 0; i < n; i++) {
        struct rlock__call *call = team->calls[i];

        if (call != NULL && garbled) {
            rlock__acquire_garbled(call, now);
        } else if (call != NULL && reply == NULL) {
            rlock__acquire_heard(call, NULL, t0, now);
        } else if (call != NULL && why == n) {
            hear(call, reply, i, t0, now);
        } else if (call != NULL && why != i) {
            hear_nothing(call, now);
        }
    }
    if (why < n && team->calls[why] != NULL) { /* last: it may ask again */
        hear(team->calls[why], reply, why, t0, now);
    }
}

void rlock__team_note(struct rlock__team *team, const struct rlock__request *request)
{
    team->request = NULL;
    for (size_t i = 0; i < team->n; i++) {
        if (team->calls[i] != NULL) {
            rlock__acquire_note(team->calls[i], request);
        }
    }
}

/* ---- The attempt ---- */

static void add(struct rlock__cmd *all, const struct rlock__cmd *one)
{
    all->script = &rlock__script_multi_acquire;
    rlock__cmd_arg(all, rlock__bytes_of(one->script->name));
    rlock__cmd_num(all, one->n_keys);
    rlock__cmd_num(all, one->n_args);
    (void)rlock__buf_add(&all->keys, one->keys.data, one->keys.len);
    (void)rlock__buf_add(&all->args, one->args.data, one->args.len);
    all->n_keys += one->n_keys;
    all->n_args += one->n_args;
    all->parts++;
    all->keys.failed |= one->keys.failed;
    all->args.failed |= one->args.failed;
}

/* The attempt that was being made is not. */
static void unask(struct rlock__team *team)
{
    team->request = NULL;
    for (size_t i = 0; i < team->n; i++) {
        team->calls[i]->request = NULL;
        stand_aside(team->calls[i]);
    }
}

static void attempt(struct rlock__team *team, struct rlock__call *leader, int64_t now)
{
    struct rlock__link *link = rlock__route(leader->spec);
    struct rlock__request *request =
        rlock__request_new(&link->server->core->requests, on_answer, team);

    if (request == NULL) {
        rlock__acquire_starve(leader, now);
        return;
    }
    team->request = request;
    for (size_t i = 0; i < team->n; i++) {
        struct rlock__call *call = team->calls[i];
        struct rlock__cmd cmd = {0};

        stand_aside(call);
        rlock__acquire_asks(call, link, request, &cmd, now);
        add(&request->cmd, &cmd);
        rlock__cmd_fini(&cmd);
    }
    if (!rlock__pipeline_submit(&link->pipeline, request, now)) {
        unask(team);
        (void)rlock__request_free(request);
        rlock__acquire_starve(leader, now);
        return;
    }
    rlock__timer_set(&leader->core->timers, &leader->timer, leader->deadline);
}

/* Where others wait here for one of the locks already, or would pause, the team does so first. */
static bool stands_in_line(struct rlock__team *team, int64_t now)
{
    for (size_t i = 0; i < team->n; i++) {
        struct rlock__call *call = team->calls[i];

        if (call->wait_us != 0 && (call->spec->ops->caps & RLOCK__CAP_WAIT_QUEUE) != 0 &&
            rlock__queue_is_kept(call) && rlock__queue_join(call, now)) {
            lead(call);
            if (rlock__queue_is_head(call)) {
                rlock__acquire_go(call, now);
            } else {
                rlock__acquire_sleep(call, RLOCK__QUEUED, RLOCK__NEVER);
            }
            return true;
        }
    }
    return false;
}

void rlock__team_ask(struct rlock__call *call, int64_t now)
{
    struct rlock__team *team = call->team;

    if (team->leader == NULL) { /* it has its turn */
        stand_aside(call);
        if (++team->ready < team->n || !is_whole(team) ||
            (!is_nested(team) && stands_in_line(team, now))) {
            return;
        }
        lead(call);
    }
    if (is_whole(team)) {
        attempt(team, call, now);
    }
}

/* ---- Waiting ---- */

void rlock__team_tire(struct rlock__call *call, int64_t now)
{
    rlock__acquire_describe(call, RLOCK_EBUSY, now);
    rlock__acquire_refuse(call, RLOCK_EBUSY, now);
}

void rlock__team_busy(struct rlock__call *call, const struct rlock__answer *answer, int64_t now)
{
    struct rlock__team *team = call->team;
    unsigned caps = call->spec->ops->caps;
    bool queues = call->wait_us != 0 && (caps & RLOCK__CAP_WAIT_QUEUE) != 0;

    rlock__acquire_hold_up(call, answer);
    team->rounds += !(team->rechecks && team->leader == call);
    team->rechecks = false;
    lead(call);
    if (call->wait_us != 0 && (team->rounds > ROUNDS || now >= team->until || is_nested(team))) {
        rlock__team_tire(call, now);
    } else if (queues && call->queue == NULL && !rlock__queue_join(call, now)) {
        rlock__acquire_starve(call, now);
    } else if (queues && !rlock__queue_is_head(call)) {
        rlock__acquire_sleep(call, RLOCK__QUEUED, RLOCK__NEVER);
    } else {
        team->rechecks = call->channel == NULL && call->spec->ops->pause == NULL;
        rlock__acquire_busy(call, answer, now); /* subscribes, and then asks again */
    }
}

void rlock__team_give_up(struct rlock__team *team, int code, int64_t now)
{
    for (size_t i = 0; i < team->n; i++) {
        if (team->calls[i] != NULL) {
            rlock__acquire_give_up(team->calls[i], code, now);
        }
    }
}

void rlock__team_leave(struct rlock__call *call)
{
    struct rlock__team *team = call->team;
    bool empty = true;

    for (size_t i = 0; i < team->n; i++) {
        team->calls[i] = team->calls[i] == call ? NULL : team->calls[i];
        empty = empty && team->calls[i] == NULL;
    }
    if (team->leader == call) {
        team->leader = NULL;
    }
    if (empty && team->request != NULL) {
        team->request->subject = NULL;
        team->request = NULL;
    }
}
