/*
 * One connection through the proxy.
 *
 * It begins with both sockets open. When a side closes, its socket is closed here at once and
 * nothing more is written to it; what it had sent, and then its end, goes on to the other side in
 * order (delayed, held, silenced).
 *
 *   client gone  the server is sent what is queued and then a half-close; its replies are thrown
 *                away, and the connection is over when the server closes in turn. So a request
 *                whose sender has left still arrives.
 *   server gone  queued requests are thrown away; the client is sent what is queued and is then
 *                closed.
 *   reset        both closed at once, queues thrown away.
 *   over         both closed; the thread frees it.
 */
#include "proxy_impl.h"
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static enum proxy_way other(enum proxy_way way)
{
    return way == PROXY_TO_SERVER ? PROXY_TO_CLIENT : PROXY_TO_SERVER;
}

static void flow_init(struct proxy *proxy, struct proxy_flow *flow, enum proxy_way way)
{
    flow->last = &flow->first;
    flow->reset_at = proxy->next_reset_at[way];
    proxy->next_reset_at[way] = SIZE_MAX;
}

struct proxy_conn *proxy__conn_new(struct proxy *proxy, int client_fd, int server_fd)
{
    struct proxy_conn *conn = calloc(1, sizeof(*conn));

    TEST_CHECK(conn != NULL);
    conn->proxy = proxy;
    conn->last_expected = &conn->expected;
    conn->is_black = proxy->is_black[PROXY_COMMANDS];
    for (int way = 0; way < N_WAYS; way++) {
        conn->end[way].conn = conn;
        flow_init(proxy, &conn->flow[way], (enum proxy_way)way);
    }
    proxy__add(proxy, &conn->end[PROXY_TO_CLIENT], client_fd);
    proxy__add(proxy, &conn->end[PROXY_TO_SERVER], server_fd);
    conn->next = proxy->conns;
    proxy->conns = conn;
    return conn;
}

void proxy__discard(struct proxy_conn *conn, enum proxy_way way)
{
    struct proxy_flow *flow = &conn->flow[way];

    while (flow->first != NULL) {
        struct proxy_frame *frame = flow->first;
        conn->proxy->stats.held -= frame->is_held;
        flow->first = frame->next;
        free(frame);
    }
    flow->last = &flow->first;
    flow->queued = 0;
    flow->partial_len = 0;
}

void proxy__conn_free(struct proxy_conn *conn)
{
    for (int way = 0; way < N_WAYS; way++) {
        proxy__discard(conn, (enum proxy_way)way);
        free(conn->flow[way].partial);
    }
    while (conn->expected != NULL) {
        struct proxy_expected *first = conn->expected;
        conn->expected = first->next;
        free(first);
    }
    free(conn);
}

bool proxy__conn_is_over(const struct proxy_conn *conn)
{
    return conn->end[PROXY_TO_CLIENT].fd < 0 && conn->end[PROXY_TO_SERVER].fd < 0;
}

enum proxy_class proxy__conn_class(const struct proxy_conn *conn)
{
    return conn->is_subscriber ? PROXY_SUBSCRIBERS : PROXY_COMMANDS;
}

bool proxy__conn_is(const struct proxy_conn *conn, enum proxy_class which)
{
    return which == PROXY_ANY || which == proxy__conn_class(conn);
}

static void close_end(struct proxy_end *end, bool with_reset)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    if (end->fd < 0) {
        return;
    }
    if (with_reset) {
        setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    proxy__close(end->conn->proxy, end);
}

void proxy__conn_reset(struct proxy_conn *conn)
{
    if (!proxy__conn_is_over(conn)) {
        conn->proxy->stats.cuts++;
    }
    for (int way = 0; way < N_WAYS; way++) {
        proxy__discard(conn, (enum proxy_way)way);
        close_end(&conn->end[way], true);
    }
}

static void end_flow(struct proxy_conn *conn, enum proxy_way way)
{
    if (!conn->is_black) { /* else the other side learns nothing of it */
        proxy__send(conn, way, (struct resp_bytes){.data = "", .len = 0}, THEN_END);
    }
}

