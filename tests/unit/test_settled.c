/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server knows who hears a channel: not where keys have come from another one of late. */
#include <string.h>

#include "lock/server/route.h"
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static enum rlock__redirect redirect(struct rlock__core *core, const struct rlock__link *link,
                                     const struct rlock__reply *reply,
                                     struct rlock__server **ret_server)
{
    (void)core;
    (void)link;
    (void)reply;
    (void)ret_server;
    return RLOCK__NO_REDIRECT;
}

static void assert_settled(const struct alone_scene *s, int64_t now, const char *where)
{
    assert_true(rlock__bytes_equal(rlock__settled(&s->server, now), rlock__bytes_of(where)));
}

static void close_scene(struct alone_scene *s)
{
    rlock__core_fini(&s->core);
    (void)rlock__spec_unref(s->spec);
}

TEST(one_server_knows_who_hears_a_channel)
{
    static struct alone_scene s;

    alone_open(&s, NOW);
    assert_settled(&s, NOW, "");
    close_scene(&s);
}

TEST(a_primary_that_took_another_ones_place_knows_after_ten_seconds)
{
    static struct alone_scene s;

    alone_open(&s, NOW);
    rlock__core_rerouted(&s.core, NOW);
    assert_settled(&s, NOW + 9 * RLOCK__SECOND, "-");
    assert_settled(&s, NOW + 10 * RLOCK__SECOND, "");
    close_scene(&s);
}

TEST(a_server_that_restarted_knows_after_ten_seconds)
{
    static struct alone_scene s;

    alone_open(&s, NOW);
    rlock__core_found(&s.server, "one", 100, NOW);
    assert_settled(&s, NOW, "");
    rlock__core_found(&s.server, "two", 1, NOW);
    assert_settled(&s, NOW, "-");
    assert_settled(&s, NOW + 10 * RLOCK__SECOND, "");
    close_scene(&s);
}

TEST(a_node_of_a_cluster_knows_by_sharded_channels_alone)
{
    static struct alone_scene s;

    alone_open(&s, NOW);
    s.core.driver.redirect = redirect;
    rlock__server_found_version(&s.server, 7);
    assert_settled(&s, NOW, "-"); /* which node it is is not known */
    s.server.id = "node";
    assert_settled(&s, NOW, "node");
    s.core.opts.announces_both = true; /* some hear plain ones, anywhere */
    assert_settled(&s, NOW, "-");
    s.core.opts.announces_both = false;
    rlock__server_found_version(&s.server, 6);
    assert_settled(&s, NOW, "-");
    close_scene(&s);
}
