/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's clock: CLOCK_BOOTTIME, because CLOCK_MONOTONIC stands still while a machine sleeps
 * and a lease does not. The core never asks it: times come to it with its events.
 */
#ifndef RLOCK_BASE_CLOCK_H
#define RLOCK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/time.h"

static inline int64_t rlock__now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

#endif
