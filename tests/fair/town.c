/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/town.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lua_scripts.h>

#include "base/random.h"
#include "fair/recorded.h"
#include "support/alone.h"
#include "support/run.h"

#define CHANNEL "redisson_lock__channel:{" TOWN_LOCK "}"
#define SPIN_MS 20       /* a Redisson that is told 0 asks at once; here not quite */
#define LEFT_ALONE 6000  /* who was stopped may be taken for dead so long afterwards */
#define PEERS_SLEEP 5000 /* of ours, at most */
#define PUSH_MS (RLOCK__PUSH_US / RLOCK__MS)
#define FULL_AFTER_MS 100 /* a hold that a release granted is renewed */

static void begin(struct town_person *person);

static int64_t about(struct town *town, int64_t ms)
{
    return ms / 2 + town_below(town, ms / 2 + 1);
}

/* ---- The server ---- */

/* A message on its way. */
struct message {
    struct rlock__timer timer;
    struct town_person *person;
    unsigned call;
    int64_t ticket; /* of a grant by release; 0: it is none */
};

static void wake(struct town_person *person);
static bool takes(struct town_person *person, int64_t ticket);

static void on_message(struct rlock__timer *timer, int64_t now)
{
    struct message *message = (struct message *)(void *)timer;
    struct town_person *person = message->person;

    if (person->stopped_until > now && person->state != TOWN_GONE) {
        rlock__timer_set(&person->town->timers, timer, person->stopped_until);
        return;
    }
    if (message->call == person->calls && person->conn != 0 && !takes(person, message->ticket)) {
        wake(person);
    }
    free(message);
}

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct town *town = payload;

    if (conn == town->conn && !is_push) {
        town->reply = realloc(town->reply, len);
        memcpy(town->reply, bytes, len);
        town->reply_len = len;
        return;
    }
    for (size_t i = 0; i < town->n; i++) {
        struct town_person *person = town->people[i];
        struct message *message;

        if (person->conn != conn || memmem(bytes, len, "$7\r\nmessage", 11) == NULL ||
            town_below(town, 100) < town->loss) {
            continue;
        }
        message = calloc(1, sizeof(*message));
        message->person = person;
        message->call = person->calls;
        message->ticket = town_ticket_in(bytes, len);
        message->timer.fire = on_message;
        rlock__timer_set(&town->timers, &message->timer,
                         town->now + 1 + town_below(town, town->delay));
    }
}

static void on_unref(struct rlock__core *core)
{
    (void)core;
}

/* Runs a command that the kind built, now and then twice. */
static void run(struct town_person *person, struct rlock__cmd *cmd)
{
    struct town *town = person->town;
    struct rlock__buf bytes = {0};
    int copies = town_below(town, 100) < town->resends ? 2 : 1;

    town_tell_time(town);
    cmd->script = town->counts_unknown ? town_without_counts(cmd->script) : cmd->script;
    (void)rlock__cmd_encode(cmd, true, &bytes);
    for (int i = 0; i < copies; i++) {
        (void)sim_server_command(town->server, town->conn, bytes.data, bytes.len);
        town_see(town, person);
    }
    rlock__buf_fini(&bytes);
    rlock__cmd_fini(cmd);
}

static void listen(struct town_person *person)
{
    char channel[160];

    (void)snprintf(channel, sizeof(channel), CHANNEL ":%s", person->name);
    person->conn = sim_server_connect(person->town->server);
    (void)sim_server_words(person->town->server, person->conn,
                           (const char *const[]){"SUBSCRIBE", channel, NULL});
}

static void fall_silent(struct town_person *person)
{
    if (person->conn != 0) {
        sim_server_disconnect(person->town->server, person->conn);
        person->conn = 0;
    }
}

/* ---- Steps ---- */

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    struct town_person *person = (struct town_person *)(void *)timer;

    if (person->stopped_until > now) {
        rlock__timer_set(&person->town->timers, timer, person->stopped_until);
    } else {
        person->step(person);
    }
}

static void after(struct town_person *person, int64_t ms, void (*step)(struct town_person *))
{
    person->step = step;
    rlock__timer_set(&person->town->timers, &person->timer, person->town->now + ms);
}

static int64_t one_way(struct town *town)
{
    return 1 + town_below(town, town->delay);
}

static void go_away(struct town_person *person)
{
    fall_silent(person);
    person->waits = false;
    person->calls++;
    if (person->habit.once) {
        person->state = TOWN_GONE;
        rlock__timer_unset(&person->town->timers, &person->timer);
    } else {
        person->state = TOWN_AWAY;
        after(person, about(person->town, person->habit.think), begin);
    }
}

