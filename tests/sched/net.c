/* SPDX-License-Identifier: Apache-2.0 */
#include "net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "files.h"

enum state { NEW, CONNECTING, UP, REFUSED };

struct sched_socket {
    struct sched_socket *prev, *next;
    enum state state;
    unsigned server;
    uint64_t id;              /* of the connection at the server; 0 none */
    bool closed;              /* by us */
    bool broken;              /* nothing goes either way any more; we know */
    bool lossy;               /* what was on its way to the server is lost */
    bool at_end;              /* the server has closed it; we know */
    size_t under_way;         /* bytes to the server */
    int64_t to_us, to_server; /* when what was sent last arrives */
    struct sim_buf in;        /* to be read by us */
    size_t taken;             /* of that */
    struct sim_buf at_server; /* no whole command yet */
};

/* Bytes on their way; none: the end of the stream. */
struct parcel {
    struct parcel *prev, *next;
    struct sched_socket *socket;
    bool to_server;
    size_t len;
    char bytes[];
};

static struct {
    struct sched_net_config config;
    struct sched_dice dice;
    struct sim_server *servers[SCHED_SERVERS_MAX];
    int64_t stopped_until[SCHED_SERVERS_MAX];
    struct sched_socket *sockets;
    struct parcel *parcels; /* all that are under way */
} net;

static int64_t delay(void)
{
    return sched_between(&net.dice, net.config.delay_min_us, net.config.delay_max_us);
}

int64_t sched_net_round_trip(void)
{
    return 2 * net.config.delay_max_us;
}

/* ---- At the server ---- */

static void arrive(void *arg);

static void post(struct sched_socket *socket, bool to_server, const char *bytes, size_t len)
{
    struct parcel *parcel = malloc(sizeof(*parcel) + len);
    int64_t *last = to_server ? &socket->to_server : &socket->to_us;

    *parcel = (struct parcel){.socket = socket, .to_server = to_server, .len = len};
    if (len != 0) {
        memcpy(parcel->bytes, bytes, len);
    }
    DL_APPEND(net.parcels, parcel);
    *last = rlock__max(*last, sched_now() + delay());
    sched_at(*last, arrive, parcel);
}

static struct sched_socket *by_id(const struct sim_server *server, uint64_t id)
{
    struct sched_socket *socket;

    DL_FOREACH(net.sockets, socket) {
        if (socket->id == id && net.servers[socket->server] == server) {
            return socket;
        }
    }
    return NULL;
}

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct sched_socket *socket = by_id(payload, conn);
    size_t first = len;

    (void)is_push;
    if (socket == NULL) {
        return;
    }
    if (sched_chance(&net.dice, net.config.pieces)) {
        first = (size_t)sched_between(&net.dice, 1, (int64_t)len);
    }
    post(socket, false, bytes, first);
    if (first < len) {
        post(socket, false, bytes + first, len - first);
    }
}

static void on_close(void *payload, uint64_t conn)
{
    struct sched_socket *socket = by_id(payload, conn);

    if (socket != NULL) {
        socket->id = 0;
        post(socket, false, NULL, 0);
    }
}

/* A command's words, on one line; of a script's text the beginning. */
static void trace_command(const struct sched_socket *socket, const char *bytes, size_t len)
{
    struct sim_words words = {0};
    char line[400];
    size_t n = 0;

    if (sim_resp_read_command(bytes, len, &words)) {
        for (size_t i = 0; i < words.n && n < sizeof(line) - 50; i++) {
            const struct sim_view *word = &words.words[i];

            n += (size_t)snprintf(line + n, 46, " %.*s", word->len < 44 ? (int)word->len : 44,
                                  word->data);
        }
        sched_trace("  at server %u:%.*s", socket->server, (int)n, line);
    }
    sim_words_fini(&words);
}

