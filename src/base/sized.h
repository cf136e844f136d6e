/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of the interface that lead with their size: a program may have been compiled with an
 * older, shorter version of them, or with a newer, longer one. What an older one does not have is
 * zero, which is the default; what a newer one has beyond ours must be so, and is given as zero.
 */
#ifndef RLOCK_BASE_SIZED_H
#define RLOCK_BASE_SIZED_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define RLOCK__SIZED_MOST 65536 /* more than any version will have: the size was not set */

static inline size_t rlock__sized(const void *sized)
{
    size_t size;

    memcpy(&size, sized, sizeof(size));
    return size;
}

/* Whether a struct's size is set. */
static inline bool rlock__sized_is_valid(const void *sized)
{
    const size_t size = rlock__sized(sized);

    return size >= sizeof(size) && size <= RLOCK__SIZED_MOST;
}

/* Copies from, which is of the library's size, over to, as much as that has room for; to keeps its
 * size, and what it has beyond the library's is zero. */
static inline void rlock__sized_give(void *to, const void *from)
{
    const size_t room = rlock__sized(to);
    const size_t size = rlock__sized(from) < room ? rlock__sized(from) : room;

    memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), size - sizeof(size));
    memset((char *)to + size, 0, room - size);
}

/* Copies from, NULL for nothing, over to, which is of the library's size. Returns false if from's
 * size is not set, or if it asks for something that the library does not know. */
static inline bool rlock__sized_take(void *to, const void *from)
{
    const size_t most = rlock__sized(to);
    const char *bytes = from;
    size_t size;

    if (from == NULL) {
        return true;
    }
    if (!rlock__sized_is_valid(from)) {
        return false;
    }
    size = rlock__sized(from);
    for (size_t i = most; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    size = size < most ? size : most;
    memcpy((char *)to + sizeof(size), bytes + sizeof(size), size - sizeof(size));
    return true;
}

#endif
