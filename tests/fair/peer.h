/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody else who uses a fair lock: scripts that change keys and send messages as Redisson's do,
 * with the caller's clock. Written from the description of what can be observed of them; where
 * scripts/interop has recorded Redisson's own (recorded.h), test_peer.c compares the two.
 */
#ifndef RLOCK_TEST_FAIR_PEER_H
#define RLOCK_TEST_FAIR_PEER_H

#include <stddef.h>
#include <stdint.h>

/*
 * ACQUIRE takes the lock or queues; nil is success, else the time to wait. TRY takes it, nil, or
 * answers 1. GIVE_UP leaves the queue. RELEASE answers 1, 0 where a level is left, nil where it is
 * not held by this owner. RENEW says whether it is held, FORCE whether it was.
 */
enum peer_verb { PEER_ACQUIRE, PEER_TRY, PEER_GIVE_UP, PEER_RELEASE, PEER_RENEW, PEER_FORCE };
enum { PEER_VERBS = PEER_FORCE + 1, PEER_WORDS = 24 };

struct peer_script {
    const char *words; /* what EVAL gets behind the body, those of peer_values in capitals */
    const char *body;
};

/* What the words in capitals stand for: LOCK, and QUEUE, SCORES and CHANNEL, which follow from it;
 * OWNER; LEASE, WAIT, NOW, in ms; LATCH, by which a release that comes twice is known. */
struct peer_values {
    const char *lock, *owner, *latch;
    int64_t lease, wait, now;
};

/* Versions that differ: before 3.32 who queues already is told what stands in front of it, and a
 * head without a score is an error. */
enum peer_age { PEER_OLD, PEER_NEW };

/* By verb. */
const struct peer_script *peer_scripts(enum peer_age age);
extern const char *const peer_verbs[PEER_VERBS];

/* A command: its words, NULL behind the last. */
struct peer_command {
    const char *argv[PEER_WORDS];
    char text[2048];
};

void peer_spell(const struct peer_script *script, const struct peer_values *values,
                struct peer_command *ret_command);

#endif
