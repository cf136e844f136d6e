/*
 * How a hot lock is shared: threads of both sides want one name all the time, and no process may
 * get much less than the others. A process that wants it now and then, with a wait, gets it beside
 * threads of ours that want it all the time.
 */
#include "cells.h"
#include "interop.h"

#include "support/run.h"
#include "support/stall.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 4,
    WARM_MS = 500, /* until a JVM has compiled what matters */
    RUN_MS = 4000,
    BRIEF_MS = 2500,    /* of a run among others */
    STEADY_MS = 6000,   /* of spin locks: their turns change over seconds */
    LEAST_PERCENT = 60, /* of an equal share: of two, neither has less than 30 % */
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
    size_t n;
    const char *kind;
    char name[192], ours[192]; /* the lock's name, and what processes of ours say for it */
    int pause_ms;
    const char *cells; /* the witness's file; NULL: there is none */
};

static void tell(struct crowd *crowd, size_t threads, int hold_ms, int run_ms)
{
    for (size_t i = 0; i < crowd->n; i++) {
        const struct party *party = crowd->members[i].party;
        const size_t slot = party->is_ours ? CELLS_SLOTS / 2 : 0;
        char witness[192] = "";

        if (crowd->cells != NULL) {
            test_text(witness, sizeof(witness), " %s %zu", peer_word(crowd->cells), slot);
        }
        crowd->members[i].id = peer_tell(party->peer, "long loop %s %s loop %zu %d %d %d%s",
                                         crowd->kind, party->is_ours ? crowd->ours : crowd->name,
                                         threads, hold_ms, run_ms, crowd->pause_ms, witness);
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
        worst = part < worst ? part : worst;
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

/* How many processes of each side take part. */
static struct crowd gather(const struct shares_opts *opts, size_t n_java, size_t n_ours)
{
    static unsigned int n;
    struct crowd crowd = {.n = n_java + n_ours, .kind = "reentrant"};

    for (size_t i = 0; i < crowd.n; i++) {
        crowd.members[i].party = &opts->parties[i < n_java ? i : opts->n_java + i - n_java];
    }
    test_text(crowd.name, sizeof(crowd.name), "interop-shares-%u", ++n);
    test_text(crowd.ours, sizeof(crowd.ours), "%s", crowd.name);
    return crowd;
}

/* Redisson tries it now and then, beside so many threads of ours, which are killed in the end. */
static bool try_beside(const struct shares_opts *opts, size_t threads, int enough)
{
    struct crowd both = gather(opts, 1, 1), ours = both;
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

/* ---- each kind, at two workloads ---- */

static const struct workload {
    int hold_ms, pause_ms;
} workloads[] = {{5, 5}, {1, 0}};

/* The kinds, and their names: "%s" is the lock's. */
static const struct shared {
    const char *kind, *name;
    const char *ours; /* NULL: as theirs. Else the members in another order */
    bool is_brief;    /* also in a run among others */
    int run_ms;       /* 0: as long as others */
} shared[] = {
    {"reentrant", "%s", NULL, false, 0},
    {"nonreentrant", "%s", NULL, false, 0},
    {"spin", "%s", NULL, true, STEADY_MS},
    {"fenced", "%s", NULL, false, 0},
    {"fair", "%s", NULL, false, 0},
    {"write", "%s", NULL, false, 0},
    {"multi", "long/reentrant/%s.a,long/reentrant/%s.b,long.1/reentrant/%s.c", NULL, false, 0},
    {"redlock", "long/reentrant/%s,long.1/reentrant/%s,long.2/reentrant/%s", NULL, true, 0},
    {"redlock", "long/reentrant/%s,long.1/reentrant/%s,long.2/reentrant/%s",
     "long.2/reentrant/%s,long.1/reentrant/%s,long/reentrant/%s", true, 0},
};

/* Writes the text with the name in each place of "%s". */
static void fill_in(char *ret_text, size_t size, const char *text, const char *name)
{
    const size_t len = strcspn(text, "%");

    test_text(ret_text, size, "%.*s%s", (int)len, text, text[len] != '\0' ? name : "");
    if (text[len] != '\0') {
        const size_t n = strlen(ret_text);
        fill_in(ret_text + n, size - n, text + len + 2, name);
    }
}

/* One line of the table; whether neither side had too little, and the lock excluded. */
static bool share_evenly(struct crowd *crowd, const struct workload *workload, struct cells *cells,
                         int run_ms)
{
    const uint64_t overlaps_before = cells_overlaps(cells), lost_before = cells_lost_updates(cells);
    const int64_t since_us = test_now_us();
    const struct member_of_crowd *java = &crowd->members[0], *ours = &crowd->members[1];
    int64_t all;

    crowd->pause_ms = workload->pause_ms;
    tell(crowd, THREADS, workload->hold_ms, run_ms);
    if (!hear(crowd, &all) || all == 0) {
        return false;
    }
    const int64_t took_us = test_elapsed_us(since_us);
    const int64_t percent = 100 * java->grants / all;
    const uint64_t overlaps = cells_overlaps(cells) - overlaps_before;
    const uint64_t lost = cells_lost_updates(cells) - lost_before;
    const bool is_even = percent >= LEAST_PERCENT / 2 && percent <= 100 - LEAST_PERCENT / 2;
    printf("  %-12s %4d ms %5d ms %8" PRId64 " %% %4" PRId64 " %% %8" PRId64 " ms %5" PRId64
           " ms %10" PRId64 "%s%s\n",
           crowd->kind, workload->hold_ms, workload->pause_ms, percent, 100 - percent,
           java->longest_ms, ours->longest_ms, all * 1000000 / took_us, is_even ? "" : "  UNEVEN",
           overlaps + lost > 0 ? "  OVERLAP" : "");
    fflush(stdout);
    return overlaps + lost == 0 && (is_even || test_missed(since_us, took_us / 10));
}

/* Whether this Redisson has the kind. */
static bool has_kind(struct crowd *crowd)
{
    struct peer *java = crowd->members[0].party->peer;
    const int id = peer_tell(java, "long loop %s %s locked", crowd->kind, crowd->name);
    const struct peer_answer answer = peer_wait(java, id, PATIENCE_MS);

    return answer.ok || strstr(answer.text, "UnsupportedOperation") == NULL ||
           strchr(crowd->name, ',') != NULL;
}

static bool share_kind(const struct shares_opts *opts, const struct shared *kind,
                       struct cells *cells, const char *path)
{
    struct crowd crowd = gather(opts, 1, 1);
    char name[64];
    bool is_good = true;
    int64_t all;

    test_text(name, sizeof(name), "%s", crowd.name);
    fill_in(crowd.name, sizeof(crowd.name), kind->name, name);
    fill_in(crowd.ours, sizeof(crowd.ours), kind->ours != NULL ? kind->ours : kind->name, name);
    crowd.kind = kind->kind;
    crowd.cells = path;
    if (!has_kind(&crowd)) {
        return true;
    }
    tell(&crowd, THREADS, 1, WARM_MS);
    if (!hear(&crowd, &all)) {
        return false;
    }
    const int usual_ms = opts->is_whole ? RUN_MS : BRIEF_MS;
    const int run_ms = kind->run_ms != 0 ? kind->run_ms : usual_ms;
    for (size_t i = 0; i < sizeof(workloads) / sizeof(workloads[0]); i++) {
        is_good = share_evenly(&crowd, &workloads[i], cells, run_ms) && is_good;
    }
    return is_good;
}

/* As many threads of Redisson as of ours, with locks of each kind. */
static bool share_kinds(const struct shares_opts *opts)
{
    char path[160];
    bool is_good = true;

    test_dir_make(path, sizeof(path) - 8);
    strcat(path, "/cells");
    struct cells *cells = cells_make(path, 1);
    printf("shares: %d threads of Redisson and %d of ours\n"
           "  kind            hold    pause   Redisson  rlock    longest waits  grants a second\n",
           THREADS, THREADS);
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
        const bool is_wanted = opts->kind != NULL ? strcmp(opts->kind, shared[i].kind) == 0
                                                  : opts->is_whole || shared[i].is_brief;
        if (is_wanted) {
            is_good = share_kind(opts, &shared[i], cells, path) && is_good;
        }
    }
    cells_close(cells);
    return is_good;
}

bool interop_shares(const struct shares_opts *opts)
{
    const int percent = opts->is_whole ? LEAST_PERCENT : LEAST_PERCENT / 2;
    const int enough = opts->is_whole ? TRIES - 1 : TRIES * 4 / 5;
    bool is_good = share_kinds(opts);

    for (size_t n_ours = 1; n_ours <= opts->n_ours && opts->kind == NULL; n_ours++) {
        struct crowd crowd = gather(opts, 1, n_ours);
        printf("shares: %d threads of Redisson and of each of %zu of ours\n", THREADS, n_ours);
        is_good = share_all(&crowd, percent) && is_good;
    }
    if (opts->kind == NULL) {
        is_good = try_beside(opts, 1, enough) && try_beside(opts, THREADS, enough) && is_good;
    }
    fflush(stdout);
    return is_good;
}

/* ---- fleets ---- */

/* So many processes with a thread each; the least part of its fair share that a side may have. */
static const struct mix {
    size_t n_java, n_ours;
    int least_percent;
} mixes[] = {{1, 1, 50}, {1, 6, 50}, {1, 48, 50}, {3, 4, 50}, {4, 1, 50}, {4, 48, 35}};

/* What the sides had in a run: Redisson's part, in thousandths; and the longest waits. */
struct mixed {
    int64_t part, rate, java_ms, ours_ms;
};

static bool play_mix(struct crowd *crowd, size_t n_java, int hold_ms, struct mixed *ret)
{
    const int64_t since_us = test_now_us();
    int64_t all, theirs = 0;

    *ret = (struct mixed){0};
    tell(crowd, 1, hold_ms, RUN_MS);
    if (!hear(crowd, &all) || all == 0) {
        return false;
    }
    ret->rate = all * 1000000 / test_elapsed_us(since_us);
    for (size_t i = 0; i < crowd->n; i++) {
        int64_t *longest_ms = i < n_java ? &ret->java_ms : &ret->ours_ms;
        theirs += i < n_java ? crowd->members[i].grants : 0;
        *longest_ms =
            crowd->members[i].longest_ms > *longest_ms ? crowd->members[i].longest_ms : *longest_ms;
    }
    ret->part = 1000 * theirs / all;
    return true;
}

static int compare_parts(const void *a, const void *b)
{
    const struct mixed *one = a, *two = b;

    return (one->part > two->part) - (one->part < two->part);
}

/* One line of the table, of the run with the median part; whether each side had enough. */
static bool mix(const struct shares_opts *opts, const struct mix *mix, int hold_ms)
{
    enum { RUNS = 5 };
    struct crowd crowd = gather(opts, mix->n_java, mix->n_ours);
    struct mixed runs[RUNS];
    int64_t all;

    tell(&crowd, 1, 1, WARM_MS);
    bool is_good = hear(&crowd, &all);
    for (size_t i = 0; i < RUNS && is_good; i++) {
        is_good = play_mix(&crowd, mix->n_java, hold_ms, &runs[i]);
    }
    if (!is_good) {
        return false;
    }
    qsort(runs, RUNS, sizeof(runs[0]), compare_parts);
    const struct mixed *median = &runs[RUNS / 2];
    const int64_t fair = 1000 * (int64_t)mix->n_java / (int64_t)crowd.n;
    is_good = median->part * 100 >= fair * mix->least_percent &&
              (1000 - median->part) * 100 >= (1000 - fair) * mix->least_percent;
    printf("  %zu : %-4zu %4d ms  %5.1f %% [%.1f..%.1f] of %5.1f %%  %6" PRId64 " ms %6" PRId64
           " ms %8" PRId64 "%s\n",
           mix->n_java, mix->n_ours, hold_ms, (double)median->part / 10, (double)runs[0].part / 10,
           (double)runs[RUNS - 1].part / 10, (double)fair / 10, median->java_ms, median->ours_ms,
           median->rate, is_good ? "" : "  UNEVEN");
    fflush(stdout);
    return is_good;
}

bool interop_mixes(const struct shares_opts *opts)
{
    bool is_good = true;

    printf("mixes: a thread in each process\n"
           "  processes   hold  Redisson's share            longest waits    grants a second\n");
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
        is_good = mix(opts, &mixes[i], 2) && is_good;
        is_good = mix(opts, &mixes[i], 10) && is_good;
    }
    return is_good;
}
