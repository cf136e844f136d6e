/* The C half of the mixed stress; java/src/main/java/rlock/interop/Stress.java is the other. */
#include "agent.h"
#include "cells.h"

#include "support/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RARELY = 8 }; /* one turn of so many, of those that others get */

struct stress {
    const char *client;
    struct cells *cells;
    size_t slot;
    int64_t lease_ms;
    size_t n_cells;
    const char *const *kinds; /* of each cell's lock, as "reentrant", "read|write" or, with names of
                                 their own, "multi=…|reentrant=…"; "rarely:…" is wanted
                                 seldom, and kept for long */
};

struct user {
    const struct stress *stress;
    uint64_t id;
    unsigned int seed;
};

static size_t any(struct user *user, size_t n)
{
    return (size_t)rand_r(&user->seed) % n;
}

static void count(const struct user *user, enum cells_score score)
{
    cells_count(user->stress->cells, user->stress->slot, score);
}

static void failed(const struct user *user, int code)
{
    count(user, CELLS_ERRORS);
    agent_event("error %llu %s: %s", (unsigned long long)user->id, rlock_code_name(code),
                rlock_detail());
}

static const char rarely[] = "rarely:";

static bool is_rare(const char *kinds)
{
    return strncmp(kinds, rarely, strlen(rarely)) == 0;
}

static size_t choose_cell(struct user *user)
{
    const struct stress *stress = user->stress;
    size_t cell = any(user, stress->n_cells);

    while (is_rare(stress->kinds[cell]) && any(user, RARELY) != 0) {
        cell = any(user, stress->n_cells);
    }
    return cell;
}

/* What a turn is about: one of those that are offered for a cell. */
struct choice {
    char kind[32];
    char name[512];
};

static struct choice choose(struct user *user, size_t cell)
{
    struct choice choice;
    char offered[1024];
    char *rest = offered;
    size_t n = 1;

    const char *kinds = user->stress->kinds[cell];
    test_text(offered, sizeof(offered), "%s", is_rare(kinds) ? kinds + strlen(rarely) : kinds);
    for (const char *at = offered; *at != '\0'; at++) {
        n += *at == '|';
    }
    const char *name = NULL;
    for (size_t turn = any(user, n) + 1; turn > 0; turn--) {
        name = strsep(&rest, "|");
    }
    const size_t len = strcspn(name, "=");
    test_text(choice.kind, sizeof(choice.kind), "%.*s", (int)len, name);
    if (name[len] == '=') {
        test_text(choice.name, sizeof(choice.name), "%s", name + len + 1);
    } else {
        test_text(choice.name, sizeof(choice.name), "stress-%zu", cell);
    }
    return choice;
}

static int take(struct user *user, struct rlock_handle *lock, struct rlock_grant *ret_grant)
{
    switch (any(user, 4)) {
    case 0:
        return rlock_lock_for(lock, RLOCK_FOREVER, NULL, ret_grant);
    case 1:
        return rlock_lock_for(lock, RLOCK_FOREVER, RLOCK_TAKE(.lease_ms = user->stress->lease_ms),
                              ret_grant);
    case 2:
        return rlock_lock_for(lock, 100, NULL, ret_grant);
    default:
        return rlock_lock_for(lock, 0, NULL, ret_grant);
    }
}

static void give(const struct user *user, struct rlock_handle *lock)
{
    const int code = lock != NULL ? rlock_unlock(lock) : 0;

    if (code == RLOCK_ELOST) {
        count(user, CELLS_LOST);
    } else if (code != 0) {
        failed(user, code);
    }
}

static void be_inside(struct user *user, size_t cell, bool shared, uint64_t token)
{
    if (!cells_enter(user->stress->cells, cell, user->id, shared)) {
        agent_event("overlap cell %zu: %llu entered", cell, (unsigned long long)user->id);
    }
    if (token != 0 && !cells_fence(user->stress->cells, cell, token)) {
        agent_event("stale token %llu of cell %zu", (unsigned long long)token, cell);
    }
    if (any(user, 4) == 0 || is_rare(user->stress->kinds[cell])) {
        usleep((useconds_t)any(user, 900));
    }
    cells_leave(user->stress->cells, cell, user->id, shared);
}

static void hold(struct user *user, struct rlock_handle *lock, size_t cell, const char *kind,
                 uint64_t token)
{
    bool nests = lock != NULL && strcmp(kind, "nonreentrant") != 0 && any(user, 8) == 0;

    if (nests) {
        const int code = rlock_lock(lock);
        nests = code == 0;
        if (code != 0) {
            failed(user, code);
        }
        count(user, CELLS_NESTED);
    }
    be_inside(user, cell, strcmp(kind, "read") == 0, token);
    give(user, lock);
    if (nests) {
        give(user, lock);
    }
}

static void turn(struct user *user)
{
    const struct stress *stress = user->stress;
    const size_t cell = choose_cell(user);
    const int64_t since_us = test_now_us();
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct rlock_handle *lock = NULL;
    const struct choice choice = choose(user, cell);
    int code = 0;

    if (strcmp(choice.kind, "none") != 0) {
        lock = agent_lock(stress->client, choice.kind, choice.name);
        TEST_CHECK(lock != NULL);
        code = take(user, lock, &grant);
    }
    if (code == 0) {
        cells_waited(stress->cells, stress->slot, test_elapsed_us(since_us));
        count(user, CELLS_GRANTS);
        hold(user, lock, cell, choice.kind, grant.token);
    } else if (code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT || code == RLOCK_ENOTREPLICATED) {
        count(user, CELLS_REFUSED); /* also where a busy replica has confirmed it too late */
    } else if (code == RLOCK_EINDOUBT) {
        count(user, CELLS_IN_DOUBT);
    } else {
        failed(user, code);
    }
}

static void *user_main(void *arg)
{
    const struct stress *stress = arg;
    static _Atomic unsigned int n_users;
    const size_t thread = n_users++ % CELLS_THREADS;
    struct user user = {.stress = stress,
                        .id = cells_id(stress->slot, thread),
                        .seed = (unsigned int)(test_now_us() + (int64_t)thread)};

    while (!cells_is_stopped(stress->cells)) {
        turn(&user);
        usleep((useconds_t)any(&user, 3000));
    }
    return NULL;
}

void agent_stress(const struct agent_request *request)
{
    const char *const *args = agent_args(request);
    struct stress stress = {.client = agent_client(request),
                            .cells = cells_open(args[0]),
                            .slot = (size_t)agent_number(request, 1),
                            .lease_ms = agent_number(request, 2),
                            .n_cells = request->n_args - 3,
                            .kinds = args + 3};
    pthread_t threads[CELLS_THREADS];

    for (size_t i = 0; i < CELLS_THREADS; i++) {
        TEST_CHECK(pthread_create(&threads[i], NULL, user_main, &stress) == 0);
    }
    for (size_t i = 0; i < CELLS_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    cells_close(stress.cells);
    agent_ok(request, "%s", "");
}
