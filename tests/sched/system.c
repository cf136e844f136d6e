/* SPDX-License-Identifier: Apache-2.0 */
/* The clock, and what else a process asks its system for. */
#include "system.h"

#include <stdio.h>
#include <string.h>

/* The two clocks differ, as they do on a machine that has slept. */
#define BOOTTIME_US (7000 * RLOCK__SECOND)
#define MONOTONIC_US (4000 * RLOCK__SECOND)
#define PID 4711

static struct sched_dice dice;

void sched_system_begin(uint64_t seed)
{
    dice.state = seed * 5;
}

bool sched_system_chance(int64_t per_mille)
{
    return sched_chance(&dice, per_mille);
}

int64_t sched_monotonic_us(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * RLOCK__SECOND + ts->tv_nsec / 1000 - MONOTONIC_US;
}

int64_t sched_boottime_us(const struct timespec *ts)
{
    return (int64_t)ts->tv_sec * RLOCK__SECOND + ts->tv_nsec / 1000 - BOOTTIME_US;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts)
{
    int64_t us = clock == CLOCK_BOOTTIME ? BOOTTIME_US : MONOTONIC_US;

    sched_point("clock");
    us += sched_now();
    *ret_ts = (struct timespec){.tv_sec = us / RLOCK__SECOND,
                                .tv_nsec = (long)(us % RLOCK__SECOND) * 1000};
    return 0;
}

pid_t __wrap_getpid(void)
{
    return PID;
}

int __wrap_gethostname(char *name, size_t len)
{
    (void)snprintf(name, len, "host");
    return 0;
}

ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < len; i++) {
        ((unsigned char *)bytes)[i] = (unsigned char)sched_roll(&dice, 256);
    }
    return (ssize_t)len;
}
