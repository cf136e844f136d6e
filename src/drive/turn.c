/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the groups of multi-locks and RedLocks. The calling thread begins its members' calls in
 * their clients, keeps watch over all of those that nobody watches, and carries out the group's
 * actions; who completes a member's call, in whichever thread, tells the group under its one mutex.
 * That mutex is a leaf: it is taken with or without one client's mutex held, and nothing is taken
 * under it.
 *
 * A call that completes when nobody drives its group any more is settled on the spot: what it
 * needs then, its own release or its seal, concerns its own client alone.
 */
#include "drive/turn.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <utlist.h>

#include "base/clock.h"
#include "lock/internal.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects all groups */
static pthread_cond_t idle; /* some group has no effort under way; waits by CLOCK_MONOTONIC */
static struct rlock__group *groups;
static uint64_t random_state;

/* A thread that drives a group. */
struct waiter {
    struct rlock__group *group;
    int fd;      /* rings when its group has changed while it sleeps */
    bool asleep; /* protected by the mutex */
    size_t n_kept;
    struct rlock_client *kept[RLOCK__MEMBERS_MAX]; /* those it keeps watch over */
    struct rlock__parker parker;
};

/* How often a thread that waits for another's effort looks whether it is cancelled. */
#define TURN_US (20 * RLOCK__MS)

static void finish(struct rlock__call *call);

/* ---- Actions ---- */

/* Begins and gives up members' calls, those of one client in one event and one write; waiter (NULL
 * none) keeps watch where nobody does. */
static void carry_out(struct rlock__group_step *step, struct waiter *waiter)
{
    struct rlock__action *actions = step->actions;

    for (size_t i = 0; i < step->n; i++) {
        struct rlock__core *core = actions[i].core;
        struct rlock_client *client;

        if (core == NULL) { /* with one before it */
            continue;
        }
        client = rlock__client_of(core);
        rlock__enter(client);
        if (waiter != NULL && rlock__watch_begin(client, &waiter->parker)) {
            waiter->kept[waiter->n_kept++] = client;
        }
        for (size_t k = i; k < step->n; k++) {
            if (actions[k].core == core) {
                rlock__action_carry_out(&actions[k], rlock__now_us());
                actions[k].core = NULL;
            }
        }
        rlock__leave(client);
        rlock__drive(client);
    }
}

/* ---- Groups ---- */

static void drop_if_over(struct rlock__group *group)
{
    if (group->users == 0 && rlock__group_is_over(group)) {
        DL_DELETE(groups, group);
        rlock__group_free(group);
    }
}

struct rlock__group *rlock__group_find(const struct rlock__group_spec *spec,
                                       struct rlock__owner owner)
{
    struct rlock__group *group;

    DL_FOREACH(groups, group) {
        if (group->owner.id == owner.id && group->owner.given == owner.given &&
            rlock__group_spec_equal(group->spec, spec)) {
            return group;
        }
    }
    return NULL;
}

/* Whoever drives the group has something to do. */
static void ring(struct waiter *waiter)
{
    const uint64_t one = 1;

    if (waiter != NULL && waiter->asleep) {
        waiter->asleep = false;
        (void)!write(waiter->fd, &one, sizeof(one));
    }
}

/* A member's call is complete, or its channel spoke: under its client's mutex. */
static void finish(struct rlock__call *call)
{
    struct rlock__member *member = call->payload;
    struct rlock__group *group = member->group;
    struct rlock__action action = {0};
    bool acts = false;

    (void)pthread_mutex_lock(&mutex);
    rlock__group_done(call, rlock__now_us());
    ring(group->waiter);
    if (group->waiter == NULL) {
        acts = rlock__action_take(member, &action);
    }
    if (acts) {
        group->users++;
    }
    drop_if_over(group);
    (void)pthread_mutex_unlock(&mutex);
    if (acts) {
        rlock__action_carry_out(&action, rlock__now_us());
        (void)pthread_mutex_lock(&mutex);
        group->users--;
        drop_if_over(group);
        (void)pthread_mutex_unlock(&mutex);
    }
}

/* Who reports a group's loss: the first member's client, or another while that one is closed, or
 * the one that is just being closed; NULL nobody can. */
static struct rlock_client *reporter(const struct rlock__group_spec *spec,
                                     struct rlock_client *closing)
{
    struct rlock_client *client = rlock__client_of(spec->first->core);

    for (size_t i = 0; atomic_load(&client->closed) && i < spec->n; i++) {
        client = rlock__client_of(spec->members[i]->core);
    }
    return atomic_load(&client->closed) ? closing : client;
}

