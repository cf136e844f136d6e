/* SPDX-License-Identifier: Apache-2.0 */
#include "live/seats.h"

enum { MOST_LEVELS = 3, PAUSE_MS = 40 };

#define SINGLE(kind, rival, server, can_nest, is_reader)                                           \
    {                                                                                              \
#kind, rlock_##kind##_new, rlock_##rival##_new, NULL, server, 0, 1, can_nest, is_reader    \
    }
#define JOINED(text, how, servers_apart, members)                                                  \
    {                                                                                              \
        text, rlock_reentrant_new, rlock_reentrant_new, rlock_##how##_new, 0, servers_apart,       \
            members, true, false                                                                   \
    }

static const struct row rows[] = {
    SINGLE(reentrant, reentrant, 0, true, false),
    SINGLE(nonreentrant, nonreentrant, 1, false, false),
    SINGLE(spin, spin, 2, true, false),
    SINGLE(fenced, fenced, 0, true, false),
    SINGLE(fair, fair, 1, true, false),
    SINGLE(write, write, 2, true, false),
    SINGLE(read, write, 0, true, true),
    SINGLE(setnx, setnx, 1, true, false),
    JOINED("batch", multi, 0, 2),
    JOINED("multi", multi, 1, 2),
    JOINED("redlock", redlock, 1, 3),
};
_Static_assert(sizeof(rows) / sizeof(rows[0]) == SEATS, "a row for each seat");

unsigned draw(uint64_t *random, unsigned n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(*random >> 33) % n;
}

void pass_ms(int64_t ms)
{
    const int64_t end_us = test_now_us() + ms * 1000;

    while (test_pause_until(end_us)) {
    }
}

/* ---- An owner ---- */

/* A hold is used only while much of it is left: a pause of this thread must not outlast it. */
static void use(struct seat *seat)
{
    struct witness *witness = seat->weather->f->witness;
    const unsigned ms = draw(&seat->random, 5);

    if (rlock_valid_ms_as(seat->lock, seat->owner) < seat->weather->lease_ms / 2) {
        return;
    }
    if (seat->row->reads) {
        witness_enter_shared(witness, seat->cell, seat->cell + 1);
        pass_ms(ms);
        witness_leave_shared(witness, seat->cell, seat->cell + 1);
    } else {
        witness_enter(witness, seat->cell, seat->cell + 1);
        pass_ms(ms);
        witness_leave(witness, seat->cell, seat->cell + 1);
    }
}

static struct rlock_take draw_take(struct seat *seat, int64_t longest_wait_ms, int64_t *ret_wait_ms)
{
    const int64_t lease_ms = seat->weather->lease_ms;
    struct rlock_take take = {.size = sizeof(take), .owner = seat->owner};

    if (draw(&seat->random, 2) == 0) {
        take.lease_ms = lease_ms / 2 + draw(&seat->random, (unsigned)(lease_ms * 3 / 2));
    }
    *ret_wait_ms =
        draw(&seat->random, 3) != 0 ? 1 + draw(&seat->random, (unsigned)longest_wait_ms) : 0;
    return take;
}

/* How many levels the owner has in the end. */
static size_t take_levels(struct seat *seat)
{
    const size_t most = seat->row->nests ? 1 + draw(&seat->random, MOST_LEVELS) : 1;
    size_t n = 0;

    for (size_t tries = 0; n < most && tries < 2 * MOST_LEVELS; tries++) {
        int64_t wait_ms;
        const struct rlock_take take = draw_take(seat, seat->weather->lease_ms, &wait_ms);
        const int code = rlock_lock_for(seat->lock, wait_ms, &take, NULL);

        TEST_CHECK(code != RLOCK_EINVAL && code != RLOCK_ENOTOWNER && code != RLOCK_EREACQUIRE);
        if (code == RLOCK_ELOST) {
            break;
        }
        if (code == 0) {
            n++;
            atomic_fetch_add(&seat->grants, 1);
            use(seat);
        }
        if (draw(&seat->random, 3) == 0) {
            pass_ms(draw(&seat->random, 40));
        }
    }
    return n;
}

/* Most unlocks begin when something has just broken. */
static void await_a_blow(struct seat *seat)
{
    const size_t n = atomic_load(&seat->weather->n_blows);
    const int64_t end_us = test_now_us() + 150000;

    while (atomic_load(&seat->weather->n_blows) == n && test_pause_until(end_us)) {
    }
}

