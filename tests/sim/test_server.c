/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulated server does with virtual time, faults and connections, where no real server
   can be compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server.h"

#include <stdio.h>
#include <string.h>

static struct sim_server *server;
static uint64_t conn;
static struct sim_buf sent; /* what the connections were sent: "1<frame", a push "1<<frame" */
static struct sim_buf closed;

static void add_text(struct sim_buf *buf, const char *text)
{
    sim_buf_add(buf, text, strlen(text));
}

static void on_frame(void *payload, uint64_t to, const char *bytes, size_t len, bool is_push)
{
    char head[32];

    (void)payload;
    snprintf(head, sizeof(head), "%u%s", (unsigned)to, is_push ? "<<" : "<");
    add_text(&sent, head);
    sim_buf_add(&sent, bytes, len);
}

static void on_close(void *payload, uint64_t which)
{
    char text[32];

    (void)payload;
    snprintf(text, sizeof(text), "%u closed;", (unsigned)which);
    add_text(&closed, text);
}

static int start(void **state)
{
    const struct sim_events events = {.on_frame = on_frame, .on_close = on_close};

    (void)state;
    server = sim_server_new(1);
    sim_server_set_events(server, &events);
    conn = sim_server_connect(server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server = sim_server_free(server);
    sim_buf_fini(&sent);
    sim_buf_fini(&closed);
    return 0;
}

static const char *taken(struct sim_buf *buf)
{
    sim_buf_add(buf, "", 1);
    buf->len = 0;
    return buf->data;
}

/* Words are divided by blanks; one between bars may have blanks in it. */
static void read_words(const char *line, struct sim_words *words)
{
    while (*line) {
        bool has_bars = *line == '|';
        size_t len = strcspn(line + has_bars, has_bars ? "|" : " ");

        sim_words_add(words, (struct sim_view){line + has_bars, len});
        line += has_bars + len + has_bars;
        line += *line == ' ';
    }
}

/* Returns all that was sent in answer, to whomever. */
static const char *ask_on(uint64_t which, const char *line)
{
    struct sim_words words = {0};
    struct sim_buf bytes = SIM_BUF_NULL;

    read_words(line, &words);
    sim_resp_command(&bytes, words.words, words.n);
    assert_true(sim_server_command(server, which, bytes.data, bytes.len));
    sim_words_fini(&words);
    sim_buf_fini(&bytes);
    return taken(&sent);
}

static const char *ask(const char *line)
{
    return ask_on(conn, line);
}

static void set_time_ms(int64_t now_ms)
{
    sim_server_set_time(server, now_ms * 1000);
}

/* ---- time ---- */

static void a_key_lives_through_its_last_millisecond(void **state)
{
    (void)state;
    ask("SET k v PX 100");
    sim_server_set_time(server, 100999);
    assert_string_equal(ask("PTTL k"), "1<:0\r\n");
    assert_string_equal(ask("GET k"), "1<$1\r\nv\r\n");
    sim_server_set_time(server, 101000);
    assert_string_equal(ask("PTTL k"), "1<:-2\r\n");
    assert_string_equal(ask("GET k"), "1<$-1\r\n");
}

static void a_dead_key_is_no_key_for_any_command(void **state)
{
    (void)state;
    ask("HSET h f 1");
    ask("PEXPIRE h 10");
    ask("SET s v PX 10");
    set_time_ms(11);
    assert_string_equal(ask("RPUSH h x"), "1<:1\r\n");
    assert_string_equal(ask("PTTL h"), "1<:-1\r\n");
    assert_string_equal(ask("SET s w XX"), "1<$-1\r\n");
    assert_string_equal(ask("DBSIZE"), "1<:1\r\n");
    assert_string_equal(ask("KEYS *"), "1<*1\r\n$1\r\nh\r\n");
}

static void a_step_of_the_clock_moves_the_end_of_leases(void **state)
{
    (void)state;
    ask("SET k v PX 1000");
    sim_server_set_clock_offset(server, -500000);
    assert_string_equal(ask("PTTL k"), "1<:1500\r\n");
    sim_server_set_clock_offset(server, 1000000);
    assert_string_equal(ask("PTTL k"), "1<:0\r\n");
    sim_server_set_clock_offset(server, 1001000);
    assert_string_equal(ask("PTTL k"), "1<:-2\r\n");
}

static void a_script_sees_one_time(void **state)
{
    (void)state;
    sim_server_set_time(server, 1234567);
    assert_string_equal(ask("TIME"), "1<*2\r\n$10\r\n1700000001\r\n$6\r\n234567\r\n");
    assert_string_equal(ask("EVAL |local a = redis.call('time') redis.call('incr', 'n')\n"
                            "local b = redis.call('time') return a[1] == b[1] and a[2] == b[2]| 0"),
                        "1<:1\r\n");
}

/* ---- faults ---- */

static void a_flush_of_scripts_makes_them_unknown(void **state)
{
    static const char sha[] = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; /* "return 1" */
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "EVALSHA %s 0", sha);
    assert_string_equal(ask(line), "1<-NOSCRIPT No matching script. Please use EVAL.\r\n");
    ask("SCRIPT LOAD |return 1|");
    assert_string_equal(ask(line), "1<:1\r\n");
    sim_server_script_flush(server);
    assert_string_equal(ask(line), "1<-NOSCRIPT No matching script. Please use EVAL.\r\n");
    assert_int_equal(sim_server_n_scripts_run(server), 1);
}

