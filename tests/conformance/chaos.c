/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes with many threads on one name, while connections are cut and processes are killed. All
 * processes are forked at the start, before the proxy's thread is there; the spare ones sleep until
 * another was killed.
 */
#include "cases.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "support/proxy.h"

enum { MAX_THREADS = 32, MAX_PROCESSES = 40, WORKING = 4 };

/* What all of them share. */
struct shared {
    _Atomic bool stop;
    _Atomic uint64_t grants, losses, doubts, failures;
};

struct chaos {
    struct fixture *f;
    struct witness *witness;
    struct shared *shared;
    struct proxy *proxy;
    struct test_child *processes[MAX_PROCESSES];
    size_t n_processes, n_threads, first; /* of the working ones */
    uint64_t process;                     /* in the child: which one it is */
    int64_t lease_ms;
};

struct worker {
    const struct chaos *chaos;
    struct rlock_handle *lock;
    uint64_t id;
    unsigned int seed;
    pthread_t thread;
};

/* ---- In a child ---- */

static void enter(const struct worker *worker)
{
    const struct chaos *chaos = worker->chaos;

    if (rlock_valid_ms(worker->lock) >
        chaos->lease_ms / 2) { /* else a pause here might outlast it */
        witness_enter(chaos->witness, 0, worker->id);
        witness_leave(chaos->witness, 0, worker->id);
        atomic_fetch_add(&chaos->shared->grants, 1);
    }
}

static void count(const struct worker *worker, const char *what, int code)
{
    struct shared *shared = worker->chaos->shared;

    switch (code) {
    case RLOCK_OK:
    case RLOCK_EBUSY:
    case RLOCK_ETIMEDOUT:
        break;
    case RLOCK_ELOST:
        atomic_fetch_add(&shared->losses, 1);
        break;
    case RLOCK_EINDOUBT:
        atomic_fetch_add(&shared->doubts, 1);
        break;
    case RLOCK_ECONN:
    case RLOCK_ETLS:
        atomic_fetch_add(&shared->failures, 1);
        break;
    default:
        test_die("%s: %s: %s", what, rlock_code_name(code), rlock_detail());
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->chaos->shared->stop)) {
        const int64_t wait_ms = rand_r(&worker->seed) % 800 - 200;
        const int64_t lease_ms = rand_r(&worker->seed) % 2 == 0
                                     ? 0
                                     : fixed_ms(worker->chaos->f, worker->chaos->lease_ms);
        const int64_t since_us = test_now_us();
        const int code = TAKE(worker->lock, wait_ms < 0 ? 0 : wait_ms, .lease_ms = lease_ms);

        count(worker, "take", code);
        if (test_elapsed_us(since_us) >
            (wait_ms < 0 ? 0 : wait_ms) * 1000 + (int64_t)5000000 * test_slack()) {
            test_die("a take of %lld ms took %lld us", (long long)wait_ms,
                     (long long)test_elapsed_us(since_us));
        }
        if (code == 0) {
            enter(worker);
            count(worker, "unlock", rlock_unlock(worker->lock));
        } else if (code == RLOCK_ELOST) {
            (void)rlock_unlock(worker->lock); /* of an outer hold that is lost */
        }
    }
    return NULL;
}

/* Where the proxy listens: it was started after the fork. */
static void proxy_address(const struct fixture *f, uint64_t port, char *ret_url, size_t size)
{
    const bool is_tls = strncmp(test_server_url(f->server), "rediss:", 7) == 0;

    test_text(ret_url, size, is_tls ? "rediss://localhost:%d" : "redis://127.0.0.1:%d", (int)port);
}

static int work(struct test_peer *peer, void *payload)
{
    struct chaos *chaos = payload;
    struct worker workers[MAX_THREADS];
    struct rlock_client *client = NULL;
    struct rlock_client_opts opts;
    char url[64];
    const uint64_t port = test_peer_recv(peer, 600000);

    if (port == 0) {
        return 0; /* not needed */
    }
    proxy_address(chaos->f, port, url, sizeof(url));
    opts =
        client_opts(chaos->f, RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = chaos->lease_ms));
    TEST_CHECK(rlock_client_open(&opts, &client) == 0);
    for (size_t i = 0; i < chaos->n_threads; i++) {
        workers[i] = (struct worker){.chaos = chaos,
                                     .id = chaos->process * MAX_THREADS + i + 1,
                                     .seed = (unsigned int)(chaos->process * 1000 + i)};
        TEST_CHECK(chaos->f->kind->make(client, NAME, NULL, &workers[i].lock) == 0);
        TEST_CHECK(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) == 0);
    }
    for (size_t i = 0; i < chaos->n_threads; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        (void)rlock_free(workers[i].lock);
    }
    (void)rlock_client_close(client);
    return 0;
}

/* ---- In the parent ---- */

static uint64_t port_of(const struct proxy *proxy)
{
    return (uint64_t)strtoll(strrchr(proxy_url(proxy), ':') + 1, NULL, 10);
}

