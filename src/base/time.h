/* SPDX-License-Identifier: Apache-2.0 */
/* Times are microseconds since some start, in int64_t; RLOCK__NEVER lies behind all of them. */
#ifndef RLOCK_BASE_TIME_H
#define RLOCK_BASE_TIME_H

#include <stdint.h>

#define RLOCK__NEVER INT64_MAX
#define RLOCK__UNKNOWN INT64_MIN /* of a time that nobody told */
#define RLOCK__MS INT64_C(1000)
#define RLOCK__SECOND INT64_C(1000000)
#define RLOCK__MOST_MS (INT64_C(1000) * 365 * 86400 * 1000) /* a thousand years */

static inline int64_t rlock__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rlock__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a + b for b >= 0, never past RLOCK__NEVER. */
static inline int64_t rlock__later(int64_t a, int64_t b)
{
    return a > RLOCK__NEVER - b ? RLOCK__NEVER : a + b;
}

/* Milliseconds from us, rounded up: a timer that fires early is a busy loop. */
static inline int64_t rlock__ms_up(int64_t us)
{
    return us / 1000 + (us % 1000 > 0);
}

/* So many milliseconds that a server reported, in microseconds. A broken server may report any
 * number: the result is from 0 to a thousand years, so that no sum of it overflows. */
static inline int64_t rlock__reported_ms(int64_t ms)
{
    return rlock__min(rlock__max(ms, 0), RLOCK__MOST_MS) * RLOCK__MS;
}

#endif
