/*
 * Who gets a hot lock: threads of both sides want one name all the time, and no process may get
 * much less than the others; and who wants it now and then, with a wait, gets it beside threads of
 * ours that want it all the time.
 */
#include "interop.h"

#include "support/run.h"
#include "support/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    THREADS = 4,
    WARM_MS = 500, /* until a JVM has compiled what matters */
    RUN_MS = 4000,
    TRIES = 25,
    TRY_MS = 1000,
    TRY_HOLD_MS = 10
};

/* A process of a crowd, and what it had. */
struct member_of_crowd {
    struct party *party;
    int id;
    int64_t grants, longest_ms;
};

struct crowd {
    struct member_of_crowd members[SHARES_PARTIES];
    size_t n, first; /* those from the first on have a least share */
    const char *kind;
    char name[192];
};

static void tell(struct crowd *crowd, size_t threads, int hold_ms, int run_ms)
{
    for (size_t i = 0; i < crowd->n; i++) {
        crowd->members[i].id =
            peer_tell(crowd->members[i].party->peer, "long loop %s %s loop %zu %d %d", crowd->kind,
                      crowd->name, threads, hold_ms, run_ms);
    }
}

/* Whether all have come back; how many grants they had together. */
static bool hear(struct crowd *crowd, int64_t *ret_grants)
{
    bool all = true;

    *ret_grants = 0;
    for (size_t i = 0; i < crowd->n; i++) {
        struct member_of_crowd *member = &crowd->members[i];
        const struct peer_answer answer =
            peer_wait(member->party->peer, member->id, RUN_MS + PATIENCE_MS);
        all =
            all && answer.ok &&
            sscanf(answer.text, "%" SCNd64 " %" SCNd64, &member->grants, &member->longest_ms) == 2;
        if (!answer.ok) {
            printf("shares: %s: %s\n", peer_label(member->party->peer), answer.text);
        }
        *ret_grants += member->grants;
    }
    return all;
}

/* All want it for a while; whether nobody had less than so many percent of an equal share. */
static bool share(struct crowd *crowd, int hold_ms, int percent)
{
    const int64_t since_us = test_now_us();
    int64_t all, worst = 100;

    tell(crowd, THREADS, hold_ms, RUN_MS);
    if (!hear(crowd, &all) || all == 0) {
        return false;
    }
    const int64_t took_us = test_elapsed_us(since_us);
    printf("  hold %2d ms: ", hold_ms);
    for (size_t i = 0; i < crowd->n; i++) {
        const struct member_of_crowd *member = &crowd->members[i];
        const int64_t part = 100 * member->grants * (int64_t)crowd->n / all;
        worst = i >= crowd->first && part < worst ? part : worst;
        printf("%s %" PRId64 " %% (longest wait %" PRId64 " ms), ", peer_label(member->party->peer),
               100 * member->grants / all, member->longest_ms);
    }
    printf("%" PRId64 " grants a second\n", all * 1000000 / took_us);
    return worst >= percent || test_missed(since_us, took_us / 10);
}

/* With short and with longer holds. */
static bool share_all(struct crowd *crowd, int percent)
{
    int64_t all;

    tell(crowd, THREADS, 1, WARM_MS);
    return hear(crowd, &all) && share(crowd, 1, percent) && share(crowd, 10, percent);
}

/* How many of ours take part beside Redisson. */
static struct crowd gather(const struct shares_opts *opts, size_t n_ours)
{
    static unsigned int n;
    struct crowd crowd = {.n = 1 + n_ours, .kind = "reentrant"};

    for (size_t i = 0; i < crowd.n; i++) {
        crowd.members[i].party = &opts->parties[i];
    }
    test_text(crowd.name, sizeof(crowd.name), "interop-shares-%u", ++n);
    return crowd;
}

/* Redisson and one of ours, for a RedLock of all servers. It knows no turns, and whoever hears the
 * servers' channels comes first: that is ours, which alone has a least share. */
static struct crowd gather_redlock(const struct shares_opts *opts)
{
    struct crowd crowd = gather(opts, 1);
    char one[64];

    test_text(one, sizeof(one), "%s", crowd.name);
    crowd.kind = "redlock";
    crowd.first = 1;
    test_text(crowd.name, sizeof(crowd.name),
              "long/reentrant/%s,long.1/reentrant/%s,long.2/reentrant/%s", one, one, one);
    return crowd;
}

/* Redisson tries it now and then, beside so many threads of ours, which are killed in the end. */
static bool try_beside(const struct shares_opts *opts, size_t threads, int enough)
{
    struct crowd both = gather(opts, 1), ours = both;
    struct party *java = both.members[0].party;
    const int64_t since_us = test_now_us();
    int got = 0;

    ours.members[0] = ours.members[--ours.n];
    tell(&ours, threads, TRY_HOLD_MS, 2 * TRIES * TRY_MS);
    for (int i = 0; i < TRIES; i++) {
        const int id = peer_tell(java->peer, "long try reentrant %s try %d 0", ours.name, TRY_MS);
        const struct peer_answer answer = peer_wait(java->peer, id, PATIENCE_MS);
        if (answer.ok && answer.text[0] == 't') {
            got++;
            usleep(TRY_HOLD_MS * 1000);
            (void)peer_wait(java->peer,
                            peer_tell(java->peer, "long try reentrant %s unlock", ours.name),
                            PATIENCE_MS);
        }
    }
    const int64_t took_us = test_elapsed_us(since_us);
    const bool still_loop = !peer_has_answered(ours.members[0].party->peer, ours.members[0].id);
    party_restart(ours.members[0].party);
    printf("  tryLock(1 s) beside %zu looping thread%s of ours: %d of %d\n", threads,
           threads == 1 ? "" : "s", got, TRIES);
    return still_loop && (got >= enough || test_missed(since_us, took_us / 10));
}

bool interop_shares(const struct shares_opts *opts)
{
    const int percent = opts->is_whole ? 60 : 30; /* of two: no side below 30 %, or 15 % */
    const int enough = opts->is_whole ? TRIES - 1 : TRIES * 4 / 5;
    struct crowd redlock = gather_redlock(opts);
    bool is_good = true;

    for (size_t n_ours = 1; n_ours < SHARES_PARTIES; n_ours++) {
        struct crowd crowd = gather(opts, n_ours);
        printf("shares: %d threads of Redisson and of each of %zu of ours\n", THREADS, n_ours);
        is_good = share_all(&crowd, percent) && is_good;
    }
    printf("shares: %d threads of Redisson and %d of ours, a RedLock\n", THREADS, THREADS);
    is_good = share_all(&redlock, percent) && is_good;
    is_good = try_beside(opts, 1, enough) && try_beside(opts, THREADS, enough) && is_good;
    fflush(stdout);
    return is_good;
}
