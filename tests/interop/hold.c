/* Properties of holding: exclusion, counts, queries, and the two ways a hold ends without unlock.
 */
#include "interop.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool interop_exclusion(struct pair *pair)
{
    const struct party *holder = pair->holder;
    const struct party *waiter = pair->waiter;

    EXPECT(pair, pair_does(pair, holder, "a", "lock 30000"));
    EXPECT(pair, pair_says(pair, waiter, "a", "try 0 30000", "false"));
    if (pair->kind->is_shared) {
        EXPECT(pair, pair_says(pair, holder, "b", "try 0 30000", "true"));
        EXPECT(pair, pair_does(pair, holder, "b", "unlock"));
    } else {
        EXPECT(pair, pair_says(pair, holder, "b", "try 0 30000", "false"));
    }
    const int64_t since_us = test_now_us();
    EXPECT(pair, pair_says(pair, waiter, "a", "try 300 0", "false"));
    const int64_t waited_us = test_elapsed_us(since_us);
    /* of a RedLock, ours makes no other try that would not be over in time */
    EXPECT(pair, waited_us > (kind_is_redlock(pair->kind) ? 100000 : 280000));
    EXPECT(pair, waited_us < 300000 + PROMPT_MS * 1000);

    EXPECT(pair, pair_refuses(pair, waiter, "a", "unlock"));
    EXPECT(pair, pair_ttl(pair) > FRESH_MS && pair_says(pair, waiter, "a", "try 0 0", "false"));
    EXPECT(pair, pair_does(pair, holder, "a", "unlock") && pair_is_free(pair));

    EXPECT(pair, pair_says(pair, waiter, "a", "try 0 0", "true"));
    EXPECT(pair, pair_says(pair, holder, "a", "try 0 0", "false"));
    EXPECT(pair, pair_does(pair, waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

bool interop_reentry(struct pair *pair)
{
    /* Redisson's unlock of a nested level shortens the lease, of a group to twice a wait */
    const int64_t least_ms = kind_is_group(pair->kind) ? 5000 : 10000;
    const struct party *holder = pair->holder;

    for (int count = 1; count <= 3; count++) {
        EXPECT(pair, pair_does(pair, holder, "a", count == 2 ? "lock 0" : "lock 20000"));
        EXPECT(pair, pair_has_levels(pair, holder, "a", count));
        EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "false"));
    }
    for (int count = 2; count >= 1; count--) {
        EXPECT(pair, pair_does(pair, holder, "a", "unlock"));
        EXPECT(pair, pair_has_levels(pair, holder, "a", count) && pair_ttl(pair) > least_ms);
        EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "false"));
    }
    EXPECT(pair, pair_does(pair, holder, "a", "unlock") && pair_is_free(pair));
    EXPECT(pair, pair_refuses(pair, holder, "a", "unlock"));
    return true;
}

bool interop_reacquire(struct pair *pair)
{
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 30000"));
    for (int i = 0; i < 2; i++) {
        const struct peer_answer answer =
            pair_ask(pair, pair->holder, "a", i == 0 ? "lock 30000" : "try 100 30000");
        const char *refusal = pair->holder->is_ours ? "EREACQUIRE" : "IllegalMonitorState";
        EXPECT(pair, !answer.ok && strncmp(answer.text, refusal, strlen(refusal)) == 0);
        EXPECT(pair, pair_count(pair) == 1);
    }
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "false"));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock") && pair_is_free(pair));
    EXPECT(pair, pair_refuses(pair, pair->holder, "a", "unlock"));
    return true;
}

/* Grants of both sides in turn; nested ones too, which Redisson counts and ours does not. */
bool interop_tokens(struct pair *pair)
{
    const struct party *const sides[] = {pair->holder, pair->waiter};
    int64_t latest = pair_number(pair, pair->holder, "a", "token");

    EXPECT(pair, latest == 0);
    for (size_t i = 0; i < 20; i++) {
        const struct party *side = sides[i % 3 == 2 ? 1 : i % 2];
        const int64_t token = pair_number(pair, side, "a", "fence");
        EXPECT(pair, token > latest);
        if (i % 5 == 4) {
            const int64_t nested = pair_number(pair, side, "a", "fence");
            EXPECT(pair, side->is_ours ? nested == token : nested > token);
            EXPECT(pair, pair_does(pair, side, "a", "unlock"));
        }
        latest = pair_number(pair, sides[0], "b", "token");
        EXPECT(pair, latest >= token && pair_number(pair, sides[1], "b", "token") == latest);
        if (i % 7 == 6) {
            EXPECT(pair, pair_does(pair, sides[i % 2], "b", "force"));
            EXPECT(pair, pair_refuses(pair, side, "a", "unlock"));
        } else {
            EXPECT(pair, pair_does(pair, side, "a", "unlock"));
        }
    }
    return true;
}

