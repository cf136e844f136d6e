/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <inttypes.h>

#include "support/test.h"
#include "wire/command.h"

#define BYTES(text) rlock__bytes(text, sizeof(text) - 1)

/* ---- A line of text from any bytes ---- */

static void text_is(struct rlock__bytes bytes, size_t size, const char *expected)
{
    char *out = malloc(size); /* of its own size, so that a sanitizer sees what goes beyond */

    assert_non_null(out);
    memset(out, '#', size);
    assert_ptr_equal(rlock__text(bytes, out, size), out);
    assert_string_equal(out, expected);
    free(out);
}

TEST(plain_text_stays_as_it_is)
{
    text_is(BYTES(""), 20, "");
    text_is(BYTES("orders"), 20, "orders");
    text_is(BYTES(" {a}:~\"'\\ "), 40, " {a}:~\"'\\ ");
}

TEST(what_could_forge_a_line_is_escaped)
{
    text_is(BYTES("a\nb"), 40, "a\\x0ab");
    text_is(BYTES("\r\n\t\0\x1b"), 40, "\\x0d\\x0a\\x09\\x00\\x1b");
    text_is(BYTES("\x7f\x80\xff"), 40, "\\x7f\\x80\\xff");
    text_is(BYTES("\xc3\xa4"), 40, "\\xc3\\xa4");
}

TEST(what_is_too_long_is_cut)
{
    text_is(BYTES("0123456789"), 12, "01234...");
    text_is(BYTES("01234"), 12, "01234");
    text_is(BYTES("\n\n\n\n"), 16, "\\x0a\\x0a\\x0a...");
    text_is(BYTES("\n\n\n\n"), 8, "\\x0a...");
}

TEST(any_bytes_fit_any_size)
{
    char bytes[64];
    uint32_t seed = 1;

    for (int round = 0; round < 20000; round++) {
        const size_t size = 8 + (size_t)(round % 50), len = (size_t)(round % 64);
        char *out = malloc(size);

        assert_non_null(out);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525U + 1013904223U;
            bytes[i] = (char)(seed >> 24);
        }
        (void)rlock__text(rlock__bytes(bytes, len), out, size);
        assert_true(strlen(out) < size);
        for (const char *c = out; *c != '\0'; c++) {
            assert_true(*c >= 32 && *c < 127);
        }
        free(out);
    }
}

/* ---- Buffers ---- */

TEST(a_buffer_grows_as_needed)
{
    struct rlock__buf buf = {0};
    char expected[5000];

    for (size_t i = 0; i < sizeof(expected); i++) {
        expected[i] = (char)i;
    }
    for (size_t at = 0; at < sizeof(expected); at += 50) {
        assert_true(rlock__buf_add(&buf, expected + at, 50));
    }
    assert_true(rlock__buf_add(&buf, NULL, 0));
    assert_int_equal(buf.len, sizeof(expected));
    assert_memory_equal(buf.data, expected, sizeof(expected));
    rlock__buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_true(rlock__buf_add(&buf, "x", 1));
    rlock__buf_fini(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    rlock__buf_fini(&buf);
}

TEST(printed_text_is_appended_without_its_end)
{
    struct rlock__buf buf = {0};
    char longer[300];

    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_true(rlock__buf_addf(&buf, "%s:%d", "a", -7));
    assert_true(rlock__buf_addf(&buf, "%s", ""));
    assert_true(rlock__buf_addf(&buf, "%s|", longer)); /* longer than the buffer so far */
    assert_int_equal(buf.len, 4 + 299 + 1);
    assert_memory_equal(buf.data, "a:-7yyy", 7);
    assert_int_equal(buf.data[buf.len - 1], '|');
    rlock__buf_fini(&buf);
}

TEST(digits_are_those_that_printf_writes)
{
    const uint64_t numbers[] = {0, 1, 9, 10, 99, 100, 1700000000000, INT64_MAX, UINT64_MAX};
    char digits[RLOCK__DIGITS], printed[32];

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        const size_t n = rlock__digits(numbers[i], digits);

        assert_int_equal(snprintf(printed, sizeof(printed), "%" PRIu64, numbers[i]), n);
        assert_memory_equal(digits, printed, n);
    }
}

TEST(an_argument_may_be_any_number)
{
    struct rlock__cmd cmd = {0};
    const char expected[] = "$1\r\n0\r\n$2\r\n-1\r\n$20\r\n-9223372036854775808\r\n"
                            "$19\r\n9223372036854775807\r\n";

    rlock__cmd_num(&cmd, 0);
    rlock__cmd_num(&cmd, -1);
    rlock__cmd_num(&cmd, INT64_MIN);
    rlock__cmd_num(&cmd, INT64_MAX);
    assert_int_equal(cmd.n_args, 4);
    assert_int_equal(cmd.args.len, sizeof(expected) - 1);
    assert_memory_equal(cmd.args.data, expected, sizeof(expected) - 1);
    rlock__cmd_fini(&cmd);
}

TEST(a_bulk_string_may_hold_any_byte)
{
    struct rlock__buf buf = {0};

    assert_true(rlock__buf_add_bulk(&buf, BYTES("a\r\n\0b")));
    assert_true(rlock__buf_add_bulk(&buf, BYTES("")));
    assert_int_equal(buf.len, 4 + 5 + 2 + 4 + 2);
    assert_memory_equal(buf.data, "$5\r\na\r\n\0b\r\n$0\r\n\r\n", buf.len);
    rlock__buf_fini(&buf);
}

TEST(a_failed_buffer_stays_failed_until_cleared)
{
    struct rlock__buf buf = {0};

    assert_true(rlock__buf_add(&buf, "x", 1));
    buf.failed = true;
    assert_false(rlock__buf_add(&buf, "y", 1));
    assert_false(rlock__buf_addf(&buf, "z"));
    assert_false(rlock__buf_add_bulk(&buf, BYTES("z")));
    assert_int_equal(buf.len, 1);
    rlock__buf_clear(&buf);
    assert_true(rlock__buf_add(&buf, "y", 1));
    rlock__buf_fini(&buf);
}

/* ---- Bytes ---- */

TEST(bytes_are_equal_byte_by_byte)
{
    assert_true(rlock__bytes_equal(BYTES("a\0b"), BYTES("a\0b")));
    assert_false(rlock__bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
    assert_false(rlock__bytes_equal(BYTES("a"), BYTES("a\0")));
    assert_true(rlock__bytes_equal(rlock__bytes(NULL, 0), BYTES("")));
    assert_true(rlock__bytes_equal(rlock__bytes_of("abc"), BYTES("abc")));
}

static void number_is(struct rlock__bytes bytes, int64_t expected)
{
    char *exact = malloc(bytes.len + (bytes.len == 0));

    assert_non_null(exact);
    memcpy(exact, bytes.at, bytes.len);
    assert_true(rlock__bytes_number(rlock__bytes(exact, bytes.len), -99) == expected);
    free(exact);
}

TEST(a_number_ends_where_its_digits_end)
{
    number_is(BYTES("0"), 0);
    number_is(BYTES("42"), 42);
    number_is(BYTES("-42"), -42);
    number_is(BYTES("007x"), 7);
    number_is(BYTES("12:34"), 12);
    number_is(BYTES("999999999999999999"), INT64_C(999999999999999999));
    number_is(BYTES(""), -99);
    number_is(BYTES("-"), -99);
    number_is(BYTES("x1"), -99);
    number_is(BYTES(" 1"), -99);
    number_is(BYTES("99999999999999999999"), -99);
}
