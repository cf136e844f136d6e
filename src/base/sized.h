/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of the interface that lead with their size: a program may have been compiled with an
 * older, shorter version of them. What it does not know is zero, which is the default.
 */
#ifndef RLOCK_BASE_SIZED_H
#define RLOCK_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Whether a struct's size is set, and not that of a newer library. */
static inline bool rlock__sized_is_valid(const void *sized, size_t most)
{
    size_t size;

    memcpy(&size, sized, sizeof(size));
    return size >= sizeof(size) && size <= most;
}

/* Copies as much of from as to, of the size that it says, has room for; to keeps its size. */
static inline void rlock__sized_give(void *to, const void *from)
{
    size_t size;

    memcpy(&size, to, sizeof(size));
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
}

/* Copies from, NULL for nothing, over to, which is of the library's size. Returns false if from's
 * size is not valid. */
static inline bool rlock__sized_take(void *to, size_t most, const void *from)
{
    size_t size;

    if (from == NULL) {
        return true;
    }
    if (!rlock__sized_is_valid(from, most)) {
        return false;
    }
    memcpy(&size, from, sizeof(size));
    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
    return true;
}

#endif
