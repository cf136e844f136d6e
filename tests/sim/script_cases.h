/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts without keys and arguments, for test_keyspace.c. Each list ends with NULL. */
#ifndef RLOCK_TESTS_SIM_SCRIPT_CASES_H
#define RLOCK_TESTS_SIM_SCRIPT_CASES_H

/* Every value that a script can return or give to a command, and every shape of it. */
extern const char *const script_values[];

/* Every way to fail: in the compiler, in Lua, in redis.call, in a command. */
extern const char *const script_errors[];

#endif
