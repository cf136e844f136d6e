/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator of RedLocks: their real state machine over servers and members that are only what
 * matters of them, a holder, a lease, a start, and answers that come late or never. One seed
 * decides everything, and replays exactly.
 *
 *   parties [--seeds N] [--seed N] [--no-delay] [--trace]
 *
 * It checks that
 *   no two are valid       at one instant, whatever crashed, restarted empty or was cut off
 *   calls return           by their deadline and 50 ms
 *   refused is clean       who is told "busy" or "no quorum" holds nowhere, once what was on its
 *                          way has arrived
 *   nothing is left        at the end
 *
 * --no-delay lets servers count as soon as they restart: then it must see two that are valid.
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/internal.h"
#include "multi/composite.h"

enum { SERVERS = 5, USERS = 4, STEPS = 20000 };

#define LEASE (400 * RLOCK__MS)
#define TIMEOUT (60 * RLOCK__MS)
#define SLACK (50 * RLOCK__MS)
#define END (20 * RLOCK__SECOND)

/* Something that will happen. */
struct event {
    struct event *prev, *next;
    int64_t at;
    enum { ARRIVES, ANSWERS, TICKS, ACTS, RESTARTS } what;
    unsigned user, server, nth; /* nth: of the slot's calls; a later one is not its business */
    uint64_t number;
    bool release, granted, told;
};

struct server {
    bool up;
    uint64_t holder; /* a number; 0 nobody */
    unsigned owner;
    int64_t free_at, started_at;
};

struct user {
    struct rlock__core cores[SERVERS];
    struct rlock__spec *specs[SERVERS];
    struct rlock__composite *composite;
    struct rlock__party *party;
    unsigned nth[SERVERS];
    uint64_t number[SERVERS];
    bool acting;
    int64_t tick_at; /* planned */
    int64_t due;     /* when the call must be back */
};

static struct {
    uint64_t random, last_number;
    int64_t now, delay_us;
    bool calm, trace;
    struct server servers[SERVERS];
    struct user users[USERS];
    struct event *events;
    char violation[200];
    unsigned long grants, refusals, steps;
} w;

static int64_t draw(int64_t n)
{
    return rlock__random_below(&w.random, n);
}

static bool chance(int64_t per_mille)
{
    return !w.calm && draw(1000) < per_mille;
}

static void violate(const char *text, unsigned user)
{
    if (w.violation[0] == '\0') {
        (void)snprintf(w.violation, sizeof(w.violation), "user %u %s at %.3f ms", user, text,
                       (double)w.now / 1000);
    }
}

static int by_time(const struct event *a, const struct event *b)
{
    return (a->at > b->at) - (a->at < b->at);
}

static void plan(struct event event, int64_t in)
{
    struct event *one = malloc(sizeof(*one));

    if (one == NULL) {
        abort();
    }
    *one = event;
    one->at = w.now + in;
    DL_INSERT_INORDER(w.events, one, by_time);
}

static int64_t delay(void)
{
    return 200 + draw(chance(20) ? 100 * RLOCK__MS : w.delay_us);
}

/* ---- Members ---- */

static void unref(struct rlock__core *core)
{
    (void)core;
}

static void begin(unsigned u, unsigned s)
{
    struct user *user = &w.users[u];
    struct rlock__slot *slot = &user->party->slots[s];
    struct event event = {.what = ARRIVES, .user = u, .server = s, .nth = ++user->nth[s]};

    event.release = slot->call.kind == RLOCK__RELEASE;
    if (!event.release) {
        user->number[s] = ++w.last_number;
    }
    event.number = user->number[s];
    slot->call.step = RLOCK__ASKING;
    slot->call.sent_at = w.now;
    if (chance(30)) { /* lost on the way: known not to have run, or not known */
        event.what = ANSWERS;
        event.told = !event.release && chance(500);
        plan(event, slot->call.timeout_us != 0 ? slot->call.timeout_us : TIMEOUT);
    } else {
        plan(event, delay());
    }
}

