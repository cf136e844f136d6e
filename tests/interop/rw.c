/* Properties of read/write locks that no other kind has. */
#include "interop.h"

#include "support/run.h"

#include <stdlib.h>
#include <string.h>

/* What follows takes the lock as a reader, or as a writer. */
static struct pair *as(struct pair *pair, const char *kind)
{
    pair->as = kind;
    return pair;
}

/* Readers of both sides are in together; writers of both stay out until the last has left. */
static bool share(struct pair *pair)
{
    const struct party *holder = pair->holder;
    const struct party *waiter = pair->waiter;

    EXPECT(pair, pair_does(as(pair, "read"), holder, "a", "lock 30000"));
    EXPECT(pair, pair_does(as(pair, "read"), waiter, "a", "lock 30000"));
    EXPECT(pair, pair_says(as(pair, "read"), waiter, "b", "try 0 30000", "true"));
    EXPECT(pair, pair_says(as(pair, "write"), holder, "c", "try 0 0", "false"));
    EXPECT(pair, pair_says(as(pair, "write"), waiter, "c", "try 0 0", "false"));
    EXPECT(pair, pair_says(as(pair, "read"), holder, "a", "locked", "true"));
    EXPECT(pair, pair_says(as(pair, "write"), holder, "a", "locked", "false"));
    EXPECT(pair, pair_says(as(pair, "write"), waiter, "a", "locked", "false"));
    EXPECT(pair, pair_does(as(pair, "read"), waiter, "b", "unlock"));
    const int writing = pair_tell(as(pair, "write"), holder, "c", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, pair_does(as(pair, "read"), holder, "a", "unlock"));
    EXPECT(pair, !peer_has_answered(holder->peer, writing) && pair_ttl(pair) > FRESH_MS);
    EXPECT(pair, pair_does(as(pair, "read"), waiter, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, holder, writing, PROMPT_MS).ok);
    return true;
}

bool interop_readers(struct pair *pair)
{
    static const char *const owners[] = {"a", "b", "d"};
    const struct party *const sides[] = {pair->waiter, pair->holder};
    int reading[6];

    if (!share(pair)) {
        return false;
    }
    /* the holder's c writes now; its unlock lets all readers in at once, on both sides */
    for (size_t i = 0; i < 6; i++) {
        reading[i] = pair_tell(as(pair, "read"), sides[i % 2], owners[i / 2], "lock 30000");
    }
    EXPECT(pair, pair_is_awaited_by(pair, 2));
    EXPECT(pair, pair_does(as(pair, "write"), pair->holder, "c", "unlock"));
    for (size_t i = 0; i < 6; i++) {
        EXPECT(pair, pair_wait(pair, sides[i % 2], reading[i], PROMPT_MS).ok);
    }
    for (size_t i = 0; i < 6; i++) {
        EXPECT(pair, pair_does(as(pair, "read"), sides[i % 2], owners[i / 2], "unlock"));
    }
    EXPECT(pair, pair_is_free(pair));
    return true;
}

/* A writer reads as well and then stops writing. Redisson does not tell readers that wait then, who
 * look again when the lease would have ended; ours does. */
bool interop_downgrade(struct pair *pair)
{
    const struct party *holder = pair->holder;
    const struct party *waiter = pair->waiter;

    EXPECT(pair, pair_does(as(pair, "write"), holder, "a", "lock 30000"));
    EXPECT(pair, pair_does(as(pair, "read"), holder, "a", "lock 30000"));
    EXPECT(pair, pair_says(as(pair, "read"), waiter, "a", "try 0 30000", "false"));
    const int reading =
        holder->is_ours ? pair_tell(as(pair, "read"), waiter, "b", "lock 30000") : 0;
    EXPECT(pair, !holder->is_ours || pair_is_awaited(pair));
    EXPECT(pair, pair_does(as(pair, "write"), holder, "a", "unlock"));
    EXPECT(pair, test_server_says(pair_server(pair), "read", "HGET %s mode", pair->name));
    if (holder->is_ours) {
        EXPECT(pair, pair_wait(pair, waiter, reading, PROMPT_MS).ok);
    } else {
        EXPECT(pair, pair_says(as(pair, "read"), waiter, "b", "try 0 30000", "true"));
    }
    EXPECT(pair, pair_says(as(pair, "write"), waiter, "c", "try 0 0", "false"));
    EXPECT(pair, pair_says(as(pair, "read"), holder, "a", "held", "true"));
    EXPECT(pair, pair_says(as(pair, "write"), holder, "a", "held", "false"));
    const int writing = pair_tell(as(pair, "write"), waiter, "c", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, pair_does(as(pair, "read"), holder, "a", "unlock") && !pair_is_free(pair));
    EXPECT(pair, !peer_has_answered(waiter->peer, writing));
    EXPECT(pair, pair_does(as(pair, "read"), waiter, "b", "unlock"));
    EXPECT(pair, pair_wait(pair, waiter, writing, PROMPT_MS).ok);
    EXPECT(pair, pair_does(as(pair, "write"), waiter, "c", "unlock") && pair_is_free(pair));
    return true;
}

/* What is left of the lease of a reader of this side, which has the lock once. */
static int64_t reader_ttl(struct pair *pair, const struct party *side)
{
    char *key = test_server_cmd(pair_server(pair), "KEYS *%s*%s*:rwlock_timeout:1", pair->name,
                                side->uuids_short[0]);
    const int64_t ttl = test_server_int(pair_server(pair), "PTTL %s", key);

    free(key);
    return ttl;
}

/* A reader is killed while another comes and goes: writers wait for the dead one's lease alone. */
bool interop_reader_crash(struct pair *pair)
{
    pair->client = "short";
    EXPECT(pair, pair_does(as(pair, "read"), pair->holder, "a", "lock 0"));
    EXPECT(pair, pair_does(as(pair, "read"), pair->waiter, "a", "lock 0"));
    const int writing = pair_tell(as(pair, "write"), pair->waiter, "c", "lock 0");
    EXPECT(pair, pair_is_awaited(pair));
    const int64_t since_us = test_now_us();
    const int64_t ttl_ms = reader_ttl(pair, pair->holder);
    peer_kill(pair->holder->peer);
    const bool unlocked = pair_does(as(pair, "read"), pair->waiter, "a", "unlock");
    const struct peer_answer written = pair_wait(pair, pair->waiter, writing, SHORT_MS + PROMPT_MS);
    const int64_t took_us = written.at_us - since_us;
    party_restart(pair->holder);
    EXPECT(pair, ttl_ms > 0 && unlocked && written.ok && took_us >= (ttl_ms - 1) * 1000);
    EXPECT(pair, pair_does(as(pair, "write"), pair->waiter, "c", "unlock"));
    return true;
}
