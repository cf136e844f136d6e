/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole client, every kind, against a server that answers with the input: each operation
 * completes exactly once, and closing ends.
 *
 * The input is a list of answers. A byte below 0xc0 is followed by as many bytes, which are sent.
 * Others send a reply of a table. 0xff waits for the client's next words. When the input ends, the
 * server closes its connections and takes no new ones.
 */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rlock/rlock.h>

#include "fuzz/fuzz.h"

#define CONNECTIONS 6
#define LITERAL 0xc0
#define PAUSE 0xff

static const char *const canned[] = {
    "+OK\r\n",
    "+PONG\r\n",
    ":0\r\n",
    ":1\r\n",
    ":30000\r\n",
    "$-1\r\n",
    "*0\r\n",
    "*2\r\n:1\r\n:30000\r\n",
    "*3\r\n:1\r\n:30000\r\n:1\r\n",
    "*2\r\n:0\r\n$40\r\n00000000-0000-4000-8000-000000000000:123\r\n",
    "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:2\r\n"
    "$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
    "$7\r\nmodules\r\n*0\r\n",
    "$46\r\n# Server\r\nrun_id:0123456789\r\nuptime_in_seconds:9\r\n\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n",
    "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\n0\r\n",
    "-NOSCRIPT No matching script.\r\n",
    "-ERR unknown command 'HELLO'\r\n",
    "-NOPERM no\r\n",
    "-NOAUTH Authentication required.\r\n",
    "-LOADING Redis is loading\r\n",
    "-MOVED 1 127.0.0.1:1\r\n",
    "-READONLY You can't write\r\n",
    "-OOM no\r\n",
    "-BUSY Redis is busy\r\n",
    "-WRONGTYPE no\r\n",
};

struct server {
    const uint8_t *data;
    size_t size, at;
    int listener, fds[CONNECTIONS];
    atomic_bool stop;
};

static void say(int fd, const void *bytes, size_t len)
{
    (void)send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Answers what came on a connection. False: the input has ended. */
static bool answer(struct server *server, int fd)
{
    while (server->at < server->size) {
        uint8_t code = server->data[server->at++];

        if (code == PAUSE) {
            return true;
        }
        if (code >= LITERAL) {
            const char *reply =
                canned[(size_t)(code - LITERAL) % (sizeof(canned) / sizeof(canned[0]))];

            say(fd, reply, strlen(reply));
        } else {
            size_t left = server->size - server->at, len = code < left ? code : left;

            say(fd, server->data + server->at, len);
            server->at += len;
        }
    }
    return false;
}

static void drop(struct server *server)
{
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (server->fds[i] >= 0) {
            (void)close(server->fds[i]);
            server->fds[i] = -1;
        }
    }
}

static void take_connection(struct server *server)
{
    int fd = accept(server->listener, NULL, NULL);

    for (size_t i = 0; fd >= 0 && i < CONNECTIONS; i++) {
        if (server->fds[i] < 0) {
            server->fds[i] = fd;
            return;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void *serve(void *arg)
{
    struct server *server = arg;
    bool ended = false;

    while (!atomic_load(&server->stop)) {
        struct pollfd polls[CONNECTIONS + 1] = {
            {.fd = ended ? -1 : server->listener, .events = POLLIN}};
        char heard[4096];

        for (size_t i = 0; i < CONNECTIONS; i++) {
            polls[i + 1] = (struct pollfd){.fd = server->fds[i], .events = POLLIN};
        }
        if (poll(polls, CONNECTIONS + 1, 2) <= 0) {
            continue;
        }
        for (size_t i = 0; i < CONNECTIONS && !ended; i++) {
            if (polls[i + 1].revents != 0 && server->fds[i] >= 0) {
                if (read(server->fds[i], heard, sizeof(heard)) <= 0) {
                    (void)close(server->fds[i]);
                    server->fds[i] = -1;
                } else if (!answer(server, server->fds[i])) {
                    drop(server);
                    (void)shutdown(server->listener, SHUT_RDWR);
                    ended = true;
                }
            }
        }
        if (polls[0].revents != 0 && !ended) {
            take_connection(server);
        }
    }
    drop(server);
    return NULL;
}

/* ---- The client ---- */

typedef int new_fn(struct rlock_client *, const char *, const struct rlock_opts *,
                   struct rlock_handle **);

static int three_permits(struct rlock_client *client, const char *name,
                         const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_permits_new(client, name, RLOCK_OPTS(.units = 3), ret_lock);
}

static int three_units(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                       struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_semaphore_new(client, name, RLOCK_OPTS(.units = 3), ret_lock);
}

static new_fn *const kinds[] = {
    rlock_reentrant_new, rlock_nonreentrant_new, rlock_fair_new,  rlock_read_new, rlock_write_new,
    rlock_fenced_new,    rlock_spin_new,         rlock_setnx_new, three_permits,  three_units};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void count(struct rlock_op *op, void *payload)
{
    FUZZ_CHECK(rlock_op_code(op) <= 0);
    atomic_fetch_add((atomic_int *)payload, 1);
}

/* Begins all that can be begun on a lock; returns how much that was. */
static int begin_all(struct rlock_handle *lock, uint64_t owner, atomic_int *completed)
{
    int64_t wait = (int64_t)(owner % 3) * 5;
    int n = 0;

    n += rlock_lock_async(lock, wait, RLOCK_TAKE(.owner = owner), count, completed, NULL) == 0;
    n += rlock_inspect_async(lock, count, completed, NULL) == 0;
    n += rlock_unlock_async(lock, owner, count, completed, NULL) == 0;
    n += rlock_force_unlock_async(lock, count, completed, NULL) == 0;
    return n;
}

static void use(const char *path)
{
    struct rlock_client *client = NULL;
    struct rlock_handle *locks[KINDS] = {NULL};
    atomic_int completed = 0;
    char url[128];
    int begun = 0;

    (void)snprintf(url, sizeof(url), "unix://%s", path);
    FUZZ_CHECK(
        rlock_client_open(RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 20,
                                            .connect_timeout_ms = 10, .log_level = RLOCK_LOG_ERROR),
                          &client) == 0);
    for (size_t i = 0; i < KINDS; i++) {
        FUZZ_CHECK(kinds[i](client, "a", NULL, &locks[i]) == 0);
        begun += begin_all(locks[i], rlock_owner_new(client), &completed);
    }
    (void)usleep(5000); /* not for time to pass in a test: to let the server be heard */
    (void)rlock_client_close(client);
    FUZZ_CHECK(atomic_load(&completed) == begun);
    for (size_t i = 0; i < KINDS; i++) {
        rlock_free(locks[i]);
    }
}

static int listen_at(char *path, size_t size)
{
    static unsigned long n;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(path, size, "/tmp/rlock-fuzz-%d-%lu", (int)getpid(), n++);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    (void)unlink(path);
    FUZZ_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
               listen(fd, 16) == 0);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server server = {.data = data, .size = size};
    pthread_t thread;
    char path[100];

    for (size_t i = 0; i < CONNECTIONS; i++) {
        server.fds[i] = -1;
    }
    server.listener = listen_at(path, sizeof(path));
    FUZZ_CHECK(pthread_create(&thread, NULL, serve, &server) == 0);
    use(path);
    atomic_store(&server.stop, true);
    FUZZ_CHECK(pthread_join(thread, NULL) == 0);
    (void)close(server.listener);
    (void)unlink(path);
    return 0;
}