/* As the core does it: the release goes behind, and what was granted is given back by it. */
static void give_up(unsigned u, unsigned s)
{
    struct user *user = &w.users[u];
    struct event event = {.what = ANSWERS, .user = u, .server = s, .nth = user->nth[s]};

    plan(
        (struct event){
            .what = ARRIVES, .user = u, .server = s, .release = true, .number = user->number[s]},
        200 * RLOCK__MS);
    event.told = chance(800);
    event.number = user->number[s];
    plan(event, 1 + draw(8 * RLOCK__MS));
}

static void carry_out(unsigned u)
{
    struct rlock__party *party = w.users[u].party;

    for (unsigned s = 0; s < SERVERS; s++) {
        struct rlock__slot *slot = &party->slots[s];

        if (slot->wish == RLOCK__WISH_BEGIN) {
            slot->wish = RLOCK__WISH_NONE;
            begin(u, s);
        } else if (slot->wish == RLOCK__WISH_GIVE_UP) {
            slot->wish = RLOCK__WISH_NONE;
            give_up(u, s);
        }
    }
    if (party->timer_at != RLOCK__NEVER && party->timer_at != w.users[u].tick_at) {
        w.users[u].tick_at = party->timer_at;
        plan((struct event){.what = TICKS, .user = u}, rlock__max(party->timer_at - w.now, 0));
    }
}

/* The server runs a command, if it lives, and answers, if the answer arrives. */
static void arrive(const struct event *event)
{
    struct server *server = &w.servers[event->server];
    struct event answer = *event;

    if (!server->up) {
        answer.granted = false;
        answer.told = true;
        answer.what = ANSWERS;
        plan(answer, delay());
        return;
    }
    if (server->holder != 0 && w.now >= server->free_at) {
        server->holder = 0;
    }
    if (event->release) {
        server->holder = server->holder == event->number ? 0 : server->holder;
    } else if (server->holder == 0) {
        server->holder = event->number;
        server->owner = event->user;
        server->free_at = w.now + LEASE;
        answer.granted = true;
    }
    if (event->nth == 0) { /* nobody waits for it */
        return;
    }
    answer.what = ANSWERS;
    answer.told = !chance(30);
    plan(answer, answer.told ? delay() : TIMEOUT);
}

/* What the core makes of an answer. */
static int code_of(struct rlock__slot *slot, const struct event *event)
{
    const struct server *server = &w.servers[event->server];
    bool taking = slot->call.kind == RLOCK__ACQUIRE;
    int64_t valid_until = slot->call.sent_at + LEASE - LEASE / 100;

    if (!event->told) {
        return RLOCK_EINDOUBT;
    }
    if (!taking) {
        return 0;
    }
    if (!event->granted) {
        return server->up ? RLOCK_EBUSY : RLOCK_ECONN;
    }
    if (slot->call.min_uptime_us != 0 && w.now < server->started_at + slot->call.min_uptime_us) {
        return RLOCK_ERESTARTED;
    }
    return w.now < valid_until ? 0 : RLOCK_ETIMEDOUT;
}

static void give_claim(struct rlock__slot *slot)
{
    struct rlock__claim *claim = calloc(1, sizeof(*claim));

    if (claim == NULL) {
        abort();
    }
    claim->spec = rlock__spec_ref(slot->spec);
    atomic_init(&claim->refs, 1);
    atomic_init(&claim->valid_until, slot->call.sent_at + LEASE - LEASE / 100);
    slot->call.claim = claim;
}

