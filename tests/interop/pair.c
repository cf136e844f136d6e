/* The steps that properties are made of. */
#include "interop.h"

#include "support/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name of a client for one of the servers. */
static void name_client(const char *client, size_t server, char *ret_name, size_t size)
{
    test_text(ret_name, size, server == 0 ? "%s" : "%s.%zu", client, server);
}

static struct peer_answer open_at(struct party *side, const char *client, size_t server,
                                  const struct client_opts *opts)
{
    char name[48];

    name_client(client, server, name, sizeof(name));
    const int id = peer_tell(side->peer, "%s - - - open %s %d %d %d %s", name,
                             peer_word(opts->url != NULL ? opts->url : side->urls[server]),
                             opts->lease_ms != 0 ? opts->lease_ms : LONG_MS,
                             opts->slot_ms != 0 ? opts->slot_ms : SLOT_MS, opts->timeout_ms,
                             opts->prefix != NULL ? peer_word(opts->prefix) : "");
    return peer_wait(side->peer, id, 3 * PATIENCE_MS);
}

struct peer_answer party_open_client(struct party *side, const char *client,
                                     const struct client_opts *opts)
{
    struct peer_answer answer = {.ok = true};

    for (size_t i = 0; answer.ok && i < side->n_servers; i++) {
        answer = open_at(side, client, i, opts);
    }
    return answer;
}

static void open_one(struct party *side, const char *client, int lease_ms, char (*ret_uuids)[40])
{
    for (size_t i = 0; i < side->n_servers; i++) {
        const struct peer_answer answer =
            open_at(side, client, i, &(struct client_opts){.lease_ms = lease_ms});
        if (!answer.ok) {
            test_show_file(peer_log(side->peer));
            test_die("%s cannot open a client: %s", peer_label(side->peer), answer.text);
        }
        test_text(ret_uuids[i], sizeof(ret_uuids[i]), "%s", answer.text);
    }
}

void party_open(struct party *side)
{
    open_one(side, "long", LONG_MS, side->uuids_long);
    open_one(side, "short", SHORT_MS, side->uuids_short);
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

struct pair *pair_member(struct pair *pair, size_t i)
{
    pair->member = &pair->kind->members[i];
    return pair;
}

struct pair *pair_whole(struct pair *pair)
{
    pair->member = NULL;
    return pair;
}

static bool starts(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool asks(const char *what)
{
    return starts(what, "force") || starts(what, "ttl") || starts(what, "locked");
}

static const char *kind_of(const struct pair *pair, const struct party *side, const char *what)
{
    const struct member *member = pair->member;
    const bool waits = side == pair->waiter && pair->kind->waits_as != NULL;

    if (pair->as != NULL) {
        return pair->as;
    }
    if (member != NULL) {
        return member->against != NULL && !asks(what) ? member->against : member->kind;
    }
    return waits && strcmp(what, "force") != 0 ? pair->kind->waits_as : pair->kind->name;
}

void pair_spell(struct pair *pair, bool is_reversed, char *ret_words, size_t size)
{
    const size_t n = pair->kind->n_members;
    char names[512] = "";
    char client[48];

    for (size_t i = 0; i < n; i++) {
        const struct member *member = &pair->kind->members[is_reversed ? n - 1 - i : i];
        name_client(pair->client, member->server, client, sizeof(client));
        const size_t len = strlen(names);
        test_text(names + len, sizeof(names) - len, "%s%s/%s/%s%s", i > 0 ? "," : "", client,
                  member->kind, pair->name, member->suffix);
    }
    test_text(ret_words, size, "%s %s", pair->kind->name, peer_word(names));
}

int pair_tell(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    const struct member *member = pair->member;
    char client[48];
    char name[160];
    char words[640];

    name_client(pair->client, member != NULL ? member->server : 0, client, sizeof(client));
    if (kind_is_group(pair->kind) && member == NULL) {
        pair_spell(pair, false, words, sizeof(words));
    } else {
        test_text(name, sizeof(name), "%s%s", pair->name, member != NULL ? member->suffix : "");
        test_text(words, sizeof(words), "%s %s", kind_of(pair, side, what), peer_word(name));
    }
    return peer_tell(side->peer, "%s %s %s %s", client, owner, words, what);
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

bool answer_is_not_yours(const struct peer_answer *answer)
{
    return !answer->ok && (starts(answer->text, "ENOTOWNER ") || starts(answer->text, "ELOST ") ||
                           starts(answer->text, "IllegalMonitorStateException "));
}

bool pair_refuses(struct pair *pair, const struct party *side, const char *owner, const char *what)
{
    const bool may_lie =
        !side->is_ours && (pair->kind->is_silent || (pair->kind->is_lenient && pair_is_free(pair)));
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

/* What ours calls the lock. */
static void pair_title(const struct pair *pair, char *ret_name, size_t size)
{
    const size_t n =
        pair->member != NULL || kind_is_redlock(pair->kind) ? 0 : pair->kind->n_members;

    test_text(ret_name, size, "%s%s", pair->name,
              pair->member != NULL ? pair->member->suffix
              : n > 0              ? pair->kind->members[0].suffix
                                   : "");
    for (size_t i = 1; i < n; i++) {
        const size_t len = strlen(ret_name);
        test_text(ret_name + len, size - len, ",%s%s", pair->name, pair->kind->members[i].suffix);
    }
}

bool pair_lost(struct pair *pair, const struct party *side, const char *reasons, int64_t timeout_ms)
{
    char start[640];
    char name[512];

    if (!side->is_ours) {
        return true;
    }
    pair_title(pair, name, sizeof(name));
    test_text(start, sizeof(start), "lost %s ", peer_word(name));
    const char *reason = peer_event(side->peer, start, timeout_ms);
    snprintf(pair->last.text, sizeof(pair->last.text), "lost: %s",
             reason != NULL ? reason : "not told");
    return reason != NULL && strstr(reasons, reason) != NULL;
}

bool pair_holds(struct pair *pair, const struct party *side, const char *owner, bool is_held)
{
    const struct peer_answer answer = pair_ask(pair, side, owner, "held");

    return answer.ok ? strcmp(answer.text, is_held ? "true" : "false") == 0
                     : kind_is_group(pair->kind) && !side->is_ours &&
                           starts(answer.text, "UnsupportedOperationException ");
}

bool pair_has_levels(struct pair *pair, const struct party *side, const char *owner, int levels)
{
    const bool tells = side->is_ours || !kind_is_group(pair->kind);
    const int on_server = kind_is_redlock(pair->kind) && side->is_ours && levels > 1 ? 1 : levels;
    char number[16];

    test_text(number, sizeof(number), "%d", levels);
    /* a RedLock's minority may follow after the answer */
    return (pair_count(pair) == on_server ||
            (kind_is_redlock(pair->kind) && TEST_EVENTUALLY(pair_count(pair) == on_server, 300))) &&
           (!tells || pair_says(pair, side, owner, "count", number));
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
