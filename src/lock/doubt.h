/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A doubt: whether the calls of a group's member left something open on its server, which is an
 * attempt with copies that are not accounted for, or a release without an answer. The recovery or
 * the grant that goes on with it holds the doubt open. The group reads the doubt without the core's
 * mutex.
 *
 * Very few calls leave anything open. So a doubt is allocated when the first call does, and NULL is
 * a closed doubt.
 */
#ifndef RLOCK_LOCK_DOUBT_H
#define RLOCK_LOCK_DOUBT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rlock__doubt {
    atomic_uint refs;     /* the member's, and one for each that holds it open */
    atomic_llong free_by; /* the server has forgotten all of it by then */
};

/* Holds the member's doubt open until the result is closed. Without memory it stays open. */
struct rlock__doubt *rlock__doubt_open(struct rlock__doubt **doubt, int64_t free_by);
/* Ends a reference, the member's or one that holds it open. Returns NULL. */
struct rlock__doubt *rlock__doubt_unref(struct rlock__doubt *doubt);
/* The same; NULL is ok, and nearly always so. */
static inline struct rlock__doubt *rlock__doubt_close(struct rlock__doubt *doubt)
{
    return doubt != NULL ? rlock__doubt_unref(doubt) : NULL;
}
/* Whether the member's doubt is held open. */
bool rlock__doubt_is_open(const struct rlock__doubt *doubt);
/* When the server has forgotten all of it; 0: that is not known. */
int64_t rlock__doubt_free_by(const struct rlock__doubt *doubt);

#endif
