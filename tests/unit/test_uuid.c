/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include "support/test.h"

TEST(a_uuid_of_ours_has_version_8_and_the_rfcs_variant)
{
    static const uint8_t all[2][16] = {{0},
                                       {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
    char text[RLOCK__UUID_LEN + 1];

    rlock__uuid_write(all[0], text);
    assert_string_equal(text, "00000000-0000-8000-8000-000000000000");
    rlock__uuid_write(all[1], text);
    assert_string_equal(text, "ffffffff-ffff-8fff-bfff-ffffffffffff");
}

TEST(every_random_byte_stands_in_the_text_in_its_place)
{
    static const uint8_t random[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                       0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10};
    char text[RLOCK__UUID_LEN + 1];

    rlock__uuid_write(random, text);
    assert_string_equal(text, "01234567-89ab-8def-bedc-ba9876543210");
}

TEST(an_owners_version_is_that_of_its_uuid)
{
    static const struct {
        const char *owner;
        int version;
    } cases[] = {
        {"01234567-89ab-8def-bedc-ba9876543210:1", 8},
        {"01234567-89ab-4def-bedc-ba9876543210:51", 4},
        {"01234567-89ab-8def-bedc-ba9876543210", -1},
        {"01234567-89ab-8def-bedc-ba987654321g:1", -1},
        {"01234567x89ab-8def-bedc-ba9876543210:1", -1},
        {"01234567-89ab-8def-bedc-ba98765432100:1", -1},
        {"", -1},
        {":1", -1},
        {"somebody", -1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        print_message("%s\n", cases[i].owner);
        assert_int_equal(rlock__uuid_version(rlock__bytes_of(cases[i].owner)), cases[i].version);
    }
}