static void give_up(struct seat *seat, size_t n_levels)
{
    while (n_levels-- > 0) {
        if (draw(&seat->random, 3) == 0) {
            await_a_blow(seat);
        }
        const int code = rlock_unlock_as(seat->lock, seat->owner);

        TEST_CHECK(-code < CODES);
        atomic_fetch_add(&seat->unlocks[-code], 1);
        if (code == RLOCK_ENOTOWNER) {
            test_die("%s: a level that is held is not known to its unlock", seat->row->name);
        }
        if (draw(&seat->random, 4) == 0) {
            pass_ms(draw(&seat->random, 20));
        }
    }
}

static bool is_complete(const struct rlock_op *op)
{
    return rlock_op_code(op) != RLOCK_UNDER_WAY;
}

/* One more call of the same owner, beside its unlocks. */
static struct rlock_op *begin_another(struct seat *seat, bool for_ever)
{
    int64_t wait_ms;
    const struct rlock_take take = draw_take(seat, seat->weather->lease_ms, &wait_ms);
    struct rlock_op *op = NULL;

    if (seat->owner == 0 || !seat->row->nests || (!for_ever && draw(&seat->random, 2) == 0)) {
        return NULL;
    }
    wait_ms = for_ever ? RLOCK_FOREVER : wait_ms;
    TEST_CHECK(rlock_lock_async(seat->lock, wait_ms, &take, NULL, NULL, &op) == 0);
    return op;
}

static void end_another(struct seat *seat, struct rlock_op *op, bool cancels)
{
    if (op != NULL && cancels) {
        rlock_op_cancel(op);
    }
    TEST_CHECK(op == NULL || TEST_EVENTUALLY(is_complete(op), 20000));
    if (op != NULL && rlock_op_code(op) == 0) {
        give_up(seat, 1);
    }
    (void)rlock_op_unref(op);
}

static void has_nothing(const struct seat *seat)
{
    TEST_CHECK(!rlock_is_valid_as(seat->lock, seat->owner));
    TEST_CHECK(rlock_hold_count_as(seat->lock, seat->owner) == 0);
}

static void visit(struct seat *seat)
{
    const size_t n = take_levels(seat);
    struct rlock_op *another;

    if (n > 0 && draw(&seat->random, 2) == 0) {
        await_a_blow(seat);
    }
    another = begin_another(seat, false);
    give_up(seat, n);
    end_another(seat, another, draw(&seat->random, 2) == 0);
    has_nothing(seat);
}

/* Whether a call for the lock must wait for the servers that are stopped. */
static bool is_stuck(const struct seat *seat)
{
    const struct row *row = seat->row;
    size_t n = 0;

    for (size_t i = 0; i < row->n; i++) {
        n += (seat->weather->stopped >> (row->first + i * row->step)) & 1;
    }
    return n > (row->join == rlock_redlock_new ? row->n / 2 : 0);
}

static void visit_before_a_stop(struct seat *seat)
{
    const size_t n = take_levels(seat);
    struct rlock_op *another;

    while (!atomic_load(&seat->weather->is_stopped)) {
        pass_ms(1);
    }
    another = begin_another(seat, is_stuck(seat));
    give_up(seat, n);
    if (!is_stuck(seat)) {
        end_another(seat, another, false);
        another = NULL;
        has_nothing(seat);
    }
    atomic_store(&seat->is_over, true);
    while (atomic_load(&seat->weather->is_stopped)) {
        pass_ms(1);
    }
    end_another(seat, another, true);
    has_nothing(seat);
}

static void *owner_main(void *arg)
{
    struct seat *seat = arg;
    const size_t visits = 1 + draw(&seat->random, 3);

    seat->owner = draw(&seat->random, 4) == 0 ? 0 : seat->cell + 1;
    if (seat->weather->stopped != 0) {
        visit_before_a_stop(seat);
        return NULL;
    }
    for (size_t i = 0; i < visits; i++) {
        visit(seat);
        seat->owner = draw(&seat->random, 3) == 0 ? 0 : seat->cell + 1;
    }
    atomic_store(&seat->is_over, true);
    return NULL;
}

/* ---- The rival ---- */

static void *rival_main(void *arg)
{
    struct seat *seat = arg;
    struct witness *witness = seat->weather->f->witness;

    while (!atomic_load(&seat->weather->is_over)) {
        if (rlock_lock_for(seat->rival, draw(&seat->rival_random, 60), NULL, NULL) == 0) {
            if (rlock_valid_ms(seat->rival) >= seat->weather->lease_ms / 2) {
                atomic_fetch_add(&seat->rival_grants, 1);
                witness_enter(witness, seat->cell, SEATS + seat->cell + 1);
                pass_ms(draw(&seat->rival_random, 5));
                witness_leave(witness, seat->cell, SEATS + seat->cell + 1);
            }
            (void)rlock_unlock(seat->rival);
        }
        pass_ms(draw(&seat->rival_random, 60));
    }
    return NULL;
}