/* Runs the commands that are there whole. */
static void run_commands(struct sched_socket *socket)
{
    struct sim_buf *buf = &socket->at_server;
    struct sim_server *server = net.servers[socket->server];
    int64_t len;

    sim_server_set_time(server, sched_now());
    while (socket->id != 0 && (len = sim_resp_frame_len(buf->data, buf->len)) > 0) {
        trace_command(socket, buf->data, (size_t)len);
        (void)sim_server_command(server, socket->id, buf->data, (size_t)len);
        buf->len -= (size_t)len;
        memmove(buf->data, buf->data + len, buf->len);
    }
}

static void at_server(struct sched_socket *socket, const struct parcel *parcel)
{
    if (parcel->len == 0 && socket->id != 0) {
        sim_server_set_time(net.servers[socket->server], sched_now());
        sim_server_disconnect(net.servers[socket->server], socket->id);
        socket->id = 0;
    }
    socket->under_way -= parcel->len;
    if (!socket->lossy) {
        sim_buf_add(&socket->at_server, parcel->bytes, parcel->len);
        run_commands(socket);
    }
}

static void at_us(struct sched_socket *socket, const struct parcel *parcel)
{
    if (!socket->broken && !socket->closed) {
        sched_note("arrives", parcel->len);
        sim_buf_add(&socket->in, parcel->bytes, parcel->len);
        socket->at_end = socket->at_end || parcel->len == 0;
    }
}

static void arrive(void *arg)
{
    struct parcel *parcel = arg;
    struct sched_socket *socket = parcel->socket;
    int64_t until = net.stopped_until[socket->server];

    if (parcel->to_server && sched_now() < until) {
        socket->to_server = rlock__max(socket->to_server, until);
        sched_at(until, arrive, parcel);
        return;
    }
    if (parcel->to_server) {
        at_server(socket, parcel);
    } else {
        at_us(socket, parcel);
    }
    DL_DELETE(net.parcels, parcel);
    free(parcel);
}

/* ---- Faults ---- */

static void cut(struct sched_socket *socket)
{
    if (socket->state == UP && !socket->closed && !socket->broken) {
        sched_trace("  connection to server %u is cut", socket->server);
        socket->broken = true;
        socket->lossy = sched_chance(&net.dice, 500);
        post(socket, true, NULL, 0); /* behind what is on its way */
    }
}

void sched_net_cut(unsigned server)
{
    struct sched_socket *socket;

    DL_FOREACH(net.sockets, socket) {
        if (socket->server == server) {
            cut(socket);
        }
    }
}

void sched_net_cut_one(unsigned server)
{
    struct sched_socket *socket;
    int64_t n = 0;

    DL_FOREACH(net.sockets, socket) {
        n += socket->server == server && socket->state == UP && !socket->closed;
    }
    n = sched_roll(&net.dice, n);
    DL_FOREACH(net.sockets, socket) {
        if (socket->server == server && socket->state == UP && !socket->closed && n-- == 0) {
            cut(socket);
        }
    }
}

void sched_net_stop(unsigned server, int64_t us)
{
    sched_trace("  server %u stops for %lld us", server, (long long)us);
    net.stopped_until[server] = sched_now() + us;
}

/* ---- Sockets ---- */

short sched_socket_events(const struct sched_socket *socket)
{
    short events = 0;

    if (socket->state == REFUSED || socket->broken) {
        return POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP;
    }
    if (socket->state != UP) {
        return socket->state == NEW ? POLLOUT | POLLHUP : 0;
    }
    events |= socket->in.len > socket->taken || socket->at_end ? POLLIN : 0;
    events |= socket->at_end ? POLLRDHUP : 0;
    events |= socket->under_way < net.config.window ? POLLOUT : 0;
    return events;
}

bool sched_net_is_writable(int fd)
{
    return (sched_socket_events(sched_socket_of(fd)) & POLLOUT) != 0;
}

bool sched_net_is_readable(int fd)
{
    return (sched_socket_events(sched_socket_of(fd)) & POLLIN) != 0;
}

void sched_socket_close(struct sched_socket *socket)
{
    socket->closed = true;
    if (socket->state == UP && !socket->broken) {
        post(socket, true, NULL, 0);
    }
}