void proxy__close_client(struct proxy_conn *conn, bool with_reset)
{
    if (conn->end[PROXY_TO_CLIENT].fd >= 0) {
        close_end(&conn->end[PROXY_TO_CLIENT], with_reset);
        proxy__discard(conn, PROXY_TO_CLIENT);
        end_flow(conn, PROXY_TO_SERVER);
    }
}

static void close_server(struct proxy_conn *conn)
{
    close_end(&conn->end[PROXY_TO_SERVER], false);
    proxy__discard(conn, PROXY_TO_SERVER);
    end_flow(conn, PROXY_TO_CLIENT);
}

static int64_t delay_of(const struct proxy_conn *conn, enum proxy_way way)
{
    struct proxy *proxy = conn->proxy;
    int64_t us = proxy->delay_us[proxy__conn_class(conn)][way];

    if (proxy->jitter_us > 0) {
        us += (int64_t)(proxy__random(&proxy->jitter_state) % (uint64_t)(proxy->jitter_us + 1));
    }
    return us;
}

struct proxy_frame *proxy__send(struct proxy_conn *conn, enum proxy_way way,
                                struct resp_bytes bytes, enum proxy_then then)
{
    struct proxy_flow *flow = &conn->flow[way];
    struct proxy_frame *frame = malloc(sizeof(*frame) + bytes.len);
    const int64_t due_us = test_now_us() + delay_of(conn, way);

    TEST_CHECK(frame != NULL);
    flow->last_due_us = due_us > flow->last_due_us ? due_us : flow->last_due_us;
    *frame = (struct proxy_frame){.due_us = flow->last_due_us, .then = then, .len = bytes.len};
    memcpy(frame->bytes, bytes.data, bytes.len);
    *flow->last = frame;
    flow->last = &frame->next;
    flow->queued += bytes.len;
    return frame;
}

static void take_frame(struct proxy_conn *conn, enum proxy_way way, struct resp_bytes frame)
{
    if (way == PROXY_TO_SERVER) {
        proxy__on_request(conn, frame);
    } else {
        proxy__on_reply(conn, frame);
    }
}

/* Takes the whole frames out of what was read. What is not the protocol goes on as it is. */
static void cut_into_frames(struct proxy_conn *conn, enum proxy_way way)
{
    struct proxy_flow *flow = &conn->flow[way];
    size_t at = 0;

    while (at < flow->partial_len) {
        struct resp_bytes rest = {.data = flow->partial + at, .len = flow->partial_len - at};
        const long len = conn->proxy->is_raw ? -1 : resp_frame_len(rest);
        if (len == 0) {
            break;
        }
        if (len > 0) {
            rest.len = (size_t)len;
            take_frame(conn, way, rest);
        } else {
            proxy__send(conn, way, rest, THEN_NOTHING);
        }
        at += rest.len;
    }
    flow->partial_len -= at;
    memmove(flow->partial, flow->partial + at, flow->partial_len);
}

static ssize_t fill(struct proxy_flow *flow, int fd)
{
    if (flow->partial_size - flow->partial_len < 16384) {
        flow->partial_size = flow->partial_size * 2 + 65536;
        flow->partial = realloc(flow->partial, flow->partial_size);
        TEST_CHECK(flow->partial != NULL);
    }
    const ssize_t n =
        recv(fd, flow->partial + flow->partial_len, flow->partial_size - flow->partial_len, 0);
    flow->partial_len += n > 0 ? (size_t)n : 0;
    return n;
}

void proxy__read(struct proxy_conn *conn, struct proxy_end *end)
{
    const enum proxy_way way =
        end == &conn->end[PROXY_TO_CLIENT] ? PROXY_TO_SERVER : PROXY_TO_CLIENT;
    const ssize_t n = fill(&conn->flow[way], end->fd);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 && way == PROXY_TO_SERVER) {
        proxy__close_client(conn, false);
    } else if (n <= 0) {
        close_server(conn);
    } else if (conn->is_black || conn->end[way].fd < 0) {
        conn->flow[way].partial_len = 0; /* nobody is there to have it */
    } else {
        cut_into_frames(conn, way);
    }
}

