/* SPDX-License-Identifier: Apache-2.0 */
/* Where it runs: the servers, the proxies before them, and who has which core. */
#include "bench.h"

#include "support/cluster.h"
#include "support/proxy.h"
#include "support/run.h"
#include "support/server.h"
#include "topology/slot.h"

#include <hiredis/hiredis.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { URL_SIZE = 128, MAX_SEEDS = 3 };
static const size_t client_core = 0, server_core = 1;

static const char *const plain_conf[] = {"maxclients 2000", NULL};
/* Nodes learn each other's slots from their pings, and ping each other within half of the timeout.
 * A short timeout therefore helps the cluster to form. Later a busy machine might exceed it. */
static const char *const node_conf[] = {"maxclients 2000", "cluster-enabled yes",
                                        "cluster-node-timeout 2000", NULL};
static const char usual_timeout[] = "CONFIG SET cluster-node-timeout 15000";

struct group {
    const char *const *conf;
    int n;
    struct test_server *server[BENCH_MAX_SERVERS];
    redisContext *side[BENCH_MAX_SERVERS];
};

static struct {
    const struct bench_options *options;
    struct group plain, cluster;
    struct group *used; /* by the case that runs */
    char cluster_url[URL_SIZE];
    pid_t proxies; /* the process that has them; 0: there is none */
    char proxy_url[BENCH_MAX_SERVERS][URL_SIZE];
} place = {.plain.conf = plain_conf, .cluster.conf = node_conf, .used = &place.plain};

static void pin(pid_t pid, size_t core)
{
    cpu_set_t cores;

    if (strcmp(place.options->pin, "nopin") != 0) {
        CPU_ZERO(&cores);
        CPU_SET(core, &cores);
        /* A server has threads that nobody measures: pinning the main one is enough. */
        test_must(sched_setaffinity(pid, sizeof(cores), &cores), "pinning needs two cores");
    }
}

void bench_pin_client(const struct bench_options *options)
{
    pin(0, strcmp(options->pin, "split") == 0 ? client_core : server_core);
}

/* ---- servers ---- */

static void add_server(struct group *group)
{
    const struct test_server_opts opts = {.transport = TEST_TCP, .conf = group->conf};
    struct test_server *server = test_server_start(&opts);
    redisContext *side = redisConnectUnix(test_server_unix_url(server) + strlen("unix://"));

    if (side == NULL || side->err != 0) {
        test_die("no connection to the server");
    }
    pin(test_server_pid(server), server_core);
    group->server[group->n] = server;
    group->side[group->n] = side;
    group->n++;
}

static void stop_group(struct group *group)
{
    while (group->n > 0) {
        group->n--;
        redisFree(group->side[group->n]);
        test_server_stop(group->server[group->n]);
    }
}

void bench_servers_start(const struct bench_options *options)
{
    place.options = options;
    add_server(&place.plain);
}

void bench_servers_stop(void)
{
    bench_proxies_stop();
    bench_cluster_stop();
    stop_group(&place.plain);
}

static void send_question(int server, const char *command)
{
    redisContext *side = place.used->side[server];
    int is_sent = 0;

    TEST_CHECK(redisAppendCommand(side, command) == REDIS_OK &&
               redisBufferWrite(side, &is_sent) == REDIS_OK && is_sent);
}

