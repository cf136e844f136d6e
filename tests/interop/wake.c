/* Properties of waiting: a release by one side reaches the other, under every name. */
#include "interop.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The holder's unlock wakes the waiter, who unlocks as well. `settled`: only when it listens. */
static bool hand_over(struct pair *pair, bool settled)
{
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 30000"));
    const int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    if (settled) {
        EXPECT(pair, pair_is_awaited(pair));
    } else {
        usleep((useconds_t)(test_now_us() % 3000)); /* anywhere between its try and its sleep */
    }
    EXPECT(pair, !peer_has_answered(pair->waiter->peer, waiting));

    const int64_t since_us = test_now_us();
    const int unlocking = pair_tell(pair, pair->holder, "a", "unlock");
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PATIENCE_MS).ok);
    const int64_t took_us = pair->last.at_us - since_us;
    if (pair->n_wakes < MAX_WAKES) {
        pair->wakes_us[pair->n_wakes++] = took_us;
    }
    EXPECT(pair, took_us < PROMPT_MS * 1000);
    EXPECT(pair, pair_wait(pair, pair->holder, unlocking, PATIENCE_MS).ok);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

/* A wait with an end, woken before it. */
static bool timed(struct pair *pair)
{
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 0"));
    const int waiting = pair_tell(pair, pair->waiter, "a", "try 9000 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PROMPT_MS).ok);
    EXPECT(pair, strcmp(pair->last.text, "true") == 0);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock") && pair_is_free(pair));
    return true;
}

/* More than now and then a wait that took longer than a message: looking again, as often as each
 * 190 ms, would hide that messages get lost. A busy machine is slow once or twice, and of a few
 * waits that can be a third. */
static bool waits_poll(const struct pair *pair)
{
    size_t slow = 0;

    for (size_t i = 0; i < pair->n_wakes; i++) {
        slow += pair->wakes_us[i] > 150000;
    }
    return slow > (pair->n_wakes < 100 ? pair->n_wakes / 3 : 1 + pair->n_wakes / 20);
}

bool interop_wake_up(struct pair *pair)
{
    const bool is_missed = pair->kind->is_missed && !pair->kind->is_shared && pair->holder->is_ours;
    const int rounds = is_missed || kind_is_group(pair->kind) ? 10 : 120;

    for (int i = 0; i < rounds; i++) {
        if (!hand_over(pair, i < 20)) {
            return false;
        }
    }
    EXPECT(pair, kind_is_redlock(pair->kind) || !waits_poll(pair));
    return timed(pair);
}

/* The waiter knows the lock as a reentrant one. Redisson's spin lock does not say that it is free:
 * such a mixture waits for the lease, so the property stops before. */
bool interop_beside(struct pair *pair)
{
    const struct kind *own = pair->kind;

    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 30000"));
    pair->kind = &interop_kinds[0];
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 30000", "false"));
    if (own->channel != NULL || pair->holder->is_ours) {
        const int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
        EXPECT(pair, pair_is_awaited(pair));
        pair->kind = own;
        EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
        EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PROMPT_MS).ok);
        EXPECT(pair, pair_says(pair, pair->holder, "a", "try 0 30000", "false"));
        pair->kind = &interop_kinds[0];
        EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    }
    pair->kind = own;
    return true;
}

enum { CROWD = 4 }; /* owners of each side */

/* One of those who were not served yet has the lock: gives it back. */
static bool serve_one(struct pair *pair, int (*waiting)[CROWD])
{
    static const char *const owners[CROWD] = {"a", "b", "c", "d"};
    const struct party *const sides[] = {pair->holder, pair->waiter};

    for (size_t i = 0; i < 2 * CROWD; i++) {
        int *id = &waiting[i % 2][i / 2];
        if (*id != 0 && peer_has_answered(sides[i % 2]->peer, *id)) {
            EXPECT(pair, pair_wait(pair, sides[i % 2], *id, PATIENCE_MS).ok);
            *id = 0;
            EXPECT(pair, pair_does(pair, sides[i % 2], owners[i / 2], "unlock"));
            return true;
        }
    }
    return false;
}

bool interop_crowd(struct pair *pair)
{
    static const char *const owners[CROWD] = {"a", "b", "c", "d"};
    const struct party *const sides[] = {pair->holder, pair->waiter};
    int waiting[2][CROWD];

    EXPECT(pair, pair_does(pair, pair->holder, "z", "lock 30000"));
    for (size_t i = 0; i < 2 * CROWD; i++) {
        waiting[i % 2][i / 2] = pair_tell(pair, sides[i % 2], owners[i / 2], "lock 30000");
    }
    EXPECT(pair, pair_is_awaited_by(pair, pair->kind->is_fair     ? 2 * CROWD
                                          : pair->kind->is_shared ? 1
                                                                  : 2));
    EXPECT(pair, pair_does(pair, pair->holder, "z", "unlock"));
    for (size_t served = 0; served < 2 * CROWD; served++) {
        EXPECT(pair, TEST_EVENTUALLY(serve_one(pair, waiting), PROMPT_MS));
    }
    EXPECT(pair, pair_is_free(pair));
    return true;
}

