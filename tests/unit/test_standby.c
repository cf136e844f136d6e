/* SPDX-License-Identifier: Apache-2.0 */
/* What Sentinels say of a replica, and how many of them must say it. */
#include "support/test.h"
#include "topology/standby.h"

#define CONFIGURED 3

/* SENTINEL REPLICAS of one replica. */
static struct rlock__standbys says(const char *flags, const char *priority, const char *down_ms)
{
    const char *const fields[] = {
        "name", "10.0.0.1:6379",         "ip",    "10.0.0.1",       "port",  "6379", "flags",
        flags,  "master-link-down-time", down_ms, "slave-priority", priority};
    struct rlock__value values[sizeof(fields) / sizeof(fields[0])];
    struct rlock__reply reply = {
        .v = values, .n = sizeof(fields) / sizeof(fields[0]), .is_array = true};
    struct rlock__standbys said;

    for (size_t i = 0; i < reply.n; i++) {
        values[i] = (struct rlock__value){
            .type = RLOCK__REPLY_STR, .str = fields[i], .len = strlen(fields[i])};
    }
    rlock__standbys_read(&reply, &said);
    assert_true(said.is_known);
    assert_int_equal(said.n, 1);
    assert_string_equal(said.each[0].place, "10.0.0.1:6379");
    return said;
}

/* What comes of it when so many say the second, and the others the first. */
static struct rlock__standby merged(struct rlock__standbys first, struct rlock__standbys second,
                                    size_t n)
{
    const struct rlock__standbys *said[CONFIGURED];
    struct rlock__standbys all;

    for (size_t i = 0; i < CONFIGURED; i++) {
        said[i] = i < n ? &second : &first;
    }
    rlock__standbys_merge(said, CONFIGURED, CONFIGURED, &all);
    assert_int_equal(all.n, 1);
    return all.each[0];
}

TEST(a_replica_is_held_down_by_most_sentinels_alone)
{
    struct rlock__standbys well = says("slave", "100", "0"),
                           down = says("s_down,slave", "100", "0");

    assert_false(merged(well, down, 1).is_down);
    assert_true(merged(well, down, 2).is_down);
    assert_false(merged(well, down, 2).is_free);
    assert_true(merged(well, down, 1).is_free);
}

TEST(a_replica_that_nobody_promotes_is_barred_by_most_sentinels_alone)
{
    struct rlock__standbys well = says("slave", "100", "0"), barred = says("slave", "0", "0");

    assert_false(merged(well, barred, 1).is_barred);
    assert_true(merged(well, barred, 2).is_barred);
}

TEST(a_replica_has_no_link_if_most_sentinels_have_heard_so_for_5_s)
{
    struct rlock__standbys well = says("slave", "100", "0"), cut = says("slave", "100", "5000");

    assert_false(merged(well, cut, 1).is_unlinked);
    assert_true(merged(well, cut, 2).is_unlinked);
    assert_false(merged(well, says("slave", "100", "4000"), 3).is_unlinked);
    assert_true(merged(well, says("slave", "100", "-1000"), 3).is_unlinked); /* it never had one */
}
