/* SPDX-License-Identifier: Apache-2.0 */
#include "duration.h"

#include <string.h>

#define LONGEST_MS (100LL * 365 * 24 * 3600 * 1000)
#define MILLIONTHS 1000000

/* Returns the unit's length, 0 for none that is known. */
static int64_t unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits, as far as they matter; *text moves behind them. */
static int64_t read_whole(const char **text)
{
    int64_t whole = 0;

    for (; is_digit(**text); ++*text) {
        whole = whole > LONGEST_MS ? whole : whole * 10 + (**text - '0');
    }
    return whole;
}

/* Reads the digits behind a point, in millionths, rounded up; *text moves behind them. */
static int64_t read_fraction(const char **text)
{
    int64_t millionths = 0;
    bool more = false;

    for (int64_t weight = MILLIONTHS / 10; is_digit(**text); ++*text, weight /= 10) {
        millionths += (**text - '0') * weight;
        more = more || (weight == 0 && **text != '0');
    }
    return millionths + (more ? 1 : 0);
}

bool cli_duration_parse(const char *text, int64_t *ret_ms)
{
    const char *at = text;
    const bool starts_well = is_digit(at[0]) || (at[0] == '.' && is_digit(at[1]));
    const int64_t whole = read_whole(&at);
    int64_t millionths = 0;
    int64_t unit;

    if (*at == '.') {
        at++;
        millionths = read_fraction(&at);
    }
    unit = unit_ms(at);
    if (!starts_well || unit == 0 || whole > LONGEST_MS / unit) {
        return false;
    }
    *ret_ms = whole * unit + (millionths * unit + MILLIONTHS - 1) / MILLIONTHS;
    return true;
}

int64_t cli_now_ms(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}
