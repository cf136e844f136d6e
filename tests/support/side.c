#include "side.h"

#include "run.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

struct side {
    int fd;
    char *buffer;
    size_t len;
    size_t size;
};

static bool connect_to(int fd, const char *path)
{
    /* a Sentinel writes its file to disk before it goes on: other work may hold that up */
    const struct timeval limit = {.tv_sec = 20 * test_slack()};
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (strlen(path) >= sizeof(address.sun_path)) {
        test_die("socket path too long: %s", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    test_must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), "SO_RCVTIMEO");
    test_must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), "SO_SNDTIMEO");
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool asks_and_hears(struct side *side, const char *command, const char *answer)
{
    const struct resp_bytes sent = {.data = command, .len = strlen(command)};
    const struct resp_bytes reply = side_call(side, sent);

    return reply.len >= strlen(answer) && memcmp(reply.data, answer, strlen(answer)) == 0;
}

struct side *side_open(const char *socket_path)
{
    struct side *side = calloc(1, sizeof(*side));

    TEST_CHECK(side != NULL);
    side->fd = test_must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    if (connect_to(side->fd, socket_path) &&
        asks_and_hears(side, "AUTH " SIDE_USER " x\r\n", "+OK") &&
        asks_and_hears(side, "CLIENT SETNAME " SIDE_USER "\r\n", "+OK") &&
        asks_and_hears(side, "PING\r\n", "+PONG")) {
        return side;
    }
    return side_close(side);
}

struct side *side_close(struct side *side)
{
    if (side != NULL) {
        close(side->fd);
        free(side->buffer);
        free(side);
    }
    return NULL;
}

bool side_is_open(const struct side *side)
{
    struct pollfd wanted = {.fd = side->fd, .events = POLLIN | POLLRDHUP};

    return poll(&wanted, 1, 0) == 0;
}

static bool send_all(int fd, struct resp_bytes bytes)
{
    while (bytes.len > 0) {
        const ssize_t n = TEMP_FAILURE_RETRY(send(fd, bytes.data, bytes.len, MSG_NOSIGNAL));
        if (n <= 0) {
            return false;
        }
        bytes.data += n;
        bytes.len -= (size_t)n;
    }
    return true;
}

static bool read_more(struct side *side)
{
    if (side->size - side->len < 4096) {
        side->size = side->size * 2 + 8192;
        side->buffer = realloc(side->buffer, side->size);
        TEST_CHECK(side->buffer != NULL);
    }
    const ssize_t n =
        TEMP_FAILURE_RETRY(recv(side->fd, side->buffer + side->len, side->size - side->len, 0));
    side->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

struct resp_bytes side_call(struct side *side, struct resp_bytes commands)
{
    const struct resp_bytes none = {.data = "", .len = 0};

    side->len = 0;
    if (!send_all(side->fd, commands)) {
        return none;
    }
    while (read_more(side)) {
        const struct resp_bytes got = {.data = side->buffer, .len = side->len};
        if (resp_frame_len(got) == (long)got.len) {
            return got;
        }
    }
    return none;
}
