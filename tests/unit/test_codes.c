/* SPDX-License-Identifier: Apache-2.0 */
#include <rlock/rlock.h>

#include "base/error.h"
#include "support/test.h"

static const struct {
    const char *name;
    int number;
    const char *text;
} codes[] = {
#define ROW(name, number, text) {#name, number, text},
    RLOCK_CODES(ROW)
#undef ROW
};

enum { N = sizeof(codes) / sizeof(codes[0]) };

TEST(each_code_has_its_name_and_text)
{
    for (size_t i = 0; i < N; i++) {
        assert_string_equal(rlock_code_name(codes[i].number), codes[i].name);
        assert_string_equal(rlock_strerror(codes[i].number), codes[i].text);
        assert_true(strlen(codes[i].text) > 0 && strchr(codes[i].text, '\n') == NULL);
    }
}

TEST(codes_count_down_from_success)
{
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(codes[i].number, -(int)i);
    }
    assert_int_equal(RLOCK_OK, 0);
}

TEST(no_two_codes_are_called_the_same)
{
    for (size_t i = 0; i < N; i++) {
        for (size_t j = i + 1; j < N; j++) {
            assert_string_not_equal(codes[i].name, codes[j].name);
            assert_string_not_equal(codes[i].text, codes[j].text);
        }
    }
}

TEST(what_is_no_code_is_unknown)
{
    const int wrong[] = {1, 42, -(int)N, -1000, INT32_MIN, INT32_MAX};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_string_equal(rlock_strerror(wrong[i]), "unknown code");
        assert_string_equal(rlock_code_name(wrong[i]), "unknown");
    }
}

TEST(each_reason_has_its_text)
{
    for (int i = RLOCK_LOST_EXPIRED; i <= RLOCK_LOST_OWNER_ENDED; i++) {
        assert_string_not_equal(rlock_reason_text(i), "unknown");
        for (int j = i + 1; j <= RLOCK_LOST_OWNER_ENDED; j++) {
            assert_string_not_equal(rlock_reason_text(i), rlock_reason_text(j));
        }
    }
    assert_string_equal(rlock_reason_text(0), "unknown");
    assert_string_equal(rlock_reason_text(RLOCK_LOST_OWNER_ENDED + 1), "unknown");
}

TEST(a_detail_is_kept_until_the_next_call)
{
    char longest[2 * RLOCK__DETAIL_SIZE];

    rlock__detail_clear();
    assert_string_equal(rlock_detail(), "");
    assert_int_equal(rlock__fail(RLOCK_EBUSY, "lock %s: %d", "x", 7), RLOCK_EBUSY);
    assert_string_equal(rlock_detail(), "lock x: 7");
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    (void)rlock__fail(RLOCK_EINVAL, "%s", longest);
    assert_int_equal(strlen(rlock_detail()), RLOCK__DETAIL_SIZE - 1);
    rlock__detail_clear();
    assert_string_equal(rlock_detail(), "");
}

TEST(the_version_is_the_headers)
{
    assert_string_equal(rlock_version(), RLOCK_VERSION);
}
