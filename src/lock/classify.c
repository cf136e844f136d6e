/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of what servers' errors mean. */
#include "lock/classify.h"

#include <stdio.h>

#define ABORTED "non local key"
#define NEEDS_WAITAOF "acks_on_disk wants Redis 7.2 or newer, or Valkey"

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
    {"TRYAGAIN", {RLOCK_ECONN, RLOCK__RETRY, moving}},
    {"READONLY", {RLOCK_ECONN, RLOCK__RETRY, "the server is a replica"}},
    {"UNBLOCKED", {RLOCK_ECONN, RLOCK__RETRY, "another server has taken its place"}},
    {"NOSCRIPT", {RLOCK_ECONN, RLOCK__RETRY, "the server forgot its scripts"}},
    {"OOM", {RLOCK_EREFUSED, RLOCK__WAIT, "raise the server's maxmemory"}},
    {"MISCONF", {RLOCK_EREFUSED, RLOCK__WAIT, "the server cannot save its data"}},
    {"NOREPLICAS", {RLOCK_EREFUSED, RLOCK__WAIT, "the server misses replicas"}},
    {"WRONGTYPE", {RLOCK_EWRONGTYPE, RLOCK__GIVE_UP, "the key is used for something else"}},
    {"NOPERM", {RLOCK_EPERM, RLOCK__GIVE_UP, "see the user's ACL"}},
    {"NOAUTH", {RLOCK_EAUTH, RLOCK__GIVE_UP, "give a password"}},
    {"MOVED", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, "the server is part of a cluster"}},
    {"ASK", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, "the server is part of a cluster"}},
    {"CROSSSLOT", {RLOCK_EINVAL, RLOCK__GIVE_UP, "the name's keys lie in different slots"}},
};

static const struct {
    const char *text;
    struct rlock__class means;
} texts[] = {
    /* from the source of a slot that is being moved, which stops a script at a key that is gone */
    {ABORTED, {RLOCK_ECONN, RLOCK__RETRY, moving}},
    /* how a script says that its user may not: without the word NOPERM */
    {"The user executing the script", {RLOCK_EPERM, RLOCK__GIVE_UP, "see the user's ACL"}},
    {"ACL failure in script", {RLOCK_EPERM, RLOCK__GIVE_UP, "see the user's ACL"}},
    {"WAITAOF cannot be used",
     {RLOCK_EREFUSED, RLOCK__GIVE_UP, "acks_on_disk wants appendonly yes"}},
    {"nknown command 'WAITAOF'", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, NEEDS_WAITAOF}},
    {"nknown command `WAITAOF`", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, NEEDS_WAITAOF}},
    {"nknown command", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, "the server lacks a command"}},
    {"nknown Redis command", {RLOCK_ENOTSUP, RLOCK__GIVE_UP, "the server lacks a command"}},
};

/* Whether the text has the word at its start, or inside behind a blank or a dash: scripts wrap
 * errors. */
static bool has_word(const char *text, size_t len, const char *word)
{
    size_t n = strlen(word);

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
    const char *text = reply->v[0].str;
    size_t len = reply->v[0].len;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (memmem(text, len, texts[i].text, strlen(texts[i].text)) != NULL) {
            return texts[i].means;
        }
    }
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (has_word(text, len, errors[i].word)) {
            return errors[i].means;
        }
    }
    return (struct rlock__class){RLOCK_EREFUSED, RLOCK__GIVE_UP, "see the server's log"};
}

bool rlock__is_scattered(const struct rlock__reply *reply)
{
    static const char *const words[] = {"TRYAGAIN", "MOVED", "ASK", "CROSSSLOT"};
    bool is = false;

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        is = is || has_word(reply->v[0].str, reply->v[0].len, words[i]);
    }
    return is;
}

bool rlock__is_aborted(const struct rlock__reply *reply)
{
    return memmem(reply->v[0].str, reply->v[0].len, ABORTED, strlen(ABORTED)) != NULL;
}

bool rlock__is_demoted(const struct rlock__reply *reply)
{
    return has_word(reply->v[0].str, reply->v[0].len, "READONLY") ||
           has_word(reply->v[0].str, reply->v[0].len, "UNBLOCKED");
}

struct rlock__class rlock__core_classify(const struct rlock__core *core,
                                         const struct rlock__reply *reply)
{
    if (core->redirect != NULL && (has_word(reply->v[0].str, reply->v[0].len, "MOVED") ||
                                   has_word(reply->v[0].str, reply->v[0].len, "ASK"))) {
        return (struct rlock__class){RLOCK_ECONN, RLOCK__RETRY, moving};
    }
    return rlock__classify(reply);
}

bool rlock__is_moving(const struct rlock__class *class)
{
    return class->hint == moving;
}

const char *rlock__hint(const struct rlock__class *class, const struct rlock__spec *spec,
                        char out[static RLOCK__HINT_SIZE])
{
    if (!rlock__is_moving(class) || spec->core->slot == NULL) {
        return class->hint;
    }
    (void)snprintf(out, RLOCK__HINT_SIZE, "slot %u is being moved", spec->slot);
    return out;
}
