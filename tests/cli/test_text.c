/* SPDX-License-Identifier: Apache-2.0 */
/* The command's small parts without a server: durations, escapes, passwords in URLs. */
#include "cli/duration.h"
#include "cli/secret.h"
#include "cli/text.h"
#include "support/test.h"

TEST(durations_have_units_and_default_to_seconds)
{
    static const struct {
        const char *text;
        int64_t ms;
    } good[] = {{"0", 0},         {"300ms", 300},    {"2s", 2000},
                {"1m", 60000},    {"1h", 3600000},   {"5", 5000},
                {"0.5", 500},     {".5s", 500},      {"1.5m", 90000},
                {"0.0001", 1},    {"0.1ms", 1},      {"2.", 2000},
                {"1.0010", 1001}, {"0.00000001", 1}, {"876000h", 3153600000000}};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t ms = -1;

        assert_true(cli_duration_parse(good[i].text, &ms));
        assert_int_equal(ms, good[i].ms);
    }
}

TEST(what_is_no_duration_is_refused)
{
    static const char *const bad[] = {"",    "s",     ".",   "-1",      "+1",
                                      "1d",  "1 s",   "1s ", "0x10",    "1e3",
                                      "inf", "1.2.3", "1ss", "876001h", "99999999999999999999999",
                                      "..5", "ms"};
    int64_t ms = -1;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(cli_duration_parse(bad[i], &ms));
    }
    assert_int_equal(ms, -1);
}

typedef void put_fn(FILE *out, const char *bytes, size_t len);

static void put_text(FILE *out, const char *bytes, size_t len)
{
    (void)cli_put_text(out, bytes, len);
}

static void assert_shown(put_fn *put, const char *bytes, const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_non_null(out);
    put(out, bytes, strlen(bytes));
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

TEST(text_for_people_cannot_act_on_a_terminal)
{
    assert_shown(put_text, "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\x92",
                 "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\x92");
    assert_shown(put_text, "\033[2J\r\n\t\x7f", "\\x1b[2J\\x0d\\x0a\\x09\\x7f");
    assert_shown(put_text,
                 "\xc2\x9b"
                 "2J",
                 "\\xc2\\x9b2J"); /* C1's control sequence introducer */
}

TEST(bytes_that_are_not_utf8_are_escaped)
{
    static const struct {
        const char *bytes;
        const char *shown;
    } cases[] = {{"\xff", "\\xff"},
                 {"\xc3", "\\xc3"},
                 {"\xc0\xaf", "\\xc0\\xaf"},
                 {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},
                 {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                 {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
                 {"\xe2\x82", "\\xe2\\x82"},
                 {"\xe2\x82x", "\\xe2\\x82x"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_shown(put_text, cases[i].bytes, cases[i].shown);
    }
}

TEST(json_strings_are_valid_whatever_the_bytes)
{
    assert_shown(cli_put_json, "a\"b\\c\n\xc3\xa4", "\"a\\\"b\\\\c\\u000a\xc3\xa4\"");
}

TEST(json_tells_bytes_from_characters)
{
    assert_shown(cli_put_json, "\xff\xc3", "\"\\udcff\\udcc3\"");
    assert_shown(cli_put_json, "\xc3\xbf", "\"\xc3\xbf\"");
    assert_shown(cli_put_json, "\xed\xb3\xbf", "\"\\udced\\udcb3\\udcbf\""); /* U+DCFF itself */
}

TEST(what_acts_on_a_terminal_is_escaped_in_json)
{
    assert_shown(cli_put_json, "\x7f\xc2\x9b\xd8\x9c", "\"\\u007f\\u009b\\u061c\"");
    assert_shown(cli_put_json, "\xe2\x80\xae\xe2\x81\xa6", "\"\\u202e\\u2066\"");
    assert_shown(put_text, "\xe2\x80\xae", "\\xe2\\x80\\xae");
}

static void put_name(FILE *out, const char *bytes, size_t len)
{
    (void)cli_put_name(out, bytes, len);
}

TEST(a_long_name_is_cut_between_characters)
{
    char name[1001], shown[200] = "";

    for (size_t i = 0; i < 1000; i++) { /* the limit lies within a character */
        name[i] = i % 2 == 1 ? '\xc3' : '\xa4';
    }
    name[0] = 'a';
    name[1000] = '\0';
    memcpy(shown, name, 119);
    (void)strcpy(shown + 119, "...");
    assert_shown(put_name, name, shown);
    assert_shown(put_name, "short", "short");
}

static void assert_redacted(const char *text, const char *expected)
{
    char *copy = strdup(text);

    assert_non_null(copy);
    cli_text_redact(copy);
    assert_string_equal(copy, expected);
    free(copy);
}

TEST(passwords_in_urls_are_redacted_in_any_text)
{
    assert_redacted("redis://u:pass@h:1/2", "redis://u:***@h:1/2");
    assert_redacted("see redis://:p@h and rediss://u:longer@i now",
                    "see redis://:*@h and rediss://u:***@i now");
    assert_redacted("redis://u:p@ss/w:rd@h", "redis://u:***@h");
    assert_redacted("redis://h:6379/0", "redis://h:6379/0");
    assert_redacted("redis://user@h", "redis://user@h");
    assert_redacted("unix:///run/redis.sock", "unix:///run/redis.sock");
    assert_redacted("no url: a@b", "no url: a@b");
    assert_redacted("://", "://");
}

TEST(a_hidden_password_leaves_no_byte)
{
    char url[] = "redis://u:secret@h:1";

    cli_url_hide_password(url);
    assert_string_equal(url, "redis://u:******@h:1");
}