static void kill_one(struct chaos *chaos)
{
    struct test_child *victim = chaos->processes[chaos->first];

    if (chaos->first + WORKING >= chaos->n_processes) {
        return; /* no spare one is left */
    }
    test_child_kill(victim, SIGKILL);
    assert_int_equal(test_child_wait(victim, 5000), 128 + SIGKILL);
    for (uint64_t i = 0; i < MAX_THREADS; i++) { /* one of them may have been inside */
        witness_evict(chaos->witness, 0, chaos->first * MAX_THREADS + i + 1);
    }
    test_child_send(chaos->processes[chaos->first + WORKING], port_of(chaos->proxy));
    chaos->first++;
}

static void break_something(struct chaos *chaos, unsigned int *seed)
{
    const enum proxy_class classes[] = {PROXY_ANY, PROXY_COMMANDS, PROXY_SUBSCRIBERS};
    const enum proxy_class which = classes[rand_r(seed) % 3];

    switch (rand_r(seed) % 4) {
    case 0:
        proxy_cut_all(chaos->proxy, which);
        break;
    case 1:
        proxy_strand_all(chaos->proxy, which);
        break;
    case 2:
        proxy_cut_accepts(chaos->proxy, 2);
        proxy_cut_all(chaos->proxy, PROXY_COMMANDS);
        break;
    default:
        test_server_do(chaos->f->server, "CLIENT KILL TYPE normal");
    }
}

static void run_chaos(struct chaos *chaos, int64_t ms, int64_t kill_every_ms)
{
    const int64_t end_us = test_now_us() + ms * 1000;
    int64_t kill_us = test_now_us() + kill_every_ms * 1000;
    unsigned int seed = 1;

    for (size_t i = 0; i < WORKING; i++) {
        test_child_send(chaos->processes[i], port_of(chaos->proxy));
    }
    while (test_now_us() < end_us) {
        (void)STAYS(true, 20 + rand_r(&seed) % 200);
        break_something(chaos, &seed);
        if (test_now_us() >= kill_us) {
            kill_one(chaos);
            kill_us += kill_every_ms * 1000;
        }
    }
    atomic_store(&chaos->shared->stop, true);
    for (size_t i = chaos->first; i < chaos->n_processes; i++) {
        if (i >= chaos->first + WORKING) {
            test_child_send(chaos->processes[i], 0);
        }
        assert_int_equal(test_child_wait(chaos->processes[i], 20000), 0);
    }
}

/*
 * Whatever the dead left behind: a newcomer gets the lock, and leaves nothing. Where each of the
 * dead stands in a queue that takes long, and only the holder's key is looked at in short runs.
 */
static void newcomer_gets_it(struct fixture *f, bool is_short)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int64_t since_us = test_now_us();

    if (kind_can(f, QUEUES) && is_short) {
        assert_true(TEST_EVENTUALLY(!is_locked(lock), 5000));
        assert_true(test_server_says(f->server, "OK", "FLUSHALL"));
    }
    assert_code(rlock_lock_for(lock, 600000, NULL, NULL), 0);
    print_message("a newcomer waited %lld ms\n", (long long)test_elapsed_us(since_us) / 1000);
    assert_code(rlock_unlock(lock), 0);
    assert_true(TEST_EVENTUALLY(fixture_keys(f) == 0, 1000));
}

static void chaos_for(struct fixture *f, int64_t ms, int64_t kill_every_ms)
{
    struct chaos chaos = {.f = f,
                          .witness = witness_new(1),
                          .n_processes = WORKING + (size_t)(ms / kill_every_ms),
                          .n_threads = test_slack() > 1 ? 8 : MAX_THREADS,
                          .lease_ms = test_ms(2000)};

    chaos.shared = mmap(NULL, sizeof(*chaos.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(chaos.shared != MAP_FAILED);
    for (size_t i = 0; i < chaos.n_processes; i++) {
        chaos.process = i;
        chaos.processes[i] = test_child_spawn(work, &chaos);
    }
    chaos.proxy = proxy_start(test_server_url(f->server));
    run_chaos(&chaos, ms, kill_every_ms);
    chaos.proxy = proxy_stop(chaos.proxy);
    print_message(
        "%zu killed; %llu entered, %llu lost, %llu in doubt, %llu without a server\n", chaos.first,
        (unsigned long long)chaos.shared->grants, (unsigned long long)chaos.shared->losses,
        (unsigned long long)chaos.shared->doubts, (unsigned long long)chaos.shared->failures);
    assert_true(witness_is_clean(chaos.witness, stderr));
    assert_true(chaos.shared->grants > 0);
    newcomer_gets_it(f, ms < 10000);
    chaos.witness = witness_free(chaos.witness);
    (void)munmap(chaos.shared, sizeof(*chaos.shared));
}

void seconds_of_cuts_and_kills(struct fixture *f)
{
    chaos_for(f, 2000, 600);
}

void a_minute_of_cuts_and_kills(struct fixture *f)
{
    chaos_for(f, 60000, 1900);
}