static bool sees(struct pair *pair, const struct party *side, const char *owner, bool locked,
                 const char *count)
{
    const char *held = strcmp(count, "0") != 0 ? "true" : "false";
    const int64_t ttl = pair_number(pair, side, owner, "ttl");

    return pair_says(pair, side, owner, "locked", locked ? "true" : "false") &&
           pair_says(pair, side, owner, "held", held) &&
           pair_says(pair, side, owner, "count", count) &&
           (locked ? ttl > FRESH_MS && ttl <= 60000
                   : ttl == -2); /* Redisson's writers add leases up */
}

/* Ours tells who holds, whoever it is. */
static bool knows(struct pair *pair, const struct party *side, const char *count)
{
    char expected[300];

    test_text(expected, sizeof(expected), "%s=%s", pair_owner(pair), count);
    return !side->is_ours || pair_says(pair, side, "a", "who", expected);
}

bool interop_queries(struct pair *pair)
{
    const struct party *holder = pair->holder;
    const struct party *waiter = pair->waiter;
    const char *count = pair->kind->is_reentrant ? "2" : "1";

    pair->as = pair->kind->name;
    EXPECT(pair, sees(pair, holder, "a", false, "0") && sees(pair, waiter, "a", false, "0"));
    EXPECT(pair, pair_does(pair, holder, "a", "lock 30000"));
    if (pair->kind->is_reentrant) {
        EXPECT(pair, pair_does(pair, holder, "a", "lock 30000"));
    }
    EXPECT(pair, sees(pair, holder, "a", true, count));
    EXPECT(pair, sees(pair, holder, "b", true, "0") && sees(pair, waiter, "a", true, "0"));
    EXPECT(pair, knows(pair, holder, count) && knows(pair, waiter, count));
    if (pair->kind->is_reentrant) {
        EXPECT(pair, pair_does(pair, holder, "a", "unlock"));
        EXPECT(pair, sees(pair, holder, "a", true, "1") && sees(pair, waiter, "a", true, "0"));
    }
    EXPECT(pair, pair_does(pair, holder, "a", "unlock"));
    EXPECT(pair, sees(pair, holder, "a", false, "0") && sees(pair, waiter, "a", false, "0"));
    return true;
}

/* The waiter's hold is as it was: the one who lost the lock has not touched it. */
static bool is_intact(struct pair *pair, const char *field, int64_t least_ttl_ms)
{
    return strcmp(pair_owner(pair), field) == 0 && pair_count(pair) == 1 &&
           pair_ttl(pair) >= least_ttl_ms;
}

bool interop_expiry(struct pair *pair)
{
    enum { LEASE_MS = 700, EARLY_MS = 50 }; /* ours ends with our belief, a few ms before */
    const int64_t since_us = test_now_us();
    char field[256];

    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 700"));
    const int id = pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, pair_wait(pair, pair->waiter, id, LEASE_MS + PROMPT_MS).ok);
    const int64_t waited_us = pair->last.at_us - since_us;
    EXPECT(pair, waited_us > (LEASE_MS - EARLY_MS) * 1000);
    test_text(field, sizeof(field), "%s", pair_owner(pair));

    EXPECT(pair, pair_lost(pair, pair->holder, "EXPIRED", PROMPT_MS));
    EXPECT(pair, pair_holds(pair, pair->holder, "a", false));
    EXPECT(pair, pair_refuses(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, is_intact(pair, field, FRESH_MS));
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    EXPECT(pair, pair_is_left(pair));
    return true;
}

/* Forced open by the other side with nobody waiting: nothing may bring it back. */
static bool forced_and_free(struct pair *pair)
{
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "force", "true") && pair_is_free(pair));
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "force", "false"));
    EXPECT(pair, pair_lost(pair, pair->holder, "DELETED", SHORT_MS + PROMPT_MS));
    EXPECT(pair, pair_holds(pair, pair->holder, "a", false));
    EXPECT(pair, pair_refuses(pair, pair->holder, "a", "unlock") && pair_is_free(pair));
    return true;
}

bool interop_force(struct pair *pair)
{
    char field[256];

    pair->client = "short";
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    const int id = pair_tell(pair, pair->waiter, "b", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "force", "true"));
    EXPECT(pair, pair_wait(pair, pair->waiter, id, PROMPT_MS).ok);
    test_text(field, sizeof(field), "%s", pair_owner(pair));

    EXPECT(pair, pair_lost(pair, pair->holder, "TAKEN DELETED", SHORT_MS + PROMPT_MS));
    EXPECT(pair, pair_holds(pair, pair->holder, "a", false));
    EXPECT(pair, pair_refuses(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, is_intact(pair, field, FRESH_MS));
    EXPECT(pair, pair_does(pair, pair->waiter, "b", "unlock"));

    pair_rename(pair);
    return forced_and_free(pair);
}
