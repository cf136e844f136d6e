/* SPDX-License-Identifier: Apache-2.0 */
/* Permits and semaphores under NAME, and what is on the server of one. */
#ifndef RLOCK_TEST_PERMITS_H
#define RLOCK_TEST_PERMITS_H

#include "support/clients.h"

#define UNITS 3 /* of a semaphore without other options */
#define FREE "GET " NAME
#define PERMITS "{" NAME "}:timeout"
#define RECORDS "{" NAME "}:rlock-permits" /* of a semaphore */
#define OUT "ZCARD " PERMITS

static inline int permits_new(struct rlock_client *client, const char *name,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    return rlock_permits_new(client, name, opts != NULL ? opts : RLOCK_OPTS(.units = UNITS),
                             ret_lock);
}

static const struct kind kind_permits = {"permits", permits_new, permits_new, 0};

static inline int semaphore_new(struct rlock_client *client, const char *name,
                                const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    return rlock_semaphore_new(client, name, opts != NULL ? opts : RLOCK_OPTS(.units = UNITS),
                               ret_lock);
}

static const struct kind kind_semaphore = {"semaphore", semaphore_new, semaphore_new, 0};

#define PERMITS_TEST(name, f, ...) FIXTURE_WITH_TEST(name, f, .kind = &kind_permits, __VA_ARGS__)
#define SEMAPHORE_TEST(name, f, ...)                                                               \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_semaphore, __VA_ARGS__)

static inline int take(struct rlock_handle *lock, uint64_t owner, int64_t units)
{
    return rlock_lock_for(lock, 0, RLOCK_TAKE(.owner = owner, .units = units), NULL);
}

static inline void expect_free(const struct fixture *f, int64_t left, int64_t out)
{
    assert_int_equal(test_server_int(f->server, FREE), left);
    assert_int_equal(
        test_server_int(f->server, f->kind == &kind_semaphore ? "ZCARD " RECORDS : OUT), out);
}

static inline void expect_info(struct rlock_handle *lock, int64_t units, int64_t left, size_t out)
{
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_code(rlock_inspect(lock, &info), 0);
    assert_int_equal(info.units, units);
    assert_int_equal(info.units_free, left);
    assert_int_equal(info.holders, out);
}

/* The number stays for ever: the test deletes it. */
static inline void tidy_up(const struct fixture *f, int64_t left)
{
    expect_free(f, left, 0);
    free(test_server_cmd(f->server, "DEL " NAME));
}

#endif
