/* SPDX-License-Identifier: Apache-2.0 */
#include "mailbox.h"

#include "say.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TEXT_PREFIX "keeper:"
#define SOCKET_PREFIX "rlock-keeper-"
#define BYTES 16
#define PATIENCE_S 10 /* of a client; a keeper answers within op_timeout */

static const char hexadecimal[] = "0123456789abcdef";

bool cli_mailbox_is_text(const char *text)
{
    const char *hex = text + strlen(TEXT_PREFIX);

    return strncmp(text, TEXT_PREFIX, strlen(TEXT_PREFIX)) == 0 &&
           strspn(hex, hexadecimal) == 2 * (size_t)BYTES && hex[2 * BYTES] == '\0';
}

/* The socket of a text. A name that begins with a NUL byte is in the abstract namespace. */
static socklen_t address_of(const char *text, struct sockaddr_un *ret_address)
{
    const int len = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1, "%s%s",
                             SOCKET_PREFIX, text + strlen(TEXT_PREFIX));

    ret_address->sun_family = AF_UNIX;
    ret_address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int make_text(char ret_text[static CLI_MAILBOX_TEXT])
{
    unsigned char bytes[BYTES];
    char *at = stpcpy(ret_text, TEXT_PREFIX);

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        return errno;
    }
    for (size_t i = 0; i < BYTES; i++) {
        *at++ = hexadecimal[bytes[i] >> 4];
        *at++ = hexadecimal[bytes[i] & 15];
    }
    *at = '\0';
    return 0;
}

/* The user of the process at the other end. False if that is not known. */
static bool peer_of(int fd, uid_t *ret_user)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
        return false;
    }
    *ret_user = peer.uid;
    return true;
}

/* ---- The keeper's end ---- */

static int watch_for(const struct cli_mailbox *box, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(box->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

int cli_mailbox_open(struct cli_mailbox *box, const char *name,
                     char ret_text[static CLI_MAILBOX_TEXT])
{
    struct sockaddr_un address = {0};
    int error = make_text(ret_text);
    socklen_t len;

    *box = (struct cli_mailbox){.name = name,
                                .buffer = malloc(strlen(name) + 1),
                                .fd = epoll_create1(EPOLL_CLOEXEC),
                                .listener = -1};
    if (error != 0 || box->buffer == NULL || box->fd < 0) {
        return error != 0 ? error : errno;
    }
    len = address_of(ret_text, &address);
    box->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (box->listener < 0 || bind(box->listener, (struct sockaddr *)&address, len) != 0 ||
        listen(box->listener, CLI_MAILBOX_CLIENTS) != 0) {
        return errno;
    }
    return watch_for(box, box->listener);
}

/* Takes the client off the list; its socket stays open. */
static void forget(struct cli_mailbox *box, int client)
{
    int kept = 0;

    for (int i = 0; i < box->n_clients; i++) {
        if (box->clients[i] != client) {
            box->clients[kept++] = box->clients[i];
        }
    }
    box->n_clients = kept;
    (void)epoll_ctl(box->fd, EPOLL_CTL_DEL, client, NULL);
}

static void let_in(struct cli_mailbox *box)
{
    const int client = accept4(box->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uid_t user;

    if (client < 0) {
        return;
    }
    if (!peer_of(client, &user) || (user != geteuid() && user != 0) ||
        watch_for(box, client) != 0) {
        (void)close(client);
        return;
    }
    if (box->n_clients == CLI_MAILBOX_CLIENTS) {
        const int oldest = box->clients[0];

        forget(box, oldest);
        (void)close(oldest);
    }
    box->clients[box->n_clients++] = client;
}

/* Reads the client's request, which is the name of a lock. Returns whether that is ours. */
static bool asks_for_us(struct cli_mailbox *box, int client)
{
    const size_t len = strlen(box->name);
    const ssize_t n = recv(client, box->buffer, len + 1, MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    forget(box, client);
    if (n == (ssize_t)len && memcmp(box->buffer, box->name, len) == 0) {
        return true;
    }
    cli_mailbox_answer(client, CLI_EXIT_USAGE, "this is the text of another lock");
    return false;
}

int cli_mailbox_take(struct cli_mailbox *box)
{
    struct epoll_event event;

    for (int i = 0; i < CLI_MAILBOX_CLIENTS && epoll_wait(box->fd, &event, 1, 0) == 1; i++) {
        if (event.data.fd == box->listener) {
            let_in(box);
        } else if (asks_for_us(box, event.data.fd)) {
            return event.data.fd;
        }
    }
    return -1;
}

void cli_mailbox_answer(int client, int status, const char *reason)
{
    char answer[CLI_MAILBOX_ANSWER];
    const int len = snprintf(answer, sizeof(answer), "%d %s", status, reason);
    const size_t most = sizeof(answer) - 1;

    (void)send(client, answer, (size_t)len < most ? (size_t)len : most,
               MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(client);
}

void cli_mailbox_close(struct cli_mailbox *box)
{
    for (int i = 0; i < box->n_clients; i++) {
        (void)close(box->clients[i]);
    }
    if (box->listener >= 0) {
        (void)close(box->listener);
    }
    if (box->fd >= 0) {
        (void)close(box->fd);
    }
    free(box->buffer);
    *box = (struct cli_mailbox){.fd = -1, .listener = -1};
}

/* ---- The other end ---- */

/* Asks over a socket that is not connected yet. Returns the length of the answer, 0 if the keeper
 * has hung up, or -1. */
static ssize_t converse(int fd, const char *text, const char *name,
                        char ret_answer[static CLI_MAILBOX_ANSWER])
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    struct sockaddr_un address = {0};
    const socklen_t len = address_of(text, &address);
    uid_t user;

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, len) != 0) {
        return -1;
    }
    if (!peer_of(fd, &user) || (user != geteuid() && geteuid() != 0)) {
        errno = EPERM;
        return -1;
    }
    if (send(fd, name, strlen(name), MSG_NOSIGNAL) < 0) {
        return -1;
    }
    return recv(fd, ret_answer, CLI_MAILBOX_ANSWER - 1, 0);
}

int cli_mailbox_ask(const char *text, const char *name, int *ret_status,
                    char ret_reason[static CLI_MAILBOX_ANSWER])
{
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char *reason;
    ssize_t len;
    int error;

    if (fd < 0) {
        return errno;
    }
    len = converse(fd, text, name, ret_reason);
    error = len < 0 ? errno : 0;
    (void)close(fd);
    if (len == 0 || error == EPIPE || error == ECONNRESET) {
        return ECONNREFUSED;
    }
    if (len < 0) {
        return error == EAGAIN ? ETIMEDOUT : error;
    }
    ret_reason[len] = '\0';
    *ret_status = (int)strtol(ret_reason, &reason, 10);
    reason += *reason == ' ';
    memmove(ret_reason, reason, strlen(reason) + 1);
    return 0;
}
