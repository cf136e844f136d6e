/* The properties, which kinds they are played with, and what a Redisson is known to lack. */
#include "interop.h"

#include <string.h>

static bool is_reentrant(const struct kind *kind)
{
    return kind->is_reentrant;
}

static bool is_multi(const struct kind *kind) /* of one sort of members: once will do */
{
    return kind_is_group(kind) && !kind_is_redlock(kind) && kind->label == NULL;
}

static bool is_single(const struct kind *kind)
{
    return !kind_is_group(kind);
}

static bool is_nonreentrant(const struct kind *kind)
{
    return !kind->is_reentrant;
}

static bool is_fenced(const struct kind *kind)
{
    return kind->is_fenced;
}

static bool is_fair(const struct kind *kind)
{
    return kind->is_fair;
}

static bool is_shared(const struct kind *kind)
{
    return kind->is_shared;
}

static bool shares_hash(const struct kind *kind)
{
    return kind->shares_hash;
}

const struct property interop_properties[] = {
    {"exclusion", interop_exclusion, NULL, EVERYWHERE, true},
    {"wake-up", interop_wake_up, NULL, EVERYWHERE, true},
    {"reshard", interop_reshard, NULL, IN_CLUSTERS, true},
    {"failover", interop_failover, NULL, WITH_REPLICAS, true},
    {"crowd", interop_crowd, NULL, EVERYWHERE, false},
    {"re-entry", interop_reentry, is_reentrant, EVERYWHERE, false},
    {"no re-entry", interop_reacquire, is_nonreentrant, EVERYWHERE, false},
    {"tokens", interop_tokens, is_fenced, EVERYWHERE, false},
    {"counter", interop_witness, kind_is_group, EVERYWHERE, false},
    {"opposite order", interop_order_of_members, is_multi, EVERYWHERE, false},
    {"member wanted", interop_member, kind_is_group, EVERYWHERE, false},
    {"all or nothing", interop_all_or_nothing, kind_is_group, EVERYWHERE, false},
    {"member forced", interop_member_forced, kind_is_group, EVERYWHERE, false},
    {"taker killed", interop_taker_crash, kind_is_group, EVERYWHERE, false},
    {"minority down", interop_minority, kind_is_redlock, EVERYWHERE, false},
    {"no quorum", interop_no_quorum, kind_is_redlock, EVERYWHERE, false},
    {"order", interop_order, is_fair, EVERYWHERE, true},
    {"giving up", interop_giving_up, is_fair, EVERYWHERE, false},
    {"readers", interop_readers, is_shared, EVERYWHERE, true},
    {"downgrade", interop_downgrade, is_shared, EVERYWHERE, false},
    {"reader killed", interop_reader_crash, is_shared, EVERYWHERE, false},
    {"queries", interop_queries, is_single, EVERYWHERE, false},
    {"lease expiry", interop_expiry, NULL, EVERYWHERE, false},
    {"force-unlock", interop_force, is_single, EVERYWHERE, false},
    {"watchdog", interop_watchdog, NULL, EVERYWHERE, false},
    {"holder stalled", interop_stall, NULL, EVERYWHERE, false},
    {"holder killed", interop_crash, NULL, EVERYWHERE, false},
    {"waiter killed", interop_waiter_crash, NULL, EVERYWHERE, false},
    {"beside RLock", interop_beside, shares_hash, EVERYWHERE, false},
    {"odd names", interop_names, is_single, EVERYWHERE, false},
    {"key prefix", interop_prefix, is_single, EVERYWHERE, false},
    {"database", interop_database, is_single, NOT_IN_CLUSTERS, false},
    {"state", interop_state, NULL, NOT_IN_CLUSTERS, false},
};
const size_t interop_n_properties = sizeof(interop_properties) / sizeof(interop_properties[0]);

/* What a Redisson is known not to do, with itself neither: not played. docs/interop.md tells. */
static const struct known {
    const char *version; /* how it begins; "" is all */
    const char *kind;
    const char *property;
    bool waits; /* only as the one who waits */
} known[] = {
    {"3.16.", "fair", "key prefix", false},
    {"3.16.", "fair", "holder stalled", true}, /* it may sleep until the next message */
    {"3.16.", "fair", "holder killed", true},  /* the same */
    {"3.16.", "read", "key prefix", false},
    {"3.16.", "write", "key prefix", false},
    {"", "write", "crowd", false},
    {"", "read", "crowd", false}, /* its writers stand in the crowd */
};

bool property_is_known(const struct property *property, const char *version,
                       const struct pair *pair)
{
    bool is = false;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        is = is || (strncmp(version, known[i].version, strlen(known[i].version)) == 0 &&
                    strcmp(pair->kind->name, known[i].kind) == 0 &&
                    strcmp(property->name, known[i].property) == 0 &&
                    !(known[i].waits && pair->waiter->is_ours));
    }
    return is;
}
