/* Properties of locks whose server changes while they are held and waited for. */
#include "interop.h"

#include "support/run.h"

#include <string.h>

enum {
    NOTICED_MS = 30000, /* a side has seen where everything is now */
    MOVED_MS = 6000,    /* renewed lease of the client that moves: it has seconds for a renewal */
    WOKEN_MS = 8000     /* Redisson, which first connects anew; far below what is left of a lease */
};

/* The key of a lock that moves: the lock's, or its first member's. */
static const char *key_of(const struct pair *pair, char *out, size_t size)
{
    test_text(out, size, "%s%s", pair->name,
              kind_is_group(pair->kind) ? pair->kind->members[0].suffix : "");
    return out;
}

static bool is_refused(struct pair *pair, bool *ret_is_granted)
{
    const struct peer_answer answer = pair_ask(pair, pair->waiter, "b", "try 0 0");

    *ret_is_granted = *ret_is_granted || (answer.ok && strcmp(answer.text, "true") == 0);
    return answer.ok;
}

/* Who waits has not been served. A call of Redisson's that asked just then may have failed: it is
 * made again. */
static bool still_waits(struct pair *pair, int *waiting)
{
    if (!pair->waiter->is_ours && peer_has_answered(pair->waiter->peer, *waiting)) {
        EXPECT(pair, !pair_wait(pair, pair->waiter, *waiting, PATIENCE_MS).ok);
        *waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
        EXPECT(pair, pair_is_awaited(pair));
    }
    EXPECT(pair, !peer_has_answered(pair->waiter->peer, *waiting));
    return true;
}

/* Both say that it is held, once they have seen where; until then a call may fail. */
static bool stays_held(struct pair *pair, int *waiting)
{
    bool is_granted = false;

    EXPECT(pair, TEST_EVENTUALLY(is_refused(pair, &is_granted), NOTICED_MS));
    EXPECT(pair, !is_granted);
    EXPECT(pair, TEST_EVENTUALLY(pair_holds(pair, pair->holder, "a", true), NOTICED_MS));
    return still_waits(pair, waiting);
}

/* A call of Redisson's on a connection that has ended may fail, and is made again; what it gave
 * back of a group nevertheless is no longer its own then. */
static bool is_released(struct pair *pair)
{
    const struct peer_answer answer = pair_ask(pair, pair->holder, "a", "unlock");

    return answer.ok || (!pair->holder->is_ours && answer_is_not_yours(&answer));
}

/* Gets it in time; a call of Redisson's that the move has cut off is made again, once. */
static bool is_served(struct pair *pair, int waiting, int64_t patience_ms)
{
    const struct party *waiter = pair->waiter;
    const int64_t end_us = test_deadline_us(patience_ms);

    EXPECT(pair, TEST_EVENTUALLY(peer_has_answered(waiter->peer, waiting), patience_ms));
    if (!pair_wait(pair, waiter, waiting, PATIENCE_MS).ok && !waiter->is_ours) {
        waiting = pair_tell(pair, waiter, "a", "lock 30000");
        EXPECT(pair,
               pair_wait(pair, waiter, waiting, (end_us - test_now_us()) / 1000 + PROMPT_MS).ok);
    }
    EXPECT(pair, pair->last.ok);
    return true;
}

/* It is handed over: at once where it is listened for, else when the lease that was seen ends. */
static bool hand_over(struct pair *pair, int waiting, bool is_awaited, int lease_ms)
{
    const int64_t told_ms = pair->waiter->is_ours ? PROMPT_MS : WOKEN_MS;
    const int64_t patience_ms = is_awaited ? told_ms : lease_ms + PROMPT_MS;

    EXPECT(pair, !is_awaited || pair_is_awaited(pair));
    EXPECT(pair, pair->holder->is_ours ? is_released(pair)
                                       : TEST_EVENTUALLY(is_released(pair), NOTICED_MS));
    if (!is_served(pair, waiting, patience_ms)) {
        return false;
    }
    EXPECT(pair, pair_says(pair, pair->holder, "b", "try 0 0", "false"));
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

/* Its primary is killed, and a replica goes on. */
static bool fail_over(struct pair *pair)
{
    char key[160];

    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, deployment_fail_over(pair->deployment, key_of(pair, key, sizeof(key))));
    return stays_held(pair, &waiting) && hand_over(pair, waiting, true, LONG_MS);
}

bool interop_failover(struct pair *pair)
{
    const bool holds = fail_over(pair);
    const bool is_healed = deployment_heal(pair->deployment);

    if (!holds) {
        return false;
    }
    EXPECT(pair, is_healed);
    return true;
}

/* More is left of the lease than a moment ago. */
static bool has_risen(struct pair *pair, int64_t *last_ms)
{
    const int64_t before_ms = *last_ms;

    *last_ms = pair_ttl(pair);
    return *last_ms > before_ms;
}

/* Its slot moves to another primary, with all that is in it, and it is renewed there. Redisson does
 * not always subscribe anew. */
bool interop_reshard(struct pair *pair)
{
    const struct client_opts opts = {.lease_ms = MOVED_MS};
    char key[160];

    pair->client = "moved";
    EXPECT(pair, party_open_client(pair->holder, "moved", &opts).ok);
    EXPECT(pair, party_open_client(pair->waiter, "moved", &opts).ok);
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    deployment_reshard(pair->deployment, key_of(pair, key, sizeof(key)));
    int64_t ttl_ms = pair_ttl(pair);
    EXPECT(pair, TEST_EVENTUALLY(has_risen(pair, &ttl_ms), MOVED_MS));
    return stays_held(pair, &waiting) && hand_over(pair, waiting, pair->waiter->is_ours, MOVED_MS);
}
