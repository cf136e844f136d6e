/* SPDX-License-Identifier: Apache-2.0 */
#include "real_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 5000
#define REPLY_MS 20000 /* it hangs */

/* A leader process starts the server, waits until the pipe to the test breaks, and clears up. So
   the server ends also with a test that crashed or was killed. */
struct real_server {
    pid_t leader;
    int life; /* the test's end of the pipe */
    char dir[64];
    struct sockaddr_un address;
};

static const char *find_program(void)
{
    const char *const candidates[] = {
        getenv("RLOCK_REDIS_SERVER"), /* NOLINT(concurrency-mt-unsafe): one thread */
        ".deps/bin/redis-server",
        "/usr/bin/redis-check-rdb",
    };

    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        if (candidates[i] && access(candidates[i], X_OK) == 0) {
            return candidates[i];
        }
    }
    return NULL;
}

static void write_file(const struct real_server *server, const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", server->dir, name);
    file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        abort();
    }
}

/* nodes: NULL it is no node. Its port for the cluster's own traffic is none that other tests use.
 */
static void configure(const struct real_server *server, const char *nodes)
{
    char text[300] = "port 0\nunixsocket s\nsave \"\"\nlogfile /dev/null\n";
    size_t len = strlen(text);
    unsigned random = 0;

    if (nodes) {
        (void)!getrandom(&random, sizeof(random), 0);
        snprintf(text + len, sizeof(text) - len,
                 "bind 127.0.0.1\ncluster-enabled yes\ncluster-port %u\n"
                 "cluster-node-timeout 600000\n",
                 32000 + random % 700);
        write_file(server, "nodes.conf", nodes);
    }
    write_file(server, "conf", text);
}

static void remove_files(const struct real_server *server)
{
    static const char *const names[] = {"s", "conf", "nodes.conf"};
    char path[128];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", server->dir, names[i]);
        unlink(path);
    }
    rmdir(server->dir);
}

static pid_t start_program(const char *program, const char *dir)
{
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The package's binary goes by its name. */
    if (chdir(dir) == 0) {
        execl(program, "redis-server", "conf", (char *)NULL);
    }
    _exit(127);
}

_Noreturn static void keep(const char *program, const struct real_server *server, int life)
{
    char byte;
    pid_t pid = start_program(program, server->dir);

    while (read(life, &byte, 1) > 0) {
    }
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    remove_files(server);
    _exit(0);
}

/* So that whoever waits for the end of the test's output does not wait for the leader. */
static void leave_output(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    setsid();
}

static bool start_leader(struct real_server *server, const char *program)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    server->leader = fork();
    if (server->leader == 0) {
        close(ends[1]);
        leave_output();
        keep(program, server, ends[0]);
    }
    close(ends[0]);
    server->life = ends[1];
    return server->leader > 0;
}

static bool wait_until_up(const struct real_server *server)
{
    for (int waited_ms = 0; waited_ms < START_MS; waited_ms += 10) {
        int fd = real_server_connect(server);

        if (fd >= 0) {
            close(fd);
            return true;
        }
        poll(NULL, 0, 10);
    }
    return false;
}

struct real_server *real_server_start(const char *nodes)
{
    const char *found = find_program();
    char *program = found ? realpath(found, NULL) : NULL;
    struct real_server *server = calloc(1, sizeof(*server));

    if (!program || !server) {
        free(program);
        free(server);
        return NULL;
    }
    snprintf(server->dir, sizeof(server->dir), "/tmp/rlock-sim-XXXXXX");
    if (!mkdtemp(server->dir)) {
        abort();
    }
    server->address.sun_family = AF_UNIX;
    snprintf(server->address.sun_path, sizeof(server->address.sun_path), "%s/s", server->dir);
    configure(server, nodes);
    if (!start_leader(server, program) || !wait_until_up(server)) {
        fprintf(stderr, "%s does not start\n", program);
        server = real_server_stop(server);
    }
    free(program);
    return server;
}

struct real_server *real_server_stop(struct real_server *server)
{
    if (server) {
        close(server->life);
        waitpid(server->leader, NULL, 0);
        free(server);
    }
    return NULL;
}

int real_server_connect(const struct real_server *server)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 &&
        connect(fd, (const struct sockaddr *)&server->address, sizeof(server->address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

bool real_send(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n <= 0) {
            return false;
        }
        data += n;
        len -= (size_t)n;
    }
    return true;
}

size_t real_wait_frame(int fd, struct sim_buf *in)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
        int64_t frame_len = sim_resp_frame_len(in->data, in->len);
        ssize_t n;

        if (frame_len != 0) {
            return frame_len > 0 ? (size_t)frame_len : 0;
        }
        if (poll(&poll_fd, 1, REPLY_MS) <= 0) {
            return 0;
        }
        sim_buf_reserve(in, 16384);
        n = read(fd, in->data + in->len, in->cap - in->len);
        if (n <= 0) {
            return 0;
        }
        in->len += (size_t)n;
    }
}

void real_take(struct sim_buf *in, size_t len)
{
    in->len -= len;
    memmove(in->data, in->data + len, in->len);
}
