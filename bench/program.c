/* SPDX-License-Identifier: Apache-2.0 */
/* Peers by their standard input and output. */
#include "program.h"

#include "support/run.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROGRAMS = 8, MAX_PROCESSES = 8, MAX_WORDS = 9 + BENCH_MAX_SERVERS, WORD = 128 };
enum { READY_MS = 180000 }; /* a JVM has to start, and to warm up */

static struct {
    int to;
    FILE *from;
} process[MAX_PROCESSES];

static struct {
    const char *program;
    char text[256];
} note[MAX_PROGRAMS];

/* ---- starting ---- */

static void path_of(const char *program, char ret_path[PATH_MAX])
{
    const char *dir = getenv("RLOCK_BENCH_PEERS");

    test_text(ret_path, PATH_MAX, "%s/%s", dir != NULL ? dir : "", program);
}

bool bench_program_is_there(const char *program)
{
    char path[PATH_MAX];

    path_of(program, path);
    return access(path, X_OK) == 0;
}

static _Noreturn void execute(const struct bench_run *run)
{
    static char word[MAX_WORDS][WORD], path[PATH_MAX];
    const struct bench_case *one = run->one;
    char *argv[1 + MAX_WORDS + 1] = {path};
    int n = 0;

    path_of(run->variant->program, path);
    test_text(word[n++], WORD, "row=%s", run->row->name);
    test_text(word[n++], WORD, "threads=%d", run->threads);
    test_text(word[n++], WORD, "first=%d", run->process * run->threads);
    test_text(word[n++], WORD, "hold_us=%lld", (long long)one->hold_us);
    test_text(word[n++], WORD, "members=%d", one->members);
    test_text(word[n++], WORD, "locks=%ld", one->locks);
    test_text(word[n++], WORD, "lease_ms=%lld", (long long)one->lease_ms);
    for (int i = 0; i < run->n_servers; i++) {
        test_text(word[n++], WORD, "url=%s", run->url[i]);
    }
    for (int i = 0; i < n; i++) {
        argv[1 + i] = word[i];
    }
    execv(path, argv);
    test_die("%s cannot be run", path);
}

pid_t bench_program_start(const struct bench_run *run, const struct bench_options *options)
{
    const pid_t parent = getpid();
    int to[2], from[2];

    TEST_CHECK(run->process < MAX_PROCESSES);
    TEST_CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
    const pid_t pid = test_must(fork(), "fork");
    if (pid == 0) {
        test_die_with_parent(parent);
        bench_pin_client(options);
        test_must(dup2(to[0], STDIN_FILENO), "dup2");
        test_must(dup2(from[1], STDOUT_FILENO), "dup2");
        execute(run);
    }
    close(to[0]);
    close(from[1]);
    process[run->process].to = to[1];
    process[run->process].from = fdopen(from[0], "re");
    TEST_CHECK(process[run->process].from != NULL);
    return pid;
}

/* ---- talking ---- */

static void keep_note(const char *program, const char *text)
{
    int i = 0;

    while (note[i].program != NULL && strcmp(note[i].program, program) != 0) {
        i++;
    }
    TEST_CHECK(i < MAX_PROGRAMS);
    note[i].program = program;
    snprintf(note[i].text, sizeof(note[i].text), "%s", text);
}

const char *bench_program_note(const char *program)
{
    for (int i = 0; i < MAX_PROGRAMS && note[i].program != NULL; i++) {
        if (strcmp(note[i].program, program) == 0) {
            return note[i].text;
        }
    }
    return "";
}

static const char ready[] = "ready ";

void bench_programs_wait_ready(const struct bench_run *run)
{
    for (int i = 0; i < run->procs; i++) {
        struct pollfd output = {.fd = fileno(process[i].from), .events = POLLIN};
        char line[512] = "";

        if (poll(&output, 1, READY_MS) != 1 || fgets(line, sizeof(line), process[i].from) == NULL ||
            strncmp(line, ready, strlen(ready)) != 0) {
            test_die("%s, %s, %s: did not start: %s", run->row->name, run->one->name,
                     run->variant->name, line);
        }
        line[strcspn(line, "\n")] = 0;
        keep_note(run->variant->program, line + strlen(ready));
    }
}

void bench_programs_tell(const struct bench_run *run, const char *line)
{
    for (int i = 0; i < run->procs; i++) {
        TEST_CHECK(write(process[i].to, line, strlen(line)) == (ssize_t)strlen(line));
    }
}

/* "worker longest latency latency ...": the worker's number in its process, all else in ns. */
static void take_line(char *line, const struct bench_run *run, struct bench_worker *workers)
{
    const long index = strtol(line, &line, 10);

    TEST_CHECK(index >= 0 && index < run->threads);
    workers[index].longest_ns = strtoll(line, &line, 10);
    while (*line == ' ') {
        bench_hist_add(&workers[index].hist, strtoll(line, &line, 10));
        workers[index].n++;
    }
}

void bench_programs_collect(const struct bench_run *run, struct bench_worker *workers)
{
    char *line = NULL;
    size_t size = 0;

    for (int i = 0; i < run->procs; i++) {
        while (getline(&line, &size, process[i].from) > 0) {
            take_line(line, run, workers + i * run->threads);
        }
        fclose(process[i].from);
        close(process[i].to);
    }
    free(line);
}