static void answer(const struct event *event)
{
    struct user *user = &w.users[event->user];
    struct rlock__slot *slot = &user->party->slots[event->server];

    if (event->nth != user->nth[event->server] || !slot->running) {
        return;
    }
    user->nth[event->server]++; /* no second answer */
    slot->call.code = code_of(slot, event);
    if (slot->call.kind == RLOCK__ACQUIRE && slot->call.code == 0) {
        give_claim(slot);
    } else if (slot->call.code != RLOCK_EBUSY && slot->call.code != 0) {
        /* an orphan: released again until that is certain */
        plan((struct event){.what = ARRIVES,
                            .user = event->user,
                            .server = event->server,
                            .release = true,
                            .number = event->number},
             150 * RLOCK__MS);
    }
    rlock__party_done(slot, w.now);
}

/* ---- Users ---- */

static void act(unsigned u)
{
    struct user *user = &w.users[u];
    struct rlock__effort effort = {.lease_us = LEASE,
                                   .op_timeout_us = TIMEOUT,
                                   .renewed_lease_us = LEASE,
                                   .wait_us = draw(2) * draw(500) * RLOCK__MS};

    user->acting = true;
    if (user->party->count > 0) {
        user->due = w.now + 2 * TIMEOUT + SLACK;
        rlock__party_leave(user->party, w.now);
    } else {
        user->due = w.now + (effort.wait_us != 0 ? effort.wait_us : TIMEOUT) + SLACK;
        rlock__party_take(user->party, &effort, w.now);
    }
    carry_out(u);
}

static void finish_if_complete(unsigned u)
{
    struct user *user = &w.users[u];

    if (!user->acting || !user->party->complete) {
        return;
    }
    user->acting = user->party->complete = false;
    w.grants += user->party->code == 0 && user->party->count > 0;
    w.refusals += user->party->code == RLOCK_EBUSY || user->party->code == RLOCK_ENOQUORUM;
    while (user->party->untold != NULL) {
        struct rlock__loss *loss = user->party->untold;

        LL_DELETE(user->party->untold, loss);
        (void)rlock__loss_free(loss);
    }
    if (!w.calm || user->party->count > 0) {
        plan((struct event){.what = ACTS, .user = u}, draw(60 * RLOCK__MS));
    }
}

static void restart(unsigned s)
{
    w.servers[s] = (struct server){.up = true, .started_at = w.now}; /* empty */
}

static void crash(void)
{
    unsigned s = (unsigned)draw(SERVERS);

    if (w.servers[s].up) {
        w.servers[s].up = false;
        plan((struct event){.what = RESTARTS, .server = s}, draw(300 * RLOCK__MS));
    }
}

/* ---- Checks ---- */

static void check(void)
{
    unsigned valid = 0;

    for (unsigned u = 0; u < USERS; u++) {
        const struct user *user = &w.users[u];

        if (rlock__party_valid_until(user->party) > w.now && valid++ > 0) {
            violate("is valid while another is", u);
        }
        if (user->acting && w.now > user->due) {
            violate("waits for a call past its deadline", u);
        }
    }
}

static void check_end(void)
{
    for (unsigned u = 0; u < USERS; u++) {
        if (!rlock__party_is_over(w.users[u].party)) {
            violate("has something under way at the end", u);
        }
    }
    for (unsigned s = 0; s < SERVERS; s++) {
        if (w.servers[s].holder != 0 && w.now < w.servers[s].free_at) {
            violate("is left as a holder", w.servers[s].owner);
        }
    }
}

/* ---- A run ---- */

static void open_user(unsigned u, int64_t max_lease)
{
    static char addresses[SERVERS][16];
    struct user *user = &w.users[u];

    *user = (struct user){0};
    for (unsigned s = 0; s < SERVERS; s++) {
        (void)snprintf(addresses[s], sizeof(addresses[s]), "server-%u", s);
        user->cores[s] = (struct rlock__core){
            .address = addresses[s], .unref = unref, .serial = u * SERVERS + s + 1};
        user->specs[s] =
            rlock__spec_new(&user->cores[s], &rlock__reentrant_ops, rlock__bytes_of("a"), NULL);
    }
    user->composite = rlock__composite_new(&rlock__redlock_ops, user->specs, SERVERS);
    user->composite->max_lease_us = max_lease;
    user->party = rlock__party_new(user->composite, (struct rlock__owner){.id = u + 1}, &w.random);
    plan((struct event){.what = ACTS, .user = u}, draw(50 * RLOCK__MS));
}

