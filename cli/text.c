/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdbool.h>
#include <string.h>

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

/* A terminal acts on these: C0, DEL, and C1, which is two bytes in UTF-8. */
static bool is_control(const unsigned char *p, size_t n)
{
    return p[0] < 0x20 || p[0] == 0x7f || (n == 2 && p[0] == 0xc2 && p[1] < 0xa0);
}

size_t cli_put_text(FILE *out, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const unsigned char *end = p + len;
    size_t columns = 0;

    while (p < end) {
        const size_t n = utf8_len(p, (size_t)(end - p));

        if (n == 0 || is_control(p, n)) {
            columns += (size_t)fprintf(out, "\\x%02x", *p++);
        } else {
            (void)fwrite(p, 1, n, out);
            p += n;
            columns++;
        }
    }
    return columns;
}

void cli_put_json(FILE *out, const char *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const unsigned char *end = p + len;

    (void)fputc('"', out);
    while (p < end) {
        const size_t n = utf8_len(p, (size_t)(end - p));

        if (n == 0 || *p < 0x20) {
            (void)fprintf(out, "\\u00%02x", *p++);
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
