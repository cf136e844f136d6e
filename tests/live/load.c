/* SPDX-License-Identifier: Apache-2.0 */
#include "live/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support/clients.h"

enum {
    THREADS = 2,      /* of each process, besides the one that holds for long */
    HOT = 12,         /* names that half of the calls are for */
    MEMBERS = 3,      /* of a multi-lock, at most */
    KINDS = 6,        /* the two sides of a read/write lock are one */
    HELD = 2 * KINDS, /* names that are held for long; behind the others */
    CODES = 24,
    REASONS = 11,
    PAUSE_US = 20000, /* at most, between two calls */
    OP_MS = 1000,     /* deadline of a call without a wait */
    LATE_MS_MOST = 50,
    FAR_MS = 10,        /* what the machine does to two threads, of which its witness is none */
    LONGEST_MS = 30000, /* without a grant */
    CELLS = LOAD_NAMES + HELD,
};

/* What all processes share. */
struct shared {
    _Atomic bool stop;
    _Atomic uint64_t grants, codes[CODES], unlocked[CODES], reasons[REASONS], late, went_back;
    _Atomic int64_t latest_us, granted_us, gap_us;
    struct {
        _Atomic int64_t unsure_us; /* when a call on it had no certain end */
        _Atomic uint64_t token, told;
    } names[CELLS];
};

struct load {
    struct witness *witness;
    struct shared *shared;
    struct test_child *children[LOAD_PROCESSES];
    size_t seat; /* in a child: its own */
    struct rlock_client_opts opts;
    char url[300];
    int64_t lease_ms;
};

struct worker {
    struct load *load;
    struct rlock_client *client;
    uint64_t id, random;
    pthread_t thread;
};

struct member {
    size_t number;
    bool reads;
    struct rlock_handle *lock;
};

static unsigned int draw(struct worker *worker, unsigned int n)
{
    worker->random = worker->random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned int)(worker->random >> 33) % n;
}

static void raise_to(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);

    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

void load_name(size_t number, char *out, size_t size)
{
    test_text(out, size, "soak-%zu", number);
}

/* ---- In a child: one turn ---- */

static struct member make_member(struct worker *worker, size_t number)
{
    struct member member = {.number = number};
    size_t kind = number % KINDS;
    char name[32];

    if (kind == KIND_READ) {
        member.reads = draw(worker, 3) > 0;
        kind += !member.reads;
    }
    load_name(number, name, sizeof(name));
    TEST_CHECK(single_kinds[kind].make(worker->client, name, NULL, &member.lock) == 0);
    return member;
}

static size_t choose(struct worker *worker, struct member members[static MEMBERS])
{
    const size_t n = draw(worker, 4) > 0 ? 1 : 2 + draw(worker, MEMBERS - 1);
    const unsigned int names = draw(worker, 2) == 0 ? HOT : LOAD_NAMES;
    const size_t first = draw(worker, names);

    for (size_t i = 0; i < n; i++) { /* of several kinds, and no name twice */
        members[i] = make_member(worker, (first + i * 5) % names);
    }
    return n;
}

/* A call was to end within a time. What the machine stood still in it does not count. */
static void note_time(const struct worker *worker, int64_t since_us, int64_t limit_ms)
{
    struct shared *shared = worker->load->shared;
    const int64_t limit_us = (limit_ms + LATE_MS_MOST) * 1000 * test_slack();
    int64_t late_us = test_elapsed_us(since_us) - limit_us;

    if (late_us > 0) {
        late_us -= test_stalls_us(since_us);
        raise_to(&shared->latest_us, late_us);
        atomic_fetch_add(&shared->late, late_us > 0);
    }
}

/* What is left of a lock is nobody's business but of whoever has it, unless a call said so. */
static void note_unsure(const struct worker *worker, const struct member *members, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        atomic_store(&worker->load->shared->names[members[i].number].unsure_us, test_now_us());
    }
}

