/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated server against a real one: the same commands, the same replies, byte for byte.
 *
 * RLOCK_SIM_SEED=n replays one random sequence, with all its commands printed; RLOCK_SIM_SEQUENCES
 * says how many there are otherwise.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random_commands.h"
#include "script_cases.h"
#include "twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SEQUENCES 150
#define COMMANDS_PER_SEQUENCE 200

static struct twin *twin;

static void need_twin(void)
{
    if (!twin || !twin_is_comparable(twin)) {
        print_message("needs redis 7.0 or valkey 8.0\n");
        skip();
    }
    sim_server_tolerate(twin_sim(twin), false);
    assert_true(twin_line(twin, 0, 0, "FLUSHALL", NULL));
}

static void need_exact_twin(void)
{
    need_twin();
    if (!twin_is_exact(twin)) {
        print_message("needs redis 7.0\n");
        skip();
    }
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name); /* NOLINT(concurrency-mt-unsafe): one thread */

    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- by chance ---- */

static bool run_sequence(uint64_t seed, bool verbose)
{
    struct random_command command = {.state = seed};
    bool is_same = twin_line(twin, 0, 0, "FLUSHALL", NULL);

    for (int i = 0; i < COMMANDS_PER_SEQUENCE && is_same; i++) {
        random_command_next(&command);
        if (verbose) {
            twin_print_command(&command.words);
        }
        is_same = twin_command(twin, 0, &command.words, command.rules);
        if (!is_same) {
            printf("command %d, RLOCK_SIM_SEED=%" PRIu64 " replays it\n", i, seed);
        }
    }
    random_command_fini(&command);
    return is_same;
}

static void random_commands_are_answered_alike(void **state)
{
    uint64_t seed = env_number("RLOCK_SIM_SEED", 0);
    uint64_t n = env_number("RLOCK_SIM_SEQUENCES", SEQUENCES);

    (void)state;
    need_twin();
    if (seed) {
        assert_true(run_sequence(seed, true));
        return;
    }
    assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
    for (uint64_t i = 0; i < n; i++) {
        assert_true(run_sequence(seed + i, false));
    }
}

/* ---- one by one ---- */

/* Each line is a script without keys and arguments. */
static void compare_scripts(const char *const *scripts)
{
    bool all_same = true;

    for (size_t i = 0; scripts[i]; i++) {
        struct sim_words words = {0};

        sim_words_add(&words, SIM_VIEW("EVAL"));
        sim_words_add(&words, (struct sim_view){scripts[i], strlen(scripts[i])});
        sim_words_add(&words, SIM_VIEW("0"));
        all_same = twin_command(twin, 0, &words, 0) && all_same;
        sim_words_fini(&words);
    }
    assert_true(all_same);
}

static void compare_lines(const char *const *lines)
{
    bool all_same = true;

    for (size_t i = 0; lines[i]; i++) {
        all_same = twin_line(twin, 0, 0, lines[i], NULL) && all_same;
    }
    assert_true(all_same);
}

static void values_are_converted_alike(void **state)
{
    (void)state;
    need_twin();
    compare_scripts(script_values);
}

static void errors_have_the_same_text(void **state)
{
    (void)state;
    need_exact_twin();
    sim_server_tolerate(twin_sim(twin), true); /* one command is none that anybody knows */
    compare_scripts(script_errors);
}