static void hold_on(struct town_person *person);

static void is_granted(struct town_person *person)
{
    struct town *town = person->town;
    int64_t waited = town->now - person->began_at;

    fall_silent(person);
    person->grants++;
    person->waits = false;
    person->state = TOWN_HOLDS;
    town->report.longest_wait =
        waited > town->report.longest_wait ? waited : town->report.longest_wait;
    person->gives_back_at = town->now + about(town, person->habit.hold);
    hold_on(person);
}

/* The last reply, which is no error. */
static struct sim_resp *read_resp(const struct town *town)
{
    struct sim_resp *tree = sim_resp_read(town->reply, town->reply_len);

    if (tree->type == SIM_RESP_ERROR) {
        test_die("%.*s", (int)town->reply_len, town->reply);
    }
    return tree;
}

/* ---- Ours ---- */

/* Reads the last reply, as the core would. */
static void read_reply(struct town_person *person)
{
    struct rlock__value values[16];
    struct rlock__reply reply = {.v = values, .is_array = true};
    struct sim_resp *tree = read_resp(person->town);

    TEST_CHECK(tree->type == SIM_RESP_ARRAY);
    reply.n = tree->n_items;
    for (size_t i = 0; i < reply.n; i++) {
        const struct sim_resp *item = &tree->items[i];

        values[i] = (struct rlock__value){item->type == SIM_RESP_INTEGER ? RLOCK__REPLY_INT
                                                                         : RLOCK__REPLY_STR,
                                          item->integer, item->text.data, item->text.len};
    }
    person->answer = rlock__fair_ops.read_acquire(person->town->spec, &reply);
    person->answer.holder = rlock__bytes("", 0);
    (void)sim_resp_free(tree);
}

static void our_attempt(struct town_person *person);

static void our_release(struct town_person *person)
{
    struct rlock__args args = {.owner = rlock__bytes_of(person->name)};
    struct rlock__cmd cmd = {0};

    rlock__fair_ops.release(person->town->spec, &args, &cmd);
    person->waits = false;
    person->holds_until = 0; /* the script may grant the lock to another one */
    run(person, &cmd);
    go_away(person);
}

static void our_subscription(struct town_person *person)
{
    listen(person);
    person->waits = true;
    after(person, 2 * one_way(person->town), our_attempt);
}

static void our_sleep_ends(struct town_person *person)
{
    person->state = TOWN_ASKS;
    if (person->town->now >= person->deadline) {
        person->refusals++;
        after(person, one_way(person->town), our_release);
    } else {
        after(person, one_way(person->town), our_attempt);
    }
}

static void our_answer(struct town_person *person)
{
    struct rlock__answer *answer = &person->answer;
    int64_t pause = answer->recheck_ms;

    if (answer->ticket != 0 && answer->ticket != person->ticket) {
        person->ticket = answer->ticket;
        person->entered_at = person->asked_at;
    }
    if (answer->outcome == RLOCK__DONE) {
        is_granted(person);
    } else if (person->habit.wait == 0) {
        person->refusals++;
        go_away(person);
    } else if (person->conn == 0) {
        after(person, one_way(person->town), our_subscription);
    } else if (person->stale) {
        our_sleep_ends(person);
    } else {
        if (answer->ttl_ms >= 0) {
            pause = rlock__min(pause, rlock__min(answer->ttl_ms, PEERS_SLEEP) + 2);
        }
        person->state = TOWN_SLEEPS;
        after(person, rlock__min(pause, person->deadline - person->town->now), our_sleep_ends);
    }
}

static void our_attempt(struct town_person *person)
{
    struct town *town = person->town;
    struct rlock__args args = {.owner = rlock__bytes_of(person->name),
                               .count = 1,
                               .lease_ms = person->habit.lease,
                               .waits = person->conn != 0,
                               .may_push = !town->is_plain,
                               .hint = person->answer.hint};
    struct rlock__cmd cmd = {0};

    rlock__fair_ops.acquire(town->spec, &args, &cmd);
    person->stale = false;
    person->asked_at = town->now;
    run(person, &cmd);
    read_reply(person);
    person->holds_until = town->now + person->habit.lease;
    after(person, one_way(town), our_answer);
}

/* The lease of a grant by release is made full. */
static void our_renewal(struct town_person *person)
{
    char lease[24];

    person->is_short = false;
    if (strcmp(person->town->holder, person->name) == 0) {
        (void)snprintf(lease, sizeof(lease), "%lld", (long long)person->habit.lease);
        town_type(person->town, (const char *const[]){"PEXPIRE", TOWN_LOCK, lease, NULL});
        person->holds_until = person->town->now + person->habit.lease;
    }
    hold_on(person);
}

