/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches: users set a count, count down as parties, and wait; and a program with another library
 * does the same without a record. After every step:
 *   the count       a round's count is what it began with, less one for each party that counted,
 *                   and for each countdown of the other program
 *   an open latch   a wait that ends well saw the latch open; one that is refused saw it closed
 *   a party         a countdown that ends well has counted in a round that it saw, or saw the latch
 *                   open
 * sim_check_waiters() finds those who sleep too long.
 */
#include "lock/latch.h"

#include <stdio.h>

#include "base/random.h"
#include "permits.h"
#include "world.h"

#define PARTIES 6
#define SETTERS 64 /* the latest, which are remembered */
#define RECORD "{%s}:rlock-parties"

/* In which round a call counted. */
struct entry {
    long round;
    char id[64];
};

/* What is known of one latch, in world time. */
struct latch {
    struct entry parties[PARTIES], setters[SETTERS];
    unsigned n_setters;
    int64_t began_with;       /* the count of this round; 0: the latch is open */
    int64_t others;           /* countdowns of the other program in it */
    int64_t open_at, shut_at; /* the latest times at which it was so */
    int64_t has_at[PARTIES];  /* the latest time at which a party had counted in a round */
    int64_t round_at;         /* when a round began last */
};

static struct {
    struct latch latches[SIM_KEYS];
    int64_t numbers[SIM_MAX_CLIENTS][SIM_MAX_USERS][2];
    enum { WAITS, SETS, COUNTS } does[SIM_MAX_CLIENTS][SIM_MAX_USERS];
    unsigned party[SIM_MAX_CLIENTS][SIM_MAX_USERS];
} all;

bool sim_latch_is(const struct sim_world *world)
{
    return world->config.kind == &rlock__latch_ops;
}

void sim_latch_start(void)
{
    memset(&all, 0, sizeof(all));
    for (size_t i = 0; i < SIM_KEYS; i++) {
        all.latches[i].shut_at = all.latches[i].round_at = -1;
        for (size_t j = 0; j < PARTIES; j++) {
            all.latches[i].has_at[j] = -1;
        }
    }
}

/* ---- On the server ---- */

/* A call counts once: its name stays with the round in which it did. */
static void check_call(struct sim_world *world, unsigned key, struct entry *entry, long round,
                       const char *id)
{
    if (strcmp(entry->id, id) == 0 && entry->round != round) {
        sim_violate(world, "%s: call %s counts in round %ld, and again in %ld", world->keys[key],
                    id, entry->round, round);
    }
    entry->round = round;
    (void)snprintf(entry->id, sizeof(entry->id), "%s", id);
}

/* A call sets one count. */
static void check_setter(struct sim_world *world, unsigned key, long round, const char *id)
{
    struct latch *latch = &all.latches[key];
    unsigned at = 0;

    while (at < SETTERS && strcmp(latch->setters[at].id, id) != 0) {
        at++;
    }
    at = at < SETTERS ? at : latch->n_setters++ % SETTERS;
    check_call(world, key, &latch->setters[at], round, id);
}

/* The parties that have counted in this round; notes when each had. */
static int64_t count_parties(struct sim_world *world, unsigned key, bool is_marked)
{
    struct latch *latch = &all.latches[key];
    struct sim_key_info record = {.n_items = 0};
    long round = 0, rounds[PARTIES] = {0};
    char name[SIM_OWNER_SIZE], text[80];
    int64_t n = 0;

    (void)snprintf(name, sizeof(name), RECORD, world->keys[key]);
    if (!sim_find_key(world, (struct sim_view){name, strlen(name)}, &record)) {
        memset(latch->parties, 0, sizeof(latch->parties)); /* the server lost it */
        memset(latch->setters, 0, sizeof(latch->setters));
        return 0;
    }
    for (size_t i = 0; i < record.n_items; i++) {
        const struct sim_item_info item = sim_key_item(&record, i);

        (void)snprintf(text, sizeof(text), "%.*s", (int)item.value.len, item.value.data);
        if (item.name.len == 2 && item.name.data[0] == ':') {
            struct entry *entry = &latch->parties[item.name.data[1] - '0'];
            char *id = NULL;

            rounds[item.name.data[1] - '0'] = strtol(text, &id, 10);
            check_call(world, key, entry, rounds[item.name.data[1] - '0'], strchr(id + 1, ' ') + 1);
        } else if (item.name.len == 1) {
            round = strtol(text, NULL, 10);
        } else {
            char setter[64];

            (void)snprintf(setter, sizeof(setter), "%.*s", (int)item.name.len, item.name.data);
            check_setter(world, key, strtol(text, NULL, 10), setter);
        }
    }
    for (size_t i = 0; is_marked && i < PARTIES; i++) {
        n += rounds[i] == round && round != 0;
        latch->has_at[i] = rounds[i] == round && round != 0 ? world->now : latch->has_at[i];
    }
    return n;
}

