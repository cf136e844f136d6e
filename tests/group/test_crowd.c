/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crowd on ten names: processes with several clients each take random subsets as multi-locks, of
 * mixed kinds, and processes are killed all the time. A witness for each name sees whoever is
 * inside when another comes; whoever was killed inside stays there for a part of its lease, in
 * which nobody may come. Seconds in the ordinary run, a minute with RLOCK_TEST_SECONDS.
 */
#include <signal.h>
#include <sys/mman.h>

#include "support/waiter.h"

enum {
    NAMES = 10,
    FENCED_FROM = 5, /* names below: reentrant, non-reentrant or spin, which are one lock */
    RW_FROM = 7,
    MEMBERS = 4, /* of a subset, at most */
    PROCESSES = 10,
    WORKERS = 5,
    MOST = PROCESSES * WORKERS,
};

/* What all processes share. */
struct shared {
    _Atomic bool stop;
    _Atomic size_t victim; /* who holds something in this seat keeps it; MOST none */
    _Atomic uint64_t grants, refused, losses, doubts;
    _Atomic int64_t latest_us; /* how late a call returned, at most */
    struct {
        _Atomic bool holds;
        _Atomic uint64_t grants;
        _Atomic int64_t granted_us, longest_us; /* without a grant */
    } workers[MOST];
};

/* Where a process works; another takes it when that one was killed. */
struct seat {
    struct test_child *child; /* NULL: killed */
    int64_t killed_us;
    uint64_t generation;
};

struct crowd {
    struct fixture f;
    struct witness *witness;
    struct shared *shared;
    struct seat seats[PROCESSES];
    size_t n_processes, n_workers;
    int64_t lease_ms;
    uint64_t random;
    int64_t began_us;
    int64_t kill_us; /* when the next one is due */
    bool any_moment; /* whether the victim need not hold anything */
    size_t kills, killed_holding;
    size_t child_seat; /* in a child: its own */
};

static unsigned int draw(uint64_t *random, unsigned int n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned int)(*random >> 33) % n;
}

static void raise_to(_Atomic int64_t *most, int64_t value)
{
    int64_t seen = atomic_load(most);

    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value)) {
    }
}

/* ---- In a child: the workers ---- */

struct worker {
    const struct crowd *crowd;
    size_t number; /* below MOST */
    uint64_t id, random;
    struct rlock_client *clients[FIXTURE_SERVERS]; /* one for each server */
    pthread_t thread;
};

struct member {
    unsigned int name;
    bool reads;
    struct rlock_handle *lock;
};

/* A reader has a cell of its own for each name, and a writer enters them all: so readers do not see
 * each other, and whoever was killed can be put out by its id. */
static size_t cell_of(unsigned int name, size_t reader)
{
    return name < RW_FROM ? name : RW_FROM + (size_t)(name - RW_FROM) * MOST + reader;
}

enum { CELLS = RW_FROM + (NAMES - RW_FROM) * MOST };

typedef void witness_fn(struct witness *witness, size_t cell, uint64_t id);

static void go(const struct worker *worker, const struct member *member, witness_fn *way)
{
    struct witness *witness = worker->crowd->witness;

    if (member->name < RW_FROM || member->reads) {
        way(witness, cell_of(member->name, worker->number), worker->id);
        return;
    }
    for (size_t i = 0; i < MOST; i++) {
        way(witness, cell_of(member->name, i), worker->id);
    }
}

static struct member make_member(struct worker *worker, unsigned int name)
{
    typedef int make_fn(struct rlock_client *, const char *, const struct rlock_opts *,
                        struct rlock_handle **);
    static make_fn *const plain[] = {rlock_reentrant_new, rlock_nonreentrant_new, rlock_spin_new};
    struct member member = {.name = name, .reads = name >= RW_FROM && draw(&worker->random, 3) > 0};
    make_fn *make = plain[draw(&worker->random, 3)];
    char text[8];

    if (name >= FENCED_FROM) {
        make = rlock_fenced_new;
    }
    if (name >= RW_FROM) {
        make = member.reads ? rlock_read_new : rlock_write_new;
    }
    test_text(text, sizeof(text), "n%u", name);
    TEST_CHECK(make(worker->clients[name % worker->crowd->f.n], text, NULL, &member.lock) == 0);
    return member;
}

/* Some of the names, in any order. */
static size_t choose(struct worker *worker, struct member members[static MEMBERS])
{
    unsigned int names[NAMES];
    size_t n = 1 + draw(&worker->random, MEMBERS);

    for (unsigned int i = 0; i < NAMES; i++) {
        names[i] = i;
    }
    for (unsigned int i = 0; i < n; i++) {
        unsigned int j = i + draw(&worker->random, NAMES - i), name = names[j];

        names[j] = names[i];
        members[i] = make_member(worker, name);
    }
    return n;
}

