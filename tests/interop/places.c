/* What the servers have of a pair's lock, and who listens to it there. */
#include "interop.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A hash that the pair's lock is made of: a single lock is one, a group has one a member. */
struct place {
    struct test_server *server;
    const struct kind *kind;
    char name[160];
};

/* Adds what a member is made of, unless its server is down; gives how many there are then. */
static size_t add_place(const struct pair *pair, const struct member *member,
                        struct place *ret_places, size_t n)
{
    struct place *place = &ret_places[n];

    place->kind = interop_kind(member->kind);
    test_text(place->name, sizeof(place->name), "%s%s", pair->name, member->suffix);
    place->server = deployment_server(pair->deployment, member->server, place->name);
    return place->server != NULL ? n + 1 : n;
}

/* All, but those on servers that are down. */
static size_t list_places(const struct pair *pair, struct place *ret_places)
{
    const struct member itself = {.kind = pair->kind->name, .suffix = ""};
    size_t n = 0;

    if (pair->member != NULL || !kind_is_group(pair->kind)) {
        return add_place(pair, pair->member != NULL ? pair->member : &itself, ret_places, n);
    }
    for (size_t i = 0; i < pair->kind->n_members; i++) {
        n = add_place(pair, &pair->kind->members[i], ret_places, n);
    }
    return n;
}

struct test_server *pair_server(struct pair *pair)
{
    struct place places[MAX_MEMBERS];

    TEST_CHECK(list_places(pair, places) > 0);
    return places[0].server;
}

static char *ask(const struct place *place, const char *verb)
{
    const char *const argv[] = {verb, place->name, NULL};

    return test_server_argv(place->server, argv);
}

/* ---- leases ---- */

static int64_t ttl_of(const struct place *place)
{
    char *reply = ask(place, "PTTL");
    const int64_t ttl = strtoll(reply, NULL, 10);

    free(reply);
    return ttl;
}

static int descending(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a < b) - (a > b);
}

int64_t pair_ttl(struct pair *pair)
{
    struct place places[MAX_MEMBERS];
    int64_t ttls[MAX_MEMBERS];
    const size_t n = list_places(pair, places);
    const size_t enough = pair->member != NULL || pair->kind->quorum == 0 ? 1 : pair->kind->quorum;

    for (size_t i = 0; i < n; i++) {
        ttls[i] = ttl_of(&places[i]);
    }
    qsort(ttls, n, sizeof(ttls[0]), descending);
    return enough <= n ? ttls[enough - 1] : -2;
}

size_t pair_n_held(struct pair *pair)
{
    struct place places[MAX_MEMBERS];
    const size_t n = list_places(pair, places);
    size_t n_held = 0;

    for (size_t i = 0; i < n; i++) {
        n_held += ttl_of(&places[i]) != -2;
    }
    return n_held;
}

bool pair_is_free(struct pair *pair)
{
    return pair_n_held(pair) == 0 ||
           (kind_is_redlock(pair->kind) && TEST_EVENTUALLY(pair_n_held(pair) == 0, 300));
}

bool pair_is_left(struct pair *pair)
{
    const bool keeps_reader =
        pair->kind->is_lenient && kind_is_group(pair->kind) && !pair->holder->is_ours;

    return pair_is_free(pair) || (keeps_reader && pair_n_held(pair) == 1);
}

/* ---- owners ---- */

/* The first owner's field and, if wanted, its value. */
static void find_owner(struct pair *pair, char *ret_field, size_t size, int *ret_count)
{
    struct place places[MAX_MEMBERS];

    ret_field[0] = '\0';
    *ret_count = 0;
    if (list_places(pair, places) == 0) {
        return;
    }
    char *reply = ask(&places[0], "HGETALL");
    char *rest = reply;
    for (char *field = strsep(&rest, "\n"); field != NULL && rest != NULL;
         field = strsep(&rest, "\n")) {
        const char *value = strsep(&rest, "\n");
        if (strcmp(field, "mode") != 0) {
            test_text(ret_field, size, "%s", field);
            *ret_count = (int)strtol(value, NULL, 10);
            break;
        }
    }
    free(reply);
}

