/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/sock.h"

static bool add(const struct rlock__loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd >= 0 && epoll_ctl(loop->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

int rlock__loop_new(struct rlock_client *client)
{
    struct rlock__loop *loop = calloc(1, sizeof(*loop));

    if (loop == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    loop->armed_at = RLOCK__NEVER;
    loop->fd = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    client->loop = loop; /* from here on a child of fork closes its descriptors */
    if (!add(loop, loop->timer_fd) || !add(loop, client->threads.wake_fd) ||
        !add(loop, client->threads.cancel_fd) || !add(loop, client->threads.nodes_fd) ||
        !add(loop, client->links_fd)) {
        return rlock__fail(RLOCK_ERESOURCE, "no file descriptors: %s", strerror(errno));
    }
    return 0;
}

void rlock__loop_close_fds(const struct rlock__loop *loop)
{
    (void)rlock__sock_close(loop->fd);
    (void)rlock__sock_close(loop->timer_fd);
}

struct rlock__loop *rlock__loop_free(struct rlock__loop *loop)
{
    if (loop != NULL) {
        rlock__loop_close_fds(loop);
        free(loop);
    }
    return NULL;
}

/* ---- The timer ---- */

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

static void plan(struct rlock_client *client)
{
    int64_t until;

    (void)rlock__service_plan(client, rlock__now_us(), &until);
    arm(client->loop, until);
}

/* Polls what was planned, reacts, and runs the callbacks. */
static void go_round(struct rlock_client *client, int timeout_ms)
{
    struct rlock__loop *loop = client->loop;
    int64_t now;

    (void)poll(client->threads.polled, RLOCK__POLLED, timeout_ms);
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
    int64_t until, now = rlock__now_us();

    for (;;) {
        bool over = is_over(client, now, deadline);

        if (!rlock__service_plan(client, now, &until)) {
            break;
        }
        until = over ? until : rlock__min(until, deadline);
        go_round(client, rlock__timeout_ms(until, now));
        now = rlock__now_us();
    }
    while (rlock__dispatch(client)) {
    }
}
