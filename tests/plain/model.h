/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: what a lock with one hash is, as a state machine over a few owners. Who the server
 * says holds it, and what each owner has of it; no script, no core. Times are microseconds of one
 * clock; a server counts whole milliseconds.
 */
#ifndef RLOCK_TEST_PLAIN_MODEL_H
#define RLOCK_TEST_PLAIN_MODEL_H

#include <rlock/rlock.h>

enum { MODEL_NAME = 64, MODEL_OWNERS = 9 };

/* What a kind does that others do not. */
struct model_kind {
    bool reenters, fenced, spins;
};

struct model_server {
    char holder[MODEL_NAME]; /* "" nobody */
    uint32_t count;
    int64_t ends_ms;
    uint64_t token; /* the latest that was given */
    /* what waiters can know */
    int64_t known_ends_ms; /* no later is any end that one of them has seen */
    int64_t free_since;
    bool announced; /* that it is free */
};

enum model_standing { MODEL_NONE, MODEL_HELD, MODEL_LOST };

/* What an owner has. */
struct model_hold {
    enum model_standing standing;
    char name[MODEL_NAME]; /* as the server has it */
    uint32_t count;
    uint32_t renewed_from; /* the lowest level that asked for renewal; 0 none */
    int64_t valid_until;
    int64_t extended; /* when the server granted or renewed it last */
    uint64_t token;
    bool taken_away; /* somebody opened the lock under it, or set its end */
};

struct model {
    struct model_kind kind;
    int64_t now;
    int64_t epoch_us; /* the server's clock at 0 */
    int64_t lease;    /* that is renewed */
    struct model_server server;
    struct model_hold holds[MODEL_OWNERS];
};

/* Time has passed: a lease may have ended on the server. */
void model_wait(struct model *m, int64_t now);
bool model_is_free(const struct model *m);
/* Whether the server has an owner's hold. */
bool model_has(const struct model *m, size_t owner);
/* Whose hold this is; MODEL_OWNERS nobody's. */
size_t model_find(const struct model *m, const char *name);
/* Of a lock that is free: until when who waits may let others go first. */
int64_t model_paused_until(const struct model *m);
/* By when one of those who wait has taken a lock that is free. */
int64_t model_taken_by(const struct model *m);
/* By when a renewed hold has been extended, or is known to be lost. */
int64_t model_renewed_by(const struct model *m, size_t owner);

/* The code of an attempt, and what it changes. lease: 0 is renewed. name: what the server knows
 * the owner by, if that is a new hold. */
int model_take(struct model *m, size_t owner, const char *name, int64_t lease);
int model_unlock(struct model *m, size_t owner);
void model_renew(struct model *m, size_t owner);
/* Why an owner that believes to hold it does so no more; 0 it does. */
enum rlock_reason model_reason(const struct model *m, size_t owner);
/* The owner knows, and gives back what the server may have of it. */
void model_lose(struct model *m, size_t owner);
/* Somebody opens it: by force, which is announced, or deletes it by hand. */
void model_open(struct model *m, bool announced);
/* Somebody sets the end of its lease by hand. */
void model_set_end(struct model *m, int64_t ends_ms);

#endif