static redisReply *read_answer(int server, const char *command)
{
    redisContext *side = place.used->side[server];
    redisReply *reply = NULL;

    if (redisGetReply(side, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR) {
        test_die("%s: %s", command, reply != NULL ? reply->str : side->errstr);
    }
    return reply;
}

static redisReply *ask(int server, const char *command)
{
    send_question(server, command);
    return read_answer(server, command);
}

void bench_servers_empty(void)
{
    for (int i = 0; i < place.used->n; i++) {
        freeReplyObject(ask(i, "FLUSHALL"));
    }
}

/* ---- proxies: in a process of their own, since whoever forks should have no threads ---- */

static _Noreturn void be_proxies(const struct bench_case *one, int n, int out)
{
    for (int i = 0; i < n; i++) {
        char url[URL_SIZE] = "";
        struct proxy *proxy = proxy_start(test_server_url(place.plain.server[i]));

        proxy_delay_us(proxy, one->slow_us > 0 && i == n - 1 ? one->slow_us : one->delay_us);
        test_text(url, sizeof(url), "%s", proxy_url(proxy));
        TEST_CHECK(write(out, url, sizeof(url)) == (ssize_t)sizeof(url));
    }
    for (;;) {
        pause();
    }
}

static void start_proxies(const struct bench_case *one, int n)
{
    const pid_t parent = getpid();
    int line[2];

    test_must(pipe(line), "pipe");
    place.proxies = test_must(fork(), "fork");
    if (place.proxies == 0) {
        test_die_with_parent(parent);
        be_proxies(one, n, line[1]);
    }
    close(line[1]);
    for (int i = 0; i < n; i++) {
        TEST_CHECK(read(line[0], place.proxy_url[i], URL_SIZE) == URL_SIZE);
    }
    close(line[0]);
}

void bench_proxies_stop(void)
{
    if (place.proxies != 0) {
        kill(place.proxies, SIGKILL);
        test_reap(place.proxies);
        place.proxies = 0;
    }
}

static void use(struct group *group, struct bench_run *run, int n)
{
    TEST_CHECK(n <= BENCH_MAX_SERVERS);
    while (group->n < n) {
        add_server(group);
    }
    for (int i = 0; i < n; i++) {
        run->url[i] = test_server_url(group->server[i]);
    }
    run->n_servers = n;
    place.used = group;
}

void bench_servers_for(struct bench_run *run, int n)
{
    use(&place.plain, run, n);
    if (run->one->delay_us > 0) {
        start_proxies(run->one, n);
        for (int i = 0; i < n; i++) {
            run->url[i] = place.proxy_url[i];
        }
    }
}

/* ---- a cluster ---- */

void bench_cluster_for(struct bench_run *run, int n)
{
    const bool is_new = place.cluster.n == 0;

    use(&place.cluster, run, n);
    if (is_new) {
        const size_t seeds = n < MAX_SEEDS ? (size_t)n : MAX_SEEDS;

        cluster_form(place.cluster.server, (size_t)n, (size_t)n);
        for (int i = 0; i < n; i++) {
            freeReplyObject(ask(i, usual_timeout));
        }
        cluster_url(place.cluster.server, seeds, place.cluster_url, sizeof(place.cluster_url));
    }
    run->cluster_url = place.cluster_url;
}

void bench_cluster_stop(void)
{
    stop_group(&place.cluster);
    place.used = &place.plain;
}

int bench_node_of(const struct bench_run *run, const char *name)
{
    const struct test_server *owner = cluster_primary_of(
        place.cluster.server, (size_t)run->n_servers, rlock__slot(rlock__bytes_of(name)));
    int node = 0;

    while (place.cluster.server[node] != owner) {
        node++;
    }
    return node;
}

/* ---- what servers count ---- */

static int64_t number_behind(const char *text, const char *name)
{
    const char *found = strstr(text, name);

    return found != NULL ? atoll(found + strlen(name)) : 0;
}

static int64_t calls_of(const char *info, const char *command)
{
    char name[64];

    test_text(name, sizeof(name), "cmdstat_%s:calls=", command);
    return number_behind(info, name);
}

/* What clients send, and no script calls. */
static int64_t sum_commands(const char *info)
{
    static const char *const sent[] = {
        "eval",         "evalsha",        "fcall", "subscribe",  "unsubscribe", "ssubscribe",
        "sunsubscribe", "psubscribe",     "ping",  "echo",       "wait",        "waitaof",
        "client|kill",  "client|setinfo", "hello", "script|load"};
    int64_t sum = 0;

    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++) {
        sum += calls_of(info, sent[i]);
    }
    return sum;
}

static int64_t server_cpu_ns(int server)
{
    clockid_t clock;
    struct timespec time = {0};

    TEST_CHECK(clock_getcpuclockid(test_server_pid(place.used->server[server]), &clock) == 0);
    TEST_CHECK(clock_gettime(clock, &time) == 0);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

struct bench_counts bench_count(const struct bench_run *run)
{
    static const char *const info = "INFO stats commandstats";
    const char *counted = run->row->count, *also = run->variant->sends;
    struct bench_counts counts = {0};

    for (int i = 0; i < run->n_servers; i++) { /* all at once: the counts are of one moment */
        send_question(i, info);
    }
    for (int i = 0; i < run->n_servers; i++) {
        char *request = NULL;
        redisReply *reply = read_answer(i, info);

        counts.cpu_ns += server_cpu_ns(i);
        counts.commands += sum_commands(reply->str);
        counts.commands += also != NULL ? calls_of(reply->str, also) : 0;
        counts.counted += counted != NULL ? calls_of(reply->str, counted) : 0;
        counts.bytes += number_behind(reply->str, "total_net_input_bytes:") +
                        number_behind(reply->str, "total_net_output_bytes:");
        counts.own_bytes += redisFormatCommand(&request, info) + (int64_t)reply->len +
                            snprintf(NULL, 0, "$%zu\r\n\r\n", reply->len);
        redisFreeCommand(request);
        freeReplyObject(reply);
    }
    return counts;
}

const char *bench_server_version(void)
{
    static char text[64];
    redisReply *reply = ask(0, "INFO server");
    const char *valkey = strstr(reply->str, "valkey_version:");
    const char *version = valkey != NULL ? valkey : strstr(reply->str, "redis_version:");

    TEST_CHECK(version != NULL);
    version = strchr(version, ':') + 1;
    snprintf(text, sizeof(text), "%s %.*s", valkey != NULL ? "valkey" : "redis",
             (int)strcspn(version, "\r"), version);
    freeReplyObject(reply);
    return text;
}