static void work(struct worker *worker, const struct member *members, size_t n,
                 struct rlock_handle *multi)
{
    if (rlock_valid_ms(multi) < worker->crowd->lease_ms / 2) {
        return; /* a pause here might outlast it */
    }
    for (size_t i = 0; i < n; i++) {
        go(worker, &members[i], witness_enter);
    }
    if (draw(&worker->random, 4) == 0) {
        (void)test_pause_until(test_now_us() + 1000);
    }
    while (atomic_load(&worker->crowd->shared->victim) == worker->crowd->child_seat) {
        (void)test_pause_until(test_now_us() + 1000);
    }
    for (size_t i = 0; i < n; i++) {
        go(worker, &members[i], witness_leave);
    }
}

static void note_grant(const struct worker *worker)
{
    struct shared *shared = worker->crowd->shared;
    int64_t now_us = test_now_us(),
            last_us = atomic_exchange(&shared->workers[worker->number].granted_us, now_us);

    raise_to(&shared->workers[worker->number].longest_us, now_us - last_us);
    atomic_fetch_add(&shared->workers[worker->number].grants, 1);
    atomic_fetch_add(&shared->grants, 1);
}

/* Nothing breaks but processes, so nothing else is due; but a busy machine may be late. */
static void count(const struct worker *worker, const char *what, int code)
{
    struct shared *shared = worker->crowd->shared;

    /* ECONN: one attempt that a busy server did not answer in time, and of which nothing is left */
    if (code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT || code == RLOCK_ECONN) {
        atomic_fetch_add(&shared->refused, 1);
    } else if (code == RLOCK_ELOST) {
        atomic_fetch_add(&shared->losses, 1);
    } else if (code == RLOCK_EINDOUBT) {
        atomic_fetch_add(&shared->doubts, 1);
    } else if (code != 0) {
        test_die("%s: %s: %s", what, rlock_code_name(code), rlock_detail());
    }
}

static void take_some(struct worker *worker)
{
    struct shared *shared = worker->crowd->shared;
    struct member members[MEMBERS];
    struct rlock_handle *locks[MEMBERS], *multi;
    const size_t n = choose(worker, members);
    const bool waits = draw(&worker->random, 4) > 0, is_fixed = draw(&worker->random, 4) == 0;
    const int64_t wait_ms = waits ? 1 + draw(&worker->random, 4000) : 0;
    const int64_t since_us = test_now_us();
    int code;

    for (size_t i = 0; i < n; i++) {
        locks[i] = members[i].lock;
    }
    TEST_CHECK(rlock_multi_new(locks, n, NULL, &multi) == 0);
    code = rlock_lock_for(multi, wait_ms,
                          RLOCK_TAKE(.lease_ms = is_fixed ? worker->crowd->lease_ms : 0), NULL);
    count(worker, "take", code);
    raise_to(&shared->latest_us, test_elapsed_us(since_us) - wait_ms * 1000);
    if (code == 0) {
        atomic_store(&shared->workers[worker->number].holds, true);
        note_grant(worker);
        work(worker, members, n, multi);
        count(worker, "unlock", rlock_unlock(multi));
        atomic_store(&shared->workers[worker->number].holds, false);
    }
    (void)rlock_free(multi);
    for (size_t i = 0; i < n; i++) {
        (void)rlock_free(locks[i]);
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->crowd->shared->stop)) {
        take_some(worker);
    }
    return NULL;
}

static uint64_t id_of(const struct crowd *crowd, size_t seat, size_t worker)
{
    return (crowd->seats[seat].generation * PROCESSES + seat) * WORKERS + worker + 1;
}

static void begin_worker(struct worker *worker, const struct crowd *crowd, size_t i)
{
    *worker = (struct worker){.crowd = crowd,
                              .number = crowd->child_seat * WORKERS + i,
                              .id = id_of(crowd, crowd->child_seat, i)};
    worker->random = worker->id * 7919;
    for (size_t j = 0; j < crowd->f.n; j++) {
        const struct rlock_client_opts opts = {
            .size = sizeof(opts),
            .url = test_server_url(crowd->f.servers[j]),
            .ca_file = test_server_cacert(crowd->f.servers[j]),
            .renewed_lease_ms = crowd->lease_ms,
            .op_timeout_ms = 1000 * test_slack(),
        };

        TEST_CHECK(rlock_client_open(&opts, &worker->clients[j]) == 0);
    }
    TEST_CHECK(pthread_create(&worker->thread, NULL, worker_main, worker) == 0);
}

