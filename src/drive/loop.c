/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/sock.h"

static int add(int epoll_fd, int fd, short events, int how)
{
    struct epoll_event event = {.events = (uint32_t)(unsigned short)events, .data.fd = fd};

    return epoll_ctl(epoll_fd, how, fd, &event);
}

int rlock__loop_new(struct rlock__loop **ret_loop)
{
    struct rlock__loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    loop->armed_at = RLOCK__NEVER;
    loop->inner_fd = -1;
    loop->fd = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    *ret_loop = loop;
    if (loop->fd < 0 || loop->timer_fd < 0 ||
        add(loop->fd, loop->timer_fd, POLLIN, EPOLL_CTL_ADD) != 0) {
        return rlock__fail(RLOCK_ERESOURCE, "no file descriptors: %s", strerror(errno));
    }
    return 0;
}

void rlock__loop_close_fds(const struct rlock__loop *loop)
{
    (void)rlock__sock_close(loop->fd);
    (void)rlock__sock_close(loop->timer_fd);
    if (loop->inner_fd >= 0) {
        (void)close(loop->inner_fd);
    }
}

struct rlock__loop *rlock__loop_free(struct rlock__loop *loop)
{
    if (loop != NULL) {
        rlock__loop_close_fds(loop);
        free(loop->registered);
        free(loop);
    }
    return NULL;
}

/* ---- What the epoll polls ---- */

/* Makes room to note what is polled now. */
static bool make_room(struct rlock__loop *loop)
{
    struct pollfd *registered = loop->registered;

    if (loop->planned > loop->room) {
        registered = realloc(registered, loop->planned * sizeof(*registered));
        loop->registered = registered != NULL ? registered : loop->registered;
        loop->room = registered != NULL ? loop->planned : loop->room;
    }
    return registered != NULL;
}

/* A new epoll inside: what was closed has left the old one by itself, and nobody knows which. */
static bool start_anew(struct rlock__loop *loop)
{
    if (loop->inner_fd >= 0) {
        (void)close(loop->inner_fd);
    }
    loop->n = 0;
    loop->inner_fd = epoll_create1(EPOLL_CLOEXEC);
    return loop->inner_fd >= 0 && add(loop->fd, loop->inner_fd, POLLIN, EPOLL_CTL_ADD) == 0;
}

/* Those that are polled no more leave. */
static void remove_old(struct rlock__loop *loop, const struct pollfd *fds)
{
    for (size_t i = 0; i < loop->n; i++) {
        int old = loop->registered[i].fd;

        if (old >= 0 && (i >= loop->planned || fds[i].fd != old)) {
            (void)epoll_ctl(loop->inner_fd, EPOLL_CTL_DEL, old, NULL);
            loop->registered[i].fd = -1;
        }
    }
    for (size_t i = loop->n; i < loop->planned; i++) {
        loop->registered[i].fd = -1;
    }
    loop->n = loop->planned;
}

static bool put_in(const struct rlock__loop *loop, struct pollfd *noted, const struct pollfd *fd)
{
    int how = noted->fd >= 0 ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    bool in = add(loop->inner_fd, fd->fd, fd->events, how) == 0;

    *noted = (struct pollfd){.fd = in ? fd->fd : -1, .events = fd->events};
    return in;
}

/* Closings: as many as there were before the plan. Returns false where something is not polled that
 * should be, or has been closed since. No link is closed meanwhile. */
RLOCK__REQUIRES(send)
static bool register_all(struct rlock__loop *loop, const struct pollfd *fds, unsigned closings)
{
    bool good = true;

    if (rlock__sock_closings() != closings || !make_room(loop) ||
        ((closings != loop->closings || loop->inner_fd < 0) && !start_anew(loop))) {
        return false;
    }
    loop->closings = closings;
    remove_old(loop, fds);
    for (size_t i = 0; i < loop->n; i++) {
        struct pollfd *noted = &loop->registered[i];

        if (fds[i].fd >= 0 && (noted->fd != fds[i].fd || noted->events != fds[i].events)) {
            good = put_in(loop, noted, &fds[i]) && good;
        }
    }
    return good;
}

/* What it has fired is forgotten too; reading it would miss what is about to come. */
static void disarm(struct rlock__loop *loop)
{
    const struct itimerspec none = {{0, 0}, {0, 0}};

    (void)timerfd_settime(loop->timer_fd, 0, &none, NULL);
    loop->armed_at = RLOCK__NEVER;
}

/* One that fires too early costs a dispatch; to set it costs a system call for each. */
static void arm(struct rlock__loop *loop, int64_t until)
{
    struct itimerspec at = {{0, 0}, {until / RLOCK__SECOND, until % RLOCK__SECOND * 1000}};

    if (until < loop->armed_at) {
        at.it_value.tv_nsec += until <= 0; /* zero would disarm it */
        (void)timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        loop->armed_at = until;
    }
}

/* ---- Rounds ---- */

#define AGAIN_US RLOCK__MS /* until it is tried again to have all polled */

static void plan(struct rlock_client *client)
{
    struct rlock__loop *loop = client->loop;
    unsigned closings = rlock__sock_closings();
    int64_t until, now = rlock__now_us();
    bool good;

    loop->planned = rlock__service_plan(client, now, &until);
    rlock__take_link(client);
    good = register_all(loop, client->threads.polled, closings);
    rlock__give_link(client);
    arm(loop, good ? until : rlock__min(until, now + AGAIN_US));
}

/* Polls what was planned, reacts, and runs the callbacks. */
static void go_round(struct rlock_client *client, int timeout_ms)
{
    struct rlock__loop *loop = client->loop;
    int64_t now;

    (void)poll(client->threads.polled, loop->planned, timeout_ms);
    now = rlock__now_us(); /* before anything is read */
    if (now >= loop->armed_at) {
        disarm(loop);
    }
    rlock__service_react(client, now);
    (void)rlock__dispatch(client);
}

void rlock__loop_begin(struct rlock_client *client)
{
    plan(client);
}

int rlock__loop_dispatch(struct rlock_client *client)
{
    struct rlock__loop *loop = client->loop;

    if (atomic_exchange(&loop->busy, true)) {
        return rlock__fail(RLOCK_EBUSY, "another thread dispatches");
    }
    go_round(client, 0);
    plan(client);
    atomic_store(&loop->busy, false);
    return 0;
}

/* Whether every release is answered, or there is no more time: says what stays then. */
static bool is_over(struct rlock_client *client, int64_t now, int64_t deadline)
{
    bool settled, over;

    rlock__enter(client);
    settled = rlock__core_is_settled(&client->core);
    over = client->stop_service;
    client->stop_service = over || settled || now >= deadline;
    if (!over && !settled && now >= deadline) {
        rlock__core_note_rest(&client->core, now);
    }
    over = client->stop_service;
    rlock__leave(client);
    return over;
}

void rlock__loop_end(struct rlock_client *client, int64_t deadline)
{
    struct rlock__loop *loop = client->loop;
    int64_t until, now = rlock__now_us();

    for (;;) {
        bool over = is_over(client, now, deadline);

        loop->planned = rlock__service_plan(client, now, &until);
        if (loop->planned == 0) {
            break;
        }
        until = over ? until : rlock__min(until, deadline);
        go_round(client, rlock__timeout_ms(until, now));
        now = rlock__now_us();
    }
    while (rlock__dispatch(client)) {
    }
}
