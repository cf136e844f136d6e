/*
 * Plays every property between Redisson and rlock, in both directions, and prints a table.
 *
 *     interop [--stress <seconds>] [--only <property>] [--kind <kind>] [--on <layout>]
 *             [--brief] [--alone] <version>=<directory>...
 *     interop --shares half|whole <version>=<directory>...
 *
 * The shares are times in sum, so they are a run of their own, beside a witness of the machine's
 * stalls (support/stall.h); the first form runs it too, with half of the limits, where it has the
 * stress.
 *
 * The versions are Redisson's; their directories hold what Maven made of java/: classes/, and the
 * file classpath. Each kind with each version is a job: a process of the driver, with a deployment
 * and agents of its own. Unless a layout is asked for, everything is played on servers by
 * themselves, and with the first version what is brief on the others as well. --brief: only that.
 * --alone: with another Redisson in our place, to see what holds among themselves.
 */
#include "interop.h"

#include "cells.h"
#include "version.h"

#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_VERSIONS = 4, MAX_JOBS = 128, JOB_MS = 240000 };

static const char *label_of(const struct kind *kind)
{
    return kind->label != NULL ? kind->label : kind->name;
}

static struct {
    struct version versions[MAX_VERSIONS];
    size_t n_versions;
    int64_t stress_seconds;
    const char *only, *only_kind, *shares;
    const struct layout *layout; /* NULL: all, and only what is brief on most */
    bool is_alone, is_brief;
    char programs[256]; /* the directory of this one, and of those that it runs */
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

/* The newest Redisson plays on Valkey, where it is, the others on Redis, unless told otherwise. */
static struct deployment *start_for(const struct version *version, const struct layout *layout,
                                    size_t n)
{
    const bool is_first = version == &run.versions[0];
    const bool on_valkey =
        is_first && getenv("RLOCK_TEST_SERVER") == NULL && test_server_available("valkey");

    return deployment_start(layout, on_valkey ? "valkey" : NULL, n);
}

/* ---- the table ---- */

static const char *const directions[] = {"Redisson holds", "rlock holds"};

static void print_head(const struct version *version, const struct deployment *deployment,
                       const struct party *java)
{
    char *info = test_server_cmd(deployment->servers[0], "INFO server");
    const char *valkey = strstr(info, "valkey_version:");
    const char *number = valkey != NULL ? valkey + 15 : strstr(info, "redis_version:") + 14;
    const struct peer_answer jdk =
        peer_wait(java->peer, peer_tell(java->peer, "long - - - version"), PATIENCE_MS);

    printf("Redisson %s on Java %s, %s %.*s, %s\n", version->name, jdk.text,
           valkey != NULL ? "valkey" : "redis", (int)strcspn(number, "\r\n"), number,
           deployment->layout->name);
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
    printf("%-20s ", text);
}

/* ---- a job: one kind with one version ---- */

static bool is_played_on(const struct property *property, enum topology topology)
{
    switch (property->where) {
    case NOT_IN_CLUSTERS:
        return topology != CLUSTER;
    case WITH_REPLICAS:
        return topology != STANDALONE;
    case IN_CLUSTERS:
        return topology == CLUSTER;
    case EVERYWHERE:
    default:
        return true;
    }
}

static bool applies(const struct property *property, const struct pair *pair)
{
    const enum topology topology = pair->deployment->layout->topology;
    const bool is_whole = run.layout != NULL || topology == STANDALONE;

    return (run.only == NULL || strcmp(run.only, property->name) == 0) &&
           (is_whole || property->is_brief) && is_played_on(property, topology) &&
           (property->applies == NULL || property->applies(pair->kind));
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
    printf("\n%s", text);
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

/* With another Redisson, of the holder's version, to compare with. */
static void play_state(const struct version *version, const struct property *property,
                       struct pair *there, struct pair *back, struct tally *tally)
{
    struct party second = party_start("another Redisson", version, run.programs, there->deployment);
    struct pair alone = *there;

    alone.waiter = &second;
    party_open(&second);
    there->reference = back->reference = refer(&alone, tally);
    if (there->reference != NULL) {
        play_both(property, version, there, back, tally);
    }
    trace_free(there->reference);
    peer_free(second.peer);
}

static void play_kind(const struct version *version, struct pair *there, struct pair *back,
                      struct tally *tally)
{
    for (size_t i = 0; i < interop_n_properties; i++) {
        const struct property *property = &interop_properties[i];
        if (applies(property, there)) {
            const bool compares = property->holds == interop_state;
            (compares ? play_state(version, property, there, back, tally)
                      : play_both(property, version, there, back, tally));
        }
    }
}

/* What this Redisson can play of a kind: members that it lacks are left out of groups, and there
 * may be one place for all. False: nothing. */
static bool fit_kind(const struct kind *kind, struct party *java, struct kind *ret_kind)
{
    *ret_kind = *kind;
    if (!kind_is_group(kind)) {
        return party_has(java, "long", kind->name);
    }
    ret_kind->n_members = 0;
    for (size_t i = 0; i < kind->n_members; i++) {
        if (party_has(java, "long", kind->members[i].kind)) {
            struct member *member = &ret_kind->members[ret_kind->n_members++];
            *member = kind->members[i];
            member->server = java->n_servers == 1 ? 0 : member->server;
        }
    }
    ret_kind->quorum -= kind->n_members - ret_kind->n_members;
    return true;
}

/* In a cluster an old Redisson knows plain channels alone, so ours announces on both sorts. */
static void tell_ways(const struct version *version, struct deployment *deployment)
{
    const bool is_old = strncmp(version->name, "3.16.", strlen("3.16.")) == 0;

    deployment->hears_plain = is_old && deployment->layout->topology == CLUSTER;
    if (deployment->hears_plain) {
        TEST_CHECK(setenv("RLOCK_ANNOUNCE_BOTH", "1", 1) == 0); /* for its process */
    }
}

static void play_job(const struct version *version, const struct kind *kind,
                     const struct layout *layout, struct tally *tally)
{
    struct deployment *deployment = start_for(version, layout, kind_servers(kind));
    tell_ways(version, deployment);
    struct party java = party_start("Redisson", version, run.programs, deployment);
    struct party ours =
        party_start("rlock", run.is_alone ? version : NULL, run.programs, deployment);
    struct kind fit;
    struct pair there = {.deployment = deployment, .kind = &fit, .holder = &java, .waiter = &ours};
    struct pair back = {.deployment = deployment, .kind = &fit, .holder = &ours, .waiter = &java};

    party_open(&java);
    party_open(&ours);
    print_head(version, deployment, &java);
    if (fit_kind(kind, &java, &fit)) {
        play_kind(version, &there, &back, tally);
    } else {
        printf("%-13s %-15s %-20s n/a\n", label_of(kind), "(all)", "n/a");
    }
    peer_free(java.peer);
    peer_free(ours.peer);
    deployment_stop(deployment);
}

/* ---- a job: the model of the fair lock, with one version's scripts ---- */

static void play_models(const struct version *version, struct tally *tally)
{
    char directory[600];
    struct deployment *deployment = start_for(version, deployment_standalone, 1);
    struct party java = party_start("Redisson", version, run.programs, deployment);

    test_text(directory, sizeof(directory), "%s/scripts", version->directory);
    party_open(&java);
    print_head(version, deployment, &java);
    const bool is_recorded =
        interop_record(&java, deployment->servers[0], version->name, directory);
    peer_free(java.peer);
    deployment_stop(deployment);
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
    struct deployment *deployment = deployment_start(deployment_standalone, NULL, N_SERVERS);
    struct party parties[CELLS_SLOTS];
    char labels[CELLS_SLOTS][48];
    const struct stress_opts opts = {.parties = parties, .seconds = run.stress_seconds};

    for (size_t i = 0; i < CELLS_SLOTS; i++) {
        const struct version *version = &run.versions[i == 0 ? 0 : run.n_versions - 1];
        test_text(labels[i], sizeof(labels[i]), i < 2 ? "Redisson %s" : "rlock", version->name);
        parties[i] = party_start(labels[i], i < 2 ? version : NULL, run.programs, deployment);
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
    deployment_stop(deployment);
    return is_witnessed && is_clean;
}

/* ---- the shares ---- */

static bool share(const struct version *version)
{
    const bool mixes = strcmp(run.shares, "mixes") == 0;
    struct deployment *deployment =
        start_for(version, deployment_standalone, mixes ? 1 : SHARES_SERVERS);
    struct party parties[SHARES_PARTIES];
    const struct shares_opts opts = {.parties = parties,
                                     .n_java = mixes ? 4 : 1,
                                     .n_ours = mixes ? 48 : 2,
                                     .is_whole = strcmp(run.shares, "whole") == 0,
                                     .kind = run.only_kind};
    const size_t n = opts.n_java + opts.n_ours;

    for (size_t i = 0; i < n; i++) {
        const bool is_java = i < opts.n_java;
        parties[i] = party_start(is_java ? "Redisson" : "rlock", is_java ? version : NULL,
                                 run.programs, deployment);
        party_open(&parties[i]);
    }
    print_head(version, deployment, &parties[0]);
    const bool is_good = mixes ? interop_mixes(&opts) : interop_shares(&opts);
    for (size_t i = 0; i < n; i++) {
        peer_free(parties[i].peer);
    }
    deployment_stop(deployment);
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
    const struct layout *layout;
    struct tally *tally; /* in memory that the child shares */
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
        play_job(job->version, job->kind, job->layout, job->tally);
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

/* Whether it is played there: a RedLock's members are servers by themselves. */
static bool is_job(const struct version *version, const struct kind *kind,
                   const struct layout *layout)
{
    const bool is_alone = layout->topology == STANDALONE;

    const bool is_brief = !is_alone && kind->is_brief && version == &run.versions[0];

    return is_wanted(kind->name) && (is_alone || !kind_is_redlock(kind)) &&
           (run.layout != NULL ? layout == run.layout : is_brief || (is_alone && !run.is_brief));
}

/* The jobs to be done; how many. */
static size_t list_jobs(struct job *ret_jobs)
{
    const bool is_all = run.only == NULL && run.layout == NULL && !run.is_brief;
    const bool has_model = is_all && is_wanted("model");
    size_t n = 0;

    for (size_t i = 0; has_model && i < run.n_versions; i++) {
        ret_jobs[n++] = (struct job){.version = &run.versions[i]};
    }
    for (size_t l = 0; l < deployment_n_layouts; l++) {
        for (size_t i = 0; i < run.n_versions * interop_n_kinds; i++) {
            const struct version *version = &run.versions[i / interop_n_kinds];
            const struct kind *kind = &interop_kinds[i % interop_n_kinds];
            if (is_job(version, kind, &deployment_layouts[l])) {
                TEST_CHECK(n < MAX_JOBS);
                ret_jobs[n++] = (struct job){
                    .version = version, .kind = kind, .layout = &deployment_layouts[l]};
            }
        }
    }
    return n;
}

/* Room for what they count, shared with them. */
static void share_tallies(struct job *jobs, size_t n)
{
    struct tally *tallies = mmap(NULL, MAX_JOBS * sizeof(*tallies), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TEST_CHECK(tallies != MAP_FAILED);
    for (size_t i = 0; i < n; i++) {
        jobs[i].tally = &tallies[i];
    }
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
    enum { AT_A_TIME = 6 };
    struct job jobs[MAX_JOBS];
    const size_t n = list_jobs(jobs);
    size_t started = 0;

    share_tallies(jobs, n);
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
    if (run.n_versions == MAX_VERSIONS) {
        test_die("%s: too many versions", argument);
    }
    version_read(&run.versions[run.n_versions++], argument);
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
        } else if (strcmp(argv[i], "--alone") == 0) {
            run.is_alone = true;
        } else if (strcmp(argv[i], "--brief") == 0) {
            run.is_brief = true;
        } else if (strcmp(argv[i], "--on") == 0 && i + 1 < argc) {
            run.layout = deployment_layout(argv[++i]);
            TEST_CHECK(run.layout != NULL);
        } else {
            add_version(argv[i]);
        }
    }
    const char *slash = strrchr(argv[0], '/');
    const int len = slash != NULL ? (int)(slash + 1 - argv[0]) : 0;
    test_text(run.programs, sizeof(run.programs), "%.*s", len, argv[0]);
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
