/*
 * Plays every property between Redisson and rlock, in both directions, and prints a table.
 *
 *     interop [--stress <seconds>] [--only <property>] [--kind <kind>] <version>=<directory>...
 *     interop --shares half|whole <version>=<directory>...
 *
 * The shares are times in sum, so they are a run of their own, beside a witness of the machine's
 * stalls (support/stall.h); the first form runs it too, with half of the limits, where it has the
 * stress.
 *
 * The versions are Redisson's; their directories hold what Maven made of java/: classes/, and the
 * file classpath. Each kind with each version is a job: a process of the driver, with a server and
 * agents of its own.
 */
#include "interop.h"

#include "cells.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_VERSIONS = 4, MAX_JOBS = 64, JOB_MS = 240000 };

static const char *label_of(const struct kind *kind)
{
    return kind->label != NULL ? kind->label : kind->name;
}

/* A Redisson, as it was built. */
struct version {
    const char *argument;
    char name[32];
    char directory[512];
    char classpath[16384];
};

static struct {
    struct version versions[MAX_VERSIONS];
    size_t n_versions;
    int64_t stress_seconds;
    const char *only, *only_kind, *shares;
    char programs[256]; /* the directory of this one, and of those that it runs */
    char ours[320];     /* the path of our agent */
} run;

/* How many properties hold and how many do not: of a job, shared with the parent. */
struct tally {
    unsigned int passed, failed;
};

static void count(struct tally *tally, bool holds)
{
    tally->passed += holds;
    tally->failed += !holds;
}

/* ---- processes ---- */

static const char *const *java_argv(const struct version *version)
{
    const char *const argv[] = {"java",
                                "-Xmx96m",
                                "-Xss512k",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "-cp",
                                version->classpath,
                                "rlock.interop.Agent",
                                NULL};
    const char **copy = calloc(1, sizeof(argv)); /* kept as long as the process runs */

    TEST_CHECK(copy != NULL);
    memcpy(copy, argv, sizeof(argv));
    return copy;
}

static const char *const *our_argv(void)
{
    static const char *argv[] = {NULL, NULL};

    argv[0] = run.ours;
    return argv;
}

/* Starts Redisson, or rlock where the version is NULL. */
static struct party party_start(const char *label, const struct version *version,
                                struct test_server *const *servers, size_t n_servers)
{
    static unsigned int n;
    char log[320];

    test_text(log, sizeof(log), "%s/agent-%u.log", test_dir(), ++n);
    struct party party = {
        .peer = peer_start(label, log, version != NULL ? java_argv(version) : our_argv()),
        .is_ours = version == NULL,
        .n_servers = n_servers};
    for (size_t i = 0; i < n_servers; i++) {
        party.urls[i] = test_server_url(servers[i]);
    }
    return party;
}

/* The newest Redisson plays on Valkey, where it is, the others on Redis, unless told otherwise. */
static void start_servers(const struct version *version, struct test_server **ret_servers, size_t n)
{
    const bool is_first = version == &run.versions[0];
    const bool on_valkey =
        is_first && getenv("RLOCK_TEST_SERVER") == NULL && test_server_available("valkey");
    const struct test_server_opts opts = {.program = on_valkey ? "valkey" : NULL,
                                          .transport = TEST_TCP};

    for (size_t i = 0; i < n; i++) {
        ret_servers[i] = test_server_start(&opts);
    }
}

static void stop_servers(struct test_server **servers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        test_server_stop(servers[i]);
    }
}

/* ---- the table ---- */

static const char *const directions[] = {"Redisson holds", "rlock holds"};

static void print_head(const struct version *version, struct test_server *server,
                       const struct party *java)
{
    char *info = test_server_cmd(server, "INFO server");
    const char *valkey = strstr(info, "valkey_version:");
    const char *number = valkey != NULL ? valkey + 15 : strstr(info, "redis_version:") + 14;
    const struct peer_answer jdk =
        peer_wait(java->peer, peer_tell(java->peer, "long - - - version"), PATIENCE_MS);

    printf("Redisson %s on Java %s, %s %.*s\n", version->name, jdk.text,
           valkey != NULL ? "valkey" : "redis", (int)strcspn(number, "\r\n"), number);
    free(info);
}

