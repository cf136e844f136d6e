/* The proxy's interface: starting, stopping, switching faults on and off. */
#include "proxy.h"

#include "proxy_impl.h"
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static struct proxy_address unix_address(const char *path)
{
    struct proxy_address address = {.len = sizeof(address.to.un)};

    address.to.un.sun_family = AF_UNIX;
    test_text(address.to.un.sun_path, sizeof(address.to.un.sun_path), "%s", path);
    return address;
}

static struct proxy_address local_address(int port)
{
    struct proxy_address address = {.len = sizeof(address.to.in)};

    address.to.in.sin_family = AF_INET;
    address.to.in.sin_port = htons((uint16_t)port);
    address.to.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A test server's: its host is this one, whatever it is called. */
static struct proxy_address address_of(const char *url)
{
    const char *rest = strstr(url, "://");

    if (rest == NULL) {
        test_die("no URL: %s", url);
    }
    rest += 3;
    if (rest[0] == '/') {
        return unix_address(rest);
    }
    const char *colon = strrchr(rest, ':');
    const long port = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
    if (port <= 0 || port > 65535) {
        test_die("no port: %s", url);
    }
    return local_address((int)port);
}

static void choose_own_address(struct proxy *proxy, bool is_unix)
{
    char dir[128];

    if (is_unix) {
        test_dir_make(dir, sizeof(dir));
        test_text(proxy->url, sizeof(proxy->url), "unix://%s/proxy", dir);
    } else {
        test_text(proxy->url, sizeof(proxy->url), "%s:%d",
                  proxy->is_raw ? "rediss://localhost" : "redis://127.0.0.1", test_free_port());
    }
    proxy->own = address_of(proxy->url);
}

static void init_waiting(struct proxy *proxy)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&proxy->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&proxy->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void init_events(struct proxy *proxy)
{
    const int wake_fd = test_must(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd");
    const int timer_fd =
        test_must(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");

    proxy->epoll_fd = test_must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    proxy->listener.fd = -1;
    proxy__add(proxy, &proxy->wake, wake_fd);
    proxy__add(proxy, &proxy->timer, timer_fd);
}

/* The thread gets no signals: they are for the test. */
static void start_thread(struct proxy *proxy)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&proxy->thread, NULL, proxy__run, proxy);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        test_die("pthread_create: %s", strerror(error));
    }
}

static struct proxy *start(const char *upstream_url, bool is_unix)
{
    struct proxy *proxy = calloc(1, sizeof(*proxy));

    TEST_CHECK(proxy != NULL);
    proxy->is_raw = strncmp(upstream_url, "rediss:", 7) == 0;
    proxy->last_rule = &proxy->rules;
    proxy->next_reset_at[PROXY_TO_SERVER] = SIZE_MAX;
    proxy->next_reset_at[PROXY_TO_CLIENT] = SIZE_MAX;
    proxy->upstream = address_of(upstream_url);
    init_waiting(proxy);
    init_events(proxy);
    choose_own_address(proxy, is_unix);
    proxy__listen(proxy);
    start_thread(proxy);
    return proxy;
}

struct proxy *proxy_start(const char *upstream_url)
{
    return start(upstream_url, false);
}

void proxy_lead(struct proxy *proxy, const char *upstream_url)
{
    const struct proxy_address upstream = address_of(upstream_url);

    pthread_mutex_lock(&proxy->mutex);
    proxy->upstream = upstream;
    pthread_mutex_unlock(&proxy->mutex);
}

struct proxy *proxy_start_unix(const char *upstream_url)
{
    return start(upstream_url, true);
}

static void free_rules(struct proxy_rule_kept *first)
{
    while (first != NULL) {
        struct proxy_rule_kept *next = first->next;
        free(first->command);
        free(first->contains);
        free(first->bytes);
        free(first);
        first = next;
    }
}

static void free_conns(struct proxy_conn *first)
{
    while (first != NULL) {
        struct proxy_conn *next = first->next;
        proxy__conn_reset(first);
        proxy__conn_free(first);
        first = next;
    }
}

static void close_listener(struct proxy *proxy)
{
    if (proxy->listener.fd >= 0) {
        proxy__close(proxy, &proxy->listener);
    }
}

static void lock(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
}

/* The thread then looks at everything anew. */
static void unlock_and_wake(struct proxy *proxy)
{
    proxy__wake(proxy);
    pthread_mutex_unlock(&proxy->mutex);
}

