/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int64_t rlock__bytes_number(struct rlock__bytes bytes, int64_t none)
{
    bool negative = bytes.len > 0 && bytes.at[0] == '-';
    int64_t number = 0;
    size_t i = negative ? 1 : 0, first = i;

    for (; i < bytes.len && bytes.at[i] >= '0' && bytes.at[i] <= '9'; i++) {
        if (number > (INT64_MAX - 9) / 10) {
            return none;
        }
        number = 10 * number + (bytes.at[i] - '0');
    }
    if (i == first) {
        return none;
    }
    return negative ? -number : number;
}

/* The numbers below 100, two digits each. */
static const char pairs[] = "0001020304050607080910111213141516171819"
                            "2021222324252627282930313233343536373839"
                            "4041424344454647484950515253545556575859"
                            "6061626364656667686970717273747576777879"
                            "8081828384858687888990919293949596979899";

size_t rlock__digits(uint64_t number, char out[static RLOCK__DIGITS])
{
    size_t n = 3;

    if (number < 10) { /* such as most numbers, and the lengths of those */
        out[0] = (char)('0' + number);
        return 1;
    }
    if (number < 100) { /* such as the lengths of keys, owners and channels */
        memcpy(out, pairs + 2 * number, 2);
        return 2;
    }
    for (uint64_t limit = 1000; n < RLOCK__DIGITS && number >= limit; limit *= 10) {
        n++;
    }
    for (size_t i = n; i > 0; number /= 100) {
        if (i == 1) {
            out[0] = (char)('0' + number);
            break;
        }
        i -= 2;
        memcpy(out + i, pairs + 2 * (number % 100), 2);
    }
    return n;
}

static bool grow(struct rlock__buf *buf, size_t more)
{
    size_t cap = buf->cap != 0 ? buf->cap : 128;
    char *data;

    if (buf->failed) {
        return false;
    }
    while (cap - buf->len < more) {
        cap *= 2;
    }
    data = realloc(buf->data, cap);
    if (data == NULL) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->cap = cap;
    return true;
}

/* Where so many bytes more may be written; NULL without memory, or where an addition failed. */
static inline char *room(struct rlock__buf *buf, size_t more)
{
    bool fits = !buf->failed && more <= buf->cap - buf->len;

    return fits || grow(buf, more) ? buf->data + buf->len : NULL;
}

bool rlock__buf_add(struct rlock__buf *buf, const void *bytes, size_t len)
{
    char *at = len != 0 ? room(buf, len) : NULL;

    if (at != NULL) {
        memcpy(at, bytes, len);
        buf->len += len;
    }
    return !buf->failed;
}

bool rlock__buf_addf(struct rlock__buf *buf, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || room(buf, (size_t)n + 1) == NULL) {
        buf->failed = true;
        return false;
    }
    va_start(args, format);
    (void)vsnprintf(buf->data + buf->len, (size_t)n + 1, format, args);
    va_end(args);
    buf->len += (size_t)n;
    return true;
}

#define HEAD (RLOCK__DIGITS + 3) /* the longest */

/* Returns where it ends. */
static char *put_head(char *at, char type, uint64_t number)
{
    *at++ = type;
    at += rlock__digits(number, at);
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

bool rlock__buf_add_head(struct rlock__buf *buf, char type, uint64_t number)
{
    char *at = room(buf, HEAD);

    if (at != NULL) {
        buf->len = (size_t)(put_head(at, type, number) - buf->data);
    }
    return at != NULL;
}

bool rlock__buf_add_bulk(struct rlock__buf *buf, struct rlock__bytes bytes)
{
    char *at = room(buf, HEAD + bytes.len + 2);

    if (at == NULL) {
        return false;
    }
    at = put_head(at, '$', bytes.len);
    if (bytes.len != 0) {
        memcpy(at, bytes.at, bytes.len);
        at += bytes.len;
    }
    *at++ = '\r';
    *at++ = '\n';
    buf->len = (size_t)(at - buf->data);
    return true;
}

void rlock__buf_clear(struct rlock__buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

void rlock__buf_fini(struct rlock__buf *buf)
{
    free(buf->data);
    *buf = (struct rlock__buf){0};
}

struct rlock__bytes rlock__take_word(struct rlock__bytes *text, char stop)
{
    const char *end = text->len != 0 ? memchr(text->at, stop, text->len) : NULL;
    struct rlock__bytes word = *text;
    size_t used = text->len;

    if (end != NULL) {
        word.len = (size_t)(end - text->at);
        used = word.len + 1;
    }
    *text = rlock__bytes(text->at + used, text->len - used);
    return word;
}

bool rlock__has_word(struct rlock__bytes text, const char *word)
{
    while (text.len != 0) {
        if (rlock__bytes_equal(rlock__take_word(&text, ','), rlock__bytes_of(word))) {
            return true;
        }
    }
    return false;
}

const char *rlock__text(struct rlock__bytes bytes, char *out, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.at[i];

        if (used + 8 > size) { /* room for \xNN, "..." and the NUL */
            memcpy(out + used, "...", 3);
            used += 3;
            break;
        }
        if (c >= 32 && c < 127) {
            out[used++] = (char)c;
        } else {
            used += (size_t)snprintf(out + used, 5, "\\x%02x", c);
        }
    }
    out[used] = '\0';
    return out;
}
