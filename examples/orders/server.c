/* SPDX-License-Identifier: Apache-2.0 */
/* A redis-server of our own, on a unix socket in a directory that goes with it. */
#include "orders.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    pid_t pid;
    char dir[32], socket[48], url[64];
} server;

const char *server_url(void)
{
    return server.url;
}

/* Becomes the server that the environment names, that scripts/setup put here, or the system's. */
_Noreturn static void be_server(void)
{
    const char *binary = getenv("RLOCK_REDIS_SERVER");
    char here[2048] = "";
    char path[2100];

    (void)!readlink("/proc/self/exe", here, sizeof(here) - 1);
    (void)snprintf(path, sizeof(path), "%s/../.deps/bin/redis-server", dirname(here));
    if (binary == NULL) {
        binary = access(path, X_OK) == 0 ? path : "redis-server";
    }
    (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    (void)setpgid(0, 0); /* ^C is not for the server */
    (void)execlp(binary, "redis-server", "--port", "0", "--unixsocket", server.socket, "--save", "",
                 "--appendonly", "no", "--dir", server.dir, (char *)NULL);
    (void)fprintf(stderr, "orders: %s: %s; RLOCK_REDIS_SERVER names another\n", binary,
                  strerror(errno));
    _exit(EXIT_FAILURE);
}

long server_ask(const char *command)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char answer[128] = "";
    ssize_t len = -1;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.socket);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        write(fd, command, strlen(command)) > 0) {
        len = read(fd, answer, sizeof(answer) - 1);
    }
    (void)close(fd);
    return len > 0 ? strtol(answer + 1, NULL, 10) : -1;
}

bool server_start(void)
{
    (void)snprintf(server.dir, sizeof(server.dir), "/tmp/rlock-orders-XXXXXX");
    if (mkdtemp(server.dir) == NULL) {
        return false;
    }
    (void)snprintf(server.socket, sizeof(server.socket), "%s/socket", server.dir);
    (void)snprintf(server.url, sizeof(server.url), "unix://%s", server.socket);
    server.pid = fork_bound();
    if (server.pid == 0) {
        be_server();
    }
    for (int i = 0; i < 500 && waitpid(server.pid, NULL, WNOHANG) == 0; i++) {
        if (server_ask("PING\r\n") == 0) {
            return true;
        }
        nap_us(10000);
    }
    return false;
}

void server_stop(void)
{
    if (server.pid > 0 && kill(server.pid, SIGTERM) == 0) {
        (void)waitpid(server.pid, NULL, 0);
    }
    (void)unlink(server.socket);
    (void)rmdir(server.dir);
}
