/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a client: wires the rooms together. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "client/client.h"
#include "drive/alarm.h"
#include "drive/group_op.h"
#include "drive/loop.h"
#include "net/sock.h"
#include "net/tls.h"
#include "router/router.h"

/* ---- References ---- */

RLOCK__ALONE static void unref(struct rlock__core *core)
{
    struct rlock_client *client = rlock__client_of(core);

    if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (struct rlock__node *node = client->nodes, *after; node != NULL; node = after) {
        after = atomic_load(&node->next);
        (void)rlock__node_free(node);
    }
    client->router = rlock__router_free(client->router);
    client->loop = rlock__loop_free(client->loop);
    client->tls = rlock__tls_free(client->tls);
    rlock__opts_fini(client);
    (void)rlock__sock_close(client->threads.wake_fd);
    (void)rlock__sock_close(client->threads.leader_fd);
    (void)rlock__sock_close(client->links_fd);
    (void)rlock__sock_close(client->threads.cancel_fd);
    (void)rlock__sock_close(client->threads.nodes_fd);
    rlock__wakeup_fds_close(&client->wakeup_fds);
    (void)pthread_cond_destroy(&client->news);
    (void)pthread_mutex_destroy(&client->mutex);
    (void)pthread_mutex_destroy(&client->groups_mutex);
    rlock__table_fini(&client->groups.members);
    free(client);
}

int rlock__client_check(struct rlock_client *client)
{
    if (client->fork_generation != rlock__fork_generation()) {
        return rlock__fail(RLOCK_EFORKED,
                           "the client was opened by the parent process; open one in this process");
    }
    if (atomic_load(&client->closed)) {
        return rlock__fail(RLOCK_ECLOSED, "the client is closed");
    }
    return 0;
}

int rlock__client_check_wait(const struct rlock_client *client)
{
    return client->loop == NULL ? 0
                                : rlock__fail(RLOCK_ENOTSUP, "the program's event loop runs the "
                                                             "client: no function may wait");
}

/* ---- Parts ---- */

static struct rlock__server *route_alone(struct rlock__core *core, const struct rlock__spec *spec)
{
    (void)spec; /* there is one server */
    return core->servers;
}

RLOCK__ALONE static void init_core(struct rlock_client *client)
{
    struct rlock__core *core = &client->core;
    const struct rlock_client_opts *opts = &client->opts;

    core->opts.op_timeout_us = opts->op_timeout_ms * RLOCK__MS;
    core->opts.renewed_lease_us = opts->renewed_lease_ms * RLOCK__MS;
    core->opts.margin_us = opts->safety_margin_ms * RLOCK__MS;
    core->opts.log_level = opts->on_log_line != NULL ? opts->log_level : 0;
    core->opts.acks = opts->acks;
    core->opts.acks_on_disk = (opts->flags & RLOCK_CLIENT_ACKS_ON_DISK) != 0;
    core->opts.announces_both = (opts->flags & RLOCK_CLIENT_ANNOUNCE_BOTH) != 0;
    core->opts.no_pass = (opts->flags & RLOCK_CLIENT_NO_PASS) != 0;
    core->opts.queues = true;
    core->opts.address = client->address;
    core->driver.unref = unref;
    core->driver.route = client->router != NULL ? core->driver.route : route_alone;
    core->driver.on_demoted = rlock__router_demoted;
    rlock__core_init(core);
}

RLOCK__ALONE static int init_net(struct rlock_client *client)
{
    const struct rlock__uri *uri = &client->uri;
    const struct rlock_client_opts *opts = &client->opts;
    int code = 0;

    if (uri->tls || (uri->n_places != 0 && uri->places[0].tls)) {
        code = rlock__tls_new(opts->ca_file, opts->cert_file, opts->key_file, &client->tls);
    }
    if (code != 0) {
        return rlock__fail(code, "server %s: %s", client->address, rlock_detail());
    }
    client->conn_opts = (struct rlock__conn_opts){
        .uri = uri,
        .user = opts->user,
        .password = opts->password,
        .on_login = opts->on_login,
        .payload = opts->payload,
        .tls = uri->tls ? client->tls : NULL,
        .client_name = client->name,
        .connect_timeout_us = opts->connect_timeout_ms * RLOCK__MS,
        .want_info = true,
        .want_role = !uri->cluster,
    };
    return 0;
}

