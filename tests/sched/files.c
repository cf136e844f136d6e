/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 1000000 /* descriptors below are the system's */
#define FILES_MAX 128
#define WATCHES_MAX 16
#define POLL_MAX 80

enum kind { EVENT, EPOLL, SOCKET };

struct watch { /* edge-triggered */
    int fd;
    struct epoll_event event;
    bool edge;
};

/* Lives as long as it has a number, or somebody polls it. */
struct file {
    unsigned refs;
    enum kind kind;
    uint64_t count;
    struct watch watches[WATCHES_MAX];
    size_t n_watches;
    struct sched_socket *socket;
};

static struct file *files[FILES_MAX];

static struct file *find(int fd)
{
    return fd >= FIRST && fd < FIRST + FILES_MAX ? files[fd - FIRST] : NULL;
}

static struct file *find_kind(int fd, enum kind kind, const char *what)
{
    struct file *file = find(fd);

    if (file == NULL || file->kind != kind) {
        sched_fail("%s of descriptor %d, which is %s", what, fd,
                   file == NULL ? "closed" : "something else");
    }
    return file;
}

static void unref(struct file *file)
{
    if (--file->refs == 0) {
        free(file);
    }
}

/* The lowest number that is free, as the system gives them. */
static int put(enum kind kind, struct file **ret_file)
{
    struct file *file = calloc(1, sizeof(*file));
    int i = 0;

    while (files[i] != NULL) {
        i++;
        SCHED_REQUIRE(i < FILES_MAX);
    }
    *file = (struct file){.refs = 1, .kind = kind};
    files[i] = *ret_file = file;
    return FIRST + i;
}

unsigned sched_files_open(void)
{
    unsigned n = 0;

    for (size_t i = 0; i < FILES_MAX; i++) {
        n += files[i] != NULL;
    }
    return n;
}

struct sched_socket *sched_socket_of(int fd)
{
    return find_kind(fd, SOCKET, "use")->socket;
}

int sched_socket_fd(struct sched_socket *socket)
{
    struct file *file;
    int fd = put(SOCKET, &file);

    file->socket = socket;
    return fd;
}

/* ---- Events ---- */

static bool has_edge(const struct watch *watch)
{
    const struct file *file = find(watch->fd);

    return watch->edge && file != NULL && file->count != 0;
}

static short events_of(const struct file *file)
{
    switch (file->kind) {
    case EVENT:
        return file->count != 0 ? POLLIN | POLLOUT : POLLOUT;
    case SOCKET:
        return sched_socket_events(file->socket);
    case EPOLL:
        for (size_t i = 0; i < file->n_watches; i++) {
            if (has_edge(&file->watches[i])) {
                return POLLIN;
            }
        }
        break;
    }
    return 0;
}

int __wrap_eventfd(unsigned count, int flags)
{
    struct file *file;
    int fd = put(EVENT, &file);

    (void)flags;
    file->count = count;
    return fd;
}

int __wrap_epoll_create1(int flags)
{
    struct file *file;

    (void)flags;
    return put(EPOLL, &file);
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    struct file *file = find_kind(epoll, EPOLL, "epoll_ctl");

    sched_point("epoll_ctl");
    SCHED_REQUIRE(op == EPOLL_CTL_ADD && file->n_watches < WATCHES_MAX);
    for (size_t i = 0; i < file->n_watches; i++) {
        if (file->watches[i].fd == fd) {
            errno = EEXIST;
            return -1;
        }
    }
    file->watches[file->n_watches++] = (struct watch){.fd = fd, .event = *event, .edge = true};
    return 0;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms)
{
    struct file *file = find_kind(epoll, EPOLL, "epoll_wait");
    int got = 0;

    sched_point("epoll_wait");
    SCHED_REQUIRE(timeout_ms == 0);
    for (size_t i = 0; i < file->n_watches && got < n; i++) {
        if (has_edge(&file->watches[i])) {
            file->watches[i].edge = false;
            events[got++] = file->watches[i].event;
        }
    }
    return got;
}

/* A descriptor that is closed leaves every epoll. */
static void leave_epolls(int fd)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        struct file *epoll = files[i];

        for (size_t k = 0; epoll != NULL && k < epoll->n_watches; k++) {
            if (epoll->watches[k].fd == fd) {
                epoll->watches[k--] = epoll->watches[--epoll->n_watches];
            }
        }
    }
}

