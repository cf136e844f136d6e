/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference: what a read/write lock is, as a state machine over a few owners, without scripts.
 * Times are absolute ms. What it says after each operation the server must have, to the field and
 * the millisecond.
 */
#ifndef RLOCK_TEST_RW_MODEL_H
#define RLOCK_TEST_RW_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { MODEL_OWNERS = 5, MODEL_LEVELS = 8 };

struct model {
    int64_t now;
    bool prefers_writers;
    char mode;                                              /* 'r', 'w'; '-' there is no lock */
    int64_t ends;                                           /* the lock */
    unsigned int reads[MODEL_OWNERS], writes[MODEL_OWNERS]; /* counts */
    int64_t levels[MODEL_OWNERS][MODEL_LEVELS]; /* when each ends; 0 there is no such key */
    int64_t asked_until; /* a writer waits, and asks readers to stand back; 0 none does */
    int asked_by;        /* the latest of them */
    const char *said;    /* what the latest operation announced */
};

enum model_outcome { MODEL_DONE, MODEL_BUSY, MODEL_GONE };

struct model_answer {
    enum model_outcome outcome;
    int64_t ttl; /* BUSY */
    bool taken;  /* GONE */
};

void model_init(struct model *m, bool prefers_writers);
/* Time passes; what has ended is gone. */
void model_wait(struct model *m, int64_t ms);

struct model_answer model_read(struct model *m, int o, unsigned int count, int64_t lease,
                               bool own_write);
struct model_answer model_read_release(struct model *m, int o, unsigned int count, int64_t lease);
struct model_answer model_write(struct model *m, int o, unsigned int count, int64_t lease,
                                bool waits);
struct model_answer model_write_release(struct model *m, int o, unsigned int count, int64_t lease);
/* 1 extended, 0 gone, -1 somebody else's. */
int64_t model_read_renew(struct model *m, int o, unsigned int declared, int64_t lease);
int64_t model_write_renew(struct model *m, int o, int64_t lease);
void model_force(struct model *m, bool write_side);
void model_delete(struct model *m);

/* A reader that lives: one of its levels does. */
bool model_lives(const struct model *m, int o);
/* How many hold a side. */
unsigned int model_holders(const struct model *m, bool write_side);

#endif