static void a_restart_forgets_all_but_the_keys(void **state)
{
    char before[300];

    (void)state;
    sim_server_connect(server);
    ask("SET k v PX 5000");
    ask("SCRIPT LOAD |return 1|");
    ask("SUBSCRIBE c");
    set_time_ms(3999);
    snprintf(before, sizeof(before), "%s", ask_on(2, "INFO server"));
    assert_non_null(strstr(before, "uptime_in_seconds:3\r\n"));
    sim_server_restart(server, true);
    assert_string_equal(taken(&closed), "1 closed;2 closed;");
    assert_int_equal(sim_server_n_conns(server), 0);
    assert_int_equal(sim_server_n_channels(server), 0);
    conn = sim_server_connect(server);
    assert_int_equal(conn, 3);
    assert_string_equal(ask("CLIENT ID"), "3<:1\r\n");
    assert_string_equal(ask("PTTL k"), "3<:1001\r\n");
    assert_non_null(strstr(ask("INFO server"), "uptime_in_seconds:0\r\n"));
    assert_null(strstr(ask("INFO server"), strstr(before, "run_id:")));
    assert_string_equal(ask("SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db"),
                        "3<*1\r\n:0\r\n");
}

static void a_restart_can_lose_the_keys(void **state)
{
    (void)state;
    ask("SET k v");
    sim_server_restart(server, false);
    conn = sim_server_connect(server);
    assert_string_equal(ask("EXISTS k"), "2<:0\r\n");
}

static void a_step_of_the_clock_changes_the_uptime(void **state)
{
    (void)state;
    set_time_ms(1000);
    sim_server_set_clock_offset(server, 60000000);
    assert_non_null(strstr(ask("INFO server"), "uptime_in_seconds:61\r\n"));
}

static void a_reset_server_is_as_a_new_one(void **state)
{
    char first[200];

    (void)state;
    for (int round = 0; round < 2; round++) {
        ask("SET k v");
        ask("EVAL |return redis.call('get', KEYS[1])| 1 k");
        sim_server_connect(server);
        ask_on(2, "SUBSCRIBE c");
        set_time_ms(100);
        if (round == 0) {
            snprintf(first, sizeof(first), "%s", ask("INFO server"));
        }
        assert_string_equal(ask("INFO server"), first);
        sim_server_set_clock_offset(server, 5);
        sim_server_reset(server, 1);
        assert_int_equal(sim_server_n_conns(server), 0);
        assert_int_equal(sim_server_n_channels(server), 0);
        assert_int_equal(sim_server_n_scripts_run(server), 0);
        assert_int_equal(sim_server_clock_us(server), SIM_EPOCH_US);
        conn = sim_server_connect(server);
        assert_string_equal(ask("DBSIZE"), "1<:0\r\n");
        assert_string_equal(ask("SCRIPT EXISTS 4e6d8fc8bb01276962cce5371fa795a7763657ae"),
                            "1<*1\r\n:0\r\n");
    }
    assert_string_equal(taken(&closed), "");
}

/* ---- connections ---- */

static void a_killed_client_is_gone_at_once(void **state)
{
    (void)state;
    assert_int_equal(sim_server_connect(server), 2);
    ask_on(2, "SUBSCRIBE c");
    assert_string_equal(ask("CLIENT KILL ID 2"), "1<:1\r\n");
    assert_string_equal(taken(&closed), "2 closed;");
    assert_false(sim_server_is_connected(server, 2));
    assert_false(sim_server_command(server, 2, "*1\r\n$4\r\nPING\r\n", 14));
    assert_string_equal(ask("PUBLISH c m"), "1<:0\r\n");
    assert_string_equal(ask("CLIENT KILL ID 2"), "1<:0\r\n");
    assert_string_equal(ask("CLIENT KILL ID 1"), "1<:0\r\n");
}

