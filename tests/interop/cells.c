#include "cells.h"

#include "support/run.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UPDATE_US = 2 };

struct head {
    _Atomic uint64_t stop;
    _Atomic uint64_t overlaps;
    _Atomic uint64_t stale_tokens;
    _Atomic uint64_t mixed_overlaps;
} __attribute__((aligned(64)));

struct score {
    _Atomic uint64_t counts[CELLS_N_SCORES];
} __attribute__((aligned(64)));

/*
 * writer: id of the writer inside, 0 = none.   readers: how many of each slot are inside.
 * entries: how often each slot came in, to write or to read.
 * A writer swaps itself in and then looks for readers; a reader counts itself in and then looks for
 * a writer: of two that overlap at least one sees the other.
 */
struct cell {
    _Atomic uint64_t writer;
    _Atomic uint64_t counter; /* updated by load and store: overlaps lose updates */
    _Atomic uint64_t tally;   /* what it should be */
    _Atomic uint64_t token;   /* the last one of a fenced lock */
    _Atomic uint64_t readers[CELLS_SLOTS];
    _Atomic uint64_t entries[CELLS_SLOTS];
} __attribute__((aligned(64)));

struct map {
    struct head head;
    struct score scores[CELLS_SLOTS];
    struct cell cells[];
};

struct cells {
    struct map *map;
    size_t n;
};

static struct cells *map_file(int fd)
{
    struct cells *cells = calloc(1, sizeof(*cells));
    struct stat stat;

    TEST_CHECK(cells != NULL);
    test_must(fstat(fd, &stat), "fstat");
    cells->map = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TEST_CHECK(cells->map != MAP_FAILED);
    cells->n = ((size_t)stat.st_size - sizeof(struct map)) / sizeof(struct cell);
    close(fd);
    return cells;
}

struct cells *cells_make(const char *path, size_t n)
{
    const size_t size = sizeof(struct map) + n * sizeof(struct cell);
    const int fd =
        test_must(open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "the cells' file");

    test_must(ftruncate(fd, (off_t)size), "ftruncate");
    return map_file(fd);
}

struct cells *cells_open(const char *path)
{
    return map_file(test_must(open(path, O_RDWR | O_CLOEXEC), "the cells' file"));
}

struct cells *cells_close(struct cells *cells)
{
    if (cells != NULL) {
        munmap(cells->map, sizeof(struct map) + cells->n * sizeof(struct cell));
        free(cells);
    }
    return NULL;
}

uint64_t cells_id(size_t slot, size_t thread)
{
    return 100 * (slot + 1) + thread;
}

static size_t slot_of(uint64_t id)
{
    return (size_t)(id / 100 - 1);
}

static bool is_redisson(uint64_t id)
{
    return slot_of(id) < CELLS_SLOTS / 2;
}

static struct cell *cell_of(const struct cells *cells, size_t cell)
{
    TEST_CHECK(cell < cells->n);
    return &cells->map->cells[cell];
}

static uint64_t readers_in(const struct cell *cell)
{
    uint64_t n = 0;

    for (size_t i = 0; i < CELLS_SLOTS; i++) {
        n += atomic_load(&cell->readers[i]);
    }
    return n;
}

static void update(struct cell *cell)
{
    const uint64_t seen = atomic_load_explicit(&cell->counter, memory_order_relaxed);
    const int64_t since_us = test_now_us();

    while (test_elapsed_us(since_us) < UPDATE_US) {
    }
    atomic_store_explicit(&cell->counter, seen + 1, memory_order_relaxed);
    atomic_fetch_add(&cell->tally, 1);
}

