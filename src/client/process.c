/* SPDX-License-Identifier: Apache-2.0 */
/* What the process has once: the fork generation, thread numbers, and what ends with a thread. */
#include <stdlib.h>
#include <utlist.h>

#include "base/clock.h"
#include "client/ask.h"
#include "client/composite.h"
#include "net/sock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static atomic_uint fork_generation;
static atomic_ullong last_thread;
static pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects both */
static struct rlock_client *registry;
static struct rlock__asker *askers;

static _Thread_local struct {
    uint64_t number;
    struct rlock__claim *claims;
} self;

/* ---- Fork ---- */

static void before_fork(void)
{
    rlock__composites_fork(RLOCK__BEFORE_FORK);
    (void)pthread_mutex_lock(&registry_mutex);
    rlock__sock_changing();
}

static void after_fork_in_parent(void)
{
    rlock__sock_changed();
    (void)pthread_mutex_unlock(&registry_mutex);
    rlock__composites_fork(RLOCK__IN_PARENT);
}

/* The child has no threads of ours and must not touch what they left: it only drops its copies of
 * the sockets. */
static void after_fork_in_child(void)
{
    struct rlock_client *client;
    struct rlock__asker *asker;

    (void)atomic_fetch_add(&fork_generation, 1);
    DL_FOREACH2(registry, client, registered_next)
    {
        rlock__conn_abandon(client->link.conn);
        rlock__conn_abandon(client->sub.conn);
        (void)close(client->wake_fd);
        (void)close(client->keeper_fd);
        (void)close(client->cancel_fd);
    }
    registry = NULL;
    DL_FOREACH(askers, asker) {
        rlock__conn_abandon(asker->conn);
    }
    askers = NULL;
    rlock__sock_changed();
    (void)pthread_mutex_unlock(&registry_mutex);
    rlock__composites_fork(RLOCK__IN_CHILD);
}

unsigned rlock__fork_generation(void)
{
    return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

void rlock__process_register(struct rlock_client *client)
{
    (void)pthread_mutex_lock(&registry_mutex);
    DL_APPEND2(registry, client, registered_prev, registered_next);
    (void)pthread_mutex_unlock(&registry_mutex);
}

void rlock__process_unregister(struct rlock_client *client)
{
    (void)pthread_mutex_lock(&registry_mutex);
    DL_DELETE2(registry, client, registered_prev, registered_next);
    (void)pthread_mutex_unlock(&registry_mutex);
}

void rlock__process_add_asker(struct rlock__asker *asker)
{
    (void)pthread_mutex_lock(&registry_mutex);
    DL_APPEND(askers, asker);
    (void)pthread_mutex_unlock(&registry_mutex);
}

void rlock__process_remove_asker(struct rlock__asker *asker)
{
    (void)pthread_mutex_lock(&registry_mutex);
    DL_DELETE(askers, asker);
    (void)pthread_mutex_unlock(&registry_mutex);
}

/* ---- Threads ---- */

/* The thread ends: what it holds, nobody can unlock any more. */
static void on_thread_exit(void *unused)
{
    struct rlock__claim *claim, *after;

    (void)unused;
    rlock__composites_thread_exit(self.number);
    LL_FOREACH_SAFE(self.claims, claim, after) {
        struct rlock_client *client = rlock__client_of(claim->spec->core);

        if (atomic_load(&claim->count) != 0 &&
            client->fork_generation == rlock__fork_generation()) {
            rlock__enter(client);
            rlock__core_thread_exit(&client->core, self.number, rlock__now_us());
            rlock__leave(client);
            rlock__drive(client);
        }
        (void)rlock__claim_unref(claim);
    }
    self.claims = NULL;
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
    if (self.number == 0) {
        if (pthread_setspecific(exit_key, &self) != 0) {
            return 0;
        }
        self.number = atomic_fetch_add(&last_thread, 1) + 1;
    }
    return self.number;
}

/* Those that are over, and the one that comes again, leave the list. */
static void prune(const struct rlock__claim *claim)
{
    struct rlock__claim *old, *after;

    LL_FOREACH_SAFE(self.claims, old, after) {
        if (old == claim || atomic_load_explicit(&old->count, memory_order_relaxed) == 0) {
            LL_DELETE(self.claims, old);
            (void)rlock__claim_unref(old);
        }
    }
}

void rlock__thread_prune(void)
{
    prune(NULL);
}

void rlock__thread_add(struct rlock__claim *claim)
{
    prune(claim);
    LL_PREPEND(self.claims, claim);
}

const struct rlock__claim *rlock__thread_find(const struct rlock__spec *spec)
{
    const struct rlock__claim *claim;

    LL_FOREACH(self.claims, claim) {
        if (rlock__spec_equal(claim->spec, spec) &&
            atomic_load_explicit(&claim->count, memory_order_relaxed) != 0) {
            return claim;
        }
    }
    return NULL;
}