static int process_main(struct test_peer *peer, void *payload)
{
    const struct crowd *crowd = payload;
    struct worker workers[WORKERS];

    (void)peer;
    for (size_t i = 0; i < crowd->n_workers; i++) {
        begin_worker(&workers[i], crowd, i);
    }
    for (size_t i = 0; i < crowd->n_workers; i++) {
        TEST_CHECK(pthread_join(workers[i].thread, NULL) == 0);
        for (size_t j = 0; j < crowd->f.n; j++) {
            workers[i].clients[j] = rlock_client_close(workers[i].clients[j]);
        }
    }
    return 0;
}

/* ---- In the parent: who kills, and looks ---- */

static void occupy(struct crowd *crowd, size_t seat)
{
    const int64_t now_us = test_now_us();

    for (size_t i = 0; i < crowd->n_workers; i++) {
        atomic_store(&crowd->shared->workers[seat * WORKERS + i].granted_us, now_us);
        atomic_store(&crowd->shared->workers[seat * WORKERS + i].holds, false);
    }
    crowd->seats[seat].generation++;
    crowd->child_seat = seat;
    crowd->seats[seat].child = test_child_spawn(process_main, crowd);
}

static size_t holding(const struct crowd *crowd, size_t seat)
{
    size_t n = 0;

    for (size_t i = 0; i < crowd->n_workers; i++) {
        n += atomic_load(&crowd->shared->workers[seat * WORKERS + i].holds);
    }
    return n;
}

static void kill_one(struct crowd *crowd, size_t i)
{
    struct seat *seat = &crowd->seats[i];

    test_child_kill(seat->child, SIGKILL);
    seat->killed_us = test_now_us();
    assert_int_equal(test_child_wait(seat->child, 5000), 128 + SIGKILL);
    seat->child = NULL;
    crowd->kills++;
    crowd->killed_holding += holding(crowd, i);
}

/* When it is time: some at any moment, most as soon as they hold something. */
static void maybe_kill(struct crowd *crowd, int64_t kill_every_ms)
{
    size_t i = atomic_load(&crowd->shared->victim);

    if (i == MOST && test_now_us() >= crowd->kill_us) {
        i = draw(&crowd->random, (unsigned int)crowd->n_processes);
        if (crowd->seats[i].child != NULL) {
            atomic_store(&crowd->shared->victim, i);
            crowd->any_moment = crowd->kills % 3 == 2;
        }
    } else if (i != MOST && (crowd->any_moment || holding(crowd, i) > 0)) {
        kill_one(crowd, i);
        atomic_store(&crowd->shared->victim, MOST);
        crowd->kill_us =
            test_now_us() +
            (kill_every_ms / 2 + draw(&crowd->random, (unsigned int)kill_every_ms)) * 1000;
    }
}

/* Whoever was inside had half of its lease before it at least. */
static void put_out(struct crowd *crowd, size_t seat)
{
    for (size_t i = 0; i < crowd->n_workers; i++) {
        for (size_t cell = 0; cell < CELLS; cell++) {
            witness_evict(crowd->witness, cell, id_of(crowd, seat, i));
        }
    }
}

static void replace_the_dead(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->n_processes; i++) {
        const struct seat *seat = &crowd->seats[i];

        if (seat->child == NULL && test_elapsed_us(seat->killed_us) > crowd->lease_ms * 1000 / 4) {
            put_out(crowd, i);
            occupy(crowd, i);
        }
    }
}

/* Everything that the dead held is free after their lease: then somebody gets something. */
static void run(struct crowd *crowd, int64_t ms, int64_t kill_every_ms)
{
    const int64_t end_us = test_now_us() + ms * 1000,
                  too_long_us = (crowd->lease_ms + 2000 * test_slack()) * 1000;
    int64_t moved_us = test_now_us(), gap_us = 0;
    uint64_t seen = 0;

    crowd->began_us = moved_us;
    crowd->kill_us = moved_us + kill_every_ms * 1000;
    while (test_now_us() < end_us || crowd->killed_holding == 0) {
        const uint64_t grants = atomic_load(&crowd->shared->grants);

        gap_us = test_elapsed_us(moved_us) > gap_us ? test_elapsed_us(moved_us) : gap_us;
        assert_in_time(moved_us, too_long_us);
        moved_us = grants != seen ? test_now_us() : moved_us;
        seen = grants;
        replace_the_dead(crowd);
        maybe_kill(crowd, kill_every_ms);
        (void)test_pause_until(test_now_us() + 1000);
    }
    print_message("nobody was granted anything for %lld ms at most\n", (long long)gap_us / 1000);
}

static void end(struct crowd *crowd)
{
    atomic_store(&crowd->shared->stop, true);
    atomic_store(&crowd->shared->victim, MOST);
    for (size_t i = 0; i < crowd->n_processes; i++) {
        const struct seat *seat = &crowd->seats[i];

        if (seat->child == NULL) {
            while (test_elapsed_us(seat->killed_us) < crowd->lease_ms * 1000 / 4) {
                (void)test_pause_until(INT64_MAX);
            }
            put_out(crowd, i);
        }
    }
    for (size_t i = 0; i < crowd->n_processes; i++) {
        if (crowd->seats[i].child != NULL) {
            assert_int_equal(test_child_wait(crowd->seats[i].child, 20000), 0);
        }
    }
}

