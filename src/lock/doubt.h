/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the calls of a group's member left something open on its server: an attempt with copies
 * that are not accounted for, or a release without an answer. What goes on with it, a recovery or a
 * grant, holds the doubt open. The group reads the doubt without the core's mutex.
 *
 * Nearly no call leaves anything open. So the doubt is made when the first one does, and NULL is
 * one that is closed.
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