/* A cell of the table: "ok", or with the wake-ups' median and worst. */
static void print_cell(struct pair *pair, const char *outcome)
{
    char text[64];

    test_text(text, sizeof(text), "%s", outcome);
    if (pair->n_wakes > 1) {
        const int64_t worst = test_percentile(pair->wakes_us, pair->n_wakes, 100);
        test_text(text, sizeof(text), "ok %.1f, %.1f ms",
                  (double)test_median(pair->wakes_us, pair->n_wakes) / 1000, (double)worst / 1000);
    }
    printf(pair->holder->is_ours ? "%s\n" : "%-20s ", text);
}

/* ---- a job: one kind with one version ---- */

static bool applies(const struct property *property, const struct kind *kind)
{
    return (run.only == NULL || strcmp(run.only, property->name) == 0) &&
           (property->applies == NULL || property->applies(kind));
}

static void play(const struct property *property, const struct version *version, struct pair *pair,
                 struct tally *tally, FILE *failures)
{
    pair->n_wakes = 0;
    if (property_is_known(property, version->name, pair)) {
        print_cell(pair, "n/a");
        return;
    }
    pair->client = "long";
    pair->as = NULL;
    pair_rename(pair_whole(pair));
    const bool holds = property->holds(pair);
    count(tally, holds);
    pair->n_wakes = holds ? pair->n_wakes : 0;
    print_cell(pair, holds ? "ok" : "FAIL");
    if (!holds) {
        fprintf(failures, "  %s: %s\n", directions[pair->holder->is_ours ? 1 : 0], pair->failure);
        test_show_file(peer_log(pair->holder->peer));
        test_show_file(peer_log(pair->waiter->peer));
        party_restart(pair->holder); /* whatever it left waiting */
        party_restart(pair->waiter);
    }
}

static void play_both(const struct property *property, const struct version *version,
                      struct pair *there, struct pair *back, struct tally *tally)
{
    char *text = NULL;
    size_t size = 0;
    FILE *failures = open_memstream(&text, &size);

    TEST_CHECK(failures != NULL);
    printf("%-13s %-15s ", label_of(there->kind), property->name);
    play(property, version, there, tally, failures);
    play(property, version, back, tally, failures);
    fclose(failures);
    printf("%s", text);
    free(text);
}

/* What two Redissons leave; for the property "state". */
static struct trace *refer(struct pair *pair, struct tally *tally)
{
    pair->client = "long";
    pair->as = NULL;
    pair_rename(pair);
    struct trace *reference = trace_record(pair);
    if (reference == NULL) {
        printf("two Redissons: %s\n", pair->failure);
        count(tally, false);
    }
    return reference;
}

static void play_kind(const struct version *version, struct pair *alone, struct pair *there,
                      struct pair *back, struct tally *tally)
{
    struct trace *reference = refer(alone, tally);

    there->reference = back->reference = reference;
    for (size_t i = 0; i < interop_n_properties; i++) {
        const struct property *property = &interop_properties[i];
        const bool is_possible = property->holds != interop_state || reference != NULL;
        if (is_possible && applies(property, there->kind)) {
            play_both(property, version, there, back, tally);
        }
    }
    trace_free(reference);
}

static struct pair pair_of(struct test_server *const *servers, const struct kind *kind,
                           struct party *holder, struct party *waiter)
{
    struct pair pair = {.server = servers[0], .kind = kind, .holder = holder, .waiter = waiter};

    memcpy(pair.servers, servers, sizeof(pair.servers));
    return pair;
}

/* What this Redisson can play of a kind: members that it lacks are left out of groups. False:
 * nothing. */
