/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_TEST_CODES_H
#define RLOCK_TEST_CODES_H

/* Fails unless a call of the library returned this code; says what it said. */
#define assert_code(call, expected) assert_code_at((call), (expected), #call, __FILE__, __LINE__)
void assert_code_at(int code, int expected, const char *call, const char *file, int line);

#endif
