/* SPDX-License-Identifier: Apache-2.0 */
/* A program and a library of different versions: their structs differ in length. */
#include "base/sized.h"
#include "support/test.h"

struct known {
    size_t size;
    int64_t first, second;
};

struct older {
    size_t size;
    int64_t first;
};

struct newer {
    size_t size;
    int64_t first, second, third;
};

TEST(what_an_older_program_does_not_know_keeps_its_default)
{
    const struct older older = {.size = sizeof(older), .first = 1};
    struct known known = {.size = sizeof(known), .second = 7};

    assert_true(rlock__sized_take(&known, &older));
    assert_int_equal(known.size, sizeof(known));
    assert_int_equal(known.first, 1);
    assert_int_equal(known.second, 7);
}

TEST(a_newer_program_that_asks_for_nothing_new_is_served)
{
    const struct newer newer = {.size = sizeof(newer), .first = 1, .second = 2};
    struct known known = {.size = sizeof(known)};

    assert_true(rlock__sized_take(&known, &newer));
    assert_int_equal(known.size, sizeof(known));
    assert_int_equal(known.first, 1);
    assert_int_equal(known.second, 2);
}

TEST(a_newer_program_that_asks_for_something_new_is_refused)
{
    const struct newer newer = {.size = sizeof(newer), .third = 3};
    struct known known = {.size = sizeof(known)};

    assert_false(rlock__sized_take(&known, &newer));
}

TEST(a_size_that_was_not_set_is_refused)
{
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, RLOCK__SIZED_MOST + 1, SIZE_MAX};
    struct known known = {.size = sizeof(known)};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_false(rlock__sized_take(&known, &(struct known){.size = sizes[i]}));
        assert_false(rlock__sized_is_valid(&(struct known){.size = sizes[i]}));
    }
    assert_true(rlock__sized_take(&known, NULL));
}

TEST(a_newer_program_is_given_zeros_for_what_is_not_known)
{
    const struct known known = {.size = sizeof(known), .first = 1, .second = 2};
    struct newer newer = {.size = sizeof(newer), .third = -1};

    assert_true(rlock__sized_is_valid(&newer));
    rlock__sized_give(&newer, &known);
    assert_int_equal(newer.size, sizeof(newer));
    assert_int_equal(newer.first, 1);
    assert_int_equal(newer.second, 2);
    assert_int_equal(newer.third, 0);
}

TEST(an_older_program_is_given_no_more_than_it_has_room_for)
{
    const struct known known = {.size = sizeof(known), .first = 1, .second = 2};
    struct {
        struct older older;
        int64_t beyond;
    } room = {.older = {.size = sizeof(room.older)}, .beyond = -1};

    rlock__sized_give(&room.older, &known);
    assert_int_equal(room.older.first, 1);
    assert_int_equal(room.beyond, -1);
}
