/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/hold/recent.h"

#include <assert.h>
#include <stdlib.h>

#include "lock/hold/hold.h"
#include "lock/hold/recovery.h"
#include "lock/server/route.h"

struct rlock__recent {
    struct rlock__spec *spec; /* NULL: none */
    uint64_t number;
    const struct rlock__link *link; /* the link of the release */
    unsigned life;                  /* the life of that link's server */
    int64_t at;
    int64_t until; /* until then another server may have the number; 0: none has */
};

/* How many entries are filled. The memory behind them is not even cleared. */
static size_t filled(const struct rlock__core *core)
{
    assert(core->recovery.n_recent == 0 || core->recovery.recent != NULL);
    return core->recovery.n_recent < RLOCK__RECENT_MAX ? core->recovery.n_recent
                                                       : RLOCK__RECENT_MAX;
}

void rlock__recent_add(const struct rlock__link *link, struct rlock__spec *spec, uint64_t number,
                       bool replaced, int64_t now)
{
    struct rlock__core *core = spec->core;
    struct rlock__recent *entry;

    assert(link->server->core == core);
    if (core->recovery.recent == NULL) {
        core->recovery.recent = malloc(RLOCK__RECENT_MAX * sizeof(*core->recovery.recent));
        core->recovery.n_recent = 0;
    }
    if (core->recovery.recent == NULL || core->closed) {
        return;
    }
    entry = &core->recovery.recent[core->recovery.n_recent % RLOCK__RECENT_MAX];
    if (core->recovery.n_recent++ >= RLOCK__RECENT_MAX) {
        (void)rlock__spec_unref(entry->spec);
    }
    *entry = (struct rlock__recent){.spec = rlock__spec_ref(spec),
                                    .number = number,
                                    .link = link,
                                    .life = link->server->life,
                                    .at = now,
                                    .until = replaced ? now + core->opts.renewed_lease_us : 0};
}

/* Whether the key's server may lack this release. */
static bool is_unknown(const struct rlock__recent *entry, int64_t now)
{
    const struct rlock__link *link = entry->link;
    bool changed = link != rlock__route(entry->spec) || entry->life != link->server->life;

    assert(entry->at <= now);
    return changed &&
           (now < entry->until || entry->at >= link->pipeline.heard_at - RLOCK__RECENT_US);
}

void rlock__recent_repeat(struct rlock__core *core, int64_t now)
{
    for (size_t i = 0; i < filled(core); i++) {
        struct rlock__recent *entry = &core->recovery.recent[i];

        if (entry->spec != NULL && is_unknown(entry, now)) {
            struct rlock__in_flight set = {.replaced = now < entry->until};

            assert(entry->spec->core == core);
            assert(rlock__hold_by_number(core, entry->number) == NULL); /* nobody holds it */
            rlock__recover_released(entry->spec, entry->number, set, now);
            entry->spec = rlock__spec_unref(entry->spec);
        }
    }
}

void rlock__recent_fini(struct rlock__core *core)
{
    for (size_t i = 0; i < filled(core); i++) {
        (void)rlock__spec_unref(core->recovery.recent[i].spec);
    }
    free(core->recovery.recent);
    core->recovery.recent = NULL;
    core->recovery.n_recent = 0;
}