int __wrap_close(int fd)
{
    struct file *file;

    sched_point("close");
    file = find(fd);
    if (file == NULL) {
        sched_fail("descriptor %d is closed, which is not open", fd);
    }
    leave_epolls(fd);
    files[fd - FIRST] = NULL;
    if (file->kind == SOCKET) {
        sched_socket_close(file->socket);
    }
    unref(file);
    return 0;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    struct file *file;

    if (fd < FIRST) { /* what the run itself prints */
        return __real_write(fd, bytes, len);
    }
    sched_point("write");
    file = find_kind(fd, EVENT, "write");
    SCHED_REQUIRE(len == sizeof(uint64_t));
    file->count += *(const uint64_t *)bytes;
    for (size_t i = 0; i < FILES_MAX; i++) {
        struct file *epoll = files[i];

        for (size_t k = 0; epoll != NULL && k < epoll->n_watches; k++) {
            epoll->watches[k].edge = epoll->watches[k].edge || epoll->watches[k].fd == fd;
        }
    }
    sched_point("wrote");
    return (ssize_t)len;
}

ssize_t __wrap_read(int fd, void *bytes, size_t len)
{
    struct file *file;

    sched_point("read");
    file = find_kind(fd, EVENT, "read");
    SCHED_REQUIRE(len == sizeof(uint64_t));
    if (file->count == 0) {
        errno = EAGAIN;
        return -1;
    }
    *(uint64_t *)bytes = file->count;
    file->count = 0;
    return (ssize_t)len;
}

ssize_t __wrap___read_chk(int fd, void *bytes, size_t len, size_t size)
{
    (void)size;
    return __wrap_read(fd, bytes, len);
}

/* ---- Polling ---- */

struct polled {
    struct pollfd *fds;
    nfds_t n;
    struct file *files[POLL_MAX]; /* those that were open at the beginning */
};

static short revents(const struct polled *polled, nfds_t i)
{
    const struct pollfd *fd = &polled->fds[i];

    if (fd->fd < 0) {
        return 0;
    }
    return polled->files[i] == NULL
               ? POLLNVAL
               : (short)(events_of(polled->files[i]) & (fd->events | POLLERR | POLLHUP));
}

static bool is_ready(const void *arg)
{
    const struct polled *polled = arg;

    for (nfds_t i = 0; i < polled->n; i++) {
        if (revents(polled, i) != 0) {
            return true;
        }
    }
    return false;
}

static int note_revents(const struct polled *polled)
{
    int n = 0;

    for (nfds_t i = 0; i < polled->n; i++) {
        polled->fds[i].revents = revents(polled, i);
        n += polled->fds[i].revents != 0;
        if (polled->files[i] != NULL) {
            unref(polled->files[i]);
        }
    }
    return n;
}

/* A little late, as by a system that counts in ticks. */
static int64_t end_of(int timeout_ms)
{
    return timeout_ms < 0 ? RLOCK__NEVER : sched_now() + timeout_ms * RLOCK__MS + 50;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct polled polled = {.fds = fds, .n = n};

    sched_point("poll");
    SCHED_REQUIRE(n <= POLL_MAX);
    for (nfds_t i = 0; i < n; i++) {
        fds[i].revents = 0;
        polled.files[i] = find(fds[i].fd);
        if (polled.files[i] != NULL) {
            polled.files[i]->refs++;
        }
    }
    if (timeout_ms != 0 && sched_n_held() != 0) {
        sched_fail("%s polls with a mutex", sched_name(sched_self()));
    }
    if (timeout_ms != 0 && sched_system_chance(5)) {
        polled.n = 0;
        for (nfds_t i = 0; i < n; i++) {
            if (polled.files[i] != NULL) {
                unref(polled.files[i]);
            }
        }
        errno = EINTR;
        return -1;
    }
    if (timeout_ms != 0 && !is_ready(&polled)) {
        (void)sched_wait("poll", is_ready, &polled, end_of(timeout_ms));
    }
    return note_revents(&polled);
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
    (void)size;
    return __wrap_poll(fds, n, timeout_ms);
}
