/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A RedLock of five servers of its own, while a minority of them is killed and started again,
 * empty, all the time. Several processes count in memory that they share, each under the lock;
 * the counter is read, held a moment and written back, so that two inside at once would lose a
 * count. Not one may be lost. At the end it says how long taking the lock took, with all servers
 * and with a minority down.
 */
#include "show.h"

#include <rlock/rlock.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERVERS = 5, MINORITY = 2, WORKERS = 4, TIMES = 20000 };

#define MAX_LEASE_MS 2000 /* a server that restarted counts again after this */

struct times {
    _Atomic int n;
    int us[TIMES];
};

static struct shared {
    atomic_bool open;
    atomic_bool broken; /* servers are down */
    volatile long counter;
    atomic_long counted, unsure, refused;
    struct times whole, minority_down;
} * shared;

static pid_t servers[SERVERS];
static char sockets[SERVERS][64];
static char urls[SERVERS][80];

static char dir[] = "/tmp/rlock-redlock-XXXXXX";

/* ---- Servers ---- */

static void start_server(int i)
{
    const char *binary = getenv("RLOCK_REDIS_SERVER");

    (void)unlink(sockets[i]);
    servers[i] = fork_bound();
    if (servers[i] == 0) {
        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        (void)setpgid(0, 0); /* ^C is not for the server */
        (void)execlp(binary != NULL ? binary : "redis-server", "redis-server", "--port", "0",
                     "--unixsocket", sockets[i], "--save", "", "--appendonly", "no", "--dir", dir,
                     (char *)NULL);
        (void)fprintf(stderr, "redlock: redis-server: %s; RLOCK_REDIS_SERVER names another\n",
                      strerror(errno));
        _exit(EXIT_FAILURE);
    }
}

static void kill_server(int i)
{
    if (kill(servers[i], SIGKILL) == 0) {
        (void)waitpid(servers[i], NULL, 0);
    }
}

/* ---- Workers ---- */

static int open_lock(struct rlock_client *clients[SERVERS], struct rlock_handle **ret_lock)
{
    struct rlock_handle *members[SERVERS] = {NULL};
    int code = 0;

    for (int i = 0; i < SERVERS && code == 0; i++) {
        code = rlock_client_open(
            RLOCK_CLIENT_OPTS(.url = urls[i], .renewed_lease_ms = MAX_LEASE_MS), &clients[i]);
        code = code == 0 ? rlock_reentrant_new(clients[i], "counter", NULL, &members[i]) : code;
    }
    if (code == 0) {
        code =
            rlock_redlock_new(members, SERVERS, RLOCK_OPTS(.max_lease_ms = MAX_LEASE_MS), ret_lock);
    }
    for (int i = 0; i < SERVERS; i++) {
        (void)rlock_free(members[i]);
    }
    return code;
}

static void note_time(int64_t us)
{
    struct times *times = atomic_load(&shared->broken) ? &shared->minority_down : &shared->whole;
    const int n = atomic_fetch_add(&times->n, 1);

    if (n < TIMES) {
        times->us[n] = (int)us;
    }
}

/* Counts one: right only for who is alone. */
static void count(const struct rlock_handle *lock)
{
    const long value = shared->counter;

    nap_ms(1);
    if (rlock_is_valid(lock)) {
        shared->counter = value + 1;
        (void)atomic_fetch_add(&shared->counted, 1);
    }
}

_Noreturn static void work(void)
{
    struct rlock_client *clients[SERVERS] = {NULL};
    struct rlock_handle *lock = NULL;
    int code = open_lock(clients, &lock);

    (void)signal(SIGINT, SIG_IGN);
    while (code == 0 && atomic_load(&shared->open)) {
        const int64_t began = now_us();
        const int got = rlock_lock_for(lock, 1000, NULL, NULL);

        if (got == 0) {
            note_time(now_us() - began);
            count(lock);
            (void)atomic_fetch_add(&shared->unsure, rlock_unlock(lock) != 0);
        } else {
            (void)atomic_fetch_add(&shared->refused, 1);
        }
    }
    if (code != 0) {
        (void)fprintf(stderr, "redlock: %s: %s\n", rlock_code_name(code), rlock_detail());
    }
    (void)rlock_free(lock);
    for (int i = 0; i < SERVERS; i++) {
        (void)rlock_client_close(clients[i]);
    }
    _exit(code == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- The show ---- */

static int ascending(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static void say_times(const char *what, struct times *times)
{
    const int n = times->n < TIMES ? times->n : TIMES;

    qsort(times->us, (size_t)n, sizeof(times->us[0]), ascending);
    if (n > 0) {
        printf("  %-20s %6d times, p50 %7.2f ms, p99 %7.2f ms\n", what, n, times->us[n / 2] / 1e3,
               times->us[n * 99 / 100] / 1e3);
    }
}

/* Kills a minority, lets the workers go on without it, starts it again, and waits until it counts:
 * else the next one to die would take the majority with it. */
static void one_round(int round)
{
    for (int i = 0; i < MINORITY; i++) {
        kill_server((round + i) % SERVERS);
    }
    atomic_store(&shared->broken, true);
    printf("servers %d and %d are dead    ", round % SERVERS, (round + 1) % SERVERS);
    (void)fflush(stdout);
    nap_ms(1000);
    atomic_store(&shared->broken, false);
    for (int i = 0; i < MINORITY; i++) {
        start_server((round + i) % SERVERS);
    }
    nap_ms(MAX_LEASE_MS + 2000);
    printf("%ld counted, %ld lost\n", atomic_load(&shared->counted),
           atomic_load(&shared->counted) - shared->counter);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 3;
    pid_t workers[WORKERS];
    long lost;

    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rounds < 1 || shared == MAP_FAILED || mkdtemp(dir) == NULL) {
        (void)fprintf(stderr, "usage: redlock [rounds]\n");
        return EXIT_FAILURE;
    }
    for (int i = 0; i < SERVERS; i++) {
        (void)snprintf(sockets[i], sizeof(sockets[i]), "%s/%d", dir, i);
        (void)snprintf(urls[i], sizeof(urls[i]), "unix://%s", sockets[i]);
        start_server(i);
    }
    printf("%d servers, %d workers; a server counts when it has run for %d ms\n", SERVERS, WORKERS,
           MAX_LEASE_MS);
    nap_ms(MAX_LEASE_MS + 1500);
    atomic_store(&shared->open, true);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork_bound();
        if (workers[i] == 0) {
            work();
        }
    }
    nap_ms(1000);
    for (int round = 0; round < rounds; round++) {
        one_round(round * MINORITY);
    }
    atomic_store(&shared->open, false);
    for (int i = 0; i < WORKERS; i++) {
        (void)waitpid(workers[i], NULL, 0);
    }
    lost = atomic_load(&shared->counted) - shared->counter;
    printf("\n%ld counted under the lock, %ld lost; %ld gave up waiting, %ld unlocks too late\n",
           atomic_load(&shared->counted), lost, atomic_load(&shared->refused),
           atomic_load(&shared->unsure));
    printf("taking it, with %d workers in line:\n", WORKERS);
    say_times("all servers up", &shared->whole);
    say_times("a minority is dead", &shared->minority_down);
    for (int i = 0; i < SERVERS; i++) {
        kill_server(i);
        (void)unlink(sockets[i]);
    }
    (void)rmdir(dir);
    return lost == 0 && atomic_load(&shared->counted) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