static bool fit_kind(const struct kind *kind, struct party *java, struct kind *ret_kind)
{
    *ret_kind = *kind;
    if (!kind_is_group(kind)) {
        return party_has(java, "long", kind->name);
    }
    ret_kind->n_members = 0;
    for (size_t i = 0; i < kind->n_members; i++) {
        if (party_has(java, "long", kind->members[i].kind)) {
            ret_kind->members[ret_kind->n_members++] = kind->members[i];
        }
    }
    ret_kind->quorum -= kind->n_members - ret_kind->n_members;
    return true;
}

static void play_job(const struct version *version, const struct kind *kind, struct tally *tally)
{
    const size_t n = kind_servers(kind);
    struct test_server *servers[MAX_SERVERS] = {NULL};

    start_servers(version, servers, n);
    struct party java = party_start("Redisson", version, servers, n);
    struct party second = party_start("another Redisson", version, servers, n);
    struct party ours = party_start("rlock", NULL, servers, n);
    struct kind fit;
    struct pair alone = pair_of(servers, &fit, &java, &second);
    struct pair there = pair_of(servers, &fit, &java, &ours);
    struct pair back = pair_of(servers, &fit, &ours, &java);

    party_open(&java);
    party_open(&second);
    party_open(&ours);
    print_head(version, servers[0], &java);
    if (fit_kind(kind, &java, &fit)) {
        play_kind(version, &alone, &there, &back, tally);
    } else {
        printf("%-13s %-15s %-20s n/a\n", label_of(kind), "(all)", "n/a");
    }
    peer_free(java.peer);
    peer_free(second.peer);
    peer_free(ours.peer);
    stop_servers(servers, n);
}

/* ---- a job: the model of the fair lock, with one version's scripts ---- */

static void play_models(const struct version *version, struct tally *tally)
{
    char directory[600];
    struct test_server *server;

    start_servers(version, &server, 1);
    struct party java = party_start("Redisson", version, &server, 1);
    test_text(directory, sizeof(directory), "%s/scripts", version->directory);
    party_open(&java);
    print_head(version, server, &java);
    const bool is_recorded = interop_record(&java, server, version->name, directory);
    peer_free(java.peer);
    test_server_stop(server);
    count(tally, is_recorded);
    if (is_recorded) {
        TEST_CHECK(setenv("RLOCK_REDISSON_SCRIPTS", directory, 1) == 0);
        TEST_CHECK(nice(10) >= 0); /* it needs a processor, the other jobs prompt answers */
        count(tally, interop_model(run.programs, "fair_test_peer"));
        count(tally, interop_model(run.programs, "fair_test_model"));
    }
}

/* ---- the stress ---- */

static bool play_stress(struct tally *tally)
{
    enum { N_SERVERS = 5 }; /* two for the multi-lock, three of its own for the RedLock */
    struct test_server *servers[N_SERVERS];
    struct party parties[CELLS_SLOTS];
    char labels[CELLS_SLOTS][48];
    const struct stress_opts opts = {.parties = parties, .seconds = run.stress_seconds};

    for (size_t i = 0; i < N_SERVERS; i++) {
        servers[i] = test_server_start(&(struct test_server_opts){.transport = TEST_TCP});
    }
    for (size_t i = 0; i < CELLS_SLOTS; i++) {
        const struct version *version = &run.versions[i == 0 ? 0 : run.n_versions - 1];
        test_text(labels[i], sizeof(labels[i]), i < 2 ? "Redisson %s" : "rlock", version->name);
        parties[i] = party_start(labels[i], i < 2 ? version : NULL, servers, N_SERVERS);
    }
    const bool is_witnessed = interop_stress_is_witnessed(&opts);
    for (size_t i = 0; i < CELLS_SLOTS; i++) {
        peer_restart(parties[i].peer);
    }
    const bool is_clean = interop_stress(&opts);
    count(tally, is_witnessed);
    count(tally, is_clean);
    printf("%-30s %s\n%-30s %s\n", "stress without locks is seen", is_witnessed ? "ok" : "FAIL",
           "stress", is_clean ? "ok" : "FAIL");
    for (size_t i = 0; i < CELLS_SLOTS; i++) {
        peer_free(parties[i].peer);
    }
    stop_servers(servers, N_SERVERS);
    return is_witnessed && is_clean;
}

