/* SPDX-License-Identifier: Apache-2.0 */
/* What comes of all queries about a lock. */
#include "base/clock.h"
#include "client/query.h"

/* Why it failed names the lock. */
static int fail(const struct rlock__query *query)
{
    char name[96];

    rlock__detail("lock %s: %s", rlock__text(query->spec->name, name, sizeof(name)),
                  query->texts.detail);
    return rlock__failed(query->code, &query->texts.facts);
}

/* The first member that somebody holds speaks for the whole. A member that cannot be asked counts
 * as held, in the same way as for a call that takes it. ret_first: that member; NULL if none is
 * held. */
int rlock__query_sum_inspected(const struct rlock__inquiry *inquiry, struct rlock_info *ret_info,
                               const struct rlock__query **ret_first)
{
    const struct rlock_handle *lock = inquiry->lock;
    size_t held = 0, failed = 0;
    int code = 0;

    *ret_first = NULL;
    *ret_info = (struct rlock_info){.size = sizeof(*ret_info), .ttl_ms = -2};
    for (size_t i = 0; i < rlock__lock_n(lock); i++) {
        const struct rlock__query *query = &inquiry->queries[i];

        if (query->code != 0) {
            code = fail(query);
            failed++;
        } else if (query->info.locked && held++ == 0) {
            *ret_first = query;
        }
    }
    if (lock->group == NULL) {
        *ret_info = inquiry->queries[0].info;
        return code;
    }
    if (*ret_first != NULL) {
        *ret_info = (*ret_first)->info;
    }
    ret_info->holders = held;
    ret_info->locked = held + failed > rlock__lock_spare(lock);
    return failed > rlock__lock_spare(lock) ? code : 0;
}

/* All that can be opened were; the first error is the whole's. */
int rlock__query_sum_forced(const struct rlock__inquiry *inquiry, bool *ret_was_locked)
{
    int code = 0;

    *ret_was_locked = false;
    for (size_t i = 0; i < rlock__lock_n(inquiry->lock); i++) {
        const struct rlock__query *query = &inquiry->queries[i];

        code = code == 0 && query->code != 0 ? fail(query) : code;
        *ret_was_locked |= query->opened && query->info.locked;
    }
    return code;
}

void rlock__query_trace(const struct rlock__inquiry *inquiry, struct rlock__tracing *tracing)
{
    const struct rlock_handle *lock = inquiry->lock;

    if (tracing == NULL) {
        return;
    }
    for (size_t i = 0; i < rlock__lock_n(lock); i++) {
        tracing->requests += inquiry->queries[i].commands;
    }
    tracing->ended_at = rlock__now_us();
    tracing->server_us = tracing->ended_at - tracing->begun_at;
    tracing->server = lock->group == NULL ? inquiry->queries[0].call.link->server->address : "";
}
