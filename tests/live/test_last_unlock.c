/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a hold after its owner's last unlock, whatever code that unlock returned.
 *
 * Owners of one client take a lock of each kind, on one to three levels, and give them up. A rival
 * on connections of its own wants the same locks. Meanwhile the test cuts and kills connections,
 * stops servers, and begins many other calls in the owners' client. At the end of each round all
 * levels are given up: then each key must be gone within one lease of time in which the servers
 * run, and no owner may believe in a hold. In every other round servers stay stopped meanwhile,
 * and calls of the owners wait for them without end: the keys on the others must be gone.
 *
 * RLOCK_TEST_SEED repeats the choices of a run, though not its timing. RLOCK_TEST_SECONDS says how
 * long it goes on.
 */
#include "live/seats.h"

enum {
    LEASE_MS = 500,  /* of a hold that is renewed; a fixed lease is at most twice as long */
    TIMEOUT_MS = 50, /* for the answers to a call */
    BURST = 150,     /* calls that begin at once */
};

struct storm {
    struct fixture *f;
    struct weather weather;
    struct user *user, *rival;
    struct seat seats[SEATS];
    struct rlock_handle *loads[SERVERS];
    _Atomic size_t n_loads; /* operations that are not complete */
    uint64_t seed, random;
    int64_t stopped_us; /* in this round: how long a server was stopped */
};

/* ---- Disturbances ---- */

static void loaded(struct rlock_op *op, void *payload)
{
    struct storm *storm = payload;

    (void)op;
    atomic_fetch_sub(&storm->n_loads, 1);
}

/* Fixed leases, so that nothing needs to be given back. */
static void burst(struct storm *storm)
{
    struct rlock_handle *lock = storm->loads[draw(&storm->random, SERVERS)];

    for (uint64_t i = 0; i < BURST; i++) {
        const struct rlock_take *take = RLOCK_TAKE(.owner = 1000 + i, .lease_ms = 10);

        atomic_fetch_add(&storm->n_loads, 1);
        if (rlock_lock_async(lock, (int64_t)i % 20, take, loaded, storm, NULL) != 0) {
            atomic_fetch_sub(&storm->n_loads, 1);
        }
        if (rlock_unlock_async(lock, 1000 + i, NULL, NULL, NULL) != 0) {
            continue;
        }
    }
}

static void cut(struct storm *storm)
{
    static const enum proxy_class classes[] = {PROXY_ANY, PROXY_COMMANDS, PROXY_SUBSCRIBERS};
    struct proxy *proxy = storm->f->proxies[draw(&storm->random, SERVERS)];
    const enum proxy_class which = classes[draw(&storm->random, 3)];

    switch (draw(&storm->random, 4)) {
    case 0:
        proxy_cut_all(proxy, which);
        break;
    case 1:
        proxy_strand_all(proxy, which);
        break;
    case 2:
        proxy_cut_accepts(proxy, 1 + draw(&storm->random, 2));
        proxy_cut_all(proxy, which);
        break;
    default:
        (void)proxy_cut_after_requests(proxy, 1 + draw(&storm->random, 4));
    }
    atomic_fetch_add(&storm->weather.n_blows, 1);
}

/* Stops one server, or all. Connections may be cut meanwhile, and calls begin. */
static void stop_for_a_while(struct storm *storm)
{
    const size_t first = draw(&storm->random, SERVERS);
    const size_t n = draw(&storm->random, 3) == 0 ? SERVERS : 1;
    const int64_t since_us = test_now_us();

    for (size_t i = 0; i < n; i++) {
        test_server_freeze(storm->f->servers[(first + i) % SERVERS]);
    }
    atomic_fetch_add(&storm->weather.n_blows, 1);
    pass_ms(1 + draw(&storm->random, (unsigned)storm->weather.lease_ms * 2 / 3));
    if (draw(&storm->random, 2) == 0) {
        draw(&storm->random, 2) == 0 ? burst(storm) : cut(storm);
        pass_ms(draw(&storm->random, (unsigned)storm->weather.lease_ms));
    }
    for (size_t i = 0; i < n; i++) {
        test_server_thaw(storm->f->servers[(first + i) % SERVERS]);
    }
    storm->stopped_us += test_elapsed_us(since_us);
}

static void disturb(struct storm *storm)
{
    struct test_server *server = storm->f->servers[draw(&storm->random, SERVERS)];

    switch (draw(&storm->random, 6)) {
    case 0:
    case 1:
        cut(storm);
        break;
    case 2:
        test_server_do(server, "CLIENT KILL TYPE %s",
                       draw(&storm->random, 2) == 0 ? "normal" : "pubsub");
        break;
    case 3:
        burst(storm);
        break;
    default:
        stop_for_a_while(storm);
    }
    pass_ms(draw(&storm->random, 20) == 0 ? storm->weather.lease_ms : draw(&storm->random, 25));
}