bool cells_enter(struct cells *cells, size_t cell, uint64_t id, bool shared)
{
    struct cell *entered = cell_of(cells, cell);
    uint64_t writer;
    uint64_t readers = 0;

    atomic_fetch_add(&entered->entries[slot_of(id)], 1);
    if (shared) {
        atomic_fetch_add(&entered->readers[slot_of(id)], 1);
        writer = atomic_load(&entered->writer);
    } else {
        writer = atomic_exchange(&entered->writer, id);
        readers = readers_in(entered);
        update(entered);
    }
    if (writer != 0 && is_redisson(writer) != is_redisson(id)) {
        atomic_fetch_add(&cells->map->head.mixed_overlaps, 1);
    }
    if (writer != 0 || readers != 0) {
        atomic_fetch_add(&cells->map->head.overlaps, 1);
    }
    return writer == 0 && readers == 0;
}

void cells_leave(struct cells *cells, size_t cell, uint64_t id, bool shared)
{
    uint64_t expected = id;

    if (shared) {
        atomic_fetch_sub(&cell_of(cells, cell)->readers[slot_of(id)], 1);
    } else { /* when another swapped itself in, the place is not ours to clear */
        atomic_compare_exchange_strong(&cell_of(cells, cell)->writer, &expected, 0);
    }
}

bool cells_fence(struct cells *cells, size_t cell, uint64_t token)
{
    const bool has_grown = atomic_exchange(&cell_of(cells, cell)->token, token) < token;

    if (!has_grown) {
        atomic_fetch_add(&cells->map->head.stale_tokens, 1);
    }
    return has_grown;
}

bool cells_holds(const struct cells *cells, size_t cell, size_t slot)
{
    const uint64_t writer = atomic_load(&cell_of(cells, cell)->writer);

    return writer != 0 && slot_of(writer) == slot;
}

void cells_evict(struct cells *cells, size_t slot)
{
    for (size_t i = 0; i < cells->n; i++) {
        atomic_store(&cells->map->cells[i].readers[slot], 0);
        for (size_t thread = 0; thread < CELLS_THREADS; thread++) {
            cells_leave(cells, i, cells_id(slot, thread), false);
        }
    }
}

void cells_stop(struct cells *cells)
{
    atomic_store(&cells->map->head.stop, 1);
}

bool cells_is_stopped(const struct cells *cells)
{
    return atomic_load(&cells->map->head.stop) != 0;
}

void cells_count(struct cells *cells, size_t slot, enum cells_score score)
{
    atomic_fetch_add(&cells->map->scores[slot].counts[score], 1);
}

void cells_waited(struct cells *cells, size_t slot, int64_t us)
{
    _Atomic uint64_t *longest = &cells->map->scores[slot].counts[CELLS_LONGEST_US];
    uint64_t known = atomic_load(longest);

    while ((uint64_t)us > known && !atomic_compare_exchange_weak(longest, &known, (uint64_t)us)) {
    }
}

uint64_t cells_score(const struct cells *cells, size_t slot, enum cells_score score)
{
    return atomic_load(&cells->map->scores[slot].counts[score]);
}

uint64_t cells_entries(const struct cells *cells, size_t cell, size_t slot)
{
    return atomic_load(&cell_of(cells, cell)->entries[slot]);
}

uint64_t cells_overlaps(const struct cells *cells)
{
    return atomic_load(&cells->map->head.overlaps);
}

uint64_t cells_mixed_overlaps(const struct cells *cells)
{
    return atomic_load(&cells->map->head.mixed_overlaps);
}

uint64_t cells_stale_tokens(const struct cells *cells)
{
    return atomic_load(&cells->map->head.stale_tokens);
}

uint64_t cells_lost_updates(const struct cells *cells)
{
    uint64_t n = 0;

    for (size_t i = 0; i < cells->n; i++) {
        const uint64_t tally = atomic_load(&cells->map->cells[i].tally);
        const uint64_t counter = atomic_load(&cells->map->cells[i].counter);
        n += tally > counter ? tally - counter : 0; /* less: killed between the two */
    }
    return n;
}

size_t cells_inside(const struct cells *cells)
{
    size_t n = 0;

    for (size_t i = 0; i < cells->n; i++) {
        n += (size_t)(atomic_load(&cells->map->cells[i].writer) != 0);
        n += (size_t)readers_in(&cells->map->cells[i]);
    }
    return n;
}