/* ---- the shares ---- */

static bool share(const struct version *version)
{
    struct test_server *servers[SHARES_SERVERS];
    struct party parties[SHARES_PARTIES];
    const struct shares_opts opts = {.parties = parties,
                                     .is_whole = strcmp(run.shares, "whole") == 0};

    start_servers(version, servers, SHARES_SERVERS);
    for (size_t i = 0; i < SHARES_PARTIES; i++) {
        parties[i] = party_start(i == 0 ? "Redisson" : "rlock", i == 0 ? version : NULL, servers,
                                 SHARES_SERVERS);
        party_open(&parties[i]);
    }
    print_head(version, servers[0], &parties[0]);
    const bool is_good = interop_shares(&opts);
    for (size_t i = 0; i < SHARES_PARTIES; i++) {
        peer_free(parties[i].peer);
    }
    stop_servers(servers, SHARES_SERVERS);
    return is_good;
}

/* With each version; for stall_run. */
static int share_all(void)
{
    bool is_good = true;

    for (size_t i = 0; i < run.n_versions; i++) {
        is_good = share(&run.versions[i]) && is_good;
    }
    printf("%-30s %s\n", "shares", is_good ? "ok" : "FAIL");
    return is_good ? 0 : 1;
}

/* As a run of its own, beside the witness, with the newest alone. argv: ours. */
static void play_shares(char **argv, struct tally *tally)
{
    const char *words[] = {argv[0], "--shares", "half", run.versions[0].argument, NULL};

    count(tally, interop_succeeds(run.programs, words, NULL));
}

/* ---- running jobs ---- */

struct job {
    const struct version *version;
    const struct kind *kind; /* NULL: the model */
    struct tally *tally;     /* in memory that the child shares */
    FILE *out;
    struct test_child *child;
    int64_t end_us; /* it is killed then */
    bool is_running;
};

static int job_main(struct test_peer *peer, void *payload)
{
    struct job *job = payload;

    (void)peer;
    test_must(dup2(fileno(job->out), STDOUT_FILENO), "dup2");
    if (job->kind != NULL) {
        play_job(job->version, job->kind, job->tally);
    } else {
        play_models(job->version, job->tally);
    }
    return 0;
}

static void job_start(struct job *job)
{
    job->out = tmpfile();
    TEST_CHECK(job->out != NULL);
    job->child = test_child_spawn(job_main, job);
    job->end_us = test_deadline_us(JOB_MS);
    job->is_running = true;
}

static bool job_has_ended(const struct job *job)
{
    siginfo_t info = {.si_pid = 0};
    const pid_t pid = test_child_pid(job->child);

    test_must(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), "waitid");
    return info.si_pid != 0 || test_now_us() > job->end_us;
}

/* Prints what the job printed; its head only when it differs from the last one. */
static void job_print(const struct job *job)
{
    static char head[256];
    char line[4096];
    bool is_first = true;

    rewind(job->out);
    while (fgets(line, sizeof(line), job->out) != NULL) {
        if (!is_first) {
            printf("%s", line);
        } else if (strcmp(head, line) != 0) {
            test_text(head, sizeof(head), "%s", line);
            printf("\n%s%-13s %-15s %-20s %s\n", head, "kind", "property", directions[0],
                   directions[1]);
        }
        is_first = false;
    }
    fflush(stdout);
}

static void job_finish(struct job *job)
{
    const int status = test_child_wait(job->child, 0);

    job_print(job);
    if (status != 0) {
        printf("%s with Redisson %s: the driver ended with %d\n",
               job->kind != NULL ? label_of(job->kind) : "model", job->version->name, status);
        count(job->tally, false);
    }
    fclose(job->out);
}

static bool is_wanted(const char *kind)
{
    return run.only_kind == NULL || strcmp(run.only_kind, kind) == 0;
}

