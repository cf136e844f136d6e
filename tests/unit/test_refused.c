/* SPDX-License-Identifier: Apache-2.0 */
/* The slot map changes while the release of a doubtful attempt waits for its link. No server has
 * refused the release, so the client knows nothing about the attempt's copy. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

TEST(a_copy_stays_open_though_the_map_changes_before_its_release_is_sent)
{
    static struct alone_pair pair;
    struct rlock__core *core = &pair.alone.core;
    struct rlock__link *link;
    struct rlock__call call;

    alone_pair_open(&pair, NOW);
    link = alone_link(core);
    call = alone_call(&pair.alone, RLOCK__ACQUIRE);
    rlock__core_begin(core, &call, NOW);
    alone_carry(&link->pipeline);
    rlock__core_give_up(core, &call, RLOCK_ECANCELED, NOW); /* its release is not sent */
    assert_non_null(core->recovery.tickets);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
    pair.is_moved = true;
    rlock__core_rerouted(core, NOW);
    assert_non_null(core->recovery.tickets);
    assert_true(rlock__in_flight_may_run(&core->recovery.tickets->in_flight));
    alone_pair_close(&pair);
}
