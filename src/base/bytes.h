/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed bytes, and a growable buffer of owned ones. */
#ifndef RLOCK_BASE_BYTES_H
#define RLOCK_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bytes that somebody else owns. Names and keys may hold any byte. */
struct rlock__bytes {
    const char *at;
    size_t len;
};

static inline struct rlock__bytes rlock__bytes(const void *at, size_t len)
{
    return (struct rlock__bytes){(const char *)at, len};
}

static inline struct rlock__bytes rlock__bytes_of(const char *text)
{
    return rlock__bytes(text, strlen(text));
}

static inline bool rlock__bytes_equal(struct rlock__bytes a, struct rlock__bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* FNV-1a, of Glenn Fowler, Landon Curt Noll and Phong Vo: 64 bits, and folded for a table. */
static inline uint64_t rlock__bytes_fnv(struct rlock__bytes bytes)
{
    uint64_t number = 14695981039346656037U;

    for (size_t i = 0; i < bytes.len; i++) {
        number = (number ^ (unsigned char)bytes.at[i]) * 1099511628211U;
    }
    return number;
}

static inline unsigned rlock__bytes_hash(struct rlock__bytes bytes)
{
    uint64_t number = rlock__bytes_fnv(bytes);

    return (unsigned)(number ^ number >> 32);
}

/* Whether this text stands at their start. */
static inline bool rlock__bytes_begin(struct rlock__bytes bytes, const char *start)
{
    size_t len = strlen(start);

    return bytes.len >= len && memcmp(bytes.at, start, len) == 0;
}

/* Whether the part is in it; an empty one, and NULL, is in nothing. */
static inline bool rlock__bytes_have(struct rlock__bytes bytes, const char *part)
{
    return part != NULL && part[0] != '\0' && bytes.len != 0 &&
           memmem(bytes.at, bytes.len, part, strlen(part)) != NULL;
}

/* The decimal number that bytes begin with; none without one, or where it is too large. They need
 * no end mark. */
int64_t rlock__bytes_number(struct rlock__bytes bytes, int64_t none);

#define RLOCK__DIGITS 20 /* of the largest number */

/* Writes a number in decimal digits, with no end mark; returns how many they are. Commands are full
 * of numbers: printf would take half of the time that a lock takes here. */
size_t rlock__digits(uint64_t number, char out[static RLOCK__DIGITS]);

/* A growable buffer. All zero is a valid, empty one. */
struct rlock__buf {
    char *data;
    size_t len, cap;
    bool failed; /* an addition found no memory: what is there is not whole */
};

/* Appends bytes. Returns false and sets .failed when there is no memory, or when an earlier
 * addition failed. */
bool rlock__buf_add(struct rlock__buf *buf, const void *bytes, size_t len);
/* Appends printf text. */
bool rlock__buf_addf(struct rlock__buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends a head of the Redis protocol: type, number, CRLF. */
bool rlock__buf_add_head(struct rlock__buf *buf, char type, uint64_t number);
/* Appends one bulk string of the Redis protocol: $len CRLF bytes CRLF. */
bool rlock__buf_add_bulk(struct rlock__buf *buf, struct rlock__bytes bytes);
/* Empties it, keeping the memory. */
void rlock__buf_clear(struct rlock__buf *buf);
/* Frees its memory; the buffer is empty then. */
void rlock__buf_fini(struct rlock__buf *buf);

/* Takes what stands before the first such byte off the text, and that byte; all of it where there
 * is none. */
struct rlock__bytes rlock__take_word(struct rlock__bytes *text, char stop);
/* Whether it is one of the words between commas. */
bool rlock__has_word(struct rlock__bytes text, const char *word);

/*
 * Writes bytes as one line of plain text into out: control characters and bytes from 127 on as
 * \xNN, cut with "..." where longer than fits. For logs and messages, where a name must not forge
 * a line. Returns out.
 */
const char *rlock__text(struct rlock__bytes bytes, char *out, size_t size);

#endif
