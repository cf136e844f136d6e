/* SPDX-License-Identifier: Apache-2.0 */
#include "support/asserts.h"

void assert_code_at(int code, int expected, const char *call, const char *file, int line)
{
    if (code != expected) {
        print_error("%s: %s (%s), not %s\n", call, rlock_code_name(code), rlock_detail(),
                    rlock_code_name(expected));
        _fail(file, line);
    }
}

void assert_contains_at(const char *text, const char *part, const char *file, int line)
{
    if (strstr(text, part) == NULL) {
        print_error("no '%s' in: %s\n", part, text);
        _fail(file, line);
    }
}

void assert_free_in(long long least_ms, long long most_ms)
{
    const char *at = strstr(rlock_detail(), " in ");
    char *end = NULL;
    long long ms = at != NULL ? strtoll(at + 4, &end, 10) : -1;

    if (at == NULL || strncmp(end, " ms", 3) != 0 || ms < least_ms || ms > most_ms) {
        fail_msg("not free in %lld to %lld ms: %s", least_ms, most_ms, rlock_detail());
    }
}

void assert_within(int64_t since_us, int64_t ms)
{
    int64_t took_us = test_elapsed_us(since_us);
    int64_t most_us = ms * 1000 + (int64_t)CALL_LATE_MS * 1000 * test_slack();

    if (!test_in_time(since_us, took_us, most_us)) {
        fail_msg("took %lld ms, %lld at most", (long long)took_us / 1000,
                 (long long)most_us / 1000);
    }
}

void assert_took_at(int64_t us, int64_t least_ms, int64_t most_ms, const char *file, int line)
{
    const int64_t most_us = most_ms * 1000 * test_slack();

    if (us < least_ms * 1000 || !test_took_at_most(us, most_us)) {
        print_error("%s:%d: took %lld us, expected %lld to %lld ms\n", file, line, (long long)us,
                    (long long)least_ms, (long long)(most_ms * test_slack()));
        _fail(file, line);
    }
}

void assert_usually_took_at(int64_t *us, size_t n, int64_t usual_ms, int64_t most_ms,
                            const char *file, int line)
{
    const int64_t median_us = test_median(us, n), usual_us = usual_ms * 1000 * test_slack();
    int64_t sum_us = 0;

    for (size_t i = 0; i < n; i++) {
        sum_us += us[i] > 0 ? us[i] : 0;
    }
    if (!test_in_time(test_now_us() - sum_us, median_us, usual_us)) {
        print_error("%s:%d: took %lld us in the median, expected %lld\n", file, line,
                    (long long)median_us, (long long)usual_us);
        _fail(file, line);
    }
    assert_took_at(test_percentile(us, n, 100), 0, most_ms, file, line);
}
