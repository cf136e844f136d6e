/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resp.h"

#include <string.h>

static void a_frame_is_found_when_its_last_byte_is_there(void **state)
{
    static const char *const frames[] = {
        "+OK\r\n",          "-ERR a\nb\r\n", ":-12\r\n",
        "$-1\r\n",          "*-1\r\n",       "$0\r\n\r\n",
        "$4\r\na\r\nb\r\n", "*0\r\n",        "*3\r\n$1\r\na\r\n*1\r\n:1\r\n+x\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        size_t len = strlen(frames[i]);
        struct sim_buf stream = SIM_BUF_NULL;

        sim_buf_add(&stream, frames[i], len);
        sim_buf_add(&stream, ":1\r\n", 4);
        for (size_t part = 0; part < len; part++) {
            assert_int_equal(sim_resp_frame_len(frames[i], part), 0);
        }
        assert_int_equal(sim_resp_frame_len(stream.data, stream.len), len);
        sim_buf_fini(&stream);
    }
}

static void what_is_no_resp_is_refused(void **state)
{
    static const char *const frames[] = {
        "PING\r\n", "$3\r\nabcd\r\n", "$x\r\n",
        "$-2\r\n",  "*-2\r\n",        "*1\r\nx\r\n",
        ":\r\n",    ":1a\r\n",        ":99999999999999999999\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        assert_int_equal(sim_resp_frame_len(frames[i], strlen(frames[i])), -1);
        assert_null(sim_resp_read(frames[i], strlen(frames[i])));
    }
}

static void a_frame_is_read_into_a_tree(void **state)
{
    static const char frame[] = "*5\r\n*2\r\n:1\r\n:-2\r\n$2\r\nab\r\n*0\r\n$-1\r\n-E x\r\n";
    struct sim_resp *tree = sim_resp_read(frame, sizeof(frame) - 1);

    (void)state;
    assert_non_null(tree);
    assert_int_equal(tree->type, SIM_RESP_ARRAY);
    assert_int_equal(tree->n_items, 5);
    assert_int_equal(tree->items[0].n_items, 2);
    assert_int_equal(tree->items[0].items[1].integer, -2);
    assert_int_equal(tree->items[1].type, SIM_RESP_BULK);
    assert_memory_equal(tree->items[1].text.data, "ab", 2);
    assert_int_equal(tree->items[2].type, SIM_RESP_ARRAY);
    assert_int_equal(tree->items[3].type, SIM_RESP_NIL);
    assert_int_equal(tree->items[4].type, SIM_RESP_ERROR);
    assert_int_equal(tree->items[4].text.len, 3);
    assert_null(sim_resp_free(tree));
    assert_null(sim_resp_read(frame, sizeof(frame) - 2));
    assert_null(sim_resp_read(frame, sizeof(frame)));
}

static void a_command_is_an_array_of_bulk_strings(void **state)
{
    static const char *const bad[] = {
        "", "+PING\r\n", "*1\r\n:1\r\n", "*2\r\n$1\r\na\r\n", "*1\r\n$-1\r\n", "*1\r\n$1\r\na\r\n ",
    };
    const struct sim_view argv[] = {SIM_VIEW("SET"), SIM_VIEW("k"), SIM_VIEW("")};
    struct sim_words words = {0};
    struct sim_buf bytes = SIM_BUF_NULL;

    (void)state;
    sim_resp_command(&bytes, argv, 3);
    assert_true(sim_resp_read_command(bytes.data, bytes.len, &words));
    assert_int_equal(words.n, 3);
    assert_memory_equal(words.words[1].data, "k", 1);
    assert_int_equal(words.words[2].len, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(sim_resp_read_command(bad[i], strlen(bad[i]), &words));
    }
    sim_words_fini(&words);
    sim_buf_fini(&bytes);
}

static void numbers_are_written_to_the_ends_of_their_range(void **state)
{
    struct sim_buf bytes = SIM_BUF_NULL;

    (void)state;
    sim_resp_integer(&bytes, INT64_MIN);
    sim_resp_integer(&bytes, INT64_MAX);
    sim_resp_integer(&bytes, 0);
    sim_buf_add(&bytes, "", 1);
    assert_string_equal(bytes.data, ":-9223372036854775808\r\n:9223372036854775807\r\n:0\r\n");
    sim_buf_fini(&bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_is_found_when_its_last_byte_is_there),
        cmocka_unit_test(what_is_no_resp_is_refused),
        cmocka_unit_test(a_frame_is_read_into_a_tree),
        cmocka_unit_test(a_command_is_an_array_of_bulk_strings),
        cmocka_unit_test(numbers_are_written_to_the_ends_of_their_range),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