/* A message says that a release granted the lock to it. Returns whether it takes that for true. */
static bool takes(struct town_person *person, int64_t ticket)
{
    int64_t until = person->entered_at + PUSH_MS;

    if (ticket == 0 || person->state != TOWN_SLEEPS || ticket != person->ticket ||
        until - person->town->now < PUSH_MS / 2) {
        return false;
    }
    person->holds_until = until;
    person->is_short = true;
    person->town->report.pushed++;
    is_granted(person);
    return true;
}

/* ---- Peers ---- */

static int64_t peers_wait(const struct town_person *person)
{
    return person->habit.wait > 0 ? person->habit.wait : TOWN_SLOT_MS;
}

/* Runs a peer's script; INT64_MIN is nil. */
static int64_t run_peer(struct town_person *person, enum peer_verb verb)
{
    struct town *town = person->town;
    const struct peer_values values = {.lock = TOWN_LOCK,
                                       .owner = person->name,
                                       .latch = person->name,
                                       .lease = person->habit.lease,
                                       .wait = peers_wait(person),
                                       .now =
                                           SIM_EPOCH_US / 1000 + town->now + person->habit.ahead};
    struct peer_command command;
    struct sim_resp *tree;
    int64_t result;

    town_tell_time(town);
    peer_spell(&town->peers[verb], &values, &command);
    (void)sim_server_words(town->server, town->conn, command.argv);
    town_see(town, person);
    tree = read_resp(town);
    result = tree->type == SIM_RESP_NIL ? INT64_MIN : tree->integer;
    (void)sim_resp_free(tree);
    return result;
}

static void peer_attempt_again(struct town_person *person);

static void peer_gives_up(struct town_person *person)
{
    person->waits = false;
    (void)run_peer(person, PEER_GIVE_UP);
    person->refusals++;
    go_away(person);
}

static void peer_sleep_ends(struct town_person *person)
{
    person->state = TOWN_ASKS;
    if (person->town->now >= person->deadline) {
        after(person, one_way(person->town), peer_gives_up);
    } else {
        after(person, one_way(person->town), peer_attempt_again);
    }
}

static void peer_subscription(struct town_person *person)
{
    listen(person);
    after(person, 2 * one_way(person->town), peer_attempt_again);
}

static void peer_answer(struct town_person *person)
{
    int64_t ttl = person->answer.ttl_ms; /* less than 0 is no end: it sleeps until a message */
    int64_t pause = ttl < 0 ? RLOCK__NEVER : rlock__max(ttl, SPIN_MS);

    if (person->answer.outcome == RLOCK__DONE) {
        is_granted(person);
    } else if (person->habit.wait == 0) {
        person->refusals++;
        go_away(person);
    } else if (person->conn == 0) {
        after(person, one_way(person->town), peer_subscription);
    } else if (person->stale) {
        peer_sleep_ends(person);
    } else {
        person->state = TOWN_SLEEPS;
        after(person, rlock__min(pause, person->deadline - person->town->now), peer_sleep_ends);
    }
}

static void peer_attempt_again(struct town_person *person)
{
    int64_t left;

    person->stale = false;
    person->waits = person->habit.wait != 0;
    left = run_peer(person, person->waits ? PEER_ACQUIRE : PEER_TRY);
    person->answer.outcome = left == INT64_MIN ? RLOCK__DONE : RLOCK__BUSY;
    person->answer.ttl_ms = left;
    person->holds_until = person->town->now + person->habit.lease;
    after(person, one_way(person->town), peer_answer);
}

static void peer_unlocks(struct town_person *person)
{
    (void)run_peer(person, PEER_RELEASE);
    go_away(person);
}

/* ---- Both ---- */

static void give_back(struct town_person *person)
{
    after(person, one_way(person->town), person->habit.is_peer ? peer_unlocks : our_release);
}

static void peer_renews(struct town_person *person)
{
    (void)run_peer(person, PEER_RENEW);
    if (strcmp(person->town->holder, person->name) == 0) {
        person->holds_until = person->town->now + person->habit.lease;
    }
    hold_on(person);
}

/* A peer's lease is a renewed one; those of ours are as long as the test says. */
static void hold_on(struct town_person *person)
{
    int64_t left = person->gives_back_at - person->town->now, pause = person->habit.lease / 3;
    bool renews = person->habit.is_peer && left > pause;

    if (person->is_short && left > FULL_AFTER_MS) {
        after(person, FULL_AFTER_MS, our_renewal);
    } else {
        after(person, renews ? pause : left, renews ? peer_renews : give_back);
    }
}

