/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* poll() looks up so often whether time has passed. */
#define LOOK_MS 5

static _Atomic int64_t skipped_ns, asleep_ns, wall_ns;
static _Atomic size_t wall_reads;

static int64_t true_ns(clockid_t clock)
{
    struct timespec now = {0, 0};

    (void)syscall(SYS_clock_gettime, clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t wall_now_ns(void)
{
    (void)atomic_fetch_add(&wall_reads, 1);
    return true_ns(CLOCK_REALTIME) + atomic_load(&wall_ns);
}

int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int64_t ns;

    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        ns = wall_now_ns();
    } else if (clock == CLOCK_BOOTTIME) {
        ns = true_ns(clock) + atomic_load(&skipped_ns) + atomic_load(&asleep_ns);
    } else {
        return (int)syscall(SYS_clock_gettime, clock, ret_now);
    }
    *ret_now = (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return 0;
}

time_t time(time_t *ret_now)
{
    time_t now = wall_now_ns() / 1000000000;

    if (ret_now != NULL) {
        *ret_now = now;
    }
    return now;
}

int gettimeofday(struct timeval *restrict ret_now, void *restrict zone)
{
    int64_t ns = wall_now_ns();

    (void)zone;
    *ret_now = (struct timeval){.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000};
    return 0;
}

/* What poll() waits by: it stands still while the machine sleeps. */
static int64_t awake_ns(void)
{
    return true_ns(CLOCK_MONOTONIC) + atomic_load(&skipped_ns);
}

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const int64_t end = awake_ns() + (int64_t)timeout_ms * 1000000;

    for (;;) {
        int64_t left = timeout_ms < 0 ? INT64_MAX : end - awake_ns();
        int64_t slice = left < LOOK_MS * 1000000 ? (left > 0 ? left : 0) : LOOK_MS * 1000000;
        const struct timespec pause = {.tv_sec = 0, .tv_nsec = slice};
        int ready = ppoll(fds, n, &pause, NULL);

        if (ready != 0 || left <= 0) {
            return ready;
        }
    }
}

void clock_skip_ms(int64_t ms)
{
    (void)atomic_fetch_add(&skipped_ns, ms * 1000000);
}

void clock_suspend_ms(int64_t ms)
{
    (void)atomic_fetch_add(&asleep_ns, ms * 1000000);
}

void clock_set_wall_ms(int64_t offset_ms)
{
    atomic_store(&wall_ns, offset_ms * 1000000);
}

size_t clock_wall_reads(void)
{
    return atomic_load(&wall_reads);
}