/* Reports a loss, on a dispatcher. */
static void report(const struct rlock__group_spec *spec, struct rlock__loss *loss,
                   struct rlock_client *closing)
{
    struct rlock_client *client = reporter(spec, closing);
    char name[96];

    if (loss == NULL || client == NULL) {
        (void)rlock__loss_free(loss);
        return;
    }
    rlock__enter(client);
    rlock__note(&client->core, RLOCK_LOG_WARNING, "lock %s: lost: %s",
                rlock__text(loss->name, name, sizeof(name)), rlock_reason_text(loss->reason));
    DL_APPEND(client->core.lost, loss);
    rlock__leave(client);
}

/* ---- Driving ---- */

/* Sleeps until the group or a watched client has something to do. cancel: NULL none, or the group
 * knows that it was fired. */
static void sleep_once(struct waiter *waiter, int64_t until, const struct rlock_cancel *cancel)
{
    struct pollfd fds[2 * RLOCK__MEMBERS_MAX + 2];
    int64_t untils[RLOCK__MEMBERS_MAX];
    bool asleep;
    uint64_t rings;

    for (size_t i = 0; i < waiter->n_kept; i++) {
        untils[i] = rlock__watch_plan(waiter->kept[i], &fds[2 + 2 * i]);
        until = rlock__min(until, untils[i]);
    }
    fds[0] = (struct pollfd){.fd = waiter->fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
    if (cancel != NULL) {
        fds[1].fd = rlock__cancel_fd(cancel);
    }
    (void)pthread_mutex_lock(&mutex);
    asleep = waiter->asleep;
    (void)pthread_mutex_unlock(&mutex);
    if (asleep) {
        (void)poll(fds, 2 + 2 * waiter->n_kept, rlock__timeout_ms(until, rlock__now_us()));
    }
    if ((fds[0].revents & POLLIN) != 0) {
        (void)!read(waiter->fd, &rings, sizeof(rings));
    }
    for (size_t i = 0; i < waiter->n_kept; i++) {
        rlock__watch_react(waiter->kept[i], &fds[2 + 2 * i], untils[i]);
    }
}

void rlock__turn_drive(struct rlock__group *group, int fd, const struct rlock_cancel *cancel)
{
    struct waiter all = {.group = group, .fd = fd}, *waiter = &all;
    struct rlock__group_step step = {.complete = false};
    bool fired;

    while (!step.complete) {
        (void)pthread_mutex_lock(&mutex);
        fired = cancel != NULL && rlock__cancel_is_fired(cancel);
        if (fired) {
            rlock__group_cancel(group, rlock__now_us());
        }
        rlock__group_timer(group, rlock__now_us());
        rlock__twins_refuse(group, rlock__now_us());
        rlock__group_step(group, rlock__now_us(), &step);
        group->waiter = step.complete ? NULL : waiter;
        waiter->asleep = !step.complete && step.n == 0;
        (void)pthread_mutex_unlock(&mutex);
        report(group->spec, step.loss, NULL);
        carry_out(&step, waiter);
        if (!step.complete && step.n == 0) {
            sleep_once(waiter, step.timer_at, fired ? NULL : cancel);
        }
    }
    while (waiter->n_kept > 0) {
        struct rlock_client *client = waiter->kept[--waiter->n_kept];

        rlock__enter(client);
        rlock__watch_end(client);
        rlock__leave(client);
    }
}

/* ---- Turns ---- */

void rlock__groups_lock(void)
{
    (void)pthread_mutex_lock(&mutex);
}

void rlock__groups_unlock(void)
{
    (void)pthread_mutex_unlock(&mutex);
}

/* Waits a little for another thread's effort on the same owner's hold. */
static int wait_for_turn(const struct rlock__turn *turn)
{
    int64_t now = rlock__now_us(), until;
    struct timespec ts;

    if (turn->cancel != NULL && rlock__cancel_is_fired(turn->cancel)) {
        return RLOCK_ECANCELED;
    }
    if (now >= turn->deadline) {
        return RLOCK_ETIMEDOUT;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    until = rlock__min(turn->deadline - now, TURN_US) + ts.tv_nsec / 1000;
    ts.tv_sec += until / RLOCK__SECOND;
    ts.tv_nsec = (long)(until % RLOCK__SECOND) * 1000;
    (void)pthread_cond_timedwait(&idle, &mutex, &ts);
    return 0;
}

int rlock__turn_begin(const struct rlock__turn *turn, struct rlock__group **ret_group)
{
    struct rlock__group *group = rlock__group_find(turn->spec, turn->owner);
    int code = 0;

    if (group == NULL) {
        if (random_state == 0) { /* jitter: whatever it gives will do */
            (void)!getrandom(&random_state, sizeof(random_state), GRND_NONBLOCK);
            random_state |= 1;
        }
        group = rlock__group_new(turn->spec, turn->owner, finish, &random_state);
        if (group == NULL) {
            return RLOCK_ENOMEM;
        }
        DL_APPEND(groups, group);
    }
    group->users++;
    while (group->busy && code == 0) {
        code = wait_for_turn(turn);
    }
    if (code != 0) {
        group->users--;
        return code;
    }
    group->busy = true;
    *ret_group = group;
    return 0;
}

/* Carries out the actions that came since it was last driven, or by the loss of a member. With the
 * mutex held, and the group's turn. */
static void drain(struct rlock__group *group, struct rlock_client *closing)
{
    struct rlock__group_step step;

    rlock__group_step(group, rlock__now_us(), &step);
    (void)pthread_mutex_unlock(&mutex);
    report(group->spec, step.loss, closing);
    carry_out(&step, NULL);
    (void)pthread_mutex_lock(&mutex);
}

void rlock__turn_end(struct rlock__group *group)
{
    drain(group, NULL);
    group->busy = false;
    group->users--;
    drop_if_over(group);
    (void)pthread_cond_broadcast(&idle);
}

/* ---- Losses ---- */

/* Whether a group has levels of the hold that was lost. */
static bool is_hit(const struct rlock__group *group, const struct rlock__loss *loss)
{
    if (group->owner.id != loss->owner_id || group->owner.given != (loss->owner != 0)) {
        return false;
    }
    for (size_t i = 0; i < group->spec->n; i++) {
        if (group->members[i].levels > 0 && rlock__spec_equal(group->members[i].spec, loss->spec)) {
            return true;
        }
    }
    return false;
}

/* Lets a group give back its other members; if somebody has its turn, lets that one do it. */
static void settle(struct rlock__group *group, struct rlock_client *closing)
{
    if (group->busy) {
        ring(group->waiter);
        return;
    }
    group->busy = true;
    group->users++;
    drain(group, closing);
    group->busy = false;
    group->users--;
    (void)pthread_cond_broadcast(&idle);
}

bool rlock__groups_lost(const struct rlock__loss *loss)
{
    struct rlock__group *group, *after;

    if (loss->kind != NULL) {
        return true;
    }
    (void)pthread_mutex_lock(&mutex);
    DL_FOREACH(groups, group) {
        if (is_hit(group, loss)) {
            rlock__group_member_lost(group, loss->reason, rlock__now_us());
        }
    }
    for (group = groups; group != NULL; group = after) {
        if (group->untold != NULL) {
            settle(group, rlock__client_of(loss->spec->core));
        }
        after = group->next;
        drop_if_over(group);
    }
    (void)pthread_mutex_unlock(&mutex);
    return loss->own > 0;
}

void rlock__groups_thread_exit(uint64_t thread)
{
    struct rlock__group *group, *after;

    (void)pthread_mutex_lock(&mutex);
    for (group = groups; group != NULL; group = after) {
        if (!group->owner.given && group->owner.id == thread) {
            group->users++;
            rlock__group_abandon(group, RLOCK_LOST_THREAD_EXITED);
            (void)pthread_mutex_unlock(&mutex);
            for (size_t i = 0; i < group->spec->n; i++) {
                struct rlock_client *client = rlock__client_of(group->spec->members[i]->core);

                rlock__enter(client);
                rlock__core_thread_exit(&client->core, group->spec->members[i], thread,
                                        rlock__now_us());
                rlock__leave(client);
                rlock__drive(client);
            }
            (void)pthread_mutex_lock(&mutex);
            settle(group, NULL);
            group->users--;
        }
        after = group->next;
        drop_if_over(group);
    }
    (void)pthread_mutex_unlock(&mutex);
}

void rlock__groups_init(void)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&idle, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void rlock__groups_fork(enum rlock__fork_stage stage)
{
    if (stage == RLOCK__BEFORE_FORK) {
        (void)pthread_mutex_lock(&mutex);
        return;
    }
    if (stage == RLOCK__IN_CHILD) { /* what the parent's threads were doing is nobody's here */
        groups = NULL;
        rlock__groups_init();
    }
    (void)pthread_mutex_unlock(&mutex);
}