struct proxy *proxy_stop(struct proxy *proxy)
{
    if (proxy == NULL) {
        return NULL;
    }
    lock(proxy);
    proxy->is_stopping = true;
    unlock_and_wake(proxy);
    pthread_join(proxy->thread, NULL);
    free_conns(proxy->conns);
    free_rules(proxy->rules);
    close_listener(proxy);
    close(proxy->wake.fd);
    close(proxy->timer.fd);
    close(proxy->epoll_fd);
    pthread_cond_destroy(&proxy->changed);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
    return NULL;
}

const char *proxy_url(const struct proxy *proxy)
{
    return proxy->url;
}

void proxy_delay_way_us(struct proxy *proxy, enum proxy_class which, enum proxy_way way, int64_t us)
{
    lock(proxy);
    for (int one = PROXY_COMMANDS; one < N_CLASSES; one++) {
        if (which == PROXY_ANY || (int)which == one) {
            proxy->delay_us[one][way] = us;
        }
    }
    unlock_and_wake(proxy);
}

void proxy_delay_us(struct proxy *proxy, int64_t one_way_us)
{
    proxy_delay_way_us(proxy, PROXY_ANY, PROXY_TO_SERVER, one_way_us);
    proxy_delay_way_us(proxy, PROXY_ANY, PROXY_TO_CLIENT, one_way_us);
}

void proxy_jitter_us(struct proxy *proxy, int64_t us, uint64_t seed)
{
    lock(proxy);
    proxy->jitter_us = us;
    proxy->jitter_state = seed;
    unlock_and_wake(proxy);
}

void proxy_chop(struct proxy *proxy, size_t bytes)
{
    lock(proxy);
    proxy->chop = bytes;
    unlock_and_wake(proxy);
}

void proxy_cut_all(struct proxy *proxy, enum proxy_class which)
{
    lock(proxy);
    for (struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        if (proxy__conn_is(conn, which)) {
            proxy__conn_reset(conn);
        }
    }
    unlock_and_wake(proxy);
}

void proxy_strand_all(struct proxy *proxy, enum proxy_class which)
{
    lock(proxy);
    for (struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        if (proxy__conn_is(conn, which)) {
            proxy__close_client(conn, true);
        }
    }
    unlock_and_wake(proxy);
}

static void set_for_class(bool *flags, enum proxy_class which, bool value)
{
    for (int one = PROXY_COMMANDS; one < N_CLASSES; one++) {
        if (which == PROXY_ANY || (int)which == one) {
            flags[one] = value;
        }
    }
}

void proxy_go_silent(struct proxy *proxy, enum proxy_class which, bool is_silent)
{
    lock(proxy);
    set_for_class(proxy->is_silent, which, is_silent);
    unlock_and_wake(proxy);
}

void proxy_black_hole(struct proxy *proxy, enum proxy_class which, bool is_black)
{
    lock(proxy);
    set_for_class(proxy->is_black, which, is_black);
    for (struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        conn->is_black = conn->is_black || (is_black && proxy__conn_is(conn, which));
    }
    unlock_and_wake(proxy);
}

void proxy_refuse(struct proxy *proxy, bool is_refusing)
{
    lock(proxy);
    if (is_refusing) {
        close_listener(proxy);
    } else if (proxy->listener.fd < 0) {
        proxy__listen(proxy);
    }
    unlock_and_wake(proxy);
}

void proxy_cut_accepts(struct proxy *proxy, unsigned int n)
{
    lock(proxy);
    proxy->cut_accepts = n;
    unlock_and_wake(proxy);
}

void proxy_cut_at_byte(struct proxy *proxy, enum proxy_way way, size_t bytes)
{
    lock(proxy);
    proxy->next_reset_at[way] = bytes;
    unlock_and_wake(proxy);
}

static void hold(struct proxy_conn *conn, bool is_holding)
{
    struct proxy_stats *stats = &conn->proxy->stats;

    conn->is_holding = is_holding;
    for (struct proxy_frame *frame = conn->flow[PROXY_TO_SERVER].first; frame != NULL;
         frame = frame->next) {
        const bool is_request = frame->then == THEN_NOTHING && frame->sent == 0;
        stats->held -= frame->is_held;
        frame->is_held = is_holding && is_request;
        stats->held += frame->is_held;
    }
}

void proxy_hold_requests(struct proxy *proxy, bool is_holding)
{
    lock(proxy);
    for (struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        hold(conn, is_holding);
    }
    unlock_and_wake(proxy);
}

void proxy_drop_messages(struct proxy *proxy, unsigned int percent, uint64_t seed)
{
    lock(proxy);
    proxy->drop_percent = percent;
    proxy->drop_state = seed;
    unlock_and_wake(proxy);
}
