/* SPDX-License-Identifier: Apache-2.0 */
#include "net/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rlock/rlock.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * A peer that vanished without a word is noticed by the system within about 20 s on an idle
 * connection, and within USER_TIMEOUT when something was sent. Calls have deadlines of their own;
 * this ends what nobody waits for.
 */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 3
#define KEEPALIVE_PROBES 3
/* Longer than the retransmissions of one lost packet, shorter than the leases that a dead link
 * endangers. */
#define USER_TIMEOUT_MS 5000

/* ---- Addresses ---- */

void rlock__sock_name(const struct sockaddr *addr, socklen_t len,
                      char out[static RLOCK__SOCK_NAME_SIZE])
{
    char host[RLOCK__SOCK_NAME_SIZE - 10] = "?", port[8] = "?";
    bool bare = addr->sa_family != AF_INET6;

    (void)getnameinfo(addr, len, host, sizeof(host), port, sizeof(port),
                      NI_NUMERICHOST | NI_NUMERICSERV);
    (void)snprintf(out, RLOCK__SOCK_NAME_SIZE, "%s%s%s:%s", bare ? "" : "[", host, bare ? "" : "]",
                   port);
}

/* ---- Sockets ---- */

static pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;

RLOCK__ALONE void rlock__sock_changing(void)
{
    (void)pthread_mutex_lock(&changes);
}

RLOCK__ALONE void rlock__sock_changed(void)
{
    (void)pthread_mutex_unlock(&changes);
}

static void set(int fd, int level, int option, int value)
{
    /* What cannot be set is missed only when a peer vanishes, and then the callers' deadlines still
     * hold. */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

static void set_tcp_options(int fd)
{
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS);
}

int rlock__sock_connect(const struct sockaddr *addr, socklen_t len)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error;

    if (fd < 0) {
        return -errno;
    }
    if (addr->sa_family != AF_UNIX) {
        set_tcp_options(fd);
    }
    error = connect(fd, addr, len) == 0 ? 0 : errno;
    /* An interrupted connect() goes on by itself, as one in progress; calling it again would be an
     * error. */
    if (error != 0 && error != EINPROGRESS && error != EINTR) {
        (void)rlock__sock_close(fd);
        return -error;
    }
    return fd;
}

int rlock__sock_connected(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLOUT};
    socklen_t len = sizeof(int);
    int error = 0;

    if (poll(&pfd, 1, 0) <= 0) {
        return EINPROGRESS;
    }
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 ? error : errno;
}

int rlock__sock_close(int fd)
{
    int saved = errno;

    if (fd >= 0) {
        (void)close(fd); /* not repeated after EINTR: Linux has released the descriptor by then */
    }
    errno = saved;
    return -1;
}

ssize_t rlock__sock_send(int fd, const void *bytes, size_t len)
{
    ssize_t n;

    do {
        n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t rlock__sock_recv(int fd, void *bytes, size_t len)
{
    ssize_t n;

    do {
        n = recv(fd, bytes, len, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int rlock__sock_code(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case EADDRNOTAVAIL: /* no port is left */
        return RLOCK_ERESOURCE;
    case ENOMEM:
        return RLOCK_ENOMEM;
    default:
        return RLOCK_ECONN;
    }
}
