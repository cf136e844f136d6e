/* SPDX-License-Identifier: Apache-2.0 */
/* The slot map changes while the release of a doubtful attempt waits for its link. No server has
 * refused it, so nothing is known of the attempt's copy. */
#include "support/alone.h"
#include "support/test.h"

#define NOW (1000 * RLOCK__SECOND)

static struct scene {
    struct alone_scene alone;
    struct rlock__server other;
    struct rlock__server *owner; /* the server that has the key */
} scene;

static struct rlock__server *route(struct rlock__core *core, const struct rlock__spec *spec)
{
    (void)core;
    (void)spec;
    return scene.owner;
}

static enum rlock__redirect redirect(struct rlock__core *core, const struct rlock__link *link,
                                     const struct rlock__reply *reply,
                                     struct rlock__server **ret_server)
{
    (void)core;
    (void)link;
    (void)reply;
    *ret_server = scene.owner;
    return RLOCK__MOVED;
}

TEST(a_copy_stays_open_though_the_map_changes_before_its_release_is_sent)
{
    struct scene *s = &scene;
    struct rlock__call call;
    struct rlock__link *link;

    scene = (struct scene){.owner = &scene.alone.server};
    alone_open(&s->alone, NOW);
    s->alone.core.driver.route = route;
    s->alone.core.driver.redirect = redirect;
    s->alone.core.several = true;
    s->other.address = "other";
    rlock__core_add_server(&s->alone.core, &s->other, 1, 0);
    link = alone_link(&s->alone.core);
    call = alone_call(&s->alone, RLOCK__ACQUIRE);
    rlock__core_begin(&s->alone.core, &call, NOW);
    alone_carry(&link->pipeline);
    rlock__core_give_up(&s->alone.core, &call, RLOCK_ECANCELED, NOW); /* its release is not sent */
    assert_non_null(s->alone.core.recovery.orphans);
    rlock__core_link_down(link, link->pipeline.gen, RLOCK_ECONN, false, "cut", NOW);
    s->owner = &s->other;
    rlock__core_rerouted(&s->alone.core, NOW);
    assert_non_null(s->alone.core.recovery.orphans);
    assert_true(rlock__copies_may_run(&s->alone.core.recovery.orphans->copies));
    rlock__core_abandon(&s->alone.core);
    rlock__core_fini(&s->alone.core);
    (void)rlock__spec_unref(s->alone.spec);
}
