/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks while a primary fails, in a cluster of three primaries with a replica each, or behind three
 * Sentinels that watch one primary with two replicas. Several processes count in memory that they
 * share, each counter under a lock of its own; a counter is read, held a moment and written back,
 * so that two inside at once would lose a count. The primary is killed in the first round, and in
 * the second one frozen until another server has taken its place. It says how long nobody got a
 * lock, what was counted and lost, and what became of locks that were held all the time.
 */
#include "show.h"

#include <rlock/rlock.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERVERS = 6, PRIMARIES = 3, WORKERS = 4, NAMES = 6, HOLDS = 20, ROUND_MS = 9000 };

#define LEASE_MS 10000

static struct shared {
    atomic_bool open;
    volatile long counters[NAMES];
    atomic_long counted, told, unsure, refused;
    _Atomic int64_t granted_us[NAMES], gap_us[NAMES];
} * shared;

static bool in_cluster;
static pid_t servers[SERVERS];
static int ports[SERVERS];
static char url[300];
static char dir[] = "/tmp/rlock-failover-XXXXXX";

/* ---- Servers ---- */

/* Sends a command, and returns the beginning of what is answered; "" without an answer. */
__attribute__((format(printf, 2, 3))) static const char *ask(int i, const char *format, ...)
{
    static char answer[8192];
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)ports[i]),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = 1};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char command[200];
    ssize_t len = -1;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(command, sizeof(command) - 2, format, args);
    va_end(args);
    (void)strcat(command, "\r\n");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, command, strlen(command), MSG_NOSIGNAL) > 0) {
        len = recv(fd, answer, sizeof(answer) - 1, 0);
    }
    (void)close(fd);
    answer[len > 0 ? len : 0] = '\0';
    return answer;
}

/* Waits up to 20 s until an answer has that text. */
static bool await(int i, const char *command, const char *text)
{
    for (int tries = 0; tries < 400; tries++) {
        if (strstr(ask(i, "%s", command), text) != NULL) {
            return true;
        }
        nap_ms(50);
    }
    (void)fprintf(stderr, "failover: server %d, %s: no %s\n", i, command, text);
    return false;
}

static bool is_sentinel(int i)
{
    return !in_cluster && i >= SERVERS / 2;
}

static void write_conf(int i, const char *path)
{
    FILE *out = fopen(path, "we");

    if (out == NULL) {
        return;
    }
    (void)fprintf(out, "bind 127.0.0.1\nport %d\ndir %s\nsave \"\"\n", ports[i], dir);
    (void)fprintf(out, "dbfilename dump-%d\nrepl-diskless-sync-delay 0\n", i);
    if (in_cluster) {
        (void)fprintf(out, "cluster-enabled yes\ncluster-node-timeout 1000\n");
        (void)fprintf(out, "cluster-config-file %s/nodes-%d\n", dir, i);
    } else if (is_sentinel(i)) {
        (void)fprintf(out, "sentinel monitor primary 127.0.0.1 %d 2\n", ports[0]);
        (void)fprintf(out, "sentinel down-after-milliseconds primary 500\n");
    } else if (i > 0) {
        (void)fprintf(out, "replicaof 127.0.0.1 %d\n", ports[0]);
    }
    (void)fclose(out);
}

