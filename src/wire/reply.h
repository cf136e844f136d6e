/* SPDX-License-Identifier: Apache-2.0 */
/* A server's reply as the core sees it: scalars in a row, borrowed from whoever parsed them. */
#ifndef RLOCK_WIRE_REPLY_H
#define RLOCK_WIRE_REPLY_H

#include "base/bytes.h"

enum rlock__reply_type {
    RLOCK__REPLY_NIL,
    RLOCK__REPLY_INT,
    RLOCK__REPLY_STR,
    RLOCK__REPLY_STATUS,
    RLOCK__REPLY_ERROR,
};

struct rlock__value {
    enum rlock__reply_type type;
    int64_t num;     /* INT */
    const char *str; /* STR, STATUS, ERROR; not NUL-terminated */
    size_t len;
};

/* Nested arrays and maps are flattened in their order; a scalar is one value with is_array
 * false. */
struct rlock__reply {
    const struct rlock__value *v;
    size_t n;
    bool is_array;
    bool is_nested; /* an array inside it */
    bool is_push;   /* no reply to a command, but a message in version 3 of the protocol */
};

/* Whether the whole reply is an error of the server. */
static inline bool rlock__reply_is_error(const struct rlock__reply *reply)
{
    return reply->n == 1 && !reply->is_array && reply->v[0].type == RLOCK__REPLY_ERROR;
}

/*
 * Whether a script's reply is an array of exactly one of these shapes, which are separated by
 * blanks. A shape has a character for each value:
 *   0 1 2 3 -  those integers, and -1  n  an integer from 1 to the number of parts
 *   i          any integer             s  a string
 *   *          what follows it comes once for each part
 *   .          what follows it comes any number of times
 * parts: of the command that asked for several things.
 */
bool rlock__reply_fits(const struct rlock__reply *reply, const char *shapes, size_t parts);

/* The integer at index i, or none where there is none. */
static inline int64_t rlock__reply_int(const struct rlock__reply *reply, size_t i, int64_t none)
{
    return i < reply->n && reply->v[i].type == RLOCK__REPLY_INT ? reply->v[i].num : none;
}

/* The string at index i; empty where there is none. */
static inline struct rlock__bytes rlock__reply_str(const struct rlock__reply *reply, size_t i)
{
    if (i < reply->n && reply->v[i].type >= RLOCK__REPLY_STR) {
        return rlock__bytes(reply->v[i].str, reply->v[i].len);
    }
    return rlock__bytes("", 0);
}

/* The value of "name:value" in INFO's text; empty where there is none. */
struct rlock__bytes rlock__info_field(struct rlock__bytes info, const char *name);
/* The string behind this name in an array of names and values; empty where there is none. */
struct rlock__bytes rlock__reply_field(const struct rlock__reply *reply, const char *name);

#endif