int __wrap_socket(int domain, int type, int protocol)
{
    struct sched_socket *socket = calloc(1, sizeof(*socket));

    (void)domain;
    (void)type;
    (void)protocol;
    DL_APPEND(net.sockets, socket);
    return sched_socket_fd(socket);
}

static void connected(void *arg)
{
    struct sched_socket *socket = arg;

    if (!socket->closed) {
        socket->state = UP;
        socket->id = sim_server_connect(net.servers[socket->server]);
        sched_note("connected", socket->id);
    }
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    struct sched_socket *socket;
    struct sockaddr_in to;

    sched_point("connect");
    socket = sched_socket_of(fd);
    SCHED_REQUIRE(addr->sa_family == AF_INET && len >= sizeof(to));
    memcpy(&to, addr, sizeof(to));
    socket->server = (unsigned)ntohs(to.sin_port) - SCHED_PORT;
    SCHED_REQUIRE(socket->server < SCHED_SERVERS_MAX);
    if (sched_chance(&net.dice, 300)) { /* as over loopback */
        connected(socket);
        return 0;
    }
    socket->state = CONNECTING;
    sched_at(sched_now() + 2 * delay(), connected, socket);
    errno = EINPROGRESS;
    return -1;
}

int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
    (void)fd;
    (void)level;
    (void)option;
    (void)value;
    (void)len;
    return 0;
}

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
    (void)len;
    SCHED_REQUIRE(level == SOL_SOCKET && option == SO_ERROR);
    *(int *)value = sched_socket_of(fd)->state == REFUSED ? ECONNREFUSED : 0;
    return 0;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    struct sched_socket *socket;
    size_t room;

    (void)flags;
    sched_point("send");
    socket = sched_socket_of(fd);
    if (socket->broken || socket->state == REFUSED) {
        return fail(EPIPE);
    }
    if (socket->state != UP) {
        return fail(EAGAIN);
    }
    room = net.config.window - socket->under_way;
    if (room == 0) {
        return fail(EAGAIN);
    }
    len = len < room ? len : room;
    if (sched_chance(&net.dice, net.config.pieces)) {
        len = (size_t)sched_between(&net.dice, 1, (int64_t)len);
    }
    sched_note("sent", len);
    socket->under_way += len;
    post(socket, true, bytes, len);
    sched_point("sent");
    return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags)
{
    struct sched_socket *socket;
    size_t there;

    (void)flags;
    sched_point("recv");
    socket = sched_socket_of(fd);
    if (socket->broken) {
        return fail(ECONNRESET);
    }
    there = socket->in.len - socket->taken;
    if (there == 0) {
        return socket->at_end ? 0 : fail(EAGAIN);
    }
    len = len < there ? len : there;
    memcpy(bytes, socket->in.data + socket->taken, len);
    socket->taken += len;
    if (socket->taken == socket->in.len) {
        socket->taken = socket->in.len = 0;
    }
    sched_note("received", len);
    return (ssize_t)len;
}

ssize_t __wrap___recv_chk(int fd, void *bytes, size_t len, size_t size, int flags)
{
    (void)size;
    return __wrap_recv(fd, bytes, len, flags);
}

/* ---- Beginning and end ---- */

void sched_net_begin(struct sim_server *const servers[SCHED_SERVERS_MAX],
                     const struct sched_net_config *config)
{
    net.config = *config;
    net.dice.state = config->seed * 7;
    for (unsigned i = 0; i < SCHED_SERVERS_MAX; i++) {
        net.servers[i] = servers[i];
        sim_server_set_events(servers[i], &(struct sim_events){.on_frame = on_frame,
                                                               .on_close = on_close,
                                                               .payload = servers[i]});
    }
}

void sched_net_end(void)
{
    struct sched_socket *socket, *after;
    struct parcel *parcel, *next;

    DL_FOREACH_SAFE(net.parcels, parcel, next) {
        free(parcel);
    }
    DL_FOREACH_SAFE(net.sockets, socket, after) {
        sim_buf_fini(&socket->in);
        sim_buf_fini(&socket->at_server);
        free(socket);
    }
}
