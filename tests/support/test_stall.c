/* The witness of stalls and the runner, seen from inside a test that it runs, and from outside. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/run.h"
#include "support/stall_table.h"

/* What a run of the runner came to: its exit, and how often it ran the program. */
struct outcome {
    int status;
    int runs;
};

/* Runs this program's helper of that name beside a witness of its own. */
static struct outcome run(const char *helper)
{
    char path[300], command[1000], line[8] = "";
    struct outcome outcome;
    FILE *file;

    test_text(path, sizeof(path), "%s/runs", test_dir());
    (void)remove(path);
    test_text(command, sizeof(command),
              "RLOCK_TEST_RUNS=%s RLOCK_TEST_STALLED= '%s' '%s' %s 2>/dev/null", path,
              getenv("RLOCK_STALL_RUN"), getenv("RLOCK_SELF"), helper);
    outcome.status = system(command);
    outcome.status = WEXITSTATUS(outcome.status);
    file = fopen(path, "r");
    assert_non_null(file);
    for (outcome.runs = 0; fgets(line, sizeof(line), file) != NULL; outcome.runs++) {
    }
    (void)fclose(file);
    return outcome;
}

/* ---- What is run: each notes that it was, and returns whether its assertion held ---- */

static int count_run(void)
{
    FILE *file = fopen(getenv("RLOCK_TEST_RUNS"), "a");
    int n;

    TEST_CHECK(file != NULL);
    (void)fputs("run\n", file);
    (void)fclose(file);
    file = fopen(getenv("RLOCK_TEST_RUNS"), "r");
    for (n = 0; fgetc(file) != EOF; n++) {
    }
    (void)fclose(file);
    return n / 4;
}

/* As if a processor had stood still for the last 200 ms. */
static void stall(void)
{
    struct stall_table *table = test_stalls_table();

    TEST_CHECK(table != NULL);
    atomic_store(&table->processors[0].late_us[(test_now_us() - table->began_us) / STALL_BUCKET_US],
                 200000);
}

enum { FROZEN_US = 60000000, FREEZES = 30 };

/* A witness that wakes after a long stall, and notes it. */
static void *wake_late(void *arg)
{
    struct stall_table *table = arg;
    const unsigned own = table->n_processors - 1;
    const int64_t due_us = atomic_load(&table->processors[own].due_us);

    test_stalls_note(own, due_us, due_us + FROZEN_US);
    return NULL;
}

static bool is_there(int64_t since_us)
{
    return test_stalls_us(since_us) >= FROZEN_US - STALL_BUCKET_US;
}

/* Returns whether a stall was there whenever it was looked for. */
static bool is_always_there(struct stall_table *table)
{
    const int64_t since_us = test_now_us() - FROZEN_US;
    bool was_there = true;
    pthread_t thread;

    memset(&table->processors[table->n_processors - 1], 0, sizeof(table->processors[0]));
    atomic_store(&table->processors[table->n_processors - 1].due_us, since_us);
    TEST_CHECK(pthread_create(&thread, NULL, wake_late, table) == 0);
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        was_there = was_there && is_there(since_us);
    }
    return was_there && is_there(since_us);
}

static bool are_always_there(void)
{
    struct stall_table *table = test_stalls_table();
    bool were_there = true;

    TEST_CHECK(table != NULL);
    table->began_us -= FROZEN_US + STALL_BUCKET_US; /* as if the run had begun before the stall */
    table->n_processors++;
    for (int i = 0; i < FREEZES; i++) {
        were_there = were_there && is_always_there(table);
    }
    return were_there;
}

static int helper(const char *name)
{
    const int64_t began_us = test_now_us();
    const int times = count_run();

    if (strcmp(name, "plain") == 0) {
        return 1;
    }
    if (strcmp(name, "late") == 0) {
        return !test_in_time(began_us, 60000000, 1000);
    }
    if (strcmp(name, "stalled") == 0) {
        stall();
        return !test_in_time(began_us, 150000, 1000);
    }
    if (strcmp(name, "stalled_once") == 0 && times == 1) {
        stall();
        return !test_in_time(began_us, 150000, 1000);
    }
    if (strcmp(name, "stalled_and_late") == 0) {
        stall();
        (void)test_in_time(began_us, 150000, 1000);
        return !test_in_time(began_us, 60000000, 1000);
    }
    if (strcmp(name, "expired_once") == 0 && times == 1) {
        stall();
        return !test_expired(500000);
    }
    if (strcmp(name, "expired") == 0) {
        stall();
        return !test_expired(700000);
    }
    if (strcmp(name, "endless") == 0) {
        (void)pause();
    }
    if (strcmp(name, "noting") == 0) {
        return !are_always_there();
    }
    if (strcmp(name, "never") == 0) {
        stall();
        return !TEST_EVENTUALLY(false, 10);
    }
    return 0;
}

