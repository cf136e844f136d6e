/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim [--seed N] [--seeds COUNT] [--steps N] [--jobs N]
 *     [--kind KIND] [--nodes N] [--acks] [--failovers] [--links] [--slots] [--foreign]
 *     [--queues] [--faults N] [--trace]
 * Runs seeds from N on. A seed that fails prints itself; `sim --seed N --seeds 1 --trace` replays
 * it exactly.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "overrun.h"
#include "world.h"

struct options {
    uint64_t seed, seeds, steps;
    unsigned jobs;
    struct sim_only only;
    bool trace;
};

static int run_share(const struct options *options, unsigned job)
{
    struct sim_world *world = calloc(1, sizeof(*world));
    uint64_t grants = 0, losses = 0, doubts = 0, passed = 0, passes = 0, steps = 0;
    int failed = 0;

    world->trace = options->trace;
    world->only = options->only;
    for (uint64_t i = job; i < options->seeds && failed == 0; i += options->jobs) {
        sim_overrun_watch(options->seed + i);
        if (!sim_run(world, options->seed + i, options->steps)) {
            printf("seed %llu fails after %llu steps: %s\n",
                   (unsigned long long)(options->seed + i), (unsigned long long)world->steps,
                   world->violation);
            failed = 1;
        }
        grants += world->grants;
        losses += world->losses;
        doubts += world->doubts;
        passed += world->passed;
        passes += world->passes;
        steps += world->steps;
    }
    printf("job %u: %llu steps, %llu grants, %llu losses, %llu in doubt, %llu passed over, %llu "
           "passes, %s\n",
           job, (unsigned long long)steps, (unsigned long long)grants, (unsigned long long)losses,
           (unsigned long long)doubts, (unsigned long long)passed, (unsigned long long)passes,
           failed ? "FAILED" : "ok");
    if (world->replica != NULL) {
        world->replica = sim_server_free(world->replica);
    }
    for (unsigned i = 0; i < SIM_NODES; i++) {
        world->nodes[i].server = sim_server_free(world->nodes[i].server);
    }
    free(world);
    return failed;
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

static int help(void)
{
    return puts("usage: sim [option]...\n"
                "Runs seeds of the simulator, and says which one fails.\n"
                "  --seed N      the first one, 1 by default\n"
                "  --seeds N     how many, 1000 by default\n"
                "  --steps N     of each, 600 by default; three times as many with failovers\n"
                "  --jobs N      processes, 1 by default\n"
                "  --kind KIND   of lock in every seed\n"
                "  --nodes N     servers that share the keys, in every seed with faults\n"
                "  --acks        replicas acknowledge, in every seed with faults\n"
                "  --failovers   servers die or stop and are replaced, in every seed with faults\n"
                "  --links       two links to each server, in every seed\n"
                "  --slots       slots are being moved, in every seed with faults; with --nodes "
                "nearly\n"
                "                all faults are moves\n"
                "  --foreign     foreign keys come and go, in every seed with faults\n"
                "  --queues      calls that wait enter the lock's queue on the server\n"
                "  --faults N    of a thousand steps, in every seed; many of them meet then\n"
                "  --trace       what happens\n") < 0;
}

int main(int argc, char **argv)
{
    static struct options options = {.seed = 1, .seeds = 1000, .steps = 600, .jobs = 1};
    static int trace;
    static const struct option longs[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'n'},
        {"steps", required_argument, NULL, 't'},
        {"jobs", required_argument, NULL, 'j'},
        {"kind", required_argument, NULL, 'k'},
        {"nodes", required_argument, NULL, 'c'},
        {"faults", required_argument, NULL, 'f'},
        {"acks", no_argument, &options.only.acks, 1},
        {"failovers", no_argument, &options.only.failovers, 1},
        {"links", no_argument, &options.only.links, 1},
        {"slots", no_argument, &options.only.slots, 1},
        {"foreign", no_argument, &options.only.foreign, 1},
        {"queues", no_argument, &options.only.queues, 1},
        {"trace", no_argument, &trace, 1},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        switch (c) {
        case 0:
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            options.seeds = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.steps = strtoull(optarg, NULL, 10);
            break;
        case 'j':
            options.jobs = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'k':
            options.only.kind = optarg;
            break;
        case 'c':
            options.only.nodes = (unsigned)rlock__min(strtol(optarg, NULL, 10), SIM_NODES);
            break;
        case 'f':
            options.only.faults = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'h':
            return help();
        default:
            return 64;
        }
    }
    options.trace = trace != 0;
    return options.jobs > 1 ? run_jobs(&options) : run_share(&options, 0);
}