static void a_client_that_left_gets_nothing(void **state)
{
    (void)state;
    assert_int_equal(sim_server_connect(server), 2);
    ask_on(2, "SUBSCRIBE c d");
    ask_on(2, "SSUBSCRIBE c");
    assert_int_equal(sim_server_n_subscribers(server, SIM_VIEW("c"), false), 1);
    assert_true(sim_server_hears(server, 2, SIM_VIEW("c"), false));
    assert_false(sim_server_hears(server, 1, SIM_VIEW("c"), false));
    assert_int_equal(sim_server_n_channels(server), 3);
    sim_server_disconnect(server, 2);
    assert_string_equal(ask("PUBLISH c m"), "1<:0\r\n");
    assert_int_equal(sim_server_n_channels(server), 0);
    assert_string_equal(taken(&closed), "");
}

static void bad_bytes_close_the_connection(void **state)
{
    (void)state;
    assert_true(sim_server_command(server, conn, "*1\r\n:3\r\n", 8));
    assert_string_equal(taken(&sent), "1<-ERR Protocol error\r\n");
    assert_string_equal(taken(&closed), "1 closed;");
}

static void messages_come_in_the_order_of_subscription(void **state)
{
    (void)state;
    sim_server_connect(server);
    sim_server_connect(server);
    ask_on(3, "SUBSCRIBE c");
    ask_on(2, "SUBSCRIBE c");
    assert_string_equal(ask("EVAL |return redis.call('publish', 'c', 'm')| 0"),
                        "3<<*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"
                        "2<<*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"
                        "1<:2\r\n");
}

static void each_acknowledgement_is_a_frame(void **state)
{
    (void)state;
    assert_string_equal(ask("SUBSCRIBE c d"), "1<<*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
                                              "1<<*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n");
    assert_string_equal(ask("UNSUBSCRIBE"), "1<<*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n"
                                            "1<<*3\r\n$11\r\nunsubscribe\r\n$1\r\nd\r\n:0\r\n");
}

static void valkey_refuses_to_end_no_subscription(void **state)
{
    (void)state;
    sim_server_set_dialect(server, SIM_VALKEY_8);
    assert_string_equal(ask("UNSUBSCRIBE c"),
                        "1<-NOSUB 'unsubscribe' command executed not in subscribed mode\r\n");
    ask("SSUBSCRIBE s");
    assert_string_equal(ask("UNSUBSCRIBE c"), "1<<*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n");
}

static void hello_names_the_connection(void **state)
{
    (void)state;
    assert_non_null(strstr(ask("HELLO 2 SETNAME x"), "$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n"));
    assert_string_equal(ask("CLIENT GETNAME"), "1<$1\r\nx\r\n");
}

static void a_tracked_key_is_told_of_once(void **state)
{
    (void)state;
    assert_int_equal(sim_server_connect(server), 2);
    ask_on(2, "HELLO 3");
    assert_string_equal(ask_on(2, "CLIENT TRACKING ON"), "2<+OK\r\n");
    ask_on(2, "SUBSCRIBE c"); /* which version 3 permits beside other commands */
    assert_string_equal(ask_on(2, "PTTL k"), "2<:-2\r\n");
    assert_string_equal(ask("GET k"), "1<$-1\r\n");
    assert_string_equal(ask("SET k v"), "2<<>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n1<+OK\r\n");
    assert_string_equal(ask("DEL k"), "1<:1\r\n");
}

/* ---- what it does not know ---- */

static void what_is_unknown_is_noted(void **state)
{
    static const char *const lines[] = {
        "FOO",
        "EVAL |return redis.pcall('FOO')| 0",
        "EVAL |return pcall(redis.call, 'FOO')| 0",
        "EVAL |return cjson.encode(1)| 0",
        "EVAL |return redis.setresp(3)| 0",
        "EVAL |return {double = 1.5}| 0",
        "PEXPIRE k 1 LT",
        "SET k v GET",
        "CLIENT LIST",
        "INFO",
        NULL,
    };

    (void)state;
    sim_server_tolerate(server, true);
    assert_null(sim_server_unsupported(server));
    for (size_t i = 0; lines[i]; i++) {
        ask(lines[i]);
        if (!sim_server_unsupported(server)) {
            fail_msg("not noted: %s", lines[i]);
        }
        sim_server_reset(server, 1);
        conn = sim_server_connect(server);
    }
}

