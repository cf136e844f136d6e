/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Async calls in place of those that wait: a program that is linked with async_calls.c and the
 * linker's --wrap for each function there begins them, and waits itself. What would be the calling
 * thread's is then of an id that the thread has for that.
 *
 * RLOCK_TEST_CALLS in the environment: not set, or empty: the calls are the library's own;
 * "async": async ones; "loop": the same, with clients that an event loop of the test runs.
 */
#ifndef RLOCK_TEST_ASYNC_CALLS_H
#define RLOCK_TEST_ASYNC_CALLS_H

enum test_calls { TEST_CALLS_BLOCKING, TEST_CALLS_ASYNC, TEST_CALLS_LOOP };

enum test_calls test_calls(void);

#endif
