#include "raw.h"

#include "run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int dial_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = test_must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

    test_text(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int raw_dial(const char *url)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    if (strncmp(url, "unix://", 7) == 0) {
        return dial_unix(url + 7);
    }
    address.sin_port = htons((uint16_t)strtol(strrchr(url, ':') + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

void raw_say(int fd, const char *commands)
{
    TEST_CHECK(send(fd, commands, strlen(commands), MSG_NOSIGNAL) == (ssize_t)strlen(commands));
}

static bool can_hear(int fd, int timeout_ms)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, timeout_ms) == 1;
}

/* What one read gives: bytes, or "END", "RESET", or "" if nothing comes. The next call overwrites
 * it. */
const char *raw_hear_within(int fd, int timeout_ms)
{
    static char text[65536];

    if (!can_hear(fd, timeout_ms)) {
        return "";
    }
    const ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    if (n < 0) {
        return errno == ECONNRESET ? "RESET" : strerror(errno);
    }
    text[n] = '\0';
    return n > 0 ? text : "END";
}

const char *raw_hear(int fd)
{
    return raw_hear_within(fd, 5000 * test_slack());
}

bool raw_hears(int fd, const char *expected)
{
    char all[4096] = "";
    size_t len = 0;

    while (len < strlen(expected)) {
        const char *piece = raw_hear(fd);
        if (piece[0] == '\0' || len + strlen(piece) >= sizeof(all)) {
            break;
        }
        memcpy(all + len, piece, strlen(piece) + 1);
        len += strlen(piece);
    }
    return strcmp(all, expected) == 0;
}