static void a_script_touches_the_keys_that_it_declares(void **state)
{
    static const char *const lines[] = {
        "EVAL |return redis.call('GET', 'other')| 1 key",
        "EVAL |return redis.pcall('DEL', KEYS[1], 'other')| 1 key",
        NULL,
    };

    (void)state;
    sim_server_tolerate(server, true);
    ask("EVAL |return redis.call('GET', 'other')| 1 key");
    assert_null(sim_server_unsupported(server));
    sim_server_want_keys(server, true);
    ask("EVAL |redis.call('PUBLISH', 'other', '') return redis.call('DEL', KEYS[1], KEYS[2])| 2 a "
        "b");
    ask("EVAL |--!df flags=allow-undeclared-keys\nreturn redis.call('GET', 'other')| 1 key");
    assert_null(sim_server_unsupported(server));
    for (size_t i = 0; lines[i]; i++) {
        ask(lines[i]);
        if (!sim_server_unsupported(server)) {
            fail_msg("not noted: %s", lines[i]);
        }
        sim_server_reset(server, 1);
        conn = sim_server_connect(server);
    }
}

/* ---- looking inside ---- */

static void the_checker_sees_keys_and_items(void **state)
{
    struct sim_key_info info = {0};
    struct sim_view value;

    (void)state;
    ask("HSET h a 1 b 2");
    ask("PEXPIRE h 50");
    ask("SET dead v PX 10");
    ask("ZADD z 7 m");
    set_time_ms(20);
    assert_true(sim_server_next_key(server, &info));
    assert_int_equal(info.type, SIM_HASH);
    assert_int_equal(info.pttl_ms, 30);
    assert_int_equal(info.n_items, 2);
    assert_memory_equal(sim_key_item(&info, 1).name.data, "b", 1);
    assert_memory_equal(sim_key_item(&info, 1).value.data, "2", 1);
    assert_true(sim_server_next_key(server, &info));
    assert_int_equal(info.type, SIM_ZSET);
    assert_int_equal(info.pttl_ms, -1);
    assert_true(sim_key_item(&info, 0).score > 6.9);
    assert_false(sim_server_next_key(server, &info));
    assert_true(sim_server_find_field(server, SIM_VIEW("h"), SIM_VIEW("a"), &value));
    assert_memory_equal(value.data, "1", 1);
    assert_false(sim_server_find_field(server, SIM_VIEW("z"), SIM_VIEW("m"), &value));
    assert_false(sim_server_find_key(server, SIM_VIEW("dead"), &info));
}

static void a_command_may_have_many_words(void **state)
{
    static const char *const words[] = {"DEL", "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8", "9",
                                        "10",  "11", "12", "13", "14", "15", "16", "17", NULL};

    (void)state;
    assert_true(sim_server_words(server, conn, words));
    assert_string_equal(taken(&sent), "1<:0\r\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_lives_through_its_last_millisecond, start, stop),
        cmocka_unit_test_setup_teardown(a_dead_key_is_no_key_for_any_command, start, stop),
        cmocka_unit_test_setup_teardown(a_step_of_the_clock_moves_the_end_of_leases, start, stop),
        cmocka_unit_test_setup_teardown(a_script_sees_one_time, start, stop),
        cmocka_unit_test_setup_teardown(a_command_may_have_many_words, start, stop),
        cmocka_unit_test_setup_teardown(a_flush_of_scripts_makes_them_unknown, start, stop),
        cmocka_unit_test_setup_teardown(a_restart_forgets_all_but_the_keys, start, stop),
        cmocka_unit_test_setup_teardown(a_restart_can_lose_the_keys, start, stop),
        cmocka_unit_test_setup_teardown(a_step_of_the_clock_changes_the_uptime, start, stop),
        cmocka_unit_test_setup_teardown(a_reset_server_is_as_a_new_one, start, stop),
        cmocka_unit_test_setup_teardown(a_killed_client_is_gone_at_once, start, stop),
        cmocka_unit_test_setup_teardown(a_client_that_left_gets_nothing, start, stop),
        cmocka_unit_test_setup_teardown(bad_bytes_close_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(messages_come_in_the_order_of_subscription, start, stop),
        cmocka_unit_test_setup_teardown(each_acknowledgement_is_a_frame, start, stop),
        cmocka_unit_test_setup_teardown(valkey_refuses_to_end_no_subscription, start, stop),
        cmocka_unit_test_setup_teardown(hello_names_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(a_tracked_key_is_told_of_once, start, stop),
        cmocka_unit_test_setup_teardown(what_is_unknown_is_noted, start, stop),
        cmocka_unit_test_setup_teardown(a_script_touches_the_keys_that_it_declares, start, stop),
        cmocka_unit_test_setup_teardown(the_checker_sees_keys_and_items, start, stop),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
