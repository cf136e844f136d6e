#include "witness.h"

#include "run.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_KEPT = 64 };

/*
 * writer: id of the writer inside, 0 = none.
 * readers: how many are inside.
 *
 * A writer swaps itself in and then looks for readers; a reader counts itself in and then looks for
 * a writer. Both are sequentially consistent, so of two that overlap at least one sees the other.
 */
struct cell {
    _Atomic uint64_t writer;
    _Atomic uint64_t readers;
    _Atomic uint64_t last_reader;
    _Atomic uint64_t
        counter; /* updated by load and store, never by an atomic addition: overlaps lose updates */
    _Atomic uint64_t tally; /* what it should be */
    _Atomic uint64_t shared_entries;
} __attribute__((aligned(64)));

struct kept {
    struct witness_overlap overlap;
    _Atomic bool is_written;
};

struct witness {
    size_t size;
    size_t n_cells;
    _Atomic unsigned int spin_us;
    _Atomic uint64_t n_overlaps;
    struct kept kept[MAX_KEPT];
    struct cell cells[];
};

struct witness *witness_new(size_t n_cells)
{
    const size_t size = sizeof(struct witness) + n_cells * sizeof(struct cell);
    struct witness *witness =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TEST_CHECK(witness != MAP_FAILED);
    witness->size = size;
    witness->n_cells = n_cells;
    atomic_init(&witness->spin_us, 1);
    return witness;
}

struct witness *witness_free(struct witness *witness)
{
    if (witness != NULL) {
        test_must(munmap(witness, witness->size), "munmap");
    }
    return NULL;
}

static struct cell *cell_of(struct witness *witness, size_t cell, uint64_t id)
{
    if (cell >= witness->n_cells || id == 0) {
        test_die("witness: cell %zu of %zu, id %" PRIu64, cell, witness->n_cells, id);
    }
    return &witness->cells[cell];
}

static void report(struct witness *witness, const struct witness_overlap *overlap)
{
    const uint64_t i = atomic_fetch_add(&witness->n_overlaps, 1);

    if (i < MAX_KEPT) {
        witness->kept[i].overlap = *overlap;
        witness->kept[i].overlap.at_us = test_now_us();
        atomic_store(&witness->kept[i].is_written, true);
    }
}

static void update(struct witness *witness, struct cell *cell)
{
    const uint64_t seen = atomic_load_explicit(&cell->counter, memory_order_relaxed);
    const int64_t since_us = test_now_us();
    const int64_t spin_us = (int64_t)atomic_load(&witness->spin_us);

    while (test_elapsed_us(since_us) < spin_us) {
    }
    atomic_store_explicit(&cell->counter, seen + 1, memory_order_relaxed);
    atomic_fetch_add(&cell->tally, 1);
}

void witness_enter(struct witness *witness, size_t cell, uint64_t id)
{
    struct cell *entered = cell_of(witness, cell, id);
    const uint64_t writer = atomic_exchange(&entered->writer, id);
    const bool has_readers = atomic_load(&entered->readers) != 0;

    if (writer != 0 || has_readers) {
        const uint64_t inside = writer != 0 ? writer : atomic_load(&entered->last_reader);
        report(witness, &(struct witness_overlap){.cell = cell, .inside = inside, .entered = id});
    }
    update(witness, entered);
}

void witness_leave(struct witness *witness, size_t cell, uint64_t id)
{
    uint64_t expected = id;

    /* when another writer swapped itself in, the overlap is recorded and the place is not ours to
     * clear */
    atomic_compare_exchange_strong(&cell_of(witness, cell, id)->writer, &expected, 0);
}

void witness_evict(struct witness *witness, size_t cell, uint64_t id)
{
    witness_leave(witness, cell, id);
}

void witness_enter_shared(struct witness *witness, size_t cell, uint64_t id)
{
    struct cell *entered = cell_of(witness, cell, id);

    atomic_store(&entered->last_reader, id);
    atomic_fetch_add(&entered->readers, 1);
    atomic_fetch_add(&entered->shared_entries, 1);
    const uint64_t writer = atomic_load(&entered->writer);
    if (writer != 0) {
        report(witness, &(struct witness_overlap){
                            .cell = cell, .inside = writer, .entered = id, .shared = true});
    }
}

void witness_leave_shared(struct witness *witness, size_t cell, uint64_t id)
{
    if (atomic_fetch_sub(&cell_of(witness, cell, id)->readers, 1) == 0) {
        test_die("witness: reader %" PRIu64 " leaves cell %zu, which has none", id, cell);
    }
}

void witness_evict_shared(struct witness *witness, size_t cell, uint64_t id)
{
    witness_leave_shared(witness, cell, id);
}

void witness_set_spin_us(struct witness *witness, unsigned int spin_us)
{
    atomic_store(&witness->spin_us, spin_us);
}

uint64_t witness_entries(const struct witness *witness)
{
    uint64_t n = 0;

    for (size_t i = 0; i < witness->n_cells; i++) {
        n += atomic_load(&witness->cells[i].tally);
        n += atomic_load(&witness->cells[i].shared_entries);
    }
    return n;
}

uint64_t witness_overlaps(const struct witness *witness)
{
    return atomic_load(&witness->n_overlaps);
}

uint64_t witness_lost_updates(const struct witness *witness)
{
    uint64_t n = 0;

    for (size_t i = 0; i < witness->n_cells; i++) {
        const struct cell *cell = &witness->cells[i];
        const uint64_t tally = atomic_load(&cell->tally);
        const uint64_t counter = atomic_load(&cell->counter);
        n += tally > counter ? tally - counter : 0; /* less: killed between the two */
    }
    return n;
}

size_t witness_read(const struct witness *witness, struct witness_overlap *ret_overlaps, size_t n)
{
    size_t read = 0;

    for (size_t i = 0; i < MAX_KEPT && read < n; i++) {
        if (atomic_load(&witness->kept[i].is_written)) {
            ret_overlaps[read++] = witness->kept[i].overlap;
        }
    }
    return read;
}

static size_t count_inside(const struct witness *witness)
{
    size_t n = 0;

    for (size_t i = 0; i < witness->n_cells; i++) {
        const struct cell *cell = &witness->cells[i];
        n += (atomic_load(&cell->writer) != 0) + (size_t)atomic_load(&cell->readers);
    }
    return n;
}

static void print(const struct witness *witness, FILE *out)
{
    struct witness_overlap overlaps[MAX_KEPT];
    const size_t n = witness_read(witness, overlaps, MAX_KEPT);

    fprintf(out,
            "witness: %" PRIu64 " overlaps in %" PRIu64 " entries, %" PRIu64
            " lost updates, %zu still inside\n",
            witness_overlaps(witness), witness_entries(witness), witness_lost_updates(witness),
            count_inside(witness));
    for (size_t i = 0; i < n; i++) {
        fprintf(out,
                "  at %" PRId64 " us, cell %zu: %s %" PRIu64 " entered while %" PRIu64
                " was inside\n",
                overlaps[i].at_us, overlaps[i].cell, overlaps[i].shared ? "reader" : "writer",
                overlaps[i].entered, overlaps[i].inside);
    }
}

bool witness_is_clean(const struct witness *witness, FILE *out)
{
    const bool is_clean = witness_overlaps(witness) == 0 && witness_lost_updates(witness) == 0 &&
                          count_inside(witness) == 0;

    if (!is_clean && out != NULL) {
        print(witness, out);
    }
    return is_clean;
}
