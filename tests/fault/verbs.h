/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every command of a lock as one thing to try under a fault: what must be so before, what is
 * called, and what must be so afterwards.
 */
#ifndef RLOCK_TEST_FAULT_VERBS_H
#define RLOCK_TEST_FAULT_VERBS_H

#include "support/user.h"

struct verb {
    const char *name;
    const char *script; /* that it runs: "acquire", … */
    unsigned int held;  /* so often the user holds the lock before */
    bool by_hand;       /* somebody else holds it before */
    bool once;          /* must not be sent twice */
    int (*run)(const struct user *user);
    long long count_after; /* the hold count on the server when it was done */
};

extern const struct verb verb_acquire, verb_nested, verb_partial, verb_release, verb_force,
    verb_inspect;
/* All of them, ended by NULL. */
extern const struct verb *const verbs[];

/* Loads every script, so that no EVALSHA of the test meets a server without it. */
void verbs_load(const struct fixture *f);
/* The digest of the reentrant lock's script for "acquire", "release", "renew", "force" or
 * "inspect", or for "enter": an acquisition that waits, and enters the queue on the server. */
const char *script_digest(const char *verb);
/* A rule for the next request that runs this script. */
struct proxy_rule script_rule(const char *verb, enum proxy_act act);
/* Brings about what the verb wants to find. */
void verb_prepare(const struct verb *verb, const struct user *user);
/* Unlocks as often as the user holds the lock, each time with success; frees it by hand where
 * somebody else does. */
void verb_clean_up(const struct user *user);

#endif