const char *pair_owner(struct pair *pair)
{
    static char owner[256];
    int count;

    find_owner(pair, owner, sizeof(owner), &count);
    char *suffix = strstr(owner, ":write");
    if (suffix != NULL) {
        *suffix = '\0';
    }
    return owner;
}

int pair_count(struct pair *pair)
{
    char owner[256];
    int count;

    find_owner(pair, owner, sizeof(owner), &count);
    return count;
}

/* ---- listeners ---- */

/* Who listens on a channel of a server, as a verb of PUBSUB says. */
static size_t count_on(struct test_server *server, const char *verb, const char *channel)
{
    const char *const numsub[] = {"PUBSUB", verb, channel, NULL};
    char *reply = test_server_argv(server, numsub);
    const char *number = strrchr(reply, '\n');
    const size_t n = number != NULL ? strtoul(number + 1, NULL, 10) : 0;

    free(reply);
    return n;
}

/* How many channels that are listened on begin so and go on with a colon. */
static size_t count_channels(struct test_server *server, const char *verb, const char *start)
{
    const char *const channels[] = {"PUBSUB", verb, NULL};
    char *reply = test_server_argv(server, channels);
    const size_t len = strlen(start);
    char *rest = reply;
    size_t n = 0;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        n += strncmp(line, start, len) == 0 && line[len] == ':';
    }
    free(reply);
    return n;
}

static void name_after(const char *prefix, const struct place *place, const char *suffix,
                       char ret_text[static 512])
{
    const bool is_tagged = strchr(place->name, '{') != NULL;

    test_text(ret_text, 512, is_tagged ? "%s:%s%s" : "%s:{%s}%s", prefix, place->name, suffix);
}

/* Who listens on the channel; of a fair lock, how many channels there are of which it is the
 * beginning. Not those of ours that stand in the lock's queue as well: they listen on one more.
 * Readers of ours that wait listen on two more. */
static size_t count_at(const struct place *place, struct test_server *server, bool is_sharded)
{
    const char *numsub = is_sharded ? "SHARDNUMSUB" : "NUMSUB";
    char channel[512], ours[512], readers[512];

    name_after(place->kind->channel, place, "", channel);
    name_after(place->kind->channel, place, ":rlock", ours);
    name_after(place->kind->channel, place, ":readers", readers);
    return place->kind->is_fair
               ? count_channels(server, is_sharded ? "SHARDCHANNELS" : "CHANNELS", channel)
               : count_on(server, numsub, channel) + count_on(server, numsub, readers) -
                     count_on(server, numsub, ours);
}

/* Counts the calls in the queue, in all databases. The other entries are marks. */
static const char count_calls[] =
    "local n = 0 "
    "for db = 0, 15 do "
    "  if redis.pcall('select', db).err then break end "
    "  for _, entry in ipairs(redis.pcall('zrange', KEYS[1], 0, -1)) do "
    "    n = n + (entry:sub(1, 1) == '~' and 0 or 1) "
    "  end "
    "end "
    "return n";

/* How many of ours stand in the lock's queue, or with `also_ready` listen so that they may. A
 * waiter behind a hold of its own client only listens, and a channel may be left over for a
 * second. */
