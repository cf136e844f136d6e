/* Properties of RedLocks while servers are down. */
#include "interop.h"

#include "support/run.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MS = 500 }; /* of an attempt to reach a server, where some are down */

/* Clients that do not try long. */
static bool open_hasty(struct pair *pair)
{
    const struct client_opts opts = {.timeout_ms = TIMEOUT_MS};

    pair->client = "hasty";
    return party_open_client(pair->holder, "hasty", &opts).ok &&
           party_open_client(pair->waiter, "hasty", &opts).ok;
}

static void take_down(struct pair *pair, size_t server)
{
    test_server_kill(pair->deployment->servers[server]);
    pair->deployment->is_down[server] = true;
}

/* All servers run again, without what they had, and both sides have seen it. */
static bool bring_up(struct pair *pair)
{
    const struct party *const sides[] = {pair->holder, pair->waiter};

    for (size_t i = 0; i < pair->kind->n_members; i++) {
        if (pair->deployment->is_down[i]) {
            test_server_restart(pair->deployment->servers[i], false);
            pair->deployment->is_down[i] = false;
        }
    }
    for (size_t i = 0; i < 2 * pair->kind->n_members; i++) {
        EXPECT(pair,
               TEST_EVENTUALLY(pair_does(pair_member(pair, i / 2), sides[i % 2], "b", "locked"),
                               PATIENCE_MS));
    }
    pair_whole(pair);
    return true;
}

/* Held on most servers, while one is down: exclusive, and handed over. */
static bool works_without_one(struct pair *pair)
{
    EXPECT(pair, pair_says(pair, pair->holder, "a", "try 4000 30000", "true"));
    EXPECT(pair, pair_n_held(pair) == pair->kind->n_members - 1);
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "false"));
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 1000 0", "false"));
    EXPECT(pair, pair_n_held(pair) == pair->kind->n_members - 1);
    const int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, !peer_has_answered(pair->waiter->peer, waiting));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PATIENCE_MS).ok);
    EXPECT(pair, pair_n_held(pair) == pair->kind->n_members - 1);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

/* A server goes while the lock is held, which has been taken on it as well. */
static bool outlives_one(struct pair *pair, size_t server)
{
    EXPECT(pair, pair_says(pair, pair->holder, "a", "try 1000 30000", "true"));
    EXPECT(pair, TEST_EVENTUALLY(pair_n_held(pair) == pair->kind->n_members, PROMPT_MS));
    take_down(pair, server);
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 0", "false"));
    EXPECT(pair, pair_n_held(pair) == pair->kind->n_members - 1);
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock") && pair_is_free(pair));
    return true;
}

bool interop_minority(struct pair *pair)
{
    const size_t server = pair->holder->is_ours ? 0 : 2;

    EXPECT(pair, open_hasty(pair));
    const bool holds = outlives_one(pair, server) && works_without_one(pair);
    const bool is_back = bring_up(pair);
    pair_whole(pair);
    return holds && is_back;
}

/* Nobody gets it, and nothing stays behind on the server that runs. */
static bool leaves_nothing(struct pair *pair, const struct party *side)
{
    const struct peer_answer once = pair_ask(pair, side, "a", "try 0 30000");

    EXPECT(pair, !once.ok || strcmp(once.text, "false") == 0);
    EXPECT(pair, TEST_EVENTUALLY(pair_n_held(pair) == 0, PROMPT_MS));
    const struct peer_answer waited = pair_ask(pair, side, "a", "try 1000 30000");
    EXPECT(pair, !waited.ok || strcmp(waited.text, "false") == 0);
    EXPECT(pair, TEST_EVENTUALLY(pair_n_held(pair) == 0, PROMPT_MS));
    return true;
}

bool interop_no_quorum(struct pair *pair)
{
    const size_t living = pair->holder->is_ours ? 2 : 0;

    EXPECT(pair, open_hasty(pair));
    for (size_t i = 0; i < pair->kind->n_members; i++) {
        if (i != living) {
            take_down(pair, i);
        }
    }
    const bool holds = leaves_nothing(pair, pair->holder) && leaves_nothing(pair, pair->waiter);
    const bool is_back = bring_up(pair);
    EXPECT(pair, holds && is_back);
    EXPECT(pair, pair_says(pair, pair->holder, "a", "try 4000 30000", "true"));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock") && pair_is_free(pair));
    return true;
}
