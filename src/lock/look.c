/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks after a release: where waiters queue on the server, it wakes one of them alone. If that one
 * has died nobody goes on. So whoever released looks some time later whether the lock was taken,
 * and again until it was, or nobody waits. One row a lock: the latest release counts, so that a
 * lock that is busy costs nothing.
 */
#include <stdlib.h>

#include "lock/internal.h"

struct rlock__look {
    UT_hash_handle hh; /* by its lock's key */
    struct rlock__core *core;
    struct rlock__spec *spec;
    struct rlock__request *request;
    struct rlock__timer timer;
    max_align_t memo[]; /* the kind's own */
};

static void look_free(struct rlock__look *look)
{
    rlock__timer_unset(&look->core->timers, &look->timer);
    if (look->request != NULL) {
        look->request->subject = NULL;
    }
    if (look->hh.tbl != NULL) {
        HASH_DEL(look->core->looks, look);
    }
    (void)rlock__spec_unref(look->spec);
    free(look);
}

/* What a reply says of the queue: when to look again, or that there is no need. */
static void plan(struct rlock__look *look, const struct rlock__reply *reply, int64_t now)
{
    int64_t pause = look->spec->ops->read_look(reply, look->memo, now);

    if (pause == 0) {
        look_free(look);
    } else {
        rlock__timer_set(&look->core->timers, &look->timer, now + pause * RLOCK__MS);
    }
}

static void on_answer(struct rlock__request *request, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__look *look = request->subject;

    (void)rlock__request_free(request);
    if (look == NULL) {
        return;
    }
    look->request = NULL;
    if (reply == NULL || rlock__reply_is_error(reply)) { /* the waiters look for themselves */
        look_free(look);
    } else {
        plan(look, reply, now);
    }
}

static void on_timer(struct rlock__timer *timer, int64_t now)
{
    struct rlock__look *look =
        (struct rlock__look *)(void *)((char *)timer - offsetof(struct rlock__look, timer));
    struct rlock__flight *flight = &look->core->server.flight;
    struct rlock__ask ask = {.publish = "PUBLISH", .memo = look->memo, .now = now};

    if (look->request != NULL) {
        return;
    }
    look->request = flight->up ? rlock__request_new(on_answer, look) : NULL;
    if (look->request == NULL) {
        look_free(look);
        return;
    }
    look->spec->ops->look(look->spec, &ask, &look->request->cmd);
    look->request->resend = RLOCK__ONCE;
    rlock__flight_submit(flight, look->request, now);
}

static struct rlock__look *look_new(struct rlock__spec *spec)
{
    struct rlock__core *core = spec->core;
    struct rlock__look *look = calloc(1, sizeof(*look) + spec->ops->memo_size);

    if (look == NULL) {
        return NULL;
    }
    look->core = core;
    look->spec = rlock__spec_ref(spec);
    look->timer.fire = on_timer;
    HASH_ADD_KEYPTR(hh, core->looks, look->spec->key.at, look->spec->key.len, look);
    if (look->hh.tbl == NULL) {
        look_free(look);
        return NULL;
    }
    return look;
}

void rlock__look_after(struct rlock__spec *spec, const struct rlock__reply *reply, int64_t now)
{
    struct rlock__core *core = spec->core;
    struct rlock__look *look = NULL;

    if (spec->ops->look == NULL || core->closed) {
        return;
    }
    HASH_FIND(hh, core->looks, spec->key.at, spec->key.len, look);
    if (look == NULL && spec->ops->read_look(reply, NULL, now) != 0) {
        look = look_new(spec);
    }
    if (look != NULL) {
        memset(look->memo, 0, spec->ops->memo_size); /* a release begins anew */
        plan(look, reply, now);
    }
}

void rlock__looks_fini(struct rlock__core *core)
{
    struct rlock__look *look, *after;

    HASH_ITER(hh, core->looks, look, after) {
        look_free(look);
    }
}
