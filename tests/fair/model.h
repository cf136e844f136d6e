/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fair lock is, in words of C: a queue with deadlines, a holder, and what a waiter may
 * conclude from what it has seen. No server, no script; times are milliseconds.
 */
#ifndef RLOCK_TEST_FAIR_MODEL_H
#define RLOCK_TEST_FAIR_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_NAME = 32, MODEL_MOST = 256, MODEL_FRONT = 16 };

struct model_entry {
    char name[MODEL_NAME];
    int64_t score;
};

/* How many hear a waiter. */
typedef int64_t model_hear_fn(void *payload, const char *name);

struct model {
    int64_t now, slot;
    char holder[MODEL_NAME]; /* "" nobody */
    int64_t count, ends;
    size_t n;
    struct model_entry queue[MODEL_MOST];
    model_hear_fn *hear;
    void *payload;
    size_t longest;  /* the queue has been */
    uint64_t passed; /* taken for dead, ever */
    uint64_t purged; /* put out by their deadlines, ever */
};

/* What one waiter remembers of those in front. */
struct model_watch {
    size_t n;
    struct {
        char name[MODEL_NAME];
        int64_t heard, since;
    } ones[MODEL_FRONT];
    int64_t head_score, head_since;
};

/* What remains of the lease; -2 it is free. */
int64_t model_ttl(struct model *m);
/* The place of an owner in the queue, 1 the head; 0 it is not in it. */
size_t model_place(const struct model *m, const char *name);

/* An attempt of ours, to become the holder or to hold one level more; whether it was granted. */
bool model_acquire(struct model *m, const char *name, int64_t lease, int64_t count, bool waits,
                   struct model_watch *watch);
/* What a release shows: the head that it wakes, if the lock is free. */
void model_watch_head(struct model *m, struct model_watch *watch);
/* A look some time after it. */
void model_look(struct model *m, struct model_watch *watch);
/* Ours gives up the lock, or its place. Whether it had the lock. */
bool model_release(struct model *m, const char *name);

/* The same of a peer; wait is what it adds, and takes along. */
bool model_peer_acquire(struct model *m, const char *name, int64_t lease, int64_t wait, bool waits);
void model_peer_give_up(struct model *m, const char *name, int64_t wait);
/* -1: not held by this peer; else the count that is left. */
int64_t model_peer_release(struct model *m, const char *name, int64_t lease);

#endif
