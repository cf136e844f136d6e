/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of what servers' errors mean. */
#include "wire/errors.h"

#include <ctype.h>

#define NO_PERMISSION "not permitted: see the user's ACL"
#define OF_CLUSTER "the server is part of a cluster: use redis+cluster://"
#define NO_SERVER "the proxy has no connection to a server"
#define LACKS "the server does not support a command that locks need"
#define LACKS_WAITAOF "acknowledgement from disk requires Redis 7.2 or newer, or Valkey"

static const struct {
    const char *word;
    struct rlock__class means;
} errors[] = {
    /* first words, also inside what a script wraps around them */
    {"LOADING", {RLOCK_ECONN, RLOCK__RETRY, RLOCK__NOT_READY, "the server is loading its data"}},
    {"BUSY", {RLOCK_ECONN, RLOCK__RETRY, RLOCK__NOT_READY, "the server runs a slow script"}},
    {"MASTERDOWN", {RLOCK_ECONN, RLOCK__RETRY, RLOCK__NOT_READY, "the server has lost its master"}},
    {"CLUSTERDOWN", {RLOCK_ECONN, RLOCK__RETRY, 0, "the cluster is down"}},
    {"TRYAGAIN", {RLOCK_EREFUSED, RLOCK__RETRY, RLOCK__SCATTERED | RLOCK__MOVING, RLOCK__MOVES}},
    {"READONLY", {RLOCK_ECONN, RLOCK__RETRY, RLOCK__DEMOTED, "the server is a replica"}},
    {"UNBLOCKED",
     {RLOCK_ECONN, RLOCK__RETRY, RLOCK__DEMOTED, "another server has taken its place"}},
    {"NOSCRIPT", {RLOCK_ECONN, RLOCK__RETRY, 0, "the server forgot its scripts"}},
    {"OOM", {RLOCK_EREFUSED, RLOCK__WAIT, 0, "the server is out of memory: raise its maxmemory"}},
    {"MISCONF", {RLOCK_EREFUSED, RLOCK__WAIT, 0, "the server cannot save its data"}},
    {"NOREPLICAS", {RLOCK_EREFUSED, RLOCK__WAIT, 0, "the server misses replicas"}},
    {"WRONGTYPE", {RLOCK_EWRONGTYPE, RLOCK__GIVE_UP, 0, "the key is used for something else"}},
    {"NOPERM", {RLOCK_EPERM, RLOCK__GIVE_UP, 0, NO_PERMISSION}},
    {"NOAUTH", {RLOCK_EAUTH, RLOCK__GIVE_UP, 0, "the server wants a password"}},
    {"MOVED", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__SCATTERED | RLOCK__REDIRECTED, OF_CLUSTER}},
    {"ASK", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__SCATTERED | RLOCK__REDIRECTED, OF_CLUSTER}},
    {"CROSSSLOT",
     {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__SCATTERED, "the name's keys lie in different slots"}},
};

static const struct {
    const char *text;
    struct rlock__class means;
} texts[] = {
    /* from the source of a slot that is being moved, which stops a script at a key that is gone */
    {"non local key", {RLOCK_EREFUSED, RLOCK__RETRY, RLOCK__ABORTED | RLOCK__MOVING, RLOCK__MOVES}},
    /* how a script says that its user may not: without the word NOPERM */
    {"The user executing the script", {RLOCK_EPERM, RLOCK__GIVE_UP, 0, NO_PERMISSION}},
    {"ACL failure in script", {RLOCK_EPERM, RLOCK__GIVE_UP, 0, NO_PERMISSION}},
    {"WAITAOF cannot be used",
     {RLOCK_EREFUSED, RLOCK__GIVE_UP, 0, "acknowledgement from disk requires appendonly yes"}},
    {"nknown command 'WAITAOF'", {RLOCK_EREFUSED, RLOCK__GIVE_UP, 0, LACKS_WAITAOF}},
    {"nknown command `WAITAOF`", {RLOCK_EREFUSED, RLOCK__GIVE_UP, 0, LACKS_WAITAOF}},
    {"nknown command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__LACKING, LACKS}},
    {"nknown subcommand", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__LACKING, LACKS}},
    {"nknown Redis command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__LACKING, LACKS}},
    {"nsupported command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__LACKING, LACKS}},
    {"ommand is not available", {RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__LACKING, LACKS}},
    /* from proxies whose servers are away, or start */
    {"upstream failure", {RLOCK_ECONN, RLOCK__RETRY, 0, NO_SERVER}},
    {"no upstream host", {RLOCK_ECONN, RLOCK__RETRY, 0, NO_SERVER}},
    {"max number of clients",
     {RLOCK_ECONN, RLOCK__RETRY, RLOCK__NOT_READY, "the server has too many clients"}},
};

static bool contains(const struct rlock__reply *reply, const char *text)
{
    return memmem(reply->v[0].str, reply->v[0].len, text, strlen(text)) != NULL;
}

/* Whether it has the word at its start, or inside behind a blank or a dash: scripts wrap errors. */
static bool has_word(const struct rlock__reply *reply, const char *word)
{
    const char *text = reply->v[0].str;
    size_t len = reply->v[0].len, n = strlen(word);

    for (size_t i = 0; i + n <= len; i++) {
        bool starts = i == 0 || text[i - 1] == ' ' || text[i - 1] == '-';
        bool ends = i + n == len || text[i + n] == ' ';

        if (starts && ends && memcmp(text + i, word, n) == 0) {
            return true;
        }
    }
    return false;
}

struct rlock__class rlock__classify(const struct rlock__reply *reply)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (contains(reply, texts[i].text)) {
            return texts[i].means;
        }
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (has_word(reply, errors[i].word)) {
            return errors[i].means;
        }
    }
    return (struct rlock__class){RLOCK_EREFUSED, RLOCK__GIVE_UP, RLOCK__UNEXPLAINED,
                                 "refused by the server"};
}

/* It stands in quotes, which servers and proxies write in several ways. */
void rlock__lacking(const struct rlock__reply *reply, char *out, size_t size)
{
    const char *at = reply->v[0].str, *end = at + reply->v[0].len;
    size_t n = 0;

    while (at < end && *at != '\'' && *at != '`') {
        at++;
    }
    for (at++; at < end && (isalnum((unsigned char)*at) || *at == '.') && n + 1 < size; at++) {
        out[n++] = (char)toupper((unsigned char)*at);
    }
    out[n] = '\0';
}
