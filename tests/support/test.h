/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test is written once, by its definition:
 *
 *     TEST(what_happens)
 *     {
 *         assert_true(…);
 *     }
 *
 * ctest has it as <program>.what_happens. The program's main function is here: it runs the tests of
 * the file, or the one whose name is its argument. A file with these macros is a program of its
 * own.
 */
#ifndef RLOCK_TEST_TEST_H
#define RLOCK_TEST_TEST_H

/* cmocka.h wants the first five of these before it; the tests want most of the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A test that needs nothing before it and leaves nothing. */
#define TEST(name) TEST_BETWEEN(NULL, NULL, name)

/* A test between a setup and a teardown of cmocka's, each of which may be NULL. */
#define TEST_BETWEEN(set_up, tear_down, name)                                                      \
    static void name(void);                                                                        \
    TEST_LIST(name, set_up, tear_down)                                                             \
    {                                                                                              \
        (void)state;                                                                               \
        name();                                                                                    \
    }                                                                                              \
    static void name(void)

/* The same where the test is given what the setup made, as a parameter "struct thing *thing". */
#define TEST_WITH(set_up, tear_down, name, parameter)                                              \
    static void name(parameter);                                                                   \
    TEST_LIST(name, set_up, tear_down)                                                             \
    {                                                                                              \
        name(*state);                                                                              \
    }                                                                                              \
    static void name(parameter)

/* A test of a thing that it is given: a `type` that the expression begin makes, and the expression
 * end ends, unless the test has failed. Both know it as the pointer `thing`, as the test does. */
#define TEST_AROUND(name, type, thing, begin, end)                                                 \
    static void name(type *thing);                                                                 \
    TEST_LIST(name, NULL, NULL)                                                                    \
    {                                                                                              \
        type whole, *const thing = &whole;                                                         \
                                                                                                   \
        (void)state;                                                                               \
        begin;                                                                                     \
        name(thing);                                                                               \
        end;                                                                                       \
    }                                                                                              \
    static void name(type *thing)

/* Not for tests themselves: lists a test, and begins the function that cmocka runs. */
#define TEST_LIST(name, set_up, tear_down)                                                         \
    static void name##_run(void **state);                                                          \
    __attribute__((constructor)) static void name##_list(void)                                     \
    {                                                                                              \
        test_list(&(struct CMUnitTest){#name, name##_run, set_up, tear_down, NULL});               \
    }                                                                                              \
    static void name##_run(void **state)

void test_list(const struct CMUnitTest *test);

#endif
