/* The proxy's thread: waits for sockets and for frames to fall due, accepts, and frees what is
 * over. */
#include "proxy_impl.h"
#include "run.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { MAX_EVENTS = 64 };

void proxy__add(struct proxy *proxy, struct proxy_end *end, int fd)
{
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = end};

    test_must(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
    end->fd = fd;
    end->events = EPOLLIN;
}

void proxy__watch(struct proxy *proxy, struct proxy_end *end, uint32_t events)
{
    struct epoll_event wanted = {.events = events, .data.ptr = end};

    if (end->fd >= 0 && end->events != events) {
        test_must(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_MOD, end->fd, &wanted), "epoll_ctl");
        end->events = events;
    }
}

void proxy__close(struct proxy *proxy, struct proxy_end *end)
{
    test_must(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_DEL, end->fd, NULL), "epoll_ctl");
    close(end->fd);
    end->fd = -1;
}

void proxy__wake(struct proxy *proxy)
{
    const uint64_t one = 1;

    TEST_CHECK(write(proxy->wake.fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

static void set_nodelay(const struct proxy_address *address, int fd)
{
    const int on = 1;

    if (address->to.any.sa_family == AF_INET) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

static int make_socket(const struct proxy_address *address)
{
    const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
    const int fd = test_must(socket(address->to.any.sa_family, type, 0), "socket");

    set_nodelay(address, fd);
    return fd;
}

void proxy__listen(struct proxy *proxy)
{
    const int fd = make_socket(&proxy->own);
    const int on = 1;

    if (proxy->own.to.any.sa_family == AF_UNIX) {
        unlink(proxy->own.to.un.sun_path);
    }
    test_must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
    test_must(bind(fd, &proxy->own.to.any, proxy->own.len), proxy->url);
    test_must(listen(fd, 1024), "listen");
    proxy__add(proxy, &proxy->listener, fd);
}

/* A server that refuses shows itself at the first read. */
static int connect_upstream(const struct proxy *proxy)
{
    const int fd = make_socket(&proxy->upstream);

    if (connect(fd, &proxy->upstream.to.any, proxy->upstream.len) != 0 && errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

static void accept_one(struct proxy *proxy, int client_fd)
{
    const int server_fd = connect_upstream(proxy);

    proxy->stats.accepted++;
    set_nodelay(&proxy->own, client_fd);
    if (server_fd < 0) {
        close(client_fd);
        return;
    }
    struct proxy_conn *conn = proxy__conn_new(proxy, client_fd, server_fd);
    if (proxy->cut_accepts > 0) {
        proxy->cut_accepts--;
        proxy__conn_reset(conn);
    }
}

static void accept_all(struct proxy *proxy)
{
    while (proxy->listener.fd >= 0) {
        const int fd = accept4(proxy->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        accept_one(proxy, fd);
    }
}

static void drain(const struct proxy_end *end)
{
    uint64_t count = 0;

    while (read(end->fd, &count, sizeof(count)) > 0) {
    }
}

static void on_event(struct proxy *proxy, const struct epoll_event *event)
{
    struct proxy_end *end = event->data.ptr;

    if (end == &proxy->listener) {
        accept_all(proxy);
    } else if (end->conn == NULL) {
        drain(end);
    } else if (end->fd >= 0 && (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        proxy__read(end->conn, end);
    }
}

/* Returns when the next frame is due. */
static int64_t pump_all(struct proxy *proxy)
{
    const int64_t now_us = test_now_us();
    int64_t next_us = INT64_MAX;

    for (struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        const int64_t due_us = proxy__pump(conn, now_us);
        next_us = due_us < next_us ? due_us : next_us;
    }
    return next_us;
}

static void free_what_is_over(struct proxy *proxy)
{
    struct proxy_conn **link = &proxy->conns;

    while (*link != NULL) {
        struct proxy_conn *conn = *link;
        if (proxy__conn_is_over(conn)) {
            *link = conn->next;
            proxy__conn_free(conn);
        } else {
            link = &conn->next;
        }
    }
}

static void set_timer(const struct proxy *proxy, int64_t at_us)
{
    struct itimerspec when = {.it_value = {0, 0}};

    if (at_us != INT64_MAX) {
        when.it_value.tv_sec = at_us / 1000000;
        when.it_value.tv_nsec = at_us % 1000000 * 1000;
    }
    test_must(timerfd_settime(proxy->timer.fd, TFD_TIMER_ABSTIME, &when, NULL), "timerfd_settime");
}

void *proxy__run(void *payload)
{
    struct proxy *proxy = payload;
    struct epoll_event events[MAX_EVENTS];

    pthread_mutex_lock(&proxy->mutex);
    while (!proxy->is_stopping) {
        set_timer(proxy, pump_all(proxy));
        free_what_is_over(proxy);
        pthread_cond_broadcast(&proxy->changed);
        pthread_mutex_unlock(&proxy->mutex);
        const int n = epoll_wait(proxy->epoll_fd, events, MAX_EVENTS, -1);
        pthread_mutex_lock(&proxy->mutex);
        for (int i = 0; i < n; i++) {
            on_event(proxy, &events[i]);
        }
    }
    pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}