/* ---- Tests ---- */

static void a_failure_that_is_no_matter_of_time_is_not_run_again(void **state)
{
    const struct outcome outcome = run("plain");

    (void)state;
    assert_int_equal(outcome.status, 1);
    assert_int_equal(outcome.runs, 1);
}

static void what_is_late_by_more_than_the_stalls_has_failed(void **state)
{
    const struct outcome outcome = run("late");

    (void)state;
    assert_int_equal(outcome.status, 1);
    assert_int_equal(outcome.runs, 1);
}

static void what_the_stalls_excuse_is_run_again_three_times_and_then_has_failed(void **state)
{
    const struct outcome outcome = run("stalled");

    (void)state;
    assert_int_equal(outcome.status, 1);
    assert_int_equal(outcome.runs, 4);
}

static void the_last_run_counts(void **state)
{
    const struct outcome outcome = run("stalled_once");

    (void)state;
    assert_int_equal(outcome.status, 0);
    assert_int_equal(outcome.runs, 2);
}

static void an_excuse_covers_no_other_failure(void **state)
{
    const struct outcome outcome = run("stalled_and_late");

    (void)state;
    assert_int_equal(outcome.status, 1);
    assert_int_equal(outcome.runs, 1);
}

static void a_stall_of_a_third_of_the_lease_excuses_its_end(void **state)
{
    const struct outcome once = run("expired_once");
    const struct outcome longer = run("expired");

    (void)state;
    assert_int_equal(once.status, 0);
    assert_int_equal(once.runs, 2);
    assert_int_equal(longer.status, 1);
    assert_int_equal(longer.runs, 1);
}

static void a_test_that_does_not_end_is_killed(void **state)
{
    struct outcome outcome;

    (void)state;
    assert_int_equal(setenv("RLOCK_TEST_LIMIT_S", "1", 1), 0);
    outcome = run("endless");
    assert_int_equal(unsetenv("RLOCK_TEST_LIMIT_S"), 0);
    assert_int_equal(outcome.status, 124);
    assert_int_equal(outcome.runs, 1);
}

static void what_never_comes_is_not_late(void **state)
{
    const struct outcome outcome = run("never");

    (void)state;
    assert_int_equal(outcome.status, 1);
    assert_int_equal(outcome.runs, 1);
}

/* When a machine goes on, a test may look before the witness has noted the stall. */
static void a_stall_counts_while_the_witness_notes_it(void **state)
{
    const struct outcome outcome = run("noting");

    (void)state;
    assert_int_equal(outcome.status, 0);
}

/* A program that does not sleep is no stall of the machine: the witness comes in beside it. */
static void the_witness_sees_stalls_of_the_machine_alone(void **state)
{
    const int64_t began_us = test_now_us();

    (void)state;
    while (test_elapsed_us(began_us) < 200000) {
    }
    assert_true(test_stalls_us(began_us) < 150000 || test_missed(began_us, 1));
    assert_true(test_stalls_us(test_now_us() + 1000000) == 0 || test_missed(began_us, 1));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_that_is_no_matter_of_time_is_not_run_again),
        cmocka_unit_test(what_is_late_by_more_than_the_stalls_has_failed),
        cmocka_unit_test(what_the_stalls_excuse_is_run_again_three_times_and_then_has_failed),
        cmocka_unit_test(the_last_run_counts),
        cmocka_unit_test(an_excuse_covers_no_other_failure),
        cmocka_unit_test(a_stall_of_a_third_of_the_lease_excuses_its_end),
        cmocka_unit_test(a_test_that_does_not_end_is_killed),
        cmocka_unit_test(what_never_comes_is_not_late),
        cmocka_unit_test(a_stall_counts_while_the_witness_notes_it),
        cmocka_unit_test(the_witness_sees_stalls_of_the_machine_alone),
    };

    if (getenv("RLOCK_TEST_RUNS") != NULL) {
        return helper(argv[1]);
    }
    (void)setenv("RLOCK_SELF", argv[0], 1);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
