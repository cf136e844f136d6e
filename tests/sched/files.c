/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#define FIRST 1000000 /* descriptors below are the system's */
#define FILES_MAX 128
#define WATCHES_MAX 16
#define POLL_MAX 80

enum kind { EVENT, EPOLL, SOCKET, TIMER };

struct watch {
    int fd;
    struct epoll_event event;
    bool edge; /* where it is edge-triggered: written since it was last told */
};

/* Lives as long as it has a number, or somebody polls it. */
struct file {
    unsigned refs;
    enum kind kind;
    uint64_t count;
    int64_t fires_at; /* TIMER */
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
    *file = (struct file){.refs = 1, .kind = kind, .fires_at = RLOCK__NEVER};
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

static short events_of(const struct file *file);

static bool is_told(const struct watch *watch)
{
    const struct file *file = find(watch->fd);

    SCHED_REQUIRE(file != NULL); /* one that is closed leaves */
    if ((watch->event.events & EPOLLET) != 0) {
        return watch->edge && file->count != 0;
    }
    return (events_of(file) & ((short)watch->event.events | POLLERR | POLLHUP)) != 0;
}

static short events_of(const struct file *file)
{
    switch (file->kind) {
    case EVENT:
        return file->count != 0 ? POLLIN | POLLOUT : POLLOUT;
    case SOCKET:
        return sched_socket_events(file->socket);
    case TIMER:
        return file->fires_at <= sched_now() ? POLLIN : 0;
    case EPOLL:
        for (size_t i = 0; i < file->n_watches; i++) {
            if (is_told(&file->watches[i])) {
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

static struct watch *watch_of(struct file *file, int fd)
{
    for (size_t i = 0; i < file->n_watches; i++) {
        if (file->watches[i].fd == fd) {
            return &file->watches[i];
        }
    }
    return NULL;
}

static void unwatch(struct file *file, int fd)
{
    struct watch *watch = watch_of(file, fd);

    if (watch != NULL) {
        *watch = file->watches[--file->n_watches];
    }
}

int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    struct file *file = find_kind(epoll, EPOLL, "epoll_ctl");
    struct watch *watch = watch_of(file, fd);

    sched_point("epoll_ctl");
    if (find(fd) == NULL || (op == EPOLL_CTL_ADD) == (watch != NULL)) {
        errno = find(fd) == NULL ? EBADF : watch != NULL ? EEXIST : ENOENT;
        return -1;
    }
    if (op == EPOLL_CTL_DEL) {
        unwatch(file, fd);
        return 0;
    }
    SCHED_REQUIRE(file->n_watches < WATCHES_MAX);
    watch = watch != NULL ? watch : &file->watches[file->n_watches++];
    *watch = (struct watch){.fd = fd, .event = *event, .edge = true};
    return 0;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms)
{
    struct file *file = find_kind(epoll, EPOLL, "epoll_wait");
    int got = 0;

    sched_point("epoll_wait");
    SCHED_REQUIRE(timeout_ms == 0);
    for (size_t i = 0; i < file->n_watches && got < n; i++) {
        if (is_told(&file->watches[i])) {
            file->watches[i].edge = false;
            events[got++] = file->watches[i].event;
        }
    }
    return got;
}

/* ---- Timers ---- */

int __wrap_timerfd_create(int clock, int flags)
{
    struct file *file;

    (void)flags;
    SCHED_REQUIRE(clock == CLOCK_BOOTTIME);
    return put(TIMER, &file);
}

/* Time jumps to when a timer fires, and looks who can go on. */
static void jump(void *arg)
{
    (void)arg;
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    struct file *file = find_kind(fd, TIMER, "timerfd_settime");
    bool armed = at->it_value.tv_sec != 0 || at->it_value.tv_nsec != 0;

    sched_point("timerfd_settime");
    SCHED_REQUIRE(old == NULL && (!armed || flags == TFD_TIMER_ABSTIME));
    file->fires_at = armed ? sched_boottime_us(&at->it_value) : RLOCK__NEVER;
    if (armed) {
        sched_at(file->fires_at, jump, NULL);
    }
    return 0;
}

/* A descriptor that is closed leaves every epoll. */
static void leave_epolls(int fd)
{
    for (size_t i = 0; i < FILES_MAX; i++) {
        if (files[i] != NULL) {
            unwatch(files[i], fd);
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
    struct polled *prev, *next;   /* in sleeps */
};

static struct polled *sleeps; /* the calls of poll() that sleep */

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

bool sched_is_polled(int fd)
{
    const struct file *file = find(fd);
    const struct polled *polled;

    DL_FOREACH(sleeps, polled) {
        for (nfds_t i = 0; i < polled->n; i++) {
            if (polled->files[i] == file && (polled->fds[i].events & POLLIN) != 0) {
                return true;
            }
        }
    }
    return false;
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
        DL_APPEND(sleeps, &polled);
        (void)sched_wait("poll", is_ready, &polled, end_of(timeout_ms));
        DL_DELETE(sleeps, &polled);
    }
    return note_revents(&polled);
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
    (void)size;
    return __wrap_poll(fds, n, timeout_ms);
}
