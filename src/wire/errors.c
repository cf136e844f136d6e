/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of what servers' errors mean. */
#include "wire/errors.h"

#include <ctype.h>

#define ABORTED "non local key"
#define NEEDS_WAITAOF "acks_on_disk wants Redis 7.2 or newer, or Valkey"

#define OF_CLUSTER "the server is part of a cluster: use redis+cluster://"
#define NO_SERVER "the proxy has no connection to a server"

static const char lacks[] = "the server does not support a command that locks need";
static const char unknown[] = "refused by the server";
static const char moving[] = "the slot is being moved";

static const struct {
    const char *word;
    struct rlock__class means;
} errors[] = {
    /* first words, also inside what a script wraps around them */
    {"LOADING", {RLOCK_ECONN, RLOCK__RETRY, "the server is loading its data"}},
    {"BUSY", {RLOCK_ECONN, RLOCK__RETRY, "the server runs a slow script"}},
    {"MASTERDOWN", {RLOCK_ECONN, RLOCK__RETRY, "the server has lost its master"}},
    {"CLUSTERDOWN", {RLOCK_ECONN, RLOCK__RETRY, "the cluster is down"}},
    {"TRYAGAIN", {RLOCK_EREFUSED, RLOCK__RETRY, moving}},
    {"READONLY", {RLOCK_ECONN, RLOCK__RETRY, "the server is a replica"}},
    {"UNBLOCKED", {RLOCK_ECONN, RLOCK__RETRY, "another server has taken its place"}},
    {"NOSCRIPT", {RLOCK_ECONN, RLOCK__RETRY, "the server forgot its scripts"}},
    {"OOM", {RLOCK_EREFUSED, RLOCK__WAIT, "the server is out of memory: raise its maxmemory"}},
    {"MISCONF", {RLOCK_EREFUSED, RLOCK__WAIT, "the server cannot save its data"}},
    {"NOREPLICAS", {RLOCK_EREFUSED, RLOCK__WAIT, "the server misses replicas"}},
    {"WRONGTYPE", {RLOCK_EWRONGTYPE, RLOCK__GIVE_UP, "the key is used for something else"}},
    {"NOPERM", {RLOCK_EPERM, RLOCK__GIVE_UP, "not permitted: see the user's ACL"}},
    {"NOAUTH", {RLOCK_EAUTH, RLOCK__GIVE_UP, "the server wants a password"}},
    {"MOVED", {RLOCK_EREFUSED, RLOCK__GIVE_UP, OF_CLUSTER}},
    {"ASK", {RLOCK_EREFUSED, RLOCK__GIVE_UP, OF_CLUSTER}},
    {"CROSSSLOT", {RLOCK_EREFUSED, RLOCK__GIVE_UP, "the name's keys lie in different slots"}},
};

static const struct {
    const char *text;
    struct rlock__class means;
} texts[] = {
    /* from the source of a slot that is being moved, which stops a script at a key that is gone */
    {ABORTED, {RLOCK_EREFUSED, RLOCK__RETRY, moving}},
    /* how a script says that its user may not: without the word NOPERM */
    {"The user executing the script",
     {RLOCK_EPERM, RLOCK__GIVE_UP, "not permitted: see the user's ACL"}},
    {"ACL failure in script", {RLOCK_EPERM, RLOCK__GIVE_UP, "not permitted: see the user's ACL"}},
    {"WAITAOF cannot be used",
     {RLOCK_EREFUSED, RLOCK__GIVE_UP, "acks_on_disk wants appendonly yes"}},
    {"nknown command 'WAITAOF'", {RLOCK_EREFUSED, RLOCK__GIVE_UP, NEEDS_WAITAOF}},
    {"nknown command `WAITAOF`", {RLOCK_EREFUSED, RLOCK__GIVE_UP, NEEDS_WAITAOF}},
    {"nknown command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, lacks}},
    {"nknown subcommand", {RLOCK_EREFUSED, RLOCK__GIVE_UP, lacks}},
    {"nknown Redis command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, lacks}},
    {"nsupported command", {RLOCK_EREFUSED, RLOCK__GIVE_UP, lacks}},
    {"ommand is not available", {RLOCK_EREFUSED, RLOCK__GIVE_UP, lacks}},
    /* from proxies whose servers are away, or start */
    {"upstream failure", {RLOCK_ECONN, RLOCK__RETRY, NO_SERVER}},
    {"no upstream host", {RLOCK_ECONN, RLOCK__RETRY, NO_SERVER}},
    {"max number of clients", {RLOCK_ECONN, RLOCK__RETRY, "the server has too many clients"}},
};

static bool contains(const struct rlock__reply *reply, const char *text)
{
    return memmem(reply->v[0].str, reply->v[0].len, text, strlen(text)) != NULL;
}

bool rlock__error_has(const struct rlock__reply *reply, const char *word)
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
        if (rlock__error_has(reply, errors[i].word)) {
            return errors[i].means;
        }
    }
    return (struct rlock__class){RLOCK_EREFUSED, RLOCK__GIVE_UP, unknown};
}

bool rlock__is_scattered(const struct rlock__reply *reply)
{
    static const char *const words[] = {"TRYAGAIN", "MOVED", "ASK", "CROSSSLOT"};
    bool is = false;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        is = is || rlock__error_has(reply, words[i]);
    }
    return is;
}

bool rlock__is_aborted(const struct rlock__reply *reply)
{
    return contains(reply, ABORTED);
}

bool rlock__is_demoted(const struct rlock__reply *reply)
{
    return rlock__error_has(reply, "READONLY") || rlock__error_has(reply, "UNBLOCKED");
}

bool rlock__is_not_ready(const struct rlock__reply *reply)
{
    return rlock__error_has(reply, "LOADING") || rlock__error_has(reply, "BUSY") ||
           rlock__error_has(reply, "MASTERDOWN") || contains(reply, "max number of clients");
}

bool rlock__is_known(const struct rlock__class *class)
{
    return class->hint != unknown;
}

bool rlock__is_moving(const struct rlock__class *class)
{
    return class->hint == moving;
}

struct rlock__class rlock__class_of_moving(void)
{
    return (struct rlock__class){RLOCK_EREFUSED, RLOCK__RETRY, moving};
}

bool rlock__is_lacking(const struct rlock__class *class)
{
    return class->hint == lacks;
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
