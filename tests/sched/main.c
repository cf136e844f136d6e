/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sched [--seed N] [--seeds COUNT] [--jobs N] [--scenario NAME] [--loops] [--trace]
 *     [--digests]
 * Runs seeds from N on, each in a process of its own. A seed that fails prints itself; `sched
 * --seed N --seeds 1 --trace` replays it exactly.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/overrun.h"
#include "stage.h"

struct options {
    uint64_t seed, seeds;
    unsigned jobs;
    const struct scenario *scenario;
    bool trace, digests, loops;
};

static int play_seed(const struct options *options, uint64_t seed,
                     struct sim_server *const servers[SCHED_SERVERS_MAX],
                     struct sched_result *result)
{
    const struct scenario *scenario =
        options->scenario != NULL ? options->scenario : scenario_of(seed);
    struct sched_config config = {.seed = seed,
                                  .trace = options->trace,
                                  .stalls = scenario->stalls,
                                  .on_idle = check_idle,
                                  .result = result};

    sim_overrun_watch(seed);
    sched_begin(&config);
    sched_trace("seed %llu: %s", (unsigned long long)seed, scenario->name);
    stage_play(scenario, seed, options->loops, servers);
    sched_end();
    return EXIT_SUCCESS;
}

/* Each seed in a process of its own: what the library has once for a process is new each time. */
static bool run_seed(const struct options *options, uint64_t seed,
                     struct sim_server *servers[SCHED_SERVERS_MAX], struct sched_result *result)
{
    int status = -1;
    pid_t pid;

    *result = (struct sched_result){0};
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        int code = play_seed(options, seed, servers, result);

        for (unsigned i = 0; i < SCHED_SERVERS_MAX; i++) {
            servers[i] = sim_server_free(servers[i]);
        }
        exit(code);
    }
    (void)waitpid(pid, &status, 0);
    if (status != 0) {
        const char *why = result->why[0] != '\0' ? result->why : "crashes";

        printf("seed %llu fails after %llu steps: %s\n", (unsigned long long)seed,
               (unsigned long long)result->steps, why);
    } else if (options->digests) {
        printf("seed %llu: %016llx, %llu steps, %lld us\n", (unsigned long long)seed,
               (unsigned long long)result->digest, (unsigned long long)result->steps,
               (long long)result->us);
    }
    return status == 0;
}

static int run_share(const struct options *options, unsigned job)
{
    struct sched_result *result =
        mmap(NULL, sizeof(*result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sim_server *servers[SCHED_SERVERS_MAX];
    uint64_t steps = 0, n = 0;
    bool ok = true;

    for (unsigned i = 0; i < SCHED_SERVERS_MAX; i++) {
        servers[i] = sim_server_new(i + 1);
        sim_server_tolerate(servers[i], true); /* a client asks for what not every server has */
    }
    for (uint64_t i = job; i < options->seeds && ok; i += options->jobs, n++) {
        ok = run_seed(options, options->seed + i, servers, result);
        steps += result->steps;
    }
    printf("job %u: %llu seeds, %llu steps, %s\n", job, (unsigned long long)n,
           (unsigned long long)steps, ok ? "ok" : "FAILED");
    for (unsigned i = 0; i < SCHED_SERVERS_MAX; i++) {
        servers[i] = sim_server_free(servers[i]);
    }
    (void)munmap(result, sizeof(*result));
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run_jobs(const struct options *options)
{
    int failed = 0, status;

    (void)fflush(stdout);
    for (unsigned job = 0; job < options->jobs; job++) {
        pid_t pid = fork();

        if (pid == 0) {
            exit(run_share(options, job));
        }
        failed |= pid < 0;
    }
    while (wait(&status) > 0) {
        failed |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

static bool read_option(struct options *options, int c)
{
    switch (c) {
    case 's':
        options->seed = strtoull(optarg, NULL, 10);
        return true;
    case 'n':
        options->seeds = strtoull(optarg, NULL, 10);
        return true;
    case 'j':
        options->jobs = (unsigned)strtoul(optarg, NULL, 10);
        return options->jobs > 0;
    case 'c':
        options->scenario = scenario_find(optarg);
        return options->scenario != NULL;
    case 'v':
        options->trace = true;
        return true;
    case 'd':
        options->digests = true;
        return true;
    case 'l':
        options->loops = true;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'}, {"seeds", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'}, {"scenario", required_argument, NULL, 'c'},
        {"trace", no_argument, NULL, 'v'},      {"digests", no_argument, NULL, 'd'},
        {"loops", no_argument, NULL, 'l'},      {NULL, 0, NULL, 0},
    };
    struct options options = {.seed = 1, .seeds = 1000, .jobs = 1};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (!read_option(&options, c)) {
            return 64;
        }
    }
    return options.jobs > 1 ? run_jobs(&options) : run_share(&options, 0);
}