/* ---- Rounds ---- */

/* Every key goes within the longest lease of time in which the servers run. Some disturbances go
 * on. */
static void await_the_end(struct storm *storm)
{
    const int64_t since_us = test_now_us();
    const int64_t lease_us = 2 * storm->weather.lease_ms * 1000;
    const int64_t most_us = lease_us + (int64_t)LATE_MS * 1000 * test_slack();
    int64_t ran_us = 0;

    storm->stopped_us = 0;
    while (seats_keys(storm->seats, false) > 0 && ran_us < 4 * most_us) {
        if (storm->weather.stopped == 0 && ran_us < lease_us && draw(&storm->random, 60) == 0) {
            disturb(storm);
        }
        pass_ms(2);
        ran_us = test_elapsed_us(since_us) - storm->stopped_us;
    }
    if (ran_us > most_us && !test_missed(since_us, ran_us - most_us)) {
        (void)seats_keys(storm->seats, true);
        fail_msg("seed %llu: a key was there for %lld ms after the last unlock",
                 (unsigned long long)storm->seed, (long long)ran_us / 1000);
    }
}

static void play_round(struct storm *storm)
{
    seats_begin(storm->seats);
    while (!seats_have_given_up(storm->seats)) {
        disturb(storm);
    }
    seats_join_owners(storm->seats);
    seats_end_rivals(storm->seats);
    await_the_end(storm);
}

/* The rivals end before a server stops: they would have to give up as well. */
static void play_round_with_a_stop(struct storm *storm)
{
    storm->weather.stopped = 1 + draw(&storm->random, (1U << SERVERS) - 2);
    seats_begin(storm->seats);
    pass_ms(storm->weather.lease_ms);
    seats_end_rivals(storm->seats);
    for (size_t i = 0; i < SERVERS; i++) {
        if ((storm->weather.stopped & 1U << i) != 0) {
            test_server_freeze(storm->f->servers[i]);
        }
    }
    atomic_store(&storm->weather.is_stopped, true);
    while (!seats_have_given_up(storm->seats)) {
        pass_ms(1);
    }
    await_the_end(storm);
    for (size_t i = 0; i < SERVERS; i++) {
        if ((storm->weather.stopped & 1U << i) != 0) {
            test_server_thaw(storm->f->servers[i]);
        }
    }
    storm->weather.stopped = 0;
    atomic_store(&storm->weather.is_stopped, false);
    seats_join_owners(storm->seats);
    await_the_end(storm);
}

/* ---- Opening and closing ---- */

static uint64_t choose_seed(void)
{
    const char *given = getenv("RLOCK_TEST_SEED");

    return given != NULL ? strtoull(given, NULL, 10) : (uint64_t)test_now_us() % 1000000;
}

static void storm_open(struct storm *storm, struct fixture *f)
{
    struct rlock_client_opts opts;

    *storm = (struct storm){
        .f = f, .seed = choose_seed(), .weather = {.f = f, .lease_ms = test_ms(LEASE_MS)}};
    opts = *RLOCK_CLIENT_OPTS(.op_timeout_ms = test_ms(TIMEOUT_MS),
                              .renewed_lease_ms = storm->weather.lease_ms);
    storm->random = storm->seed;
    print_message("RLOCK_TEST_SEED=%llu\n", (unsigned long long)storm->seed);
    storm->user = user_open(f, opts);
    storm->rival = user_open(fixture_view(f), opts);
    for (size_t i = 0; i < SERVERS; i++) {
        storm->loads[i] = user_lock_on(storm->user, i, "load");
    }
    seats_open(storm->seats, &storm->weather, storm->user, storm->rival, storm->seed);
}

static void storm_close(struct storm *storm)
{
    assert_true(TEST_EVENTUALLY(atomic_load(&storm->n_loads) == 0, 20000));
    seats_close(storm->seats);
    user_close(storm->rival);
    user_close(storm->user);
    for (size_t i = 0; i < SERVERS; i++) {
        proxy_remove_all(storm->f->proxies[i]);
        test_server_do(storm->f->servers[i], "FLUSHALL"); /* tokens, and queues that end late */
    }
}

FIXTURE_WITH_TEST(a_hold_ends_with_its_last_unlock_whatever_that_returns, f, .servers = SERVERS,
                  .proxy = PROXY_AS_LEG)
{
    const char *seconds = getenv("RLOCK_TEST_SECONDS");
    const int64_t end_us =
        test_now_us() + (seconds != NULL ? strtoll(seconds, NULL, 10) : 8) * 1000000;
    struct storm storm;
    size_t rounds = 0;

    storm_open(&storm, f);
    do {
        (rounds % 2 == 1 ? play_round_with_a_stop : play_round)(&storm);
        rounds++;
    } while (test_now_us() < end_us);
    print_message("%zu rounds\n", rounds);
    storm_close(&storm);
}