static bool is_due(int code)
{
    switch (code) {
    case 0:
    case RLOCK_EBUSY:
    case RLOCK_ETIMEDOUT:
    case RLOCK_ECONN:
    case RLOCK_ELOST:
    case RLOCK_EINDOUBT:
    case RLOCK_ENOTREPLICATED:
        return true;
    default:
        return false;
    }
}

static void note_code(const char *what, _Atomic uint64_t *codes, int code)
{
    if (!is_due(code)) {
        test_die("%s: %s: %s", what, rlock_code_name(code), rlock_detail());
    }
    atomic_fetch_add(&codes[-code], 1);
}

static void note_grant(const struct worker *worker)
{
    struct shared *shared = worker->load->shared;
    const int64_t now_us = test_now_us();

    raise_to(&shared->gap_us, now_us - atomic_exchange(&shared->granted_us, now_us));
    atomic_fetch_add(&shared->grants, 1);
}

static void enter(const struct worker *worker, const struct member *member)
{
    (member->reads ? witness_enter_shared : witness_enter)(worker->load->witness, member->number,
                                                           worker->id);
}

static void leave(const struct worker *worker, const struct member *member)
{
    (member->reads ? witness_leave_shared : witness_leave)(worker->load->witness, member->number,
                                                           worker->id);
}

/* From one inside to the next, tokens grow. */
static void note_token(const struct worker *worker, const struct member *member, uint64_t token)
{
    struct shared *shared = worker->load->shared;
    const uint64_t before = atomic_exchange(&shared->names[member->number].token, token);

    atomic_fetch_add(&shared->went_back, token <= before);
}

/* Whoever comes here late, by the machine, might outlast the validity. */
static bool is_safe(const struct worker *worker, const struct rlock_handle *lock)
{
    return rlock_valid_ms(lock) >= worker->load->lease_ms / 3;
}

static void work(struct worker *worker, const struct member *members, size_t n,
                 const struct rlock_handle *lock, uint64_t token)
{
    if (!is_safe(worker, lock)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        enter(worker, &members[i]);
    }
    if (token != 0) {
        note_token(worker, &members[0], token);
    }
    if (draw(worker, 4) == 0) {
        (void)test_pause_until(test_now_us() + 1000);
    }
    for (size_t i = 0; i < n; i++) {
        leave(worker, &members[i]);
    }
}

/* Gives it back, again where the server did nothing. */
static void give_back(const struct worker *worker, const struct member *members, size_t n,
                      struct rlock_handle *lock)
{
    int code;

    do {
        const int64_t since_us = test_now_us();

        code = rlock_unlock(lock);
        note_time(worker, since_us, OP_MS);
        note_code("unlock", worker->load->shared->unlocked, code);
        if (code != 0) {
            note_unsure(worker, members, n);
        }
    } while (code == RLOCK_ECONN || code == RLOCK_ETIMEDOUT);
}

static struct rlock_handle *together(const struct member *members, size_t n)
{
    struct rlock_handle *locks[MEMBERS], *multi = NULL;

    for (size_t i = 0; i < n; i++) {
        locks[i] = members[i].lock;
    }
    if (n > 1) {
        TEST_CHECK(rlock_multi_new(locks, n, NULL, &multi) == 0);
    }
    return n > 1 ? multi : locks[0];
}

static int take(struct worker *worker, struct rlock_handle *lock, struct rlock_grant *ret_grant)
{
    const int64_t wait_ms = draw(worker, 8) == 0 ? 0 : 1 + draw(worker, 4000);
    const bool is_leased = draw(worker, 4) == 0 && strcmp(rlock_kind(lock), "semaphore") != 0;
    const int64_t lease_ms = is_leased ? worker->load->lease_ms : 0;
    const int64_t since_us = test_now_us();
    const int code = rlock_lock_for(lock, wait_ms, RLOCK_TAKE(.lease_ms = lease_ms), ret_grant);

    note_time(worker, since_us, wait_ms + OP_MS);
    note_code("take", worker->load->shared->codes, code);
    return code;
}