/* The count; false if the latch is open. */
static bool find_count(const struct sim_world *world, unsigned key, int64_t *ret_count,
                       bool *ret_is_marked)
{
    struct sim_key_info info = {.n_items = 0};
    char digits[24];

    if (!sim_find_key(world, (struct sim_view){world->keys[key], strlen(world->keys[key])},
                      &info)) {
        return false;
    }
    (void)snprintf(digits, sizeof(digits), "%.*s", (int)sim_key_item(&info, 0).value.len,
                   sim_key_item(&info, 0).value.data);
    *ret_count = strtoll(digits, NULL, 10);
    *ret_is_marked = info.pttl_ms >= INT64_C(1576800000000);
    return true;
}

void sim_latch_look(struct sim_world *world, unsigned key)
{
    struct latch *latch = &all.latches[key];
    int64_t count = 0, parties;
    bool is_marked = false, is_open = !find_count(world, key, &count, &is_marked);

    sim_note_free(world, 0, key, is_open);
    parties = count_parties(world, key, is_marked);
    if (is_open) {
        latch->open_at = world->now;
        latch->began_with = latch->others = 0;
        return;
    }
    if (latch->began_with == 0) {
        latch->began_with = count;
        latch->round_at = world->now;
    }
    latch->shut_at = world->now;
    if (count <= 0) {
        sim_violate(world, "%s is not open, and its count is %lld", world->keys[key],
                    (long long)count);
    }
    if (count + parties + latch->others != latch->began_with && world->config.failover_us == 0) {
        sim_violate(world,
                    "%s began with %lld: %lld are missing, %lld parties counted, and %lld "
                    "others",
                    world->keys[key], (long long)latch->began_with, (long long)count,
                    (long long)parties, (long long)latch->others);
    }
}

/* Another program, without a record. */
void sim_latch_peer(struct sim_world *world, unsigned key, int64_t dice)
{
    struct latch *latch = &all.latches[key];
    char channel[96], text[24];
    int64_t count = 0;
    bool is_marked, is_open = !find_count(world, key, &count, &is_marked);
    const char *message = NULL;

    (void)snprintf(channel, sizeof(channel), "redisson_countdownlatch__channel__{%s}",
                   world->keys[key]);
    (void)snprintf(text, sizeof(text), "%lld", (long long)(1 + dice % 4));
    if (is_open) {
        sim_by_hand(world, (const char *const[]){"SET", world->keys[key], text, NULL});
        message = "1";
    } else if (count == 1 || dice % 8 == 0) {
        sim_by_hand(world, (const char *const[]){"DEL", world->keys[key], NULL});
        message = count == 1 ? "0" : "1";
    } else {
        latch->others++;
        sim_by_hand(world, (const char *const[]){"INCRBY", world->keys[key], "-1", NULL});
    }
    if (message != NULL) {
        sim_by_hand(world, (const char *const[]){"PUBLISH", channel, message, NULL});
        if (world->config.sharded) {
            sim_by_hand(world, (const char *const[]){"SPUBLISH", channel, message, NULL});
        }
    }
    sim_check_server(world);
}

/* ---- The users ---- */