/* The nodes that are there at first. Behind Sentinel none is known yet: the first, which is never
 * used, has the calls that wait until one is. */
static int init_nodes(struct rlock_client *client)
{
    const struct rlock__uri *uri = &client->uri;
    bool good = true;

    if (!uri->cluster) {
        good = rlock__node_at(client, uri->primary != NULL ? uri->places : uri, client->address);
    }
    for (size_t i = 0; uri->cluster && good && i < uri->n_places; i++) {
        good = rlock__node_at(client, &uri->places[i], NULL);
    }
    return good ? 0 : rlock__fail(RLOCK_ENOMEM, "no memory");
}

/* What a client has besides whose servers change, or whose replicas acknowledge. */
static int init_router(struct rlock_client *client)
{
    const struct rlock_client_opts *opts = &client->opts;
    const struct rlock__uri *uri = &client->uri;

    if (uri->n_places != 0) {
        client->router = uri->cluster ? rlock__cluster_new(client) : rlock__sentinels_new(client);
    }
    if (uri->n_places != 0 && client->router == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    if (opts->acks > 0 || (opts->flags & RLOCK_CLIENT_ACKS_ON_DISK) != 0 ||
        (client->router != NULL && opts->acks != RLOCK_ACKS_OFF)) {
        client->n_links = RLOCK__NODE_LINKS;
    }
    if (client->router != NULL || client->n_links > 1 ||
        (opts->flags & RLOCK_CLIENT_USER_LOOP) != 0) {
        client->links_fd = epoll_create1(EPOLL_CLOEXEC);
        return client->links_fd >= 0 ? 0 : rlock__fail(RLOCK_ERESOURCE, "no file descriptor");
    }
    return 0;
}

static int init_fds(struct rlock_client *client)
{
    client->threads.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->threads.leader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    client->threads.cancel_fd = epoll_create1(EPOLL_CLOEXEC);
    client->threads.nodes_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->threads.wake_fd < 0 || client->threads.leader_fd < 0 ||
        client->threads.cancel_fd < 0 || client->threads.nodes_fd < 0) {
        return rlock__fail(RLOCK_ERESOURCE, "no file descriptors: %s", strerror(errno));
    }
    return 0;
}

/* A thread of ours, which no signal of the program reaches. */
static int start_thread(pthread_t *thread, void *(*main)(void *), struct rlock_client *client)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, main, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 ? 0 : rlock__fail(RLOCK_ERESOURCE, "no thread: %s", strerror(error));
}

/* Its threads, or what stands in for them. */
static int start(struct rlock_client *client)
{
    int code;

    if ((client->opts.flags & RLOCK_CLIENT_USER_LOOP) != 0) {
        code = rlock__loop_new(client);
        if (code == 0) {
            rlock__loop_begin(client);
        }
        return code;
    }
    code = start_thread(&client->threads.dispatcher, rlock__dispatcher_main, client);

    client->threads.has_dispatcher =
        code == 0; /* also without callbacks: it tells groups of losses */
    if (code == 0) {
        code = start_thread(&client->threads.service, rlock__service_main, client);
        client->threads.has_service = code == 0;
    }
    return code;
}

static void stop_threads(struct rlock_client *client)
{
    rlock__enter(client);
    client->stop_service = true;
    rlock__leave(client);
    rlock__wake_service(client);
    if (client->threads.has_service) {
        (void)pthread_join(client->threads.service, NULL);
    }
    rlock__enter(client);
    client->stop_dispatcher = true;
    (void)pthread_cond_broadcast(&client->news);
    rlock__core_mutex_unlock(&client->mutex);
    if (client->threads.has_dispatcher) {
        (void)pthread_join(client->threads.dispatcher, NULL);
    }
}

/* ---- Open and close ---- */

static int init(struct rlock_client *client, const struct rlock_client_opts *opts)
{
    int code = rlock__opts_take(client, opts);

    code = code == 0 ? rlock__identity_init(client) : code;
    code = code == 0 ? init_net(client) : code;
    code = code == 0 ? init_fds(client) : code;
    code = code == 0 ? init_router(client) : code;
    if (code == 0) {
        init_core(client);
        code = init_nodes(client);
    }
    if (code == 0) {
        rlock__process_register(client);
        code = start(client);
    }
    if (code != 0 && client->threads.has_dispatcher) {
        stop_threads(client);
    }
    return code;
}