static int64_t run_ms(void)
{
    const char *seconds = getenv("RLOCK_TEST_SECONDS");

    return seconds != NULL ? strtoll(seconds, NULL, 10) * 1000 : 1500;
}

/* No call is late, and few are lost or in doubt: each of these is an answer or a renewal that the
 * machine kept back. On a loaded one there may be fewer than a hundred grants for each. */
static void check_times(const struct crowd *crowd)
{
    const struct shared *shared = crowd->shared;
    const int64_t most_us = (int64_t)2000000 * test_slack();

    assert_true(shared->grants > 100 * (shared->losses + shared->doubts) ||
                test_missed(crowd->began_us, test_elapsed_us(crowd->began_us) / 10));
    assert_true(test_in_time(crowd->began_us, shared->latest_us, most_us));
}

/* Each worker is granted something in the long run. */
static void check(const struct crowd *crowd)
{
    const struct shared *shared = crowd->shared;
    uint64_t least = UINT64_MAX;
    int64_t longest_us = 0;

    for (size_t i = 0; i < crowd->n_processes * WORKERS; i++) {
        if (i % WORKERS < crowd->n_workers) {
            const uint64_t grants = shared->workers[i].grants;
            const int64_t us = shared->workers[i].longest_us;

            least = grants < least ? grants : least;
            longest_us = us > longest_us ? us : longest_us;
        }
    }
    print_message("%zu killed, in %zu holds; %llu grants, %llu refused, %llu lost, %llu in doubt; "
                  "the least had %llu, the longest wait for one %lld ms, the latest return %lld "
                  "ms\n",
                  crowd->kills, crowd->killed_holding, (unsigned long long)shared->grants,
                  (unsigned long long)shared->refused, (unsigned long long)shared->losses,
                  (unsigned long long)shared->doubts, (unsigned long long)least,
                  (long long)longest_us / 1000, (long long)shared->latest_us / 1000);
    assert_true(witness_is_clean(crowd->witness, stderr));
    assert_true(run_ms() < 10000 || least > 0);
    check_times(crowd);
}

#define EACH_PLACE "EVAL \"local keys = redis.call('keys', 'rlock_wait:*') "

/* And the places of killed processes in queues, which the next release drops, or a minute. */
static bool only_counters_are_left(const struct fixture *f)
{
    long long n = 0;

    for (size_t i = 0; i < f->n; i++) {
        n += test_server_int(f->servers[i], "DBSIZE");
        n -= test_server_int(f->servers[i], EACH_PLACE "return #keys\" 0");
        for (unsigned int name = FENCED_FROM; name < RW_FROM; name++) {
            n -= test_server_int(f->servers[i], "EXISTS redisson_lock_token:{n%u}", name);
        }
    }
    return n == 0;
}

static void forget_counters(const struct fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        test_server_do(f->servers[i],
                       EACH_PLACE "for _, key in ipairs(keys) do redis.call('del', key) end\" 0");
        for (unsigned int name = FENCED_FROM; name < RW_FROM; name++) {
            (void)test_server_int(f->servers[i], "DEL redisson_lock_token:{n%u}", name);
        }
    }
}

/* Each worker has a client on each server; servers: the names are spread over so many. */
static void crowd_on(size_t servers)
{
    struct crowd crowd = {.n_processes = test_slack() > 1 ? 3 : PROCESSES / servers,
                          .n_workers = test_slack() > 1 ? 2 : WORKERS,
                          .lease_ms = test_slack() > 1 ? 3000 : 1000,
                          .random = 1};

    fixture_open(&crowd.f, &(struct fixture_opts){.servers = servers});
    crowd.witness = witness_new(CELLS);
    crowd.shared = mmap(NULL, sizeof(*crowd.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd.shared != MAP_FAILED);
    atomic_store(&crowd.shared->victim, MOST);
    for (size_t i = 0; i < crowd.n_processes; i++) {
        occupy(&crowd, i);
    }
    run(&crowd, run_ms(), 400 + run_ms() / 100);
    end(&crowd);
    check(&crowd);
    assert_true(TEST_EVENTUALLY(only_counters_are_left(&crowd.f), crowd.lease_ms + 1000));
    forget_counters(&crowd.f);
    crowd.witness = witness_free(crowd.witness);
    (void)munmap(crowd.shared, sizeof(*crowd.shared));
    fixture_close(&crowd.f);
}

TEST(random_subsets_go_on_though_processes_are_killed)
{
    crowd_on(1);
}

TEST(random_subsets_of_two_servers_go_on_though_processes_are_killed)
{
    crowd_on(2);
}