static size_t count_ours(const struct place *place, struct test_server *server, bool also_ready)
{
    char text[512];
    const char *const words[] = {"EVAL", count_calls, "1", text, NULL};
    size_t n;

    if (place->kind->is_fair) {
        return 0;
    }
    if (also_ready) {
        name_after(place->kind->channel, place, "", text);
        n = count_channels(server, "CHANNELS", text) +
            count_channels(server, "SHARDCHANNELS", text);
        name_after(place->kind->channel, place, ":rlock", text);
        n -= count_on(server, "NUMSUB", text) + count_on(server, "SHARDNUMSUB", text) > 0;
        name_after(place->kind->channel, place, ":readers", text);
        return n - (count_on(server, "NUMSUB", text) + count_on(server, "SHARDNUMSUB", text) > 0);
    }
    name_after("rlock_wait", place, "", text);
    char *reply = test_server_argv(server, words);
    n = strtoul(reply, NULL, 10); /* 0 of another server of a cluster, which says "MOVED" */
    free(reply);
    return n;
}

/* On whichever of the servers it is. */
static size_t count_listeners(struct deployment *deployment, const struct place *place,
                              bool also_ready)
{
    size_t n = 0;

    if (deployment->layout->topology == STANDALONE) {
        return count_at(place, place->server, false) + count_ours(place, place->server, also_ready);
    }
    for (size_t i = 0; i < deployment->n_servers; i++) {
        if (!deployment->is_down[i]) {
            n += count_at(place, deployment->servers[i], false);
            n += count_ours(place, deployment->servers[i], also_ready);
            n += deployment->hears_plain ? 0 : count_at(place, deployment->servers[i], true);
        }
    }
    return n;
}

static size_t count_all_listeners(struct pair *pair, bool also_ready)
{
    struct place places[MAX_MEMBERS];
    const size_t n = list_places(pair, places);
    size_t n_listeners = 0;

    for (size_t i = 0; i < n; i++) {
        n_listeners += count_listeners(pair->deployment, &places[i], also_ready);
    }
    return n_listeners;
}

/* Whether a message would wake all of this side who wait: ours hear one at any time. */
static bool sleeps(const struct party *side)
{
    if (side->is_ours) {
        return true;
    }
    const struct peer_answer awake =
        peer_wait(side->peer, peer_tell(side->peer, "- - - - awake"), PATIENCE_MS);
    return awake.ok && strcmp(awake.text, "0") == 0;
}

bool pair_is_awaited(struct pair *pair)
{
    return pair_is_awaited_by(pair, 1);
}

bool pair_is_awaited_by(struct pair *pair, size_t listeners)
{
    struct place places[MAX_MEMBERS];

    const bool is_redlock = pair->member == NULL && kind_is_redlock(pair->kind);

    if (is_redlock || list_places(pair, places) == 0 || places[0].kind->channel == NULL) {
        return true; /* they poll: of a RedLock, ours does */
    }
    return TEST_EVENTUALLY(count_all_listeners(pair, listeners > 1) >= listeners, PATIENCE_MS) &&
           (!places[0].kind->is_missed ||
            TEST_EVENTUALLY(sleeps(pair->holder) && sleeps(pair->waiter), PATIENCE_MS));
}

bool pair_is_heard(struct pair *pair)
{
    struct place places[MAX_MEMBERS];
    const size_t n = list_places(pair, places);
    bool is_heard = kind_is_redlock(pair->kind) || n == 0 || places[0].kind->channel == NULL;
    char channel[512];

    for (size_t i = 0; i < n && !is_heard; i++) {
        name_after(places[i].kind->channel, &places[i], "", channel);
        is_heard = count_on(places[i].server, "NUMSUB", channel) > 0;
    }
    return is_heard;
}

bool pair_is_queued(struct pair *pair, size_t n)
{
    struct place places[MAX_MEMBERS];

    TEST_CHECK(list_places(pair, places) > 0);
    struct test_server *server = places[0].server;
    const char *name = places[0].name;
    return TEST_EVENTUALLY(
        test_server_int(server, "LLEN redisson_lock_queue:{%s}", name) == (long long)n &&
            test_server_int(server, "ZCARD redisson_lock_timeout:{%s}", name) == (long long)n &&
            count_all_listeners(pair, false) == n,
        PATIENCE_MS);
}
