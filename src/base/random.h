/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_BASE_RANDOM_H
#define RLOCK_BASE_RANDOM_H

#include <stdint.h>

/* A number below n, from a state that is not 0: xorshift64* (Vigna 2014). For jitter, not for
 * secrets; its seed is given, so that a simulation repeats. */
static inline int64_t rlock__random_below(uint64_t *state, int64_t n)
{
    uint64_t x = *state;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return n > 0 ? (int64_t)((x * 0x2545F4914F6CDD1DULL >> 1) % (uint64_t)n) : 0;
}

#endif
