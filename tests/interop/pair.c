/* The steps that properties are made of. */
#include "interop.h"

#include "support/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool party_open_client(struct party *side, const char *client, const char *url, const char *prefix)
{
    const int id = peer_tell(side->peer, "%s - - - open %s %d %s", client, peer_word(url), LONG_MS,
                             peer_word(prefix));

    return peer_wait(side->peer, id, PATIENCE_MS).ok;
}

static void open_one(struct party *side, const char *client, int lease_ms, char *ret_uuid)
{
    const int id =
        peer_tell(side->peer, "%s - - - open %s %d", client, peer_word(side->url), lease_ms);
    const struct peer_answer answer = peer_wait(side->peer, id, 30000);

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

int pair_tell(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    return peer_tell(side->peer, "%s %s %s %s %s", pair->client, owner, pair->kind->name,
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
    const struct peer_answer answer = pair_ask(pair, side, owner, what);

    return answer_is_not_yours(&answer);
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

const char *pair_field(struct pair *pair)
{
    static char field[256];
    char *reply = ask_server(pair, "HKEYS");

    test_text(field, sizeof(field), "%.*s", (int)strcspn(reply, "\n"), reply);
    free(reply);
    return field;
}

static long count_listeners(struct pair *pair, const char *channel)
{
    const char *const argv[] = {"PUBSUB", "NUMSUB", channel, NULL};
    char *reply = test_server_argv(pair->server, argv);
    const char *count = strrchr(reply, '\n');
    const long n = count != NULL ? strtol(count + 1, NULL, 10) : 0;

    free(reply);
    return n;
}

bool pair_is_awaited(struct pair *pair)
{
    return pair_is_awaited_by(pair, 1);
}

bool pair_is_awaited_by(struct pair *pair, long processes)
{
    const bool is_tagged = strchr(pair->name, '{') != NULL;
    char channel[512];

    if (pair->kind->channel == NULL) {
        return true;
    }
    test_text(channel, sizeof(channel), is_tagged ? "%s:%s" : "%s:{%s}", pair->kind->channel,
              pair->name);
    return TEST_EVENTUALLY(count_listeners(pair, channel) >= processes, PATIENCE_MS);
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
    char *field = strdup(pair_field(pair));

    snprintf(pair->failure, sizeof(pair->failure),
             "%s:%d: not so: %s\n    last answer: \"%s\"; %s holds \"%s\" for %lld ms",
             base != NULL ? base + 1 : file, line, what, pair->last.text, pair->name, field,
             (long long)pair_ttl(pair));
    free(field);
    return false;
}
