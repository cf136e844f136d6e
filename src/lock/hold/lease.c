/* SPDX-License-Identifier: Apache-2.0 */
/* The lease that a renewal asks for, and whether it would extend the validity. */
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/hold/renew.h"

/* The lease of a renewal that is to change nothing. It ends the validity where it ends already: see
 * rlock__valid_until(). */
static int64_t lease_left(const struct rlock__grant *grant, int64_t now)
{
    int64_t left = grant->valid_until - now + grant->hold->spec->core->opts.margin_us;

    return left + rlock__max(2 * RLOCK__MS, left / 99); /* the validity is shorter by this */
}

static int64_t whole_lease(const struct rlock__hold *hold)
{
    bool renewed = hold->renewed_from != 0 || hold->renewals > 0;

    if (renewed) {
        return hold->spec->core->opts.renewed_lease_us;
    }
    return rlock__has_units(hold->spec) ? 0 : hold->provisional_us;
}

/* A level in flight counts. But units that an unlock gave up come back when their lease ends, even
 * if its release failed. */
uint32_t rlock__renewal_units(const struct rlock__grant *grant)
{
    const struct rlock__call *turn = grant->hold->turn;

    if (!grant->uneven) {
        return RLOCK__UNITS_MAX;
    }
    return turn != NULL && turn->kind == RLOCK__ACQUIRE &&
                   (turn->request != NULL || turn->acquire.look != NULL)
               ? rlock__call_units(turn)
               : 0;
}

int64_t rlock__renewal_lease(const struct rlock__grant *grant, int64_t now)
{
    int64_t lease = rlock__hold_is_renewed(grant->hold)
                        ? rlock__min(whole_lease(grant->hold), grant->held_until - now)
                        : lease_left(grant, now);

    return rlock__max(lease, rlock__extensions_lease(grant, now));
}

bool rlock__renewal_is_worth(struct rlock__grant *grant, int64_t now)
{
    int64_t whole = whole_lease(grant->hold), lease = rlock__renewal_lease(grant, now);

    if (grant->verifies || rlock__extensions_wait(grant) ||
        rlock__valid_until(grant->hold->spec->core, now, lease) > grant->valid_until) {
        return true;
    }
    grant->due = lease < whole /* the time that max_hold leaves only gets shorter */
                     ? RLOCK__NEVER
                     : grant->valid_until - 2 * (whole / 3);
    return false;
}

void rlock__renewal_note_late(const struct rlock__grant *grant, int64_t lease_us, int64_t now)
{
    struct rlock__server *server = grant->link->server;
    int64_t left = grant->valid_until - now;
    int64_t after_due = lease_us - server->core->opts.margin_us - lease_us / 3;
    char name[96];

    if (left < after_due / 3) {
        server->core->stats.late_renewals++;
        rlock__log_event(
            server->core, RLOCK_LOG_WARNING, rlock__about("renewal", server->address, 0), now,
            "lock %s: renewed late, %lld ms before it would have been lost (server %s)",
            rlock__spec_text(grant->hold->spec, name), (long long)(left / RLOCK__MS),
            server->address);
    }
}