static void close_user(unsigned u)
{
    struct user *user = &w.users[u];

    rlock__party_free(user->party);
    (void)rlock__composite_unref(user->composite);
    for (unsigned s = 0; s < SERVERS; s++) {
        (void)rlock__spec_unref(user->specs[s]);
    }
}

static void trace(const struct event *event)
{
    static const char *const names[] = {"arrives", "answers", "ticks", "acts", "restarts"};

    printf("%.3f user %u server %u %s: call %u number %llu%s%s%s\n", (double)w.now / 1000,
           event->user, event->server, names[event->what], event->nth,
           (unsigned long long)event->number, event->release ? ", release" : "",
           event->granted ? ", granted" : "", event->told ? ", told" : "");
}

static void happen(const struct event *event)
{
    if (w.trace) {
        trace(event);
    }
    switch (event->what) {
    case ARRIVES:
        arrive(event);
        break;
    case ANSWERS:
        answer(event);
        break;
    case TICKS:
        rlock__party_timer(w.users[event->user].party, w.now);
        break;
    case ACTS:
        act(event->user);
        break;
    case RESTARTS:
        restart(event->server);
        break;
    }
}

static void step(void)
{
    struct event *event = w.events;

    w.steps++;
    DL_DELETE(w.events, event);
    w.now = rlock__max(w.now, event->at);
    happen(event);
    if (event->what == ANSWERS || event->what == TICKS || event->what == ACTS) {
        carry_out(event->user);
        finish_if_complete(event->user);
    }
    free(event);
    if (chance(1)) {
        crash();
    }
    check();
}

static bool run(uint64_t seed, bool delays)
{
    w.random = seed * 0x9E3779B97F4A7C15U + 1;
    w.now = END; /* before that all servers were up */
    w.calm = false;
    w.violation[0] = '\0';
    w.steps = 0;
    w.delay_us = RLOCK__MS + draw(20 * RLOCK__MS);
    for (unsigned s = 0; s < SERVERS; s++) {
        restart(s);
        w.servers[s].started_at = 0;
    }
    for (unsigned u = 0; u < USERS; u++) {
        open_user(u, delays ? LEASE : 0);
    }
    for (int i = 0; i < STEPS && w.events != NULL && w.violation[0] == '\0'; i++) {
        w.calm = i > STEPS / 2;
        step();
    }
    while (w.events != NULL && w.violation[0] == '\0') {
        step();
    }
    check_end();
    while (w.events != NULL) {
        struct event *event = w.events;

        DL_DELETE(w.events, event);
        free(event);
    }
    for (unsigned u = 0; u < USERS; u++) {
        close_user(u);
    }
    if (w.violation[0] != '\0') {
        printf("seed %llu fails after %lu steps: %s\n", (unsigned long long)seed, w.steps,
               w.violation);
    }
    return w.violation[0] == '\0';
}

int main(int argc, char **argv)
{
    unsigned long long first = 1, seeds = 1000;
    bool delays = true, good = true;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-delay") == 0) {
            delays = false;
        } else if (strcmp(argv[i], "--trace") == 0) {
            w.trace = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) {
            first = strtoull(argv[++i], NULL, 10);
        } else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0) {
            seeds = strtoull(argv[++i], NULL, 10);
        }
    }
    for (unsigned long long seed = first; good && seed < first + seeds; seed++) {
        good = run(seed, delays);
    }
    printf("%lu grants, %lu refusals, %s\n", w.grants, w.refusals, good ? "ok" : "violated");
    return good == delays ? EXIT_SUCCESS : EXIT_FAILURE;
}
