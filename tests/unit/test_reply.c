/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes that scripts' replies may have. */
#include "support/test.h"
#include "wire/reply.h"

#include <lua_scripts.h>

#define INT(n)                                                                                     \
    {                                                                                              \
        .type = RLOCK__REPLY_INT, .num = (n)                                                       \
    }
#define STR(text)                                                                                  \
    {                                                                                              \
        .type = RLOCK__REPLY_STR, .str = (text), .len = sizeof(text) - 1                           \
    }

static bool fits(const struct rlock__value *v, size_t n, const char *shapes, size_t parts)
{
    const struct rlock__reply reply = {.v = v, .n = n, .is_array = true};

    return rlock__reply_fits(&reply, shapes, parts);
}

TEST(a_reply_has_exactly_the_values_of_a_shape)
{
    const struct rlock__value busy[] = {INT(0), INT(77), STR("a:1"), INT(3)};
    const struct rlock__value gone[] = {INT(-1), INT(1)};

    assert_true(fits(busy, 3, "1 0is -i", 0));
    assert_true(fits(gone, 2, "1 0is -i", 0));
    assert_false(fits(busy, 2, "1 0is -i", 0));
    assert_false(fits(busy, 4, "1 0is -i", 0));
    assert_true(fits(busy, 4, "1 0isi -i", 0));
    assert_false(fits(busy, 0, "1 0is -i", 0));
    assert_false(fits(gone, 1, "1 0is -i", 0));
    assert_true(fits(gone + 1, 1, "1 0is -i", 0));
    assert_false(fits(busy + 1, 1, "1 0is -i", 0)); /* 77 */
    assert_false(fits(busy + 2, 1, "1 i", 0));
    assert_false(fits(busy + 1, 1, "s", 0));
}

TEST(groups_come_once_for_each_part_or_any_number_of_times)
{
    const struct rlock__value all[] = {INT(0), INT(1), INT(5), INT(1), INT(6)};
    const struct rlock__value names[] = {INT(2), STR("a"), STR("b")};

    assert_true(fits(all, 5, "0*1i", 2));
    assert_false(fits(all, 5, "0*1i", 1));
    assert_false(fits(all, 5, "0*1i", 3));
    assert_false(fits(all, 4, "0*1i", 2));
    assert_true(fits(all, 1, "0*1i", 0));
    assert_true(fits(names, 3, "n.s", 2));
    assert_true(fits(names, 1, "n.s", 2));
    assert_false(fits(names, 3, "n.s", 1)); /* n is at most 1 then */
    assert_false(fits(all, 3, "0.s", 0));
    assert_true(fits(all, 5, "0.1i", 0));
    assert_false(fits(all, 4, "0.1i", 0));
}

TEST(what_is_no_flat_array_has_no_shape)
{
    const struct rlock__value one[] = {INT(1)};
    const struct rlock__reply scalar = {.v = one, .n = 1};
    const struct rlock__reply nested = {.v = one, .n = 1, .is_array = true, .is_nested = true};

    assert_true(fits(one, 1, "1", 0));
    assert_false(rlock__reply_fits(&scalar, "1", 0));
    assert_false(rlock__reply_fits(&nested, "1", 0));
}

TEST(what_stands_behind_a_name_is_found)
{
    const struct rlock__value all[] = {STR("a"), STR("1"), STR("b"), STR("a"), STR("c")};
    const struct rlock__reply array = {.v = all, .n = 5, .is_array = true};
    const struct rlock__reply scalar = {.v = all, .n = 2};

    assert_true(rlock__bytes_equal(rlock__reply_field(&array, "a"), rlock__bytes_of("1")));
    assert_true(rlock__bytes_equal(rlock__reply_field(&array, "b"), rlock__bytes_of("a")));
    assert_int_equal(rlock__reply_field(&array, "c").len, 0);
    assert_int_equal(rlock__reply_field(&array, "1").len, 0);
    assert_int_equal(rlock__reply_field(&scalar, "a").len, 0);
}

TEST(each_script_says_the_shapes_of_its_replies)
{
    for (size_t i = 0; rlock__scripts[i] != NULL; i++) {
        assert_true(rlock__scripts[i]->shapes[0] != '\0');
    }
}