/* Who queued first is first, whichever side it is on. */
bool interop_order(struct pair *pair)
{
    static const char *const owners[CROWD] = {"a", "b", "c", "d"};
    const struct party *const sides[] = {pair->waiter, pair->holder};
    int waiting[2][CROWD];

    EXPECT(pair, pair_does(pair, pair->holder, "z", "lock 30000"));
    for (size_t i = 0; i < 2 * CROWD; i++) {
        waiting[i % 2][i / 2] = pair_tell(pair, sides[i % 2], owners[i / 2], "lock 30000");
        EXPECT(pair, pair_is_queued(pair, i + 1));
    }
    EXPECT(pair, pair_is_awaited_by(pair, 2 * CROWD));
    EXPECT(pair, pair_does(pair, pair->holder, "z", "unlock"));
    for (size_t i = 0; i < 2 * CROWD; i++) {
        EXPECT(pair, pair_wait(pair, sides[i % 2], waiting[i % 2][i / 2], PROMPT_MS).ok);
        EXPECT(pair, pair_does(pair, sides[i % 2], owners[i / 2], "unlock"));
    }
    EXPECT(pair, pair_is_free(pair));
    return true;
}

/* Two in the middle of the queue, one of each side, wait no longer: the others move up in order. */
bool interop_giving_up(struct pair *pair)
{
    static const char *const owners[] = {"a", "a", "b", "b", "c"};
    enum { N = sizeof(owners) / sizeof(owners[0]) };
    const struct party *const sides[] = {pair->waiter, pair->holder};
    int waiting[N];

    EXPECT(pair, pair_does(pair, pair->holder, "z", "lock 30000"));
    for (size_t i = 0; i < N; i++) {
        const bool gives_up = i == 1 || i == 2;
        waiting[i] =
            pair_tell(pair, sides[i % 2], owners[i], gives_up ? "try 3000 30000" : "lock 30000");
        EXPECT(pair, pair_is_queued(pair, i + 1));
    }
    for (size_t i = 1; i <= 2; i++) {
        EXPECT(pair, pair_wait(pair, sides[i % 2], waiting[i], PATIENCE_MS).ok);
        EXPECT(pair, strcmp(pair->last.text, "false") == 0);
    }
    EXPECT(pair, pair_is_queued(pair, N - 2));
    EXPECT(pair, pair_does(pair, pair->holder, "z", "unlock"));
    for (size_t i = 0; i < N; i += i == 0 ? 3 : 1) {
        EXPECT(pair, pair_wait(pair, sides[i % 2], waiting[i], PROMPT_MS).ok);
        EXPECT(pair, pair_does(pair, sides[i % 2], owners[i], "unlock"));
    }
    EXPECT(pair, pair_is_free(pair) && pair_is_queued(pair, 0));
    return true;
}

bool interop_names(struct pair *pair)
{
    static const char *const names[] = {
        "interop name with spaces",
        "{interop}:tagged",
        "interop{in}the middle",
        "interop:*?[a-z]%25",
        "\xc3\xbcnter\xc3\xb6p-\xe2\x82\xac-\xf0\x9f\x94\x92",
        "i",
        "interop{open", /* in a cluster, its channel is in another slot than its key: */
        "interop}closed",
    };
    const bool is_cluster = pair->deployment->layout->topology == CLUSTER;
    const size_t n = sizeof(names) / sizeof(names[0]) - (is_cluster ? 2 : 0);

    for (size_t i = 0; i < n; i++) {
        test_text(pair->name, sizeof(pair->name), "%s", names[i]);
        if (!hand_over(pair, true)) {
            return false;
        }
    }
    return true;
}

/* Both sides with a client of that kind of their own. */
static bool open_both(struct pair *pair, const char *client, const struct client_opts *opts)
{
    pair->client = client;
    return party_open_client(pair->holder, client, opts).ok &&
           party_open_client(pair->waiter, client, opts).ok;
}

bool interop_prefix(struct pair *pair)
{
    char name[sizeof(pair->name)];
    char key[sizeof(pair->name)];

    EXPECT(pair, open_both(pair, "prefix", &(struct client_opts){.prefix = "shop:{eu}:"}));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 30000"));
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 30000", "false"));
    const int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    test_text(name, sizeof(name), "%s", pair->name);
    test_text(key, sizeof(key), "shop:{eu}:%.*s", (int)sizeof(key) - 20, name);
    test_text(pair->name, sizeof(pair->name), "%s", key); /* that is where it is */
    EXPECT(pair, !pair_is_free(pair) && pair_is_awaited(pair));

    test_text(pair->name, sizeof(pair->name), "%s", name);
    EXPECT(pair, !peer_has_answered(pair->waiter->peer, waiting));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PROMPT_MS).ok);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    return true;
}

bool interop_database(struct pair *pair)
{
    char url[256];

    test_text(url, sizeof(url), "%s/3", pair->holder->urls[0]);
    EXPECT(pair, open_both(pair, "database", &(struct client_opts){.url = url}));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "lock 30000"));
    EXPECT(pair, pair_is_free(pair)); /* in the database that we look at */
    EXPECT(pair, pair_says(pair, pair->waiter, "a", "try 0 30000", "false"));
    const int waiting = pair_tell(pair, pair->waiter, "a", "lock 30000");
    EXPECT(pair, pair_is_awaited(pair));
    EXPECT(pair, pair_does(pair, pair->holder, "a", "unlock"));
    EXPECT(pair, pair_wait(pair, pair->waiter, waiting, PROMPT_MS).ok);
    EXPECT(pair, pair_does(pair, pair->waiter, "a", "unlock"));
    return true;
}