/* How much of the frame may be written at once. */
static size_t piece_of(const struct proxy_conn *conn, const struct proxy_flow *flow)
{
    const size_t chop = conn->proxy->chop;
    const size_t to_reset = flow->reset_at - flow->forwarded;
    size_t n = flow->first->len - flow->first->sent;

    n = chop > 0 && chop < n ? chop : n;
    return to_reset < n ? to_reset : n;
}

static void finish_frame(struct proxy_conn *conn, enum proxy_way way)
{
    struct proxy_flow *flow = &conn->flow[way];
    struct proxy_frame *frame = flow->first;
    const enum proxy_then then = frame->then;

    flow->queued -= frame->len;
    flow->first = frame->next;
    if (flow->first == NULL) {
        flow->last = &flow->first;
    }
    free(frame);
    if (then == THEN_RESET) {
        proxy__conn_reset(conn);
    } else if (then == THEN_HANG_UP) {
        proxy__close_client(conn, false);
    } else if (then == THEN_COUNT) {
        conn->proxy->stats.echoes++;
    } else if (then == THEN_END && way == PROXY_TO_CLIENT) {
        close_end(&conn->end[way], false);
    } else if (then == THEN_END) {
        shutdown(conn->end[way].fd, SHUT_WR);
    }
}

/* Writes a piece of the first frame; whether all of it is written and the connection
 * still there. */
static bool write_piece(struct proxy_conn *conn, enum proxy_way way)
{
    struct proxy_flow *flow = &conn->flow[way];
    struct proxy_frame *frame = flow->first;
    const size_t len = piece_of(conn, flow);
    const ssize_t n =
        len > 0 ? send(conn->end[way].fd, frame->bytes + frame->sent, len, MSG_NOSIGNAL) : 0;

    if (n < 0 && errno != EAGAIN && errno != ENOTCONN) {
        proxy__discard(conn, way); /* reading will find out that the other end is gone */
        return false;
    }
    frame->sent += n > 0 ? (size_t)n : 0;
    flow->forwarded += n > 0 ? (size_t)n : 0;
    if (flow->forwarded == flow->reset_at) {
        proxy__conn_reset(conn);
        return false;
    }
    flow->is_blocked = frame->sent < frame->len;
    if (!flow->is_blocked) {
        finish_frame(conn, way);
    }
    return !flow->is_blocked;
}

static bool is_silent(const struct proxy_conn *conn)
{
    return conn->is_black || conn->proxy->is_silent[proxy__conn_class(conn)];
}

static int64_t pump_flow(struct proxy_conn *conn, enum proxy_way way, int64_t now_us)
{
    struct proxy_flow *flow = &conn->flow[way];

    flow->is_blocked = false;
    while (flow->first != NULL && conn->end[way].fd >= 0) {
        if (is_silent(conn) || flow->first->is_held) {
            return INT64_MAX;
        }
        if (flow->first->due_us > now_us) {
            return flow->first->due_us;
        }
        if (!write_piece(conn, way)) {
            return INT64_MAX; /* the event loop says when there is room */
        }
    }
    return INT64_MAX;
}

static void update_events(struct proxy_conn *conn, enum proxy_way way)
{
    const bool may_read = conn->flow[other(way)].queued < PAUSE_BYTES;

    proxy__watch(conn->proxy, &conn->end[way],
                 (may_read ? EPOLLIN : 0U) | (conn->flow[way].is_blocked ? EPOLLOUT : 0U));
}

int64_t proxy__pump(struct proxy_conn *conn, int64_t now_us)
{
    const int64_t to_server = pump_flow(conn, PROXY_TO_SERVER, now_us);
    const int64_t to_client = pump_flow(conn, PROXY_TO_CLIENT, now_us);

    update_events(conn, PROXY_TO_SERVER);
    update_events(conn, PROXY_TO_CLIENT);
    return to_server < to_client ? to_server : to_client;
}