/* ---- Rounds ---- */

void seats_begin(struct seat *seats)
{
    atomic_store(&seats->weather->is_over, false);
    for (size_t i = 0; i < SEATS; i++) {
        struct seat *seat = &seats[i];

        atomic_store(&seat->is_over, false);
        TEST_CHECK(pthread_create(&seat->owner_thread, NULL, owner_main, seat) == 0);
        TEST_CHECK(pthread_create(&seat->rival_thread, NULL, rival_main, seat) == 0);
    }
}

bool seats_have_given_up(const struct seat *seats)
{
    bool over = true;

    for (size_t i = 0; i < SEATS; i++) {
        over = over && atomic_load(&seats[i].is_over);
    }
    return over;
}

void seats_join_owners(struct seat *seats)
{
    for (size_t i = 0; i < SEATS; i++) {
        TEST_CHECK(pthread_join(seats[i].owner_thread, NULL) == 0);
    }
}

void seats_end_rivals(struct seat *seats)
{
    atomic_store(&seats->weather->is_over, true);
    for (size_t i = 0; i < SEATS; i++) {
        TEST_CHECK(pthread_join(seats[i].rival_thread, NULL) == 0);
    }
}

static size_t keys_of(const struct seat *seat)
{
    const struct row *row = seat->row;
    size_t n = 0;

    for (size_t i = 0; i < row->n; i++) {
        const size_t server = row->first + i * row->step;

        n += (seat->weather->stopped & 1U << server) == 0 &&
             test_server_int(seat->weather->f->servers[server], "EXISTS %s%zu", row->name, i) == 1;
    }
    return n;
}

size_t seats_keys(const struct seat *seats, bool says)
{
    size_t all = 0;

    for (size_t i = 0; i < SEATS; i++) {
        const size_t n = keys_of(&seats[i]);

        if (says && n > 0) {
            print_message("%s: %zu keys are there\n", seats[i].row->name, n);
        }
        all += n;
    }
    return all;
}

/* ---- Opening and closing ---- */

static struct rlock_handle *lock_of(const struct row *row, const struct user *user, new_fn *make)
{
    struct rlock_handle *members[SERVERS], *lock = NULL;

    for (size_t i = 0; i < row->n; i++) {
        char name[32];

        test_text(name, sizeof(name), "%s%zu", row->name, i);
        assert_code(make(user->clients[row->first + i * row->step], name, NULL, &members[i]), 0);
    }
    if (row->join == NULL) {
        return members[0];
    }
    assert_code(row->join(members, row->n,
                          row->join == rlock_redlock_new ? RLOCK_OPTS(.max_lease_ms = -1) : NULL,
                          &lock),
                0);
    for (size_t i = 0; i < row->n; i++) {
        members[i] = rlock_free(members[i]);
    }
    return lock;
}

void seats_open(struct seat *seats, struct weather *weather, const struct user *user,
                const struct user *rival, uint64_t seed)
{
    for (size_t i = 0; i < SEATS; i++) {
        seats[i] = (struct seat){.weather = weather,
                                 .row = &rows[i],
                                 .cell = i,
                                 .lock = lock_of(&rows[i], user, rows[i].make),
                                 .rival = lock_of(&rows[i], rival, rows[i].make_rival),
                                 .random = seed * 2 * SEATS + i,
                                 .rival_random = seed * 2 * SEATS + SEATS + i};
    }
}

static void tell(const struct seat *seat)
{
    print_message("%-12s %zu grants, rival %zu; unlocks:", seat->row->name, seat->grants,
                  seat->rival_grants);
    for (int code = 0; code < CODES; code++) {
        if (seat->unlocks[code] > 0) {
            print_message(" %s %zu", rlock_code_name(-code), seat->unlocks[code]);
        }
    }
    print_message("\n");
}

void seats_close(struct seat *seats)
{
    size_t grants = 0, rival_grants = 0, doubts = 0;

    for (size_t i = 0; i < SEATS; i++) {
        tell(&seats[i]);
        grants += seats[i].grants;
        rival_grants += seats[i].rival_grants;
        doubts += seats[i].unlocks[-RLOCK_EINDOUBT];
        seats[i].lock = rlock_free(seats[i].lock);
        seats[i].rival = rlock_free(seats[i].rival);
    }
    assert_true(grants > 0 && rival_grants > 0 && doubts > 0);
}
