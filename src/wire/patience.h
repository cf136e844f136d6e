/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the answer to a request is waited for: a few round trips as the link usually takes. The
 * smoothed round trip and its deviation are those of TCP's retransmission timer. Source: RFC 6298,
 * section 2.
 */
#ifndef RLOCK_WIRE_PATIENCE_H
#define RLOCK_WIRE_PATIENCE_H

#include <stdint.h>

#include "base/time.h"

#define RLOCK__PATIENCE_TRIPS 3
#define RLOCK__PATIENCE_LEAST_US (200 * RLOCK__MS) /* a busy machine may pause for so long */

/* Zero: nothing was answered yet. */
struct rlock__patience {
    int64_t smoothed, deviation;
};

/* An answer took that long. */
static inline void rlock__patience_learn(struct rlock__patience *patience, int64_t us)
{
    int64_t off = us - patience->smoothed;

    if (patience->smoothed == 0) {
        *patience = (struct rlock__patience){.smoothed = rlock__max(us, 1), .deviation = us / 2};
        return;
    }
    patience->deviation += (rlock__max(off, -off) - patience->deviation) / 4;
    patience->smoothed = rlock__max(patience->smoothed + off / 8, 1);
}

/* How long the next answer may take; most_us before the first one. */
static inline int64_t rlock__patience_us(const struct rlock__patience *patience, int64_t most_us)
{
    int64_t trip = patience->smoothed + 4 * patience->deviation;

    if (patience->smoothed == 0) {
        return most_us;
    }
    return rlock__min(most_us, rlock__max(RLOCK__PATIENCE_TRIPS * trip, RLOCK__PATIENCE_LEAST_US));
}

#endif
