/* SPDX-License-Identifier: Apache-2.0 */
/* How many units each level of a hold has, for kinds that count units. */
#ifndef RLOCK_LOCK_UNITS_H
#define RLOCK_LOCK_UNITS_H

#include <stdbool.h>
#include <stdint.h>

struct rlock__units {
    uint32_t room;       /* for so many levels */
    uint32_t most;       /* that the grant's number asked for */
    bool renewal_is_old; /* units came or went since the renewal in flight was sent */
    uint32_t totals[];   /* what the first levels have together, by their number */
};

#endif
