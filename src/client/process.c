/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has once: the fork generation, thread numbers, and what ends with a thread. */
#include <utlist.h>

#include "base/clock.h"
#include "base/of.h"
#include "client/client.h"
#include "client/held.h"
#include "drive/group_op.h"
#include "drive/loop.h"
#include "multi/view.h"
#include "net/sock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static atomic_uint fork_generation;
static atomic_ullong last_thread;
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
RLOCK__GUARDED_BY(registry) static struct rlock_client *registry;

static atomic_uint closed_clients;

static _Thread_local struct {
    uint64_t number;
    bool is_noted;           /* its end is told to us */
    unsigned closed_clients; /* as of its last sweep */
    struct rlock__held held;
    struct rlock__table groups; /* their views */
} self;

/* ---- Fork ---- */

RLOCK__LOCKS(registry) RLOCK__LOCKS(sock) static void before_fork(void)
{
    rlock__registry_mutex_lock(&registry_mutex);
    rlock__sock_changing();
}

RLOCK__UNLOCKS(registry) RLOCK__UNLOCKS(sock) static void after_fork_in_parent(void)
{
    rlock__sock_changed();
    rlock__registry_mutex_unlock(&registry_mutex);
}

/* The child has no threads of ours and must not touch what they left: it only closes its copies of
 * the descriptors. */
RLOCK__ALONE RLOCK__UNLOCKS(registry) RLOCK__UNLOCKS(sock) static void after_fork_in_child(void)
{
    struct rlock_client *client;

    (void)atomic_fetch_add(&fork_generation, 1);
    DL_FOREACH2(registry, client, registered_next)
    {
        (void)close(client->threads.wake_fd);
        (void)close(client->threads.leader_fd);
        (void)rlock__sock_close(client->links_fd);
        (void)close(client->threads.cancel_fd);
        (void)close(client->threads.nodes_fd);
        rlock__wakeup_fds_close(&client->wakeup_fds);
        if (client->loop != NULL) {
            rlock__loop_close_fds(client->loop);
        }
    }
    registry = NULL;
    rlock__conns_abandon();
    rlock__sock_changed();
    rlock__registry_mutex_unlock(&registry_mutex);
}

unsigned rlock__fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

void rlock__process_register(struct rlock_client *client)
{
    rlock__registry_mutex_lock(&registry_mutex);
    DL_APPEND2(registry, client, registered_prev, registered_next);
    rlock__registry_mutex_unlock(&registry_mutex);
}

void rlock__process_unregister(struct rlock_client *client)
{
    rlock__registry_mutex_lock(&registry_mutex);
    DL_DELETE2(registry, client, registered_prev, registered_next);
    rlock__registry_mutex_unlock(&registry_mutex);
}

/* ---- Threads ---- */

static struct rlock__group_view *view_of(struct rlock__table_node *node)
{
    return RLOCK__OF(struct rlock__group_view, node, node);
}

/* The thread ends: gives up what it holds of locks made of locks. */
static void leave_groups(void)
{
    struct rlock__table_node *node;
    size_t from = 0;

    while ((node = rlock__table_take(&self.groups, &from)) != NULL) {
        struct rlock__group_view *view = view_of(node);

        if (!atomic_load(&view->over) &&
            rlock__client_of(view->spec->first->core)->fork_generation ==
                rlock__fork_generation()) {
            rlock__groups_thread_exit(view->spec, self.number);
        }
        (void)rlock__group_view_unref(view);
    }
}

/*
 * The thread ends: what it holds, nobody can unlock any more. Destructors of other keys may lock
 * after this one: then it is noted anew, and runs again in the next round.
 */
static void on_thread_exit(void *unused)
{
    RLOCK__WHOLE;
    struct rlock__view *view;
    size_t from = 0;

    (void)unused;
    self.is_noted = false;
    leave_groups();
    while ((view = rlock__held_take(&self.held, &from)) != NULL) {
        struct rlock_client *client = rlock__client_of(view->spec->core);

        if (atomic_load(&view->count) != 0 && client->fork_generation == rlock__fork_generation()) {
            rlock__enter(client);
            rlock__core_thread_exit(&client->core, view->spec, self.number, rlock__now_us());
            rlock__leave(client);
            rlock__drive(client);
        }
        (void)rlock__view_unref(view);
    }
}

static void init(void)
{
    (void)pthread_key_create(&exit_key, on_thread_exit);
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void rlock__process_init(void)
{
    (void)pthread_once(&once, init);
}

uint64_t rlock__thread_number(void)
{
    if (!self.is_noted) {
        if (pthread_setspecific(exit_key, &self) != 0) {
            return 0;
        }
        self.is_noted = true;
    }
    if (self.number == 0) {
        self.number = atomic_fetch_add(&last_thread, 1) + 1;
    }
    return self.number;
}

void rlock__thread_add(struct rlock__view *view)
{
    rlock__held_add(&self.held, view);
}

const struct rlock__view *rlock__thread_find(const struct rlock__spec *spec, unsigned hash)
{
    return rlock__held_find(&self.held, spec, hash);
}

struct rlock__group_view *rlock__thread_find_group(const struct rlock__group_spec *spec)
{
    struct rlock__table_node *node = rlock__table_first(&self.groups, spec->hash);

    while (node != NULL && view_of(node)->spec != spec &&
           !rlock__group_spec_equal(view_of(node)->spec, spec)) {
        node = rlock__table_next(node);
    }
    return node != NULL ? view_of(node) : NULL;
}

static void drop_group(struct rlock__group_view *view)
{
    rlock__table_remove(&self.groups, &view->node);
    (void)rlock__group_view_unref(view);
}

static bool drop_if_over(struct rlock__table_node *node)
{
    return atomic_load(&view_of(node)->over) && rlock__group_view_unref(view_of(node)) == NULL;
}

/* Those that another thread ended: by closing a client, or forcing a lock. */
static void sweep(void)
{
    rlock__table_sweep(&self.groups, drop_if_over);
    rlock__held_sweep(&self.held);
}

void rlock__thread_add_group(struct rlock__group_view *view)
{
    struct rlock__group_view *before = rlock__thread_find_group(view->spec);

    if (before == view) { /* a level more */
        (void)rlock__group_view_unref(view);
        return;
    }
    if (before != NULL) {
        drop_group(before);
    }
    rlock__table_add(&self.groups, &view->node, view->spec->hash);
}

void rlock__thread_forget_group(const struct rlock__group_spec *spec)
{
    struct rlock__group_view *view = rlock__thread_find_group(spec);

    if (view != NULL && atomic_load(&view->over)) {
        drop_group(view);
    }
}

void rlock__thread_forget(const struct rlock__spec *spec)
{
    unsigned closed = atomic_load_explicit(&closed_clients, memory_order_relaxed);

    if (self.closed_clients != closed) { /* what it had of them keeps their memory */
        self.closed_clients = closed;
        sweep();
    } else {
        rlock__held_forget(&self.held, spec);
    }
}

void rlock__thread_forget_closed(void)
{
    (void)atomic_fetch_add(&closed_clients, 1);
    sweep();
}
