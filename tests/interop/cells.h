/*
 * Says whether locks exclude, across processes and languages: cells in a mapped file, entered by
 * whoever believes to hold the cell's lock. As support/witness.h, which only forked processes can
 * share, and with the same two independent observations: somebody inside when another enters, and
 * updates lost in a counter that is deliberately read, kept a while and written back.
 *
 * The file is blocks of 64 bytes of 64-bit words: one head, one score for each slot, then the
 * cells, of two blocks each. java/src/main/java/rlock/interop/Cells.java has the same layout.
 *
 * A slot is a process's place in the stress; when the process is killed another takes its place.
 * The first half of them are Redisson's.
 * Threads: any, in any process.
 */
#ifndef RLOCK_INTEROP_CELLS_H
#define RLOCK_INTEROP_CELLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CELLS_SLOTS = 4, CELLS_THREADS = 8 };

/* What each slot counts. */
enum cells_score {
    CELLS_GRANTS,
    CELLS_NESTED,   /* of the grants, those that locked once more */
    CELLS_REFUSED,  /* tried and not got, as it should be */
    CELLS_IN_DOUBT, /* not known, as the server did not answer in time */
    CELLS_LOST,     /* holds that were gone at their unlock */
    CELLS_ERRORS,
    CELLS_LONGEST_US, /* the longest wait for a grant */
    CELLS_N_SCORES
};

struct cells;

/* Makes the file with n cells, all zero. */
struct cells *cells_make(const char *path, size_t n);
struct cells *cells_open(const char *path);
struct cells *cells_close(struct cells *cells); /* NULL ok; the file stays */

/* The id of a slot's thread. Shared: a reader, who may be inside with others. True: alone, as far
 * as can be seen. */
uint64_t cells_id(size_t slot, size_t thread);
bool cells_enter(struct cells *cells, size_t cell, uint64_t id, bool shared);
void cells_leave(struct cells *cells, size_t cell, uint64_t id, bool shared);

/* A fencing token of who is inside: true if it is larger than all before. */
bool cells_fence(struct cells *cells, size_t cell, uint64_t token);

/* Whether one of the slot's threads is inside, and not as a reader. */
bool cells_holds(const struct cells *cells, size_t cell, size_t slot);

/* The slot's process was killed: its threads are inside no more. */
void cells_evict(struct cells *cells, size_t slot);

void cells_stop(struct cells *cells);
bool cells_is_stopped(const struct cells *cells);

void cells_count(struct cells *cells, size_t slot, enum cells_score score);
void cells_waited(struct cells *cells, size_t slot, int64_t us);
uint64_t cells_score(const struct cells *cells, size_t slot, enum cells_score score);

/* How often the slot's threads entered the cell. */
uint64_t cells_entries(const struct cells *cells, size_t cell, size_t slot);

/* What was seen, and how much of it between Redisson and rlock; lost updates and how many are
 * inside: when everybody has left. */
uint64_t cells_overlaps(const struct cells *cells);
uint64_t cells_mixed_overlaps(const struct cells *cells);
uint64_t cells_stale_tokens(const struct cells *cells);
uint64_t cells_lost_updates(const struct cells *cells);
size_t cells_inside(const struct cells *cells);

#endif
