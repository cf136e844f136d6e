/*
 * Says whether a lock excludes: cells in memory that threads and forked processes share, entered by
 * whoever believes to hold the lock. A cell is one exclusive section, or one with readers and
 * writers.
 *
 * Two things are seen independently: somebody inside when another enters (with both ids), and
 * updates lost in a counter that is deliberately read, kept a while and written back. No lock is
 * used, so nothing hides an overlap.
 *
 * Make it before forking. Threads: any, in any process; making, freeing and reporting: one.
 */
#ifndef RLOCK_TEST_WITNESS_H
#define RLOCK_TEST_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct witness;

struct witness_overlap {
    int64_t at_us; /* CLOCK_BOOTTIME */
    size_t cell;
    uint64_t inside;  /* who was there; of several readers the last that entered */
    uint64_t entered; /* who came */
    bool shared;      /* whether the one who came was a reader */
};

struct witness *witness_new(size_t n_cells);
struct witness *witness_free(struct witness *witness); /* NULL ok; elsewhere mapped copies stay */

/* `id` is who enters: not 0, and nobody else's. Enter counts one update; both are a few nanoseconds
 * and the spin. */
void witness_enter(struct witness *witness, size_t cell, uint64_t id);
void witness_leave(struct witness *witness, size_t cell, uint64_t id);

/* A reader: other readers may be inside. It counts no update. */
void witness_enter_shared(struct witness *witness, size_t cell, uint64_t id);
void witness_leave_shared(struct witness *witness, size_t cell, uint64_t id);

/* For one who was killed, or lost its lock, inside: its place is free. For a writer the same as
 * leaving. */
void witness_evict(struct witness *witness, size_t cell, uint64_t id);
void witness_evict_shared(struct witness *witness, size_t cell, uint64_t id);

/* How long an update stays in the air, 1 us unless set; longer finds more and slows more. */
void witness_set_spin_us(struct witness *witness, unsigned int spin_us);

uint64_t witness_entries(const struct witness *witness); /* exclusive and shared, of all cells */
uint64_t witness_overlaps(const struct witness *witness);
uint64_t witness_lost_updates(const struct witness *witness); /* when everybody has left */

/* The first overlaps, up to `n`; returns how many. */
size_t witness_read(const struct witness *witness, struct witness_overlap *ret_overlaps, size_t n);

/* Whether nothing was seen and nobody is inside; says what, if `out` is not NULL. */
bool witness_is_clean(const struct witness *witness, FILE *out);

#endif