static void start_server(int i)
{
    const char *binary = getenv("RLOCK_REDIS_SERVER");
    char path[80];

    (void)snprintf(path, sizeof(path), "%s/conf-%d", dir, i);
    if (access(path, F_OK) != 0) {
        write_conf(i, path);
    }
    servers[i] = fork_bound();
    if (servers[i] == 0) {
        (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
        (void)setpgid(0, 0); /* ^C is not for the server */
        (void)execlp(binary != NULL ? binary : "redis-server", "redis-server", path,
                     is_sentinel(i) ? "--sentinel" : NULL, (char *)NULL);
        (void)fprintf(stderr, "failover: redis-server: %s; RLOCK_REDIS_SERVER names another\n",
                      strerror(errno));
        _exit(EXIT_FAILURE);
    }
}

static void kill_server(int i)
{
    if (servers[i] > 0 && kill(servers[i], SIGKILL) == 0) {
        (void)waitpid(servers[i], NULL, 0);
    }
}

static bool form_cluster(void)
{
    static const int first[PRIMARIES + 1] = {0, 5461, 10923, 16384};
    bool good = true;
    char id[41];

    for (int i = 0; i < PRIMARIES; i++) {
        (void)ask(i, "CLUSTER ADDSLOTSRANGE %d %d", first[i], first[i + 1] - 1);
        (void)ask(i, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    }
    for (int i = 1; i < SERVERS; i++) {
        (void)ask(0, "CLUSTER MEET 127.0.0.1 %d", ports[i]);
    }
    for (int i = 0; i < SERVERS && good; i++) {
        good = await(i, "CLUSTER INFO", "cluster_known_nodes:6") &&
               await(i, "CLUSTER INFO", "cluster_slots_ok:16384") &&
               await(i, "CLUSTER INFO", "cluster_state:ok");
    }
    for (int i = 0; i < PRIMARIES && good; i++) {
        (void)snprintf(id, sizeof(id), "%s", strchr(ask(i, "CLUSTER MYID"), '\n') + 1);
        (void)ask(PRIMARIES + i, "CLUSTER REPLICATE %s", id);
    }
    for (int i = PRIMARIES; i < SERVERS && good; i++) {
        good = await(i, "INFO replication", "master_link_status:up");
    }
    return good;
}

static bool form_sentinels(void)
{
    bool good = true;

    for (int i = SERVERS / 2; i < SERVERS && good; i++) {
        good = await(i, "SENTINEL CKQUORUM primary", "3 usable") &&
               await(i, "SENTINEL MASTER primary", "num-slaves\r\n$1\r\n2");
    }
    return good;
}

static bool is_free(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    bool is;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    is = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return is;
}

/* The ports of the cluster's bus are 10000 above. Two demos that start together begin apart. */
static void choose_ports(void)
{
    int port = 20000 + getpid() % 750 * 16;

    for (int i = 0; i < SERVERS; i++, port++) {
        while (port < 55000 && (!is_free(port) || !is_free(port + 10000))) {
            port++;
        }
        ports[i] = port;
    }
}

static bool start_servers(void)
{
    const int first = in_cluster ? 0 : SERVERS / 2;

    choose_ports();
    for (int i = 0; i < SERVERS; i++) {
        start_server(i);
        if (!await(i, "PING", "+PONG")) {
            return false;
        }
    }
    (void)snprintf(url, sizeof(url), "redis+%s://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d%s",
                   in_cluster ? "cluster" : "sentinel", ports[first], ports[first + 1],
                   ports[first + 2], in_cluster ? "" : "/primary");
    return in_cluster ? form_cluster() : form_sentinels();
}

/* ---- Workers ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    (void)loss;
    (void)payload;
    (void)atomic_fetch_add(&shared->told, 1);
}

static int open_client(struct rlock_client **ret_client)
{
    return rlock_client_open(
        RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = LEASE_MS, .on_lost = on_lost),
        ret_client);
}

/* Counts one: right only for who is alone. */
static void count(const struct rlock_handle *lock, int i)
{
    const int64_t now = now_us(), before = atomic_exchange(&shared->granted_us[i], now);
    const long value = shared->counters[i];

    if (before != 0 && now - before > atomic_load(&shared->gap_us[i])) {
        atomic_store(&shared->gap_us[i], now - before);
    }
    nap_ms(1);
    if (rlock_is_valid(lock)) {
        shared->counters[i] = value + 1;
        (void)atomic_fetch_add(&shared->counted, 1);
    }
}

_Noreturn static void work(void)
{
    struct rlock_handle *locks[NAMES] = {NULL};
    struct rlock_client *client = NULL;
    int code = open_client(&client);
    char name[20];

    (void)signal(SIGINT, SIG_IGN);
    for (int i = 0; i < NAMES && code == 0; i++) {
        (void)snprintf(name, sizeof(name), "counter-%d", i);
        code = rlock_reentrant_new(client, name, NULL, &locks[i]);
    }
    for (int i = 0; code == 0 && atomic_load(&shared->open); i = (i + 1) % NAMES) {
        if (rlock_lock_for(locks[i], 5000, NULL, NULL) == 0) {
            count(locks[i], i);
            (void)atomic_fetch_add(&shared->unsure, rlock_unlock(locks[i]) != 0);
        } else {
            (void)atomic_fetch_add(&shared->refused, 1);
        }
    }
    if (code != 0) {
        (void)fprintf(stderr, "failover: %s: %s\n", rlock_code_name(code), rlock_detail());
    }
    for (int i = 0; i < NAMES; i++) {
        (void)rlock_free(locks[i]);
    }
    (void)rlock_client_close(client);
    _exit(code == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* ---- The show ---- */

/* Which server has the place of the first primary now. */
static int primary(void)
{
    for (int i = 0; i < SERVERS; i += in_cluster ? PRIMARIES : 1) {
        char place[64];

        (void)snprintf(place, sizeof(place), "%d", ports[i]);
        if (in_cluster ? strncmp(ask(i, "ROLE"), "*3\r\n$6\r\nmaster", 14) == 0
                       : strstr(ask(SERVERS - 1, "SENTINEL GET-MASTER-ADDR-BY-NAME primary"),
                                place) != NULL) {
            return i;
        }
    }
    return 0;
}

static long lost(void)
{
    long n = atomic_load(&shared->counted);

    for (int i = 0; i < NAMES; i++) {
        n -= shared->counters[i];
    }
    return n;
}

static void one_round(int round)
{
    const int victim = primary();
    int64_t gap_us = 0;

    for (int i = 0; i < NAMES; i++) {
        atomic_store(&shared->gap_us[i], 0);
    }
    printf("the primary on port %d is %s    ", ports[victim], round == 0 ? "killed" : "frozen");
    (void)fflush(stdout);
    if (round == 0) {
        kill_server(victim);
    } else {
        (void)kill(servers[victim], SIGSTOP);
    }
    nap_ms(ROUND_MS / 2);
    if (round == 0) {
        start_server(victim);
    } else {
        (void)kill(servers[victim], SIGCONT);
    }
    nap_ms(ROUND_MS / 2);
    for (int i = 0; i < NAMES; i++) {
        gap_us = shared->gap_us[i] > gap_us ? shared->gap_us[i] : gap_us;
    }
    printf("port %d took its place; %.2f s without a grant; %ld counted, %ld lost\n",
           ports[primary()], (double)gap_us / 1e6, atomic_load(&shared->counted), lost());
}

/* Takes locks that are held all the time. Returns how many it got. */
static int hold(struct rlock_client *client, struct rlock_handle *holds[HOLDS])
{
    int n = 0;

    for (int i = 0; i < HOLDS; i++) {
        char name[20];

        (void)snprintf(name, sizeof(name), "hold-%d", i);
        n += rlock_reentrant_new(client, name, NULL, &holds[i]) == 0 && rlock_lock(holds[i]) == 0;
    }
    return n;
}

static int give_back(struct rlock_handle *holds[HOLDS])
{
    int n = 0;

    for (int i = 0; i < HOLDS; i++) {
        n += holds[i] != NULL && rlock_is_valid(holds[i]) && rlock_unlock(holds[i]) == 0;
        (void)rlock_free(holds[i]);
    }
    return n;
}

static bool show(void)
{
    struct rlock_handle *holds[HOLDS] = {NULL};
    struct rlock_client *client = NULL;
    pid_t workers[WORKERS];
    int held, kept;

    atomic_store(&shared->open, true);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = fork_bound();
        if (workers[i] == 0) {
            work();
        }
    }
    if (open_client(&client) != 0) {
        (void)fprintf(stderr, "failover: %s\n", rlock_detail());
        return false;
    }
    held = hold(client, holds);
    nap_ms(1000);
    one_round(0);
    one_round(1);
    atomic_store(&shared->open, false);
    for (int i = 0; i < WORKERS; i++) {
        (void)waitpid(workers[i], NULL, 0);
    }
    kept = give_back(holds);
    (void)rlock_client_close(client);
    printf("\n%ld counted under the locks, %ld lost; %d locks held all the time, %d kept\n",
           atomic_load(&shared->counted), lost(), held, kept);
    printf("%ld holds were told to be lost; %ld gave up waiting, %ld unlocks not sure\n",
           atomic_load(&shared->told), atomic_load(&shared->refused), atomic_load(&shared->unsure));
    return lost() <= atomic_load(&shared->told) && atomic_load(&shared->counted) > 0 &&
           held == HOLDS && kept + atomic_load(&shared->told) >= HOLDS;
}

static void clean_up(void)
{
    static const char *const files[] = {"conf", "nodes", "dump"};

    for (int i = 0; i < SERVERS; i++) {
        kill_server(i);
        for (size_t j = 0; j < sizeof(files) / sizeof(files[0]); j++) {
            char path[80];

            (void)snprintf(path, sizeof(path), "%s/%s-%d", dir, files[j], i);
            (void)unlink(path);
        }
    }
    (void)rmdir(dir);
}

int main(int argc, char **argv)
{
    bool good;

    in_cluster = argc == 2 && strcmp(argv[1], "cluster") == 0;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc != 2 || (!in_cluster && strcmp(argv[1], "sentinel") != 0) || shared == MAP_FAILED ||
        mkdtemp(dir) == NULL) {
        (void)fprintf(stderr, "usage: failover cluster|sentinel\n");
        return EXIT_FAILURE;
    }
    printf("%s, %d workers\n",
           in_cluster ? "3 primaries with a replica each" : "a primary, 2 replicas, 3 Sentinels",
           WORKERS);
    good = start_servers() && show();
    clean_up();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
