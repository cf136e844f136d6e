/* What the witness of stalls shares with the test that it watches: memory that RLOCK_TEST_STALLS
 * names by a descriptor. */
#ifndef RLOCK_TEST_STALL_TABLE_H
#define RLOCK_TEST_STALL_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#define STALL_PROCESSORS 16
#define STALL_BUCKET_US 10000
#define STALL_BUCKETS 60000 /* ten minutes; then from the start again */

struct stall_table {
    int64_t began_us;
    unsigned n_processors;
    atomic_int excused; /* an assertion about time failed, and the stalls were enough */
    atomic_int failed;  /* one failed, and they were not */
    struct {
        atomic_llong due_us; /* when the thread means to wake; 0 it has not slept yet */
        atomic_uint late_us[STALL_BUCKETS]; /* how much of each bucket it was late in */
    } processors[STALL_PROCESSORS];
};

/* The table of the witness that this process runs beside; NULL none. */
struct stall_table *test_stalls_table(void);
/* Adds the time in which a thread was late to the buckets of that time. Moves its due_us on
 * bucket by bucket, so that a reader sees the whole stall at any moment. */
void test_stalls_note(unsigned processor, int64_t from_us, int64_t to_us);

#endif
