/* SPDX-License-Identifier: Apache-2.0 */
/* What it takes to run a program under a lock, from fork to its end. */
#include "floor.h"
#include "lib.h"

#include "support/run.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void run_program(struct bench_worker *worker, const char *const *argv)
{
    struct rusage usage;
    int status = 0;
    const int64_t began = bench_now_ns();
    const pid_t pid = test_must(vfork(), "vfork");

    if (pid == 0) {
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    test_must(wait4(pid, &status, 0, &usage), "wait4");
    bench_note(worker, bench_now_ns() - began);
    bench_note_usage(worker, usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec +
                                 usage.ru_stime.tv_sec * 1000000LL + usage.ru_stime.tv_usec);
    TEST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const char *program_of(const char *variable)
{
    const char *path = getenv(variable);

    if (path == NULL) {
        test_die("%s is not set: run scripts/bench", variable);
    }
    return path;
}

static void run_rlock(struct bench_worker *worker)
{
    const char *const argv[] = {program_of("RLOCK_COMMAND"),
                                "run",
                                "--url",
                                worker->run->url[0],
                                "name",
                                "--",
                                "true",
                                NULL};

    run_program(worker, argv);
}

static void run_floor(struct bench_worker *worker)
{
    const char *const argv[] = {program_of("RLOCK_BENCH_FLOOR_RUN"), worker->run->url[0], "name",
                                "true", NULL};

    run_program(worker, argv);
}

static void run_flock(struct bench_worker *worker)
{
    static const char *const argv[] = {"flock", "/dev/null", "true", NULL};

    run_program(worker, argv);
}

static void run_alone(struct bench_worker *worker)
{
    static const char *const argv[] = {"true", NULL};

    run_program(worker, argv);
}

const struct bench_variant lib_run = {.name = "rlock", .op = run_rlock};
const struct bench_variant floor_run = {.name = "hiredis", .op = run_floor};
const struct bench_variant floor_flock = {.name = "flock", .op = run_flock};
const struct bench_variant floor_exec = {.name = "true", .op = run_alone};