static void turn(struct worker *worker)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    struct member members[MEMBERS];
    const size_t n = choose(worker, members);
    struct rlock_handle *lock = together(members, n);
    const int code = take(worker, lock, &grant);

    if (code == 0) {
        note_grant(worker);
        work(worker, members, n, lock, n == 1 ? grant.token : 0);
        give_back(worker, members, n, lock);
    } else if (code != RLOCK_EBUSY && code != RLOCK_ETIMEDOUT && code != RLOCK_ECONN) {
        note_unsure(worker, members, n);
    }
    (void)rlock_free(n > 1 ? lock : NULL);
    for (size_t i = 0; i < n; i++) {
        (void)rlock_free(members[i].lock);
    }
}

static void *turns(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->load->shared->stop)) {
        turn(worker);
        (void)test_pause_until(test_now_us() + draw(worker, PAUSE_US));
    }
    return NULL;
}

/* ---- In a child: one that holds for long ---- */

/* Inside while that is safe, and in again when it is once more: for two leases at most. */
static void stay(struct worker *worker, const struct member *member)
{
    const int64_t end_us = test_now_us() + 2 * worker->load->lease_ms * 1000;
    bool inside = false;

    while (test_pause_until(end_us) && !atomic_load(&worker->load->shared->stop) &&
           rlock_is_valid(member->lock)) {
        if (is_safe(worker, member->lock) != inside) {
            inside = !inside;
            (inside ? enter : leave)(worker, member);
        }
    }
    if (inside) {
        leave(worker, member);
    }
}

static void hold_long(struct worker *worker)
{
    for (size_t i = worker->load->seat; !atomic_load(&worker->load->shared->stop); i++) {
        struct member member = make_member(worker, LOAD_NAMES + i % HELD);
        const int64_t since_us = test_now_us();
        const int code = rlock_lock_for(member.lock, 2000, NULL, NULL);

        note_time(worker, since_us, 2000 + OP_MS);
        note_code("take", worker->load->shared->codes, code);
        if (code == 0) {
            note_grant(worker);
            stay(worker, &member);
            give_back(worker, &member, 1, member.lock);
        } else if (code == RLOCK_EINDOUBT || code == RLOCK_ENOTREPLICATED) {
            note_unsure(worker, &member, 1);
        }
        (void)rlock_free(member.lock);
    }
}

/* ---- In a child: its life ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct shared *shared = ((const struct load *)payload)->shared;
    const char *dash = strrchr(loss->name, '-');

    atomic_fetch_add(&shared->reasons[loss->reason], 1);
    if (dash != NULL) {
        const size_t number = strtoul(dash + 1, NULL, 10);

        atomic_store(&shared->names[number].unsure_us, test_now_us());
        atomic_fetch_add(&shared->names[number].told, 1);
    }
}

static int process_main(struct test_peer *peer, void *payload)
{
    struct load *load = payload;
    struct worker workers[THREADS + 1];
    struct rlock_client *client = NULL;

    (void)peer;
    load->opts.payload = load;
    TEST_CHECK(rlock_client_open(&load->opts, &client) == 0);
    for (size_t i = 0; i <= THREADS; i++) {
        workers[i] = (struct worker){
            .load = load, .client = client, .id = load->seat * (THREADS + 1) + i + 1};
        workers[i].random = workers[i].id * 7919;
    }
    for (size_t i = 0; i < THREADS; i++) {
        TEST_CHECK(pthread_create(&workers[i].thread, NULL, turns, &workers[i]) == 0);
    }
    hold_long(&workers[THREADS]);
    for (size_t i = 0; i < THREADS; i++) {
        TEST_CHECK(pthread_join(workers[i].thread, NULL) == 0);
    }
    TEST_CHECK(rlock_client_close(client) == NULL);
    return 0;
}

/* ---- In the parent ---- */

