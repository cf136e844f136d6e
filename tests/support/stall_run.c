/*
 * Runs a test beside a witness of the machine's stalls: stall_run PROGRAM [ARGUMENT]...
 *
 * Runs it again, up to three times, where it failed by an assertion about time that the stalls
 * excuse (stall.h), and by none that they do not. Says so on stderr, and in the file that
 * RLOCK_TEST_STALLED names. Exits as the last run did.
 *
 * A run that takes longer than RLOCK_TEST_LIMIT_S, without the time that the machine stood still,
 * is killed: it has failed, with 124.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "stall.h"
#include "stall_table.h"

#define AGAIN 3
#define SLEEP_US 1000
#define TOO_LONG 124

static struct stall_table *table;

static void die(const char *what)
{
    fprintf(stderr, "stall_run: %s: %s\n", what, strerror(errno));
    exit(125);
}

static int64_t now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

/* The next bucket still holds what was noted ten minutes ago. */
static void clear_next(unsigned processor, int64_t now)
{
    const int64_t next = (now - table->began_us) / STALL_BUCKET_US + 1;

    atomic_store(&table->processors[processor].late_us[next % STALL_BUCKETS], 0);
}

static void *watch(void *arg)
{
    const unsigned processor = (unsigned)(uintptr_t)arg;
    const struct timespec pause = {.tv_nsec = SLEEP_US * 1000};

    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    for (;;) {
        const int64_t due_us = now_us() + SLEEP_US;
        int64_t woke_us;

        atomic_store(&table->processors[processor].due_us, due_us);
        (void)nanosleep(&pause, NULL);
        woke_us = now_us();
        if (woke_us - due_us > SLEEP_US) { /* less is how late everybody wakes */
            test_stalls_note(processor, due_us, woke_us);
        }
        atomic_store(&table->processors[processor].due_us, 0);
        clear_next(processor, woke_us);
    }
    return NULL;
}

/* A thread on each processor that this process may use. */
static void start_witness(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        die("sched_getaffinity");
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE && table->n_processors < STALL_PROCESSORS; cpu++) {
        const uintptr_t processor = table->n_processors;
        pthread_attr_t attr;
        pthread_t thread;
        cpu_set_t one;

        if (!CPU_ISSET(cpu, &allowed)) {
            continue;
        }
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_attr_init(&attr);
        (void)pthread_attr_setaffinity_np(&attr, sizeof(one), &one);
        if (pthread_create(&thread, &attr, watch, (void *)processor) != 0) {
            die("pthread_create");
        }
        (void)pthread_attr_destroy(&attr);
        table->n_processors++;
    }
}

static void open_table(void)
{
    int fd = memfd_create("stalls", 0);
    char text[16];

    if (fd < 0 || ftruncate(fd, sizeof(*table)) != 0) {
        die("memfd_create");
    }
    (void)snprintf(text, sizeof(text), "%d", fd);
    (void)setenv("RLOCK_TEST_STALLS", text, 1);
    table = test_stalls_table();
    if (table == NULL) {
        die("mmap");
    }
    table->began_us = now_us();
}

/* Waits until it ends, or has taken too long; 0 no limit. Returns whether it has ended. */
static bool wait_for_end(pid_t pid, int64_t limit_us)
{
    struct pollfd ended = {.fd = pidfd_open(pid, 0), .events = POLLIN};
    const int64_t began_us = test_now_us();

    if (ended.fd < 0) {
        die("pidfd_open");
    }
    while (poll(&ended, 1, 100) == 0 &&
           (limit_us == 0 || test_elapsed_us(began_us) - test_stalls_us(began_us) < limit_us)) {
    }
    (void)close(ended.fd);
    return (ended.revents & POLLIN) != 0;
}

static int run_once(char **argv, int64_t limit_us)
{
    const pid_t self = getpid();
    bool has_ended;
    pid_t pid;
    int status;

    atomic_store(&table->excused, 0);
    atomic_store(&table->failed, 0);
    pid = fork();
    if (pid < 0) {
        die("fork");
    }
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == self) {
            (void)execv(argv[0], argv);
        }
        _exit(127);
    }
    has_ended = wait_for_end(pid, limit_us);
    if (!has_ended) {
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            die("waitpid");
        }
    }
    if (!has_ended) {
        fprintf(stderr, "stall_run: took longer than %lld s\n", (long long)limit_us / 1000000);
        return TOO_LONG;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The test is run again: says so, here and to whoever keeps the list. */
static void say_again(char **argv, int times)
{
    const char *path = getenv("RLOCK_TEST_STALLED");
    const char *program = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    FILE *list = path != NULL ? fopen(path, "a") : NULL;

    fprintf(stderr,
            "stall_run: the machine stood still for longer than was missed: run again, %d of %d\n",
            times, AGAIN);
    if (list != NULL) {
        fprintf(list, "%s.%s: run again, %d of %d\n", program, argv[1] != NULL ? argv[1] : "",
                times, AGAIN);
        (void)fclose(list);
    }
}

int main(int argc, char **argv)
{
    const char *limit_s = getenv("RLOCK_TEST_LIMIT_S");
    const int64_t limit_us = limit_s != NULL ? strtoll(limit_s, NULL, 10) * 1000000 : 0;
    int status = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: stall_run PROGRAM [ARGUMENT]...\n");
        return 64;
    }
    open_table();
    start_witness();
    for (int times = 0; times <= AGAIN; times++) {
        status = run_once(argv + 1, limit_us);
        if (status == 0 || !atomic_load(&table->excused) || atomic_load(&table->failed)) {
            break;
        }
        if (times < AGAIN) {
            say_again(argv + 1, times + 1);
        }
    }
    return status;
}
