/* SPDX-License-Identifier: Apache-2.0 */
/* What tests in C++ have of the fixtures, whose own headers are C alone. Theirs is ground.hpp. */
#ifndef RLOCK_TEST_GROUND_H
#define RLOCK_TEST_GROUND_H

#include <rlock/rlock.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fixture;
struct test_server;
struct witness;

/* Runs a test on a fixture of one server. Returns NULL, or what failed: borrowed. */
typedef const char *ground_fn(struct fixture *f);

/* A test, listed before main() runs. */
struct ground_test {
    const char *name;
    ground_fn *fn;
};

/* Lists it; it must stay. */
void ground_list(const struct ground_test *test);

/* The options of a client of the fixture's server. */
void ground_fill(const struct fixture *f, struct rlock_client_opts *opts);
struct test_server *ground_server(const struct fixture *f);
struct witness *ground_witness(const struct fixture *f);
/* Waits until so many calls of the client wait for a lock. */
void ground_await_waiting(struct rlock_client *client, size_t n);

#ifdef __cplusplus
}
#endif
#endif
