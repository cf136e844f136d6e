#include "stall.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "stall_table.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct stall_table *table; /* NULL: no witness runs */

static void open_table(void)
{
    const char *fd = getenv("RLOCK_TEST_STALLS");
    void *at = fd == NULL ? MAP_FAILED
                          : mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED,
                                 (int)strtol(fd, NULL, 10), 0);

    table = at == MAP_FAILED ? NULL : at;
}

struct stall_table *test_stalls_table(void)
{
    test_must(pthread_once(&once, open_table), "pthread_once");
    return table;
}

/* The witness's clock: a test may have stepped its own. */
static int64_t witness_now_us(void)
{
    struct timespec now;

    (void)syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t bucket_of(int64_t us)
{
    return us < table->began_us ? 0 : (us - table->began_us) / STALL_BUCKET_US;
}

/* How late a thread is that was due then, and has not woken yet or not noted its stall. */
static int64_t late_since(int64_t due_us, int64_t now_us)
{
    return due_us != 0 && now_us - due_us > 1000 ? now_us - due_us : 0;
}

/* Sums the stalls on one processor from that bucket on until now. While the witness notes a stall,
 * it moves the stall from due_us to the buckets, so both are read again if due_us has changed. */
static int64_t stalls_on(unsigned processor, int64_t bucket, int64_t now_us)
{
    int64_t sum_us, due_us;

    do {
        due_us = atomic_load(&table->processors[processor].due_us);
        sum_us = late_since(due_us, now_us);
        for (int64_t b = bucket; b <= bucket_of(now_us); b++) {
            sum_us += atomic_load(&table->processors[processor].late_us[b % STALL_BUCKETS]);
        }
    } while (due_us != atomic_load(&table->processors[processor].due_us));
    return sum_us;
}

void test_stalls_note(unsigned processor, int64_t from_us, int64_t to_us)
{
    while (from_us < to_us) {
        const int64_t bucket = (from_us - table->began_us) / STALL_BUCKET_US;
        const int64_t end_us = table->began_us + (bucket + 1) * STALL_BUCKET_US;
        const int64_t part_us = (end_us < to_us ? end_us : to_us) - from_us;

        atomic_fetch_add(&table->processors[processor].late_us[bucket % STALL_BUCKETS],
                         (unsigned)part_us);
        from_us += part_us;
        atomic_store(&table->processors[processor].due_us, from_us);
    }
}

int64_t test_stalls_us(int64_t since_us)
{
    const int64_t now_us = witness_now_us();
    int64_t most_us = 0;

    since_us = now_us - test_elapsed_us(since_us);

    if (test_stalls_table() == NULL) {
        return 0;
    }
    for (unsigned p = 0; p < table->n_processors; p++) {
        const int64_t sum_us = stalls_on(p, bucket_of(since_us), now_us);

        most_us = sum_us > most_us ? sum_us : most_us;
    }
    return most_us;
}

bool test_missed(int64_t since_us, int64_t missed_us)
{
    const int64_t interval_us = test_elapsed_us(since_us), stalls_us = test_stalls_us(since_us);
    const bool excused = stalls_us >= missed_us && stalls_us > 0;

    fprintf(stderr, "missed by %lld ms; in these %lld ms the machine stood still for %lld ms\n",
            (long long)missed_us / 1000, (long long)interval_us / 1000,
            (long long)stalls_us / 1000);
    if (table != NULL) {
        atomic_store(excused ? &table->excused : &table->failed, 1);
    }
    return false;
}

bool test_expired(int64_t lease_us)
{
    const int64_t stalls_us = test_stalls_us(test_now_us() - lease_us);

    if (table != NULL && stalls_us > 0 && stalls_us >= lease_us / 3) {
        fprintf(stderr, "a lease of %lld ms ended; the machine stood still for %lld ms in it\n",
                (long long)lease_us / 1000, (long long)stalls_us / 1000);
        atomic_store(&table->excused, 1);
    }
    return false;
}

bool test_pause_stalled(int64_t since_us, int64_t end_us)
{
    return test_pause_until(end_us + test_stalls_us(since_us));
}

bool test_in_time(int64_t since_us, int64_t took_us, int64_t limit_us)
{
    return took_us <= limit_us || test_missed(since_us, took_us - limit_us);
}

bool test_took_at_most(int64_t took_us, int64_t limit_us)
{
    return test_in_time(test_now_us() - took_us, took_us, limit_us);
}