static void ask(struct sim_user *user, struct rlock__latch_ask *ask)
{
    const unsigned client = user->client->index, place = (unsigned)(user - user->client->users);
    const struct rlock__spec *spec = user->client->specs[0][user->key];
    char id[64];

    (void)snprintf(id, sizeof(id), "%u:%llu:%llu", client, (unsigned long long)user->owner.id,
                   (unsigned long long)user->client->world->steps);
    ask->id = rlock__bytes_of(id);
    user->call = (struct rlock__call){
        .kind = RLOCK__COMMAND,
        .command = {.read = rlock__latch_read, .reader = all.numbers[client][place]}};
    rlock__latch_spell(spec, ask, &user->call.command.cmd);
    sim_user_begin(user);
}

void sim_latch_act(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    const unsigned client = user->client->index, place = (unsigned)(user - user->client->users);
    const int64_t dice = sim_random(world, 10);
    char party[] = "0";

    user->key = (unsigned)sim_random(world, world->config.n_keys);
    user->side = 0;
    if (dice < 2) {
        all.does[client][place] = SETS;
        ask(user, &(struct rlock__latch_ask){.what = RLOCK__LATCH_SET,
                                             .count = 1 + sim_random(world, PARTIES)});
    } else if (dice < 6) {
        all.does[client][place] = COUNTS;
        all.party[client][place] = (unsigned)sim_random(world, PARTIES);
        party[0] = (char)('0' + all.party[client][place]);
        ask(user,
            &(struct rlock__latch_ask){.what = RLOCK__LATCH_DOWN, .party = rlock__bytes_of(party)});
    } else {
        all.does[client][place] = WAITS;
        user->call = (struct rlock__call){.kind = RLOCK__AWAIT};
        user->call.acquire.wait_us = dice == 6   ? 0
                                     : dice == 7 ? 1 + sim_random(world, 3 * world->config.lease)
                                                 : -1;
        sim_user_plan(user, sim_random(world, 3 * world->config.lease)); /* it may be cancelled */
        sim_user_begin(user);
    }
}

/* Whether the call may have seen what was so at that time. */
static bool saw(const struct sim_user *user, int64_t at)
{
    return at >= user->began_at;
}

static void check_answer(const struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    const unsigned client = user->client->index, place = (unsigned)(user - user->client->users);
    const struct latch *latch = &all.latches[user->key];
    const char *name = world->keys[user->key];
    const int code = user->call.code;

    switch (all.does[client][place]) {
    case WAITS:
        if (code == 0 && !saw(user, latch->open_at)) {
            sim_violate(world, "client %u: a wait for %s ended, which was shut", client, name);
        }
        if ((code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT) && !saw(user, latch->shut_at)) {
            sim_violate(world, "client %u: a wait for %s did not end, and it was open", client,
                        name);
        }
        break;
    case COUNTS:
        if (code == 0 && !saw(user, latch->open_at) &&
            !saw(user, latch->has_at[all.party[client][place]])) {
            sim_violate(world, "client %u: party %u of %s has not counted", client,
                        all.party[client][place], name);
        }
        break;
    case SETS:
        if (code == 0 && all.numbers[client][place][0] == 1 && !saw(user, latch->round_at)) {
            sim_violate(world, "client %u: has set no count of %s", client, name);
        }
        break;
    }
    if (world->config.faults == 0 && code != 0 && code != RLOCK_EBUSY && code != RLOCK_ETIMEDOUT &&
        code != RLOCK_ECANCELED && 8 * world->config.delay_max < world->config.op_timeout) {
        sim_violate(world, "client %u: %s on a perfect network: %s", client, rlock_code_name(code),
                    user->texts.detail);
    }
}

void sim_latch_done(struct sim_user *user)
{
    struct sim_world *world = user->client->world;
    const unsigned client = user->client->index, place = (unsigned)(user - user->client->users);
    static const char *const names[] = {"waits for", "sets", "counts down"};

    sim_trace(world, "client %u user %llu: %s %s: %s %s", client,
              (unsigned long long)user->owner.id, names[all.does[client][place]],
              world->keys[user->key], rlock_code_name(user->call.code),
              rlock__call_detail(&user->call));
    world->grants += user->call.code == 0;
    world->doubts += user->call.code == RLOCK_ECONN;
    if (user->call.code != RLOCK_ECLOSED && user->cancelled == 0 &&
        world->config.failover_us == 0) {
        check_answer(user);
    }
    if (!user->client->closed) {
        sim_user_plan(user, 1 + sim_random(world, 50 * RLOCK__MS));
    }
}
