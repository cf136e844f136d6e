/* SPDX-License-Identifier: Apache-2.0 */
/* One run: forks the processes, starts their threads, and counts what happens between two moments:
 * what the clients do, what CPU they use, and the same of the servers. */
#include "bench.h"

#include "program.h"

#include "support/run.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 256 * 1024, START_MS = 60000, MAX_PROCS = 100 };

enum phase { WARMING, MEASURING, OVER };

/* What all processes of a run see. */
static struct shared {
    _Atomic int phase;
    _Atomic int ready; /* workers that have started */
    struct bench_worker worker[BENCH_MAX_WORKERS];
} * shared;

int64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_ns(int64_t ns)
{
    const struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    nanosleep(&time, NULL);
}

void bench_hold(int64_t us)
{
    if (us > 0) {
        sleep_ns(us * 1000);
    }
}

bool bench_is_over(void)
{
    return atomic_load_explicit(&shared->phase, memory_order_relaxed) == OVER;
}

void bench_wait_over(void)
{
    int phase;

    while ((phase = atomic_load(&shared->phase)) != OVER) {
        syscall(SYS_futex, &shared->phase, FUTEX_WAIT, phase, NULL, NULL, 0);
    }
}

static void enter_phase(const struct bench_run *run, enum phase phase)
{
    atomic_store(&shared->phase, (int)phase);
    syscall(SYS_futex, &shared->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    if (run->variant->program != NULL) {
        bench_programs_tell(run, phase == OVER ? "over\n" : "measure\n");
    }
}

/* What ends after the run counts only as a wait: a thread that starves shows by it. */
void bench_note(struct bench_worker *worker, int64_t ns)
{
    const int phase = atomic_load_explicit(&shared->phase, memory_order_relaxed);

    if (worker->is_background) {
        return;
    }
    if (phase != WARMING && ns > worker->longest_ns) {
        worker->longest_ns = ns;
    }
    if (phase == MEASURING) {
        worker->n++;
        bench_hist_add(&worker->hist, ns);
    }
}

void bench_note_usage(struct bench_worker *worker, int64_t cpu_us)
{
    if (atomic_load(&shared->phase) == MEASURING) {
        worker->usage.extra_us += cpu_us;
    }
}

void bench_name(const struct bench_run *run, int worker, char ret_name[16])
{
    test_text(ret_name, 16, "name%04d", run->row->shared ? 0 : worker);
}

void bench_name_of(const struct bench_worker *worker, long i, char ret_name[16])
{
    test_text(ret_name, 16, "na%06ld", worker->index * worker->run->one->locks + i);
}

/* ---- in the processes ---- */

static int64_t switches_now(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void *work(void *payload)
{
    struct bench_worker *worker = payload;
    const struct bench_variant *variant = worker->run->variant;
    int64_t before = 0;

    if (variant->start != NULL) {
        variant->start(worker);
    }
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->phase) == WARMING) {
        variant->op(worker);
    }
    before = switches_now();
    while (!bench_is_over()) {
        variant->op(worker);
    }
    worker->usage.switches = switches_now() - before;
    return NULL;
}

static void run_process(struct bench_run *run)
{
    pthread_t thread[BENCH_MAX_WORKERS];
    pthread_attr_t attributes;

    run->shared = run->variant->open != NULL ? run->variant->open(run) : NULL;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < run->threads; i++) {
        struct bench_worker *worker = &shared->worker[run->process * run->threads + i];

        worker->run = run;
        worker->index = run->process * run->threads + i;
        TEST_CHECK(pthread_create(&thread[i], &attributes, work, worker) == 0);
    }
    for (int i = 0; i < run->threads; i++) {
        pthread_join(thread[i], NULL);
    }
    _exit(0); /* what is held ends with the next run, which empties the server */
}

static pid_t fork_process(struct bench_run *run, int process, const struct bench_options *options)
{
    const pid_t parent = getpid();

    run->process = process;
    if (run->variant->program != NULL) {
        return bench_program_start(run, options);
    }
    const pid_t pid = test_must(fork(), "fork");
    if (pid == 0) {
        test_die_with_parent(parent);
        bench_pin_client(options);
        run_process(run);
    }
    return pid;
}

/* ---- outside ---- */

