/* The steps that properties are made of. */
#include "interop.h"

#include "support/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct peer_answer party_open_client(struct party *side, const char *client,
                                     const struct client_opts *opts)
{
    const int id = peer_tell(side->peer, "%s - - - open %s %d %d %s", client,
                             peer_word(opts->url != NULL ? opts->url : side->url),
                             opts->lease_ms != 0 ? opts->lease_ms : LONG_MS,
                             opts->slot_ms != 0 ? opts->slot_ms : SLOT_MS,
                             opts->prefix != NULL ? peer_word(opts->prefix) : "");

    return peer_wait(side->peer, id, 3 * PATIENCE_MS);
}

static void open_one(struct party *side, const char *client, int lease_ms, char *ret_uuid)
{
    const struct peer_answer answer =
        party_open_client(side, client, &(struct client_opts){.lease_ms = lease_ms});

    if (!answer.ok) {
        test_show_file(peer_log(side->peer));
        test_die("%s cannot open a client: %s", peer_label(side->peer), answer.text);
    }
    test_text(ret_uuid, sizeof(side->uuid_long), "%s", answer.text);
}

void party_open(struct party *side)
{
    open_one(side, "long", LONG_MS, side->uuid_long);
    open_one(side, "short", SHORT_MS, side->uuid_short);
}

bool party_has(struct party *side, const char *client, const char *kind)
{
    const int id = peer_tell(side->peer, "%s probe %s interop-probe locked", client, kind);
    const struct peer_answer answer = peer_wait(side->peer, id, PATIENCE_MS);

    return answer.ok;
}

void party_restart(struct party *side)
{
    peer_restart(side->peer);
    party_open(side);
}

void pair_rename(struct pair *pair)
{
    static unsigned int n;

    test_text(pair->name, sizeof(pair->name), "interop-%04u", ++n);
}

static const char *kind_of(const struct pair *pair, const struct party *side, const char *what)
{
    const bool waits = side == pair->waiter && pair->kind->waits_as != NULL;

    if (pair->as != NULL) {
        return pair->as;
    }
    return waits && strcmp(what, "force") != 0 ? pair->kind->waits_as : pair->kind->name;
}

int pair_tell(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    return peer_tell(side->peer, "%s %s %s %s %s", pair->client, owner, kind_of(pair, side, what),
                     peer_word(pair->name), what);
}

struct peer_answer pair_wait(struct pair *pair, const struct party *side, int id,
                             int64_t timeout_ms)
{
    pair->last = peer_wait(side->peer, id, timeout_ms);
    return pair->last;
}

struct peer_answer pair_ask(struct pair *pair, const struct party *side, const char *owner,
                            const char *what)
{
    return pair_wait(pair, side, pair_tell(pair, side, owner, what), PATIENCE_MS);
}

bool pair_does(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    return pair_ask(pair, side, owner, what).ok;
}

bool pair_says(struct pair *pair, const struct party *side, const char *owner, const char *what,
               const char *answer)
{
    const struct peer_answer given = pair_ask(pair, side, owner, what);

    return given.ok && strcmp(given.text, answer) == 0;
}

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

bool answer_is_not_yours(const struct peer_answer *answer)
{
    return !answer->ok && (starts(answer->text, "ENOTOWNER ") || starts(answer->text, "ELOST ") ||
                           starts(answer->text, "IllegalMonitorStateException "));
}

bool pair_refuses(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    const bool may_lie = pair->kind->is_lenient && !side->is_ours && pair_is_free(pair);
    const struct peer_answer answer = pair_ask(pair, side, owner, what);

    return answer_is_not_yours(&answer) || (answer.ok && may_lie);
}

int64_t pair_number(struct pair *pair, const struct party *side, const char *owner,
                    const char *what)
{
    const struct peer_answer answer = pair_ask(pair, side, owner, what);
    char *end = NULL;
    const long long value = strtoll(answer.text, &end, 10);

    return answer.ok && end != answer.text && *end == '\0' ? value : INT64_MIN;
}