/* The jobs to be done; how many. */
static size_t list_jobs(struct job *ret_jobs)
{
    const bool has_model = run.only == NULL && is_wanted("model");
    struct tally *tallies = mmap(NULL, MAX_JOBS * sizeof(*tallies), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t n = 0;

    TEST_CHECK(tallies != MAP_FAILED && run.n_versions * (interop_n_kinds + 1) <= MAX_JOBS);
    for (size_t i = 0; has_model && i < run.n_versions; i++) {
        ret_jobs[n] = (struct job){.version = &run.versions[i], .tally = &tallies[n]};
        n++;
    }
    for (size_t i = 0; i < run.n_versions * interop_n_kinds; i++) {
        const struct kind *kind = &interop_kinds[i % interop_n_kinds];
        if (is_wanted(kind->name)) {
            ret_jobs[n] = (struct job){
                .version = &run.versions[i / interop_n_kinds], .kind = kind, .tally = &tallies[n]};
            n++;
        }
    }
    return n;
}

/* How many of the jobs are still under way. */
static size_t count_running(struct job *jobs, size_t n)
{
    size_t n_running = 0;

    for (size_t i = 0; i < n; i++) {
        jobs[i].is_running = jobs[i].is_running && !job_has_ended(&jobs[i]);
        n_running += jobs[i].is_running;
    }
    return n_running;
}

/* Some at a time: most of their time they wait for leases to end. Printed in their order. */
static void play_jobs(struct tally *total)
{
    enum { AT_A_TIME = 4 };
    struct job jobs[MAX_JOBS];
    const size_t n = list_jobs(jobs);
    size_t started = 0;

    for (size_t finished = 0; finished < n; usleep(10000)) {
        if (count_running(jobs, started) < AT_A_TIME && started < n) {
            job_start(&jobs[started++]);
        }
        if (finished < started && !jobs[finished].is_running) {
            struct job *job = &jobs[finished++];
            job_finish(job);
            total->passed += job->tally->passed;
            total->failed += job->tally->failed;
        }
    }
}

/* ---- main ---- */

static void add_version(const char *argument)
{
    const char *equals = strchr(argument, '=');
    char path[1024];
    char paths[15000];

    if (equals == NULL || run.n_versions == MAX_VERSIONS) {
        test_die("%s: a Redisson version, = and its directory", argument);
    }
    struct version *version = &run.versions[run.n_versions++];
    version->argument = argument;
    test_text(version->name, sizeof(version->name), "%.*s", (int)(equals - argument), argument);
    test_text(version->directory, sizeof(version->directory), "%s", equals + 1);
    test_text(path, sizeof(path), "%s/classpath", equals + 1);
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(paths, sizeof(paths), file) == NULL) {
        test_die("%s: not built", path);
    }
    fclose(file);
    paths[strcspn(paths, "\n")] = '\0';
    test_text(version->classpath, sizeof(version->classpath), "%s/classes:%s", equals + 1, paths);
}

static void read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--stress") == 0 && i + 1 < argc) {
            run.stress_seconds = strtoll(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--shares") == 0 && i + 1 < argc) {
            run.shares = argv[++i];
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            run.only = argv[++i];
        } else if (strcmp(argv[i], "--kind") == 0 && i + 1 < argc) {
            run.only_kind = argv[++i];
        } else {
            add_version(argv[i]);
        }
    }
    const char *slash = strrchr(argv[0], '/');
    const int len = slash != NULL ? (int)(slash + 1 - argv[0]) : 0;
    test_text(run.programs, sizeof(run.programs), "%.*s", len, argv[0]);
    test_text(run.ours, sizeof(run.ours), "%sinterop_agent", run.programs);
}

int main(int argc, char **argv)
{
    struct tally total = {0};

    read_arguments(argc, argv);
    if (run.shares != NULL) {
        return share_all();
    }
    play_jobs(&total);
    if (run.stress_seconds > 0) {
        play_shares(argv, &total);
        play_stress(&total);
    }
    printf("\n%u passed, %u failed\n", total.passed, total.failed);
    return total.failed == 0 && total.passed > 0 ? 0 : 1;
}
