/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdbool.h>
#include <string.h>

#define NAME_MOST 120

/* Returns how many bytes the sequence that `first` leads has by its own account, 0 for none. */
static size_t announced_len(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first < 0xe0) {
        return 2;
    }
    if (first >= 0xe0 && first < 0xf0) {
        return 3;
    }
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/* Returns the length of the UTF-8 character that p starts with, 0 if it is none (RFC 3629, table
 * 3-7 of Unicode). */
static size_t utf8_len(const unsigned char *p, size_t len)
{
    const size_t n = len > 0 ? announced_len(p[0]) : 0;

    if (n == 0 || n > len) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    if (n > 1 && ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
                  (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))) {
        return 0; /* overlong, a surrogate, or beyond U+10FFFF */
    }
    return n;
}

/* The code point of a character of n bytes. */
static unsigned code_point(const unsigned char *p, size_t n)
{
    unsigned point = n == 1 ? p[0] : p[0] & (0x7fU >> n);

    for (size_t i = 1; i < n; i++) {
        point = point << 6 | (p[i] & 0x3f);
    }
    return point;
}

/* What acts on a terminal or on the order in which a text is read, and is not to be seen itself:
 * C0, DEL, C1, ends of lines, and Unicode's marks of direction (UAX 9). */
static bool is_control(unsigned point)
{
    static const unsigned ranges[][2] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                                         {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (point >= ranges[i][0] && point <= ranges[i][1]) {
            return true;
        }
    }
    return false;
}

size_t cli_put_text(FILE *out, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const unsigned char *end = p + len;
    size_t columns = 0;

    while (p < end) {
        const size_t n = utf8_len(p, (size_t)(end - p));

        if (n == 0 || is_control(code_point(p, n))) {
            columns += (size_t)fprintf(out, "\\x%02x", *p++);
        } else {
            (void)fwrite(p, 1, n, out);
            p += n;
            columns++;
        }
    }
    return columns;
}

size_t cli_put_name(FILE *out, const char *bytes, size_t len)
{
    size_t shown = len;

    if (len <= NAME_MOST) {
        return cli_put_text(out, bytes, len);
    }
    for (shown = NAME_MOST; shown > 0 && ((unsigned char)bytes[shown] & 0xc0) == 0x80;) {
        shown--; /* not in the middle of a character */
    }
    return cli_put_text(out, bytes, shown) + (size_t)fprintf(out, "...");
}

/*
 * A byte that is no part of a character is written as the half of a surrogate pair, which nothing
 * else is: U+DC00 and the byte.
 */
void cli_put_json(FILE *out, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const unsigned char *end = p + len;

    (void)fputc('"', out);
    while (p < end) {
        const size_t n = utf8_len(p, (size_t)(end - p));

        if (n == 0) {
            (void)fprintf(out, "\\udc%02x", *p++);
        } else if (is_control(code_point(p, n))) {
            (void)fprintf(out, "\\u%04x", code_point(p, n));
            p += n;
        } else {
            if (*p == '"' || *p == '\\') {
                (void)fputc('\\', out);
            }
            (void)fwrite(p, 1, n, out);
            p += n;
        }
    }
    (void)fputc('"', out);
}

void cli_put_ms(FILE *out, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{3600 * 1000, "h"}, {60 * 1000, "min"}, {1000, "s"}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (ms >= units[i].ms) {
            (void)fprintf(out, "%.1f %s", (double)ms / (double)units[i].ms, units[i].name);
            return;
        }
    }
    (void)fprintf(out, "%lld ms", (long long)ms);
}
