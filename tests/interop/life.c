/* Properties of leases that are renewed, and of processes that stop renewing. */
#include "interop.h"

#include "support/run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A lease as the other side sees it. */
struct watched {
    int64_t ttl_ms, least_ttl_ms;
    int rises;
};

static void watch(struct pair *pair, struct watched *watched)
{
    const int64_t ttl = pair_number(pair, pair->waiter, "b", "ttl");

    watched->rises += ttl > watched->ttl_ms + 100;
    watched->ttl_ms = ttl;
    watched->least_ttl_ms = ttl < watched->least_ttl_ms ? ttl : watched->least_ttl_ms;
}

/* Watches the lease, or each of a group's members, for `ms`: how often it went up, and its
 * least; of members, what is worst of any. */
static int count_renewals(struct pair *pair, int64_t ms, int64_t *ret_least_ttl_ms)
{
    const size_t n = kind_is_group(pair->kind) ? pair->kind->n_members : 1;
    const int64_t end_us = test_now_us() + ms * 1000;
    struct watched watched[MAX_MEMBERS];
    int rises = INT32_MAX;

    for (size_t i = 0; i < n; i++) {
        watched[i] = (struct watched){.ttl_ms = INT32_MAX, .least_ttl_ms = INT32_MAX};
    }
    while (test_pause_until(end_us)) {
        for (size_t i = 0; i < n; i++) {
            watch(kind_is_group(pair->kind) ? pair_member(pair, i) : pair, &watched[i]);
        }
        usleep(10000);
    }
    pair_whole(pair);
    *ret_least_ttl_ms = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        rises = watched[i].rises < rises ? watched[i].rises : rises;
        *ret_least_ttl_ms = watched[i].least_ttl_ms < *ret_least_ttl_ms ? watched[i].least_ttl_ms
                                                                        : *ret_least_ttl_ms;
    }
    return rises;
}

bool interop_watchdog(struct pair *pair)
{
    int64_t least_ms = 0;

    pair->client = "short";
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    const int waiting = pair_tell(pair, pair->waiter, "a", "lock 0");
    const int rises = count_renewals(pair, 3 * SHORT_MS / 2, &least_ms);
    EXPECT(pair, rises >= 2); /* four, where nothing is late; without them it had ended */
    EXPECT(pair, least_ms > 0);
    EXPECT(pair, !peer_has_answered(pair->waiter->peer, waiting));
    EXPECT(pair, pair_holds(pair, pair->holder, "a", true));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PROMPT_MS).ok);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    /* and nobody renews any more: a lease that is taken now runs down */
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 500 6000", "true"));
    EXPECT(pair, count_renewals(pair, SHORT_MS / 2, &least_ms) == 0);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    return true;
}

/* A lease that nobody renews any more: what was left of it, asked for after `since_us`. It may have
 * been renewed once more since then, so it ends at that time or later. */
struct remains {
    int64_t since_us, ttl_ms;
};

static struct remains remains_of(struct pair *pair)
{
    const int64_t since_us = test_now_us();

    return (struct remains){.since_us = since_us, .ttl_ms = pair_ttl(pair)};
}

/* The waiter gets the lock when the lease ends, not before, and is not left waiting longer. */
static bool inherits(struct pair *pair, int waiting, struct remains remains)
{
    EXPECT(pair, remains.ttl_ms > 0);
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, SHORT_MS + PROMPT_MS).ok);
    EXPECT(pair, pair->last.at_us - remains.since_us >= (remains.ttl_ms - 1) * 1000);
    return true;
}

/* The holder takes so many levels, and the other side waits for it. */
static bool is_awaited(struct pair *pair, int levels, int *ret_waiting)
{
    for (int i = 0; i < levels; i++) {
        EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    }
    *ret_waiting = pair_tell(pair, pair->waiter, "a", "lock 0");
    EXPECT(pair, pair_is_awaited(pair));
    return true;
}

bool interop_stall(struct pair *pair)
{
    char field[256];
    int waiting;

    pair->client = "short";
    EXPECT(pair, is_awaited(pair, 1, &waiting));
    const struct remains remains = remains_of(pair);
    test_freeze(peer_pid(pair->holder->peer));
    const bool is_inherited = inherits(pair, waiting, remains);
    test_text(field, sizeof(field), "%s", pair_owner(pair));
    test_thaw(peer_pid(pair->holder->peer));
    if (!is_inherited) {
        return false;
    }
    EXPECT(pair, pair_holds(pair, pair->holder, "a", false));
    EXPECT(pair, pair_lost(pair, pair->holder, "EXPIRED TAKEN", PROMPT_MS));
    EXPECT(pair, pair_refuses(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, strcmp(pair_owner(pair), field) == 0);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_left(pair));
    return true;
}

bool interop_crash(struct pair *pair)
{
    /* a write lock adds up the leases of its levels, so it has one */
    const bool nests = pair->kind->is_reentrant && strcmp(pair->kind->name, "write") != 0;
    int waiting;

    pair->client = "short";
    EXPECT(pair, is_awaited(pair, nests ? 2 : 1, &waiting));
    const struct remains remains = remains_of(pair);
    peer_kill(pair->holder->peer);
    const bool is_inherited = inherits(pair, waiting, remains);
    party_restart(pair->holder);
    if (!is_inherited) {
        return false;
    }
    EXPECT(pair, pair_says(pair, pair->holder, "a", "try 0 0", "false"));
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

/* A client whose leases and fair slots are short, on both sides. */
static bool open_brief(struct pair *pair)
{
    const struct client_opts opts = {.lease_ms = SHORT_MS, .slot_ms = 2000};

    pair->client = "brief";
    return party_open_client(pair->holder, "brief", &opts).ok &&
           party_open_client(pair->waiter, "brief", &opts).ok;
}

/* A waiter that is killed leaves nothing behind: but for a fair lock its place, which counts until
 * its slot ends, or until one of ours has seen that nobody is there. */
bool interop_waiter_crash(struct pair *pair)
{
    const int64_t patience_ms = pair->kind->is_fair ? 15000 : PROMPT_MS;

    EXPECT(pair, open_brief(pair));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    const int waiting = pair_tell(pair, pair->holder, "b", "lock 30000");
    EXPECT(pair, pair->kind->is_shared || pair_is_awaited_by(pair, 2));
    peer_kill(pair->waiter->peer);
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->holder, waiting, patience_ms).ok);
    EXPECT(pair, pair_does(pair, pair->holder, "b", "unlock") && pair_is_free(pair));
    party_restart(pair->waiter);
    pair->client = "long";
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "true"));
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}