struct load *load_begin(const struct fixture *f, const char *url, int acks, int64_t lease_ms)
{
    struct load *load = calloc(1, sizeof(*load));

    TEST_CHECK(load != NULL);
    load->lease_ms = test_ms(lease_ms);
    load->witness = witness_new(CELLS);
    load->shared = mmap(NULL, sizeof(*load->shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_CHECK(load->shared != MAP_FAILED);
    test_text(load->url, sizeof(load->url), "%s", url);
    load->opts = client_opts(
        f, RLOCK_CLIENT_OPTS(.url = load->url, .acks = acks, .renewed_lease_ms = load->lease_ms,
                             .op_timeout_ms = OP_MS * test_slack(), .on_lost = on_lost));
    atomic_store(&load->shared->granted_us, test_now_us());
    for (load->seat = 0; load->seat < LOAD_PROCESSES; load->seat++) {
        load->children[load->seat] = test_child_spawn(process_main, load);
    }
    return load;
}

void load_end(struct load *load)
{
    atomic_store(&load->shared->stop, true);
    for (size_t i = 0; i < LOAD_PROCESSES; i++) {
        const int status = test_child_wait(load->children[i], 20000);

        if (status != 0) {
            test_die("process %zu ended with %d", i, status);
        }
    }
}

struct load *load_free(struct load *load)
{
    load->witness = witness_free(load->witness);
    (void)munmap(load->shared, sizeof(*load->shared));
    free(load);
    return NULL;
}

uint64_t load_grants(const struct load *load)
{
    return atomic_load(&load->shared->grants);
}

void load_await(const struct load *load, uint64_t grants)
{
    const uint64_t end = load_grants(load) + grants;

    TEST_CHECK(TEST_EVENTUALLY(load_grants(load) >= end, LONGEST_MS));
}

uint64_t load_stolen(const struct load *load)
{
    return load->shared->reasons[RLOCK_LOST_DELETED] + load->shared->reasons[RLOCK_LOST_TAKEN];
}

static void print(const struct load *load)
{
    const struct shared *shared = load->shared;

    print_message("%llu grants, at most %lld ms without one; %llu calls late, the latest by %lld "
                  "ms; %llu tokens went back\n",
                  (unsigned long long)shared->grants, (long long)shared->gap_us / 1000,
                  (unsigned long long)shared->late, (long long)shared->latest_us / 1000,
                  (unsigned long long)shared->went_back);
    for (int i = 0; i < CODES; i++) {
        if (shared->codes[i] != 0 || shared->unlocked[i] != 0) {
            print_message("  %s: %llu taking, %llu unlocking\n", rlock_code_name(-i),
                          (unsigned long long)shared->codes[i],
                          (unsigned long long)shared->unlocked[i]);
        }
    }
    for (int i = 1; i < REASONS; i++) {
        if (shared->reasons[i] != 0) {
            print_message("  lost: %llu, %s\n", (unsigned long long)shared->reasons[i],
                          rlock_reason_text((int)i));
        }
    }
}

bool load_is_clean(const struct load *load)
{
    print(load);
    return witness_is_clean(load->witness, stderr) && load->shared->latest_us < FAR_MS * 1000 &&
           load->shared->went_back == 0;
}

bool load_overlaps_were_told(const struct load *load)
{
    struct witness_overlap overlaps[64];
    const size_t n = witness_read(load->witness, overlaps, 64);
    bool told = true;

    print(load);
    for (size_t i = 0; i < n; i++) {
        told = told && atomic_load(&load->shared->names[overlaps[i].cell].told) > 0;
    }
    return told && load->shared->latest_us < FAR_MS * 1000;
}

bool load_is_excused(const struct load *load, size_t number, int64_t since_us)
{
    return atomic_load(&load->shared->names[number].unsure_us) >= since_us;
}
