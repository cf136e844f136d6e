/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many at once. Not successes are counted but overlaps: a witness sees whoever is inside when
 * another enters, and updates that got lost.
 */
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>

/* One of the crowd. */
struct member {
    struct fixture *f;
    struct crowd *crowd;
    struct rlock_handle *lock;
    uint64_t id;
    bool is_rival; /* of another kind: excludes all others */
    size_t cell;
    pthread_t thread;
};

/* What a crowd does: so many rounds each; tries only, or waits. */
struct crowd {
    struct witness *witness;
    size_t n, rounds, cells;
    bool only_tries;
    bool has_clients; /* each of its own */
    _Atomic uint64_t grants;
    struct member members[128];
};

static void pass(struct member *member)
{
    struct witness *witness = member->crowd->witness;

    TEST_CHECK(rlock_is_valid(member->lock));
    if (member->is_rival) {
        witness_enter(witness, member->cell, member->id);
        witness_leave(witness, member->cell, member->id);
    } else {
        witness_enter_shared(witness, member->cell, member->id);
        witness_leave_shared(witness, member->cell, member->id);
    }
    atomic_fetch_add(&member->crowd->grants, 1);
}

static void *member_main(void *arg)
{
    struct member *member = arg;
    const bool tries = member->crowd->only_tries;

    for (size_t i = 0; i < member->crowd->rounds; i++) {
        const int code = tries ? rlock_try_lock(member->lock) : rlock_lock(member->lock);

        if (code == 0) {
            pass(member);
        } else if (code != RLOCK_EBUSY || !tries) {
            test_die("take: %s: %s", rlock_code_name(code), rlock_detail());
        }
        if (rlock_unlock(member->lock) != (code == 0 ? 0 : RLOCK_ENOTOWNER)) {
            test_die("unlock: %s", rlock_detail());
        }
    }
    return NULL;
}

/* A shared kind is mixed with its rivals: three of its own for one of them. */
static void join(struct fixture *f, struct crowd *crowd, size_t i, struct rlock_client *client)
{
    const bool is_rival = !kind_can(f, EXCLUDES_ITSELF) && i % 4 == 0;
    struct member *member = &crowd->members[i];
    char name[32];

    test_text(name, sizeof(name), "lock-%zu", i % crowd->cells);
    *member = (struct member){.f = f,
                              .crowd = crowd,
                              .id = i + 1,
                              .is_rival = is_rival || kind_can(f, EXCLUDES_ITSELF),
                              .cell = i % crowd->cells};
    if (is_rival) {
        assert_code(f->kind->make_rival(client, name, NULL, &member->lock), 0);
    } else {
        assert_code(f->kind->make(client, name, NULL, &member->lock), 0);
    }
}

static void run_crowd(struct fixture *f, struct crowd *crowd)
{
    struct rlock_client *client = crowd->has_clients ? NULL : client_open(f);

    crowd->cells = crowd->cells == 0 ? 1 : crowd->cells;
    crowd->witness = witness_new(crowd->cells);
    for (size_t i = 0; i < crowd->n; i++) {
        join(f, crowd, i, crowd->has_clients ? client_open(f) : client);
    }
    for (size_t i = 0; i < crowd->n; i++) {
        assert_int_equal(
            pthread_create(&crowd->members[i].thread, NULL, member_main, &crowd->members[i]), 0);
    }
    for (size_t i = 0; i < crowd->n; i++) {
        (void)pthread_join(crowd->members[i].thread, NULL);
        assert_null(rlock_free(crowd->members[i].lock));
    }
    print_message("%llu grants\n", (unsigned long long)crowd->grants);
    assert_true(witness_is_clean(crowd->witness, stderr));
    assert_int_equal(witness_entries(crowd->witness), crowd->grants);
    assert_true(crowd->only_tries || crowd->grants == crowd->n * crowd->rounds);
    crowd->witness = witness_free(crowd->witness);
}

/* Fewer rounds where each takes ten times as long. */
static size_t rounds(size_t n)
{
    return test_slack() > 1 ? (n + 4) / 5 : n;
}

void threads_of_one_client_exclude_each_other(struct fixture *f)
{
    struct crowd crowd = {.n = 15, .rounds = rounds(100)};

    run_crowd(f, &crowd);
}

void sixteen_clients_exclude_each_other(struct fixture *f)
{
    struct crowd crowd = {.n = 16, .rounds = rounds(25), .has_clients = true};

    run_crowd(f, &crowd);
}

void a_hundred_clients_once_each(struct fixture *f)
{
    struct crowd crowd = {.n = 100, .rounds = 1, .has_clients = true};

    run_crowd(f, &crowd);
}

void a_storm_of_tries_never_lets_two_in(struct fixture *f)
{
    struct crowd crowd = {.n = 16, .rounds = rounds(400), .only_tries = true};

    run_crowd(f, &crowd);
    assert_true(crowd.grants > 0);
}

void threads_on_five_names_leave_no_channel(struct fixture *f)
{
    struct crowd crowd = {.n = 32, .rounds = rounds(30), .cells = 5};

    run_crowd(f, &crowd);
}

void sixteen_clients_for_long(struct fixture *f)
{
    struct crowd crowd = {.n = 16, .rounds = rounds(500), .has_clients = true};

    run_crowd(f, &crowd);
}

void a_long_storm_of_tries(struct fixture *f)
{
    struct crowd crowd = {.n = 16, .rounds = rounds(10000), .only_tries = true};

    run_crowd(f, &crowd);
}