RLOCK__ALONE static struct rlock_client *alloc(void)
{
    struct rlock_client *client = calloc(1, sizeof(*client));
    pthread_condattr_t attr;

    if (client == NULL) {
        return NULL;
    }
    client->threads.wake_fd = client->threads.leader_fd = client->links_fd =
        client->threads.cancel_fd = client->threads.nodes_fd = -1;
    rlock__wakeup_fds_init(&client->wakeup_fds);
    rlock__watch_init(&client->watch);
    client->n_links = 1;
    atomic_init(&client->refs, 1);
    client->uri = RLOCK__URI_NULL;
    client->fork_generation = rlock__fork_generation();
    (void)pthread_mutex_init(&client->mutex, NULL);
    (void)pthread_mutex_init(&client->groups_mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&client->news, &attr);
    (void)pthread_condattr_destroy(&attr);
    return client;
}

int rlock_client_open(const struct rlock_client_opts *opts, struct rlock_client **ret_client)
{
    RLOCK__WHOLE;
    struct rlock_client *client;
    int code;

    rlock__detail_clear();
    if (ret_client == NULL) {
        return rlock__fail(RLOCK_EINVAL, "ret_client is NULL");
    }
    rlock__process_init();
    client = alloc();
    if (client == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    code = init(client, opts);
    if (code != 0) {
        if (client->registered_prev != NULL) {
            rlock__process_unregister(client);
        }
        rlock__core_fini(&client->core);
        unref(&client->core);
        return code;
    }
    *ret_client = client;
    return 0;
}

/* Waits until every release is answered, or the deadline is there; says what stays. */
static void wait_settled(struct rlock_client *client, int64_t deadline)
{
    struct timespec until;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* pthread_cond_timedwait() has no BOOTTIME */
    ns = until.tv_nsec + rlock__max(deadline - rlock__now_us(), 0) * 1000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    rlock__enter(client);
    while (!rlock__core_is_settled(&client->core)) {
        if (pthread_cond_timedwait(&client->news, &client->mutex, &until) == ETIMEDOUT) {
            rlock__core_note_rest(&client->core, rlock__now_us());
            break;
        }
    }
    rlock__leave(client);
}

static void close_links(struct rlock_client *client)
{
    struct rlock__node *node;
    struct rlock__io *io;

    rlock__take_link(client);
    RLOCK__EACH_IO(client, io) {
        io->gen = 0;
        atomic_store(&io->fd, -1);
        rlock__conn_close(io->conn);
    }
    RLOCK__EACH_NODE(client, node) {
        rlock__conn_close(node->sub.conn);
    }
    rlock__give_link(client);
}

struct rlock_client *rlock_client_close(struct rlock_client *client)
{
    RLOCK__WHOLE;
    int64_t deadline;

    rlock__detail_clear();
    if (client == NULL || rlock__client_check(client) != 0) {
        return NULL;
    }
    if (rlock__is_dispatcher()) {
        (void)rlock__fail(RLOCK_EDEADLOCK, "a client cannot be closed in a callback");
        return client;
    }
    deadline = rlock__now_us() + client->core.opts.op_timeout_us;
    atomic_store(&client->closed, true);
    rlock__enter(client);
    rlock__core_close(&client->core, rlock__now_us());
    rlock__alarms_closed(client);
    rlock__leave(client);
    /* multi-locks that were begun end now, and not behind the releases */
    (void)rlock__background_close(client);
    rlock__drive(client);
    if (client->loop != NULL) {
        rlock__loop_end(client, deadline);
    } else {
        rlock__wake_service(client); /* to read the answers */
        wait_settled(client, deadline);
        stop_threads(client);
    }
    rlock__groups_closed(client);
    rlock__enter(client);
    rlock__core_fini(&client->core);
    rlock__leave(client);
    close_links(client);
    rlock__router_close(client->router);
    rlock__process_unregister(client); /* until then a child of fork has sockets to close */
    rlock__thread_forget_closed();
    unref(&client->core);
    return NULL;
}

const char *rlock_client_uuid(const struct rlock_client *client)
{
    return client != NULL ? client->core.opts.uuid : "";
}
