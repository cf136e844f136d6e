/*
 * The mixed stress: two JVMs and two processes of ours, eight threads each, on twelve locks, one of
 * the processes killed now and then. Exclusion is witnessed by cells.h, progress by the longest
 * wait and by every process having had every lock.
 */
#include "cells.h"
#include "interop.h"

#include "support/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LEASE_MS = 4000, /* all holds; a killed process's locks are free after it */
    KILL_EVERY_MS = 3500,
    KILLS_END_MS = 4000, /* before the end: everybody is there, and works, when it is over */
    LONGEST_MS = 24000,  /* more is stuck: three kills that follow each other, each of them of who
                            takes Redisson's RedLock, with leases of twice its wait: up to 8 s */
    INSIDE_MS = 1000,    /* to wait for who is to be killed to be inside the RedLock */
    WITNESS_MS = 20000   /* without locks, much less will do */
};

/* The locks, by the kinds under which all use them: a row each. "read|write" is one or the other;
 * groups name their members. A RedLock is wanted rarely: it is the slowest by far, and were it
 * wanted as often as the others, most threads would stand there and the others get half as much.
 * Whoever has it keeps it, that its few grants meet if they can. */
static const char *const locks[] = {
    "reentrant",
    "reentrant",
    "reentrant",
    "nonreentrant",
    "spin",
    "fenced",
    "fair",
    "fair",
    "read|write",
    "read|write",
    "multi=stress/reentrant/multi.a,stress.1/reentrant/multi.b",
    "rarely:redlock=stress.2/reentrant/red,stress.3/reentrant/red,stress.4/reentrant/red",
};
enum { N_LOCKS = sizeof(locks) / sizeof(locks[0]), REDLOCK = N_LOCKS - 1 /* its row */ };

struct stress {
    const struct stress_opts *opts;
    struct cells *cells;
    char path[320];
    const char *without; /* NULL; or "none": nobody locks */
    int running[CELLS_SLOTS];
    bool lacks[CELLS_SLOTS][N_LOCKS];
    size_t kills;
    size_t kills_inside; /* of who was inside the RedLock then */
    size_t n_events;
};

/* Whether the process has all kinds of a row. */
static bool has_all(struct party *party, const char *row)
{
    const size_t len = strcspn(row, "|");
    char first[32];

    if (strchr(row, '=') != NULL) { /* groups have all */
        return true;
    }
    test_text(first, sizeof(first), "%.*s", (int)len, row);
    return party_has(party, "stress", first) &&
           (row[len] == '\0' || party_has(party, "stress", row + len + 1));
}

/* The rows as words for a slot's process, "-" for what it lacks. */
static void list_kinds(struct stress *stress, size_t slot, char *ret_words, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < N_LOCKS; i++) {
        stress->lacks[slot][i] = !has_all(&stress->opts->parties[slot], locks[i]);
        const char *word = stress->without != NULL  ? stress->without
                           : stress->lacks[slot][i] ? "-"
                                                    : locks[i];
        n += (size_t)snprintf(ret_words + n, size - n, " %s", word);
        TEST_CHECK(n < size);
    }
}

static void begin(struct stress *stress, size_t slot)
{
    struct party *party = &stress->opts->parties[slot];
    char kinds[1024];

    TEST_CHECK(party_open_client(party, "stress", &(struct client_opts){.lease_ms = LEASE_MS}).ok);
    list_kinds(stress, slot, kinds, sizeof(kinds));
    stress->running[slot] = peer_tell(party->peer, "stress - - - stress %s %zu %d%s",
                                      peer_word(stress->path), slot, LEASE_MS, kinds);
}

/* Prints the first of what the processes tell of errors, and with it what they have written. */
static void print_events(struct stress *stress)
{
    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        struct peer *peer = stress->opts->parties[slot].peer;
        (void)peer_has_answered(peer, stress->running[slot]); /* reads what is there */
        for (const char *event = peer_event(peer, "", 0); event != NULL;
             event = peer_event(peer, "", 0)) {
            if (stress->n_events++ < 10 && stress->without == NULL) {
                printf("%s: %s\n", peer_label(peer), event);
                fflush(stdout);
                if (stress->n_events == 1) {
                    test_show_file(peer_log(peer));
                }
            }
        }
    }
}

/* Any process; every third time when it is inside the RedLock, which it seldom is at a moment taken
 * at random. */
static void kill_one(struct stress *stress)
{
    const size_t slot = (size_t)rand() % CELLS_SLOTS;
    const int64_t end_us = test_deadline_us(INSIDE_MS);

    while (stress->kills % 3 == 0 && !cells_holds(stress->cells, REDLOCK, slot) &&
           test_now_us() < end_us) {
        usleep(50);
    }
    peer_kill(stress->opts->parties[slot].peer);
    stress->kills_inside += cells_holds(stress->cells, REDLOCK, slot);
    cells_evict(stress->cells, slot);
    peer_restart(stress->opts->parties[slot].peer);
    begin(stress, slot);
    stress->kills++;
}

static void run(struct stress *stress, int64_t ms, bool kills)
{
    const int64_t end_us = test_now_us() + ms * 1000;
    int64_t kill_us = test_now_us() + (int64_t)KILL_EVERY_MS * 1000;

    while (test_pause_until(end_us)) {
        print_events(stress);
        if (kills && test_now_us() > kill_us && test_now_us() < end_us - KILLS_END_MS * 1000) {
            kill_one(stress);
            kill_us = test_now_us() + (int64_t)(KILL_EVERY_MS + rand() % 1000) * 1000;
        }
    }
}

