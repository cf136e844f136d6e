/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that rlock_init() makes empty, for languages without our macros. */
#include <rlock/leader.h>
#include <rlock/stats.h>

#include "support/test.h"

enum { BEFORE = 0x55, ROOM = 16384 };

/* Something that was used before, and what is left of it. */
union used {
    size_t size;
    struct rlock_client_opts client_opts;
    struct rlock_opts opts;
    struct rlock_take take;
    struct rlock_grant grant;
    struct rlock_info info;
    struct rlock_stats stats;
    unsigned char bytes[ROOM];
};

/* Whether nothing but its size is set, and nothing behind it was touched. */
static bool is_empty(const union used *used, size_t size)
{
    for (size_t i = sizeof(size); i < ROOM; i++) {
        if (used->bytes[i] != (i < size ? 0 : BEFORE)) {
            return false;
        }
    }
    return used->size == size;
}

#define CHECK_EMPTY(kind, size)                                                                    \
    do {                                                                                           \
        union used used_;                                                                          \
        memset(&used_, BEFORE, sizeof(used_));                                                     \
        rlock_init(&used_.kind, (size));                                                           \
        assert_true(is_empty(&used_, (size)));                                                     \
    } while (0)

TEST(a_struct_is_made_empty_with_its_size)
{
    CHECK_EMPTY(client_opts, sizeof(struct rlock_client_opts));
    CHECK_EMPTY(opts, sizeof(struct rlock_opts));
    CHECK_EMPTY(take, sizeof(struct rlock_take));
    CHECK_EMPTY(grant, sizeof(struct rlock_grant));
    CHECK_EMPTY(info, sizeof(struct rlock_info));
    CHECK_EMPTY(stats, sizeof(struct rlock_stats));
}

TEST(nothing_behind_an_older_programs_shorter_struct_is_touched)
{
    CHECK_EMPTY(client_opts, 32);
    CHECK_EMPTY(take, 16);
    CHECK_EMPTY(info, sizeof(size_t));
}

TEST(a_newer_programs_longer_struct_is_empty_to_its_end)
{
    CHECK_EMPTY(client_opts, sizeof(struct rlock_client_opts) + 64);
    CHECK_EMPTY(grant, sizeof(struct rlock_grant) + 64);
}

TEST(no_more_is_written_than_there_is)
{
    union used used;

    memset(&used, BEFORE, sizeof(used));
    rlock_init(&used.take, 1);
    assert_int_equal(used.bytes[0], 0);
    assert_int_equal(used.bytes[1], BEFORE);
}

TEST(the_macros_make_the_same)
{
    const struct rlock_grant grant = RLOCK_GRANT_INIT;
    const struct rlock_info info = RLOCK_INFO_INIT;
    const struct rlock_stats stats = RLOCK_STATS_INIT;
    struct rlock_stats empty_stats;
    struct rlock_grant empty_grant;
    struct rlock_info empty_info;

    rlock_init(&empty_grant, sizeof(empty_grant));
    rlock_init(&empty_info, sizeof(empty_info));
    assert_memory_equal(&grant, &empty_grant, sizeof(grant));
    rlock_init(&empty_stats, sizeof(empty_stats));
    assert_memory_equal(&stats, &empty_stats, sizeof(stats));
    assert_int_equal(info.size, sizeof(info));
    assert_true(!info.locked && !info.mine && info.ttl_ms == 0 && info.holders == 0);
    assert_true(info.count == 0 && info.pid == 0 && info.token == 0 && info.waiters == 0);
    assert_string_equal(info.holder, "");
    assert_string_equal(info.host, "");
    assert_string_equal(info.mode, "");
}

TEST(what_was_made_so_opens_a_client)
{
    struct rlock_client *client = NULL;
    struct rlock_client_opts opts;

    rlock_init(&opts, sizeof(opts));
    opts.url = "unix:///nowhere";
    assert_int_equal(rlock_client_open(&opts, &client), 0);
    assert_null(rlock_client_close(client));
}