static char *ask_server(struct pair *pair, const char *verb)
{
    const char *const argv[] = {verb, pair->name, NULL};

    return test_server_argv(pair->server, argv);
}

int64_t pair_ttl(struct pair *pair)
{
    char *reply = ask_server(pair, "PTTL");
    const int64_t ttl = strtoll(reply, NULL, 10);

    free(reply);
    return ttl;
}

bool pair_is_free(struct pair *pair)
{
    return pair_ttl(pair) == -2;
}

/* The first owner's field and, if wanted, its value. */
static void find_owner(struct pair *pair, char *ret_field, size_t size, int *ret_count)
{
    char *reply = ask_server(pair, "HGETALL");
    char *rest = reply;

    ret_field[0] = '\0';
    *ret_count = 0;
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

/* Who listens on the channel; of a fair lock, how many channels there are of which it is the
 * beginning. */
static size_t count_listeners(struct pair *pair, const char *channel)
{
    const char *const numsub[] = {"PUBSUB", "NUMSUB", channel, NULL};
    const char *const channels[] = {"PUBSUB", "CHANNELS", NULL};
    char *reply = test_server_argv(pair->server, pair->kind->is_fair ? channels : numsub);
    char *rest = reply;
    size_t n = 0;

    if (pair->kind->is_fair) {
        for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
            n += starts(line, channel) && line[strlen(channel)] == ':';
        }
    } else {
        n = strtoul(strrchr(reply, '\n') + 1, NULL, 10);
    }
    free(reply);
    return n;
}

bool pair_is_awaited(struct pair *pair)
{
    return pair_is_awaited_by(pair, 1);
}

bool pair_is_awaited_by(struct pair *pair, size_t listeners)
{
    const bool is_tagged = strchr(pair->name, '{') != NULL;
    char channel[512];

    if (pair->kind->channel == NULL) {
        return true;
    }
    test_text(channel, sizeof(channel), is_tagged ? "%s:%s" : "%s:{%s}", pair->kind->channel,
              pair->name);
    const bool is_awaited =
        TEST_EVENTUALLY(count_listeners(pair, channel) >= listeners, PATIENCE_MS);
    if (pair->kind->is_missed) { /* nothing tells when Redisson's waiter sleeps */
        usleep(300000);
    }
    return is_awaited;
}

bool pair_is_queued(struct pair *pair, size_t n)
{
    char channel[512];

    test_text(channel, sizeof(channel), "%s:{%s}", pair->kind->channel, pair->name);
    return TEST_EVENTUALLY(test_server_int(pair->server, "LLEN redisson_lock_queue:{%s}",
                                           pair->name) == (long long)n &&
                               test_server_int(pair->server, "ZCARD redisson_lock_timeout:{%s}",
                                               pair->name) == (long long)n &&
                               count_listeners(pair, channel) == n,
                           PATIENCE_MS);
}

bool pair_lost(struct pair *pair, const struct party *side, const char *reasons, int64_t timeout_ms)
{
    char start[512];

    if (!side->is_ours) {
        return true;
    }
    test_text(start, sizeof(start), "lost %s ", peer_word(pair->name));
    const char *reason = peer_event(side->peer, start, timeout_ms);
    snprintf(pair->last.text, sizeof(pair->last.text), "lost: %s",
             reason != NULL ? reason : "not told");
    return reason != NULL && strstr(reasons, reason) != NULL;
}

bool pair_failed(struct pair *pair, const char *file, int line, const char *what)
{
    const char *base = strrchr(file, '/');
    snprintf(pair->failure, sizeof(pair->failure),
             "%s:%d: not so: %s\n    last answer: \"%s\"; %s is held by \"%s\" for %lld ms",
             base != NULL ? base + 1 : file, line, what, pair->last.text, pair->name,
             pair_owner(pair), (long long)pair_ttl(pair));
    return false;
}