static void begin(struct town_person *person)
{
    struct town *town = person->town;
    bool is_peer = person->habit.is_peer;

    (void)snprintf(person->name, sizeof(person->name), "00000000-0000-%c000-8000-%012llu:%u",
                   is_peer ? '4' : '8', (unsigned long long)++town->names, person->calls);
    person->state = TOWN_ASKS;
    person->began_at = town->now;
    person->deadline =
        person->habit.wait < 0 ? RLOCK__NEVER : town->now + rlock__max(person->habit.wait, 0);
    person->answer = (struct rlock__answer){0};
    person->stale = person->is_short = false;
    person->ticket = 0;
    after(person, one_way(town),
          !is_peer                                               ? our_attempt
          : person->habit.hears_first && person->habit.wait != 0 ? peer_subscription
                                                                 : peer_attempt_again);
}

static void wake(struct town_person *person)
{
    if (person->state == TOWN_ASKS) {
        person->stale = true;
    } else if (person->state == TOWN_SLEEPS) {
        (person->habit.is_peer ? peer_sleep_ends : our_sleep_ends)(person);
    }
}

/* ---- The town ---- */

struct town_person *town_add(struct town *town, const struct town_habit *habit, int64_t ms)
{
    struct town_person *person = calloc(1, sizeof(*person));

    person->town = town;
    person->habit = *habit;
    person->timer.fire = on_timer;
    town->people[town->n++] = person;
    after(person, ms, begin);
    return person;
}

void town_kill(struct town_person *person)
{
    fall_silent(person);
    person->state = TOWN_GONE;
    person->waits = false;
    person->calls++;
    rlock__timer_unset(&person->town->timers, &person->timer);
}

void town_stop(struct town_person *person, int64_t ms)
{
    person->stopped_until = person->town->now + ms;
    person->unwell_until = person->stopped_until + LEFT_ALONE;
}

void town_retire(struct town_person *person)
{
    person->habit.once = true;
    if (person->state == TOWN_AWAY) {
        go_away(person);
    }
}

static void tick(struct town *town)
{
    town->now = rlock__max(town->now, rlock__timers_next(&town->timers));
    (void)rlock__timers_fire(&town->timers, town->now, SIZE_MAX);
}

void town_run(struct town *town, int64_t ms)
{
    int64_t end = town->now + ms;

    while (rlock__timers_next(&town->timers) <= end) {
        tick(town);
    }
    town->now = end;
    town_tell_time(town);
}

bool town_run_until_granted(struct town *town, const struct town_person *person, uint64_t grants,
                            int64_t ms)
{
    int64_t end = town->now + ms;

    while (person->grants < grants && rlock__timers_next(&town->timers) <= end) {
        tick(town);
    }
    return person->grants >= grants;
}

struct town *town_new(uint64_t seed, int64_t slot_ms)
{
    struct town *town = calloc(1, sizeof(*town));
    struct sim_events events = {.on_frame = on_frame, .payload = town};
    struct rlock__tuning tuning = {.fair_slot_ms = slot_ms};

    town->random = seed * 0x9E3779B97F4A7C15ULL | 1;
    town->queue = calloc(TOWN_MOST, TOWN_NAME);
    town->delay = 2;
    town->server = sim_server_new(seed);
    sim_server_set_events(town->server, &events);
    sim_server_tolerate(town->server, true);
    town->conn = sim_server_connect(town->server);
    town->peers = recorded_scripts();
    town->peers = town->peers != NULL ? town->peers : peer_scripts(PEER_NEW);
    town->core.opts.prefix = rlock__bytes("", 0);
    town->core.driver.unref = on_unref;
    town->core.driver.route = alone_route;
    town->core.servers = &town->here;
    town->here.core = &town->core;
    town->spec =
        rlock__spec_new(&town->core, &rlock__fair_ops, rlock__bytes_of(TOWN_LOCK), &tuning);
    return town;
}

/* Messages that are on their way have no other owner than the timers. */
static void drop_messages(struct town *town)
{
    for (size_t i = 0; i < town->n; i++) {
        town_kill(town->people[i]);
    }
    while (town->timers.root != NULL) {
        tick(town);
    }
}

struct town *town_free(struct town *town)
{
    drop_messages(town);
    for (size_t i = 0; i < town->n; i++) {
        free(town->people[i]);
    }
    (void)rlock__spec_unref(town->spec);
    (void)sim_server_free(town->server);
    free(town->queue);
    free(town->reply);
    free(town);
    return NULL;
}