static int64_t cpu_ns_of(pid_t pid)
{
    clockid_t clock;
    struct timespec time = {0};

    TEST_CHECK(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &time) == 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int64_t clients_cpu_ns(const pid_t *pids, int n)
{
    int64_t all = 0;

    for (int i = 0; i < n; i++) {
        all += cpu_ns_of(pids[i]);
    }
    return all;
}

static void wait_ready(const struct bench_run *run)
{
    if (run->variant->program != NULL) {
        bench_programs_wait_ready(run);
        return;
    }
    const int64_t deadline = bench_now_ns() + START_MS * 1000000LL;

    while (atomic_load(&shared->ready) < run->procs * run->threads) {
        siginfo_t ended = {0};

        waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (bench_now_ns() > deadline || ended.si_pid != 0) {
            test_die("%s, %s, %s: did not start", run->row->name, run->one->name,
                     run->variant->name);
        }
        sleep_ns(1000000);
    }
}

static void wait_ends(const struct bench_run *run, const pid_t *pids)
{
    for (int i = 0; i < run->procs; i++) {
        if (test_reap(pids[i]) != 0) {
            test_die("%s, %s, %s failed", run->row->name, run->one->name, run->variant->name);
        }
    }
}

/* Adds up the workers. Returns the operations that they noted. */
static double add_up(const struct bench_run *run, struct bench_figures *figures)
{
    static struct bench_hist all;
    double n = 0, squares = 0, workers = 0;

    memset(&all, 0, sizeof(all));
    for (int i = 0; i < run->procs * run->threads; i++) {
        const struct bench_worker *worker = &shared->worker[i];
        const double ms = (double)worker->longest_ns / 1e6;

        workers += worker->is_background ? 0 : 1;
        bench_hist_merge(&all, &worker->hist);
        n += (double)worker->n;
        squares += (double)worker->n * (double)worker->n;
        figures->value[BENCH_SWITCHES] += (double)worker->usage.switches;
        figures->value[BENCH_CLIENT] += (double)worker->usage.extra_us;
        if (ms > figures->value[BENCH_LONGEST]) {
            figures->value[BENCH_LONGEST] = ms;
        }
    }
    figures->value[BENCH_P50] = bench_hist_percentile(&all, 50);
    figures->value[BENCH_P99] = bench_hist_percentile(&all, 99);
    figures->value[BENCH_P999] = bench_hist_percentile(&all, 99.9);
    figures->value[BENCH_JAIN] = squares > 0 ? n * n / (workers * squares) : 0;
    return n;
}

static struct bench_figures figure(const struct bench_run *run, const struct bench_counts *before,
                                   const struct bench_counts *after, int64_t client_ns,
                                   int64_t wall_ns)
{
    struct bench_figures figures = {0};
    double n = add_up(run, &figures);

    if (run->row->count != NULL) {
        n = (double)(after->counted - before->counted);
    }
    figures.value[BENCH_RATE] = n * 1e9 / (double)wall_ns;
    figures.value[BENCH_CLIENT] += (double)client_ns / 1e3;
    figures.value[BENCH_SERVER] = (double)(after->cpu_ns - before->cpu_ns) / 1e3;
    figures.value[BENCH_COMMANDS] = (double)(after->commands - before->commands);
    figures.value[BENCH_BYTES] = (double)(after->bytes - before->bytes - before->own_bytes);
    for (int i = BENCH_COMMANDS; i <= BENCH_SWITCHES; i++) {
        figures.value[i] = n > 0 ? figures.value[i] / n : 0;
    }
    return figures;
}

void bench_init(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TEST_CHECK(shared != MAP_FAILED);
}

static bool has_done_nothing(const struct bench_run *run, const struct bench_counts *before)
{
    uint64_t n = 0;

    if (run->row->count != NULL) {
        return bench_count(run).counted == before->counted;
    }
    if (run->variant->program != NULL) {
        return false; /* it says so at the end */
    }
    for (int i = 0; i < run->procs * run->threads; i++) {
        n += shared->worker[i].n;
    }
    return n == 0;
}

/* A run lasts as long as it should, and longer where the machine stood still meanwhile. */
static void let_run(const struct bench_run *run, const struct bench_options *options,
                    const struct bench_counts *before)
{
    const int64_t least_ms = run->one->at_least_ms;
    const int64_t ms = least_ms > options->run_ms ? least_ms : options->run_ms;
    const int64_t deadline = bench_now_ns() + (ms + START_MS) * 1000000;

    sleep_ns(ms * 1000000);
    while (has_done_nothing(run, before) && bench_now_ns() < deadline) {
        sleep_ns(1000000);
    }
}

/* Processes share a core: what one needs, each does. */
static void warm_up(const struct bench_run *run, const struct bench_options *options)
{
    const int64_t own_ms = run->variant->warm_ms * run->procs;

    sleep_ns((own_ms > options->warm_ms ? own_ms : options->warm_ms) * 1000000);
}

struct bench_figures bench_measure(struct bench_run *run, const struct bench_options *options)
{
    pid_t pids[MAX_PROCS];

    run->procs = run->one->procs;
    run->threads = run->variant->threads > 0 ? run->variant->threads : run->one->threads;
    TEST_CHECK(run->procs <= MAX_PROCS && run->procs * run->threads <= BENCH_MAX_WORKERS);
    memset(shared, 0, sizeof(*shared));
    bench_servers_empty();
    for (int i = 0; i < run->procs; i++) {
        pids[i] = fork_process(run, i, options);
    }
    wait_ready(run);
    warm_up(run, options);
    const struct bench_counts before = bench_count(run);
    const int64_t client_before = clients_cpu_ns(pids, run->procs);
    const int64_t began = bench_now_ns();
    enter_phase(run, MEASURING);
    let_run(run, options, &before);
    const int64_t client = clients_cpu_ns(pids, run->procs) - client_before;
    const int64_t wall = bench_now_ns() - began;
    enter_phase(run, OVER);
    const struct bench_counts after = bench_count(run);
    if (run->variant->program != NULL) {
        bench_programs_collect(run, shared->worker);
    }
    wait_ends(run, pids);
    return figure(run, &before, &after, client, wall);
}