static const char *const plain_lines[] = {
    "PING",
    "PING x",
    "PING x y",
    "SELECT 0",
    "SELECT 99",
    "ROLE",
    "CLIENT GETNAME",
    "CLIENT SETNAME rlock:1:host:2",
    "CLIENT GETNAME",
    "CLIENT SETNAME \x01",
    "CLIENT",
    "CLIENT ID x",
    "CLIENT KILL ID 0",
    "CLIENT KILL ID x",
    "CLIENT KILL ID 999999",
    "HELLO 1",
    "HELLO x",
    "HELLO 4",
    "SCRIPT",
    "SCRIPT EXISTS",
    "SCRIPT FLUSH NOW",
    "SCRIPT FLUSH",
    "SCRIPT FLUSH ASYNC",
    "SCRIPT LOAD (",
    "SCRIPT LOAD return",
    "SCRIPT EXISTS 63143b6f8007b98c53ca2149822777b3566f9241 x",
    "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0",
    "EVALSHA 63143B6F8007B98C53CA2149822777B3566F9241 0",
    "SCRIPT FLUSH SYNC",
    "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0",
    "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 1",
    "EVALSHA short 0",
    "EVALSHA short 1",
    "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241",
    "EVAL return",
    "EVAL return 1",
    "EVAL return -1",
    "EVAL return x",
    "EVAL return 1 key arg",
    "PUBSUB",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB",
    "PUBSUB NUMSUB a b",
    "PUBSUB SHARDNUMSUB 0",
    "SCAN x",
    "SCAN -1",
    "SCAN 0 COUNT x",
    "SCAN 0 COUNT 0",
    "SCAN 0",
    "FLUSHALL x",
    "FLUSHALL SYNC",
    NULL,
};

static void plain_commands_are_answered_alike(void **state)
{
    (void)state;
    need_exact_twin();
    compare_lines(plain_lines);
}

/* ---- messages ---- */

static void check_line(size_t conn, const char *line)
{
    assert_true(twin_line(twin, conn, 0, line, NULL));
}

static void subscribers_get_the_same_frames(void **state)
{
    (void)state;
    need_twin();
    check_line(1, "SUBSCRIBE a b a");
    check_line(2, "SUBSCRIBE b");
    check_line(0, "PUBLISH a 1");
    check_line(0, "PUBLISH b 2");
    check_line(0, "PUBLISH c 3");
    check_line(0, "SPUBLISH a 4");
    check_line(0, "PUBSUB NUMSUB a b c");
    assert_true(twin_line(twin, 0, TWIN_UNORDERED, "PUBSUB CHANNELS", NULL));
    check_line(0, "PUBSUB CHANNELS a*");
    check_line(1, "PING");
    check_line(1, "PING x");
    check_line(1, "GET k");
    check_line(1, "UNSUBSCRIBE c");
    check_line(1, "SSUBSCRIBE a s");
    check_line(0, "SPUBLISH a 5");
    check_line(0, "PUBLISH a 6");
    check_line(0, "PUBSUB SHARDNUMSUB a b");
    check_line(1, "SUNSUBSCRIBE s");
    check_line(1, "SUNSUBSCRIBE");
    check_line(1, "SUNSUBSCRIBE");
    check_line(1, "UNSUBSCRIBE a");
    check_line(0, "PUBLISH a 7");
    check_line(1, "UNSUBSCRIBE");
    check_line(1, "UNSUBSCRIBE");
    check_line(1, "GET k");
    check_line(0, "PUBLISH b 8");
    check_line(2, "UNSUBSCRIBE b");
    check_line(0, "PUBSUB CHANNELS");
}

static void a_script_publishes_before_it_replies(void **state)
{
    static const char *const scripts[] = {
        "return {redis.call('publish', 'c', 1), redis.call('spublish', 'c', 2), "
        "redis.call('pubsub', 'numsub', 'c', 'd')}",
        NULL,
    };

    (void)state;
    need_twin();
    check_line(1, "SUBSCRIBE c");
    check_line(2, "SSUBSCRIBE c");
    compare_scripts(scripts);
    check_line(1, "UNSUBSCRIBE");
    check_line(2, "SUNSUBSCRIBE");
}

static int start(void **state)
{
    (void)state;
    twin = twin_new();
    if (twin) {
        print_message("%s\n", twin_version(twin));
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    twin = twin_free(twin);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_are_answered_alike),
        cmocka_unit_test(values_are_converted_alike),
        cmocka_unit_test(errors_have_the_same_text),
        cmocka_unit_test(plain_commands_are_answered_alike),
        cmocka_unit_test(subscribers_get_the_same_frames),
        cmocka_unit_test(a_script_publishes_before_it_replies),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, start, stop);
}