/* Everybody leaves; true when they did. */
static bool finish(struct stress *stress)
{
    bool all = true;

    cells_stop(stress->cells);
    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        const struct peer_answer answer =
            peer_wait(stress->opts->parties[slot].peer, stress->running[slot], LONGEST_MS);
        if (!answer.ok) {
            printf("stress: %s\n", answer.text);
            all = false;
        }
    }
    return all;
}

static struct stress *stress_new(const struct stress_opts *opts, const char *without)
{
    struct stress *stress = calloc(1, sizeof(*stress));

    TEST_CHECK(stress != NULL);
    stress->opts = opts;
    stress->without = without;
    test_dir_make(stress->path, sizeof(stress->path) - 8);
    strcat(stress->path, "/cells");
    stress->cells = cells_make(stress->path, N_LOCKS);
    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        begin(stress, slot);
    }
    return stress;
}

static struct stress *stress_free(struct stress *stress)
{
    cells_close(stress->cells);
    free(stress);
    return NULL;
}

/* What the tables call a row. */
static void label_row(const char *row, char *ret_label, size_t size)
{
    const char *colon = strchr(row, ':');
    const char *kinds = colon != NULL ? colon + 1 : row;

    test_text(ret_label, size, "%.*s", (int)strcspn(kinds, "="), kinds);
}

/* How often each process had each lock. */
static void print_locks(const struct stress *stress)
{
    printf("\n%-18s", "stress");
    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        printf(" %15s", peer_label(stress->opts->parties[slot].peer));
    }
    for (size_t i = 0; i < N_LOCKS; i++) {
        char label[32];
        label_row(locks[i], label, sizeof(label));
        printf("\n%-18s", label);
        for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
            printf(" %15" PRIu64, cells_entries(stress->cells, i, slot));
        }
    }
    printf("\n");
}

/* What the slots counted. */
static void print_slots(const struct stress *stress)
{
    static const int widths[CELLS_N_SCORES] = {9, 7, 8, 8, 5, 6, 10};

    printf("\n%-18s %9s %7s %8s %8s %5s %6s %10s\n", "stress", "grants", "nested", "refused",
           "in doubt", "lost", "errors", "longest ms");
    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        printf("%-18s", peer_label(stress->opts->parties[slot].peer));
        for (int score = 0; score < CELLS_N_SCORES; score++) {
            printf(" %*" PRIu64, widths[score],
                   cells_score(stress->cells, slot, (enum cells_score)score) /
                       (score == CELLS_LONGEST_US ? 1000 : 1));
        }
        printf("\n");
    }
    printf("%" PRId64 " s, %zu kills, %zu inside the RedLock: %" PRIu64 " overlaps, %" PRIu64
           " lost updates, %" PRIu64 " stale tokens, %zu still inside\n",
           stress->opts->seconds, stress->kills, stress->kills_inside,
           cells_overlaps(stress->cells), cells_lost_updates(stress->cells),
           cells_stale_tokens(stress->cells), cells_inside(stress->cells));
}

/* Calls that wait for 100 ms are in doubt when the machine stands still for longer: that is no
 * error, but it is rare. */
static bool is_good(const struct cells *cells, size_t slot)
{
    const uint64_t grants = cells_score(cells, slot, CELLS_GRANTS);

    return grants > 0 && cells_score(cells, slot, CELLS_IN_DOUBT) <= 5 + grants / 100 &&
           cells_score(cells, slot, CELLS_LOST) == 0 &&
           cells_score(cells, slot, CELLS_ERRORS) == 0 &&
           cells_score(cells, slot, CELLS_LONGEST_US) < LONGEST_MS * 1000;
}

static bool has_had_all(const struct stress *stress, size_t slot)
{
    bool has = true;

    for (size_t i = 0; i < N_LOCKS; i++) {
        has = has && (stress->lacks[slot][i] || cells_entries(stress->cells, i, slot) > 0);
    }
    return has;
}

static bool is_clean(const struct stress *stress)
{
    const struct cells *cells = stress->cells;
    bool is_clean = cells_overlaps(cells) == 0 && cells_lost_updates(cells) == 0 &&
                    cells_stale_tokens(cells) == 0 && cells_inside(cells) == 0;

    for (size_t slot = 0; slot < CELLS_SLOTS; slot++) {
        is_clean = is_clean && is_good(cells, slot) && has_had_all(stress, slot);
    }
    return is_clean;
}

bool interop_stress(const struct stress_opts *opts)
{
    struct stress *stress = stress_new(opts, NULL);

    run(stress, opts->seconds * 1000, true);
    const bool has_ended = finish(stress);
    print_events(stress);
    print_locks(stress);
    print_slots(stress);
    const bool is_all_good = has_ended && is_clean(stress);
    stress_free(stress);
    return is_all_good;
}

/* Both observations were made, and across the languages. */
static bool is_dirty(const struct cells *cells)
{
    return cells_mixed_overlaps(cells) > 0 && cells_lost_updates(cells) > 0;
}

bool interop_stress_is_witnessed(const struct stress_opts *opts)
{
    struct stress *stress = stress_new(opts, "none");

    const int64_t end_us = test_deadline_us(WITNESS_MS);
    while (!is_dirty(stress->cells) && test_now_us() < end_us) {
        run(stress, 100, false);
    }
    const bool has_ended = finish(stress);
    const bool is_seen = is_dirty(stress->cells);
    stress_free(stress);
    return has_ended && is_seen;
}
