/* SPDX-License-Identifier: Apache-2.0 */
/* One worker process: its threads take orders, each under a multi-lock of three. */
#include "orders.h"

#include <rlock/rlock.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kind {
    const char *name;
    int (*make)(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                struct rlock_handle **ret_lock);
} kinds[] = {
    {"reentrant", rlock_reentrant_new}, {"non-reentrant", rlock_nonreentrant_new},
    {"fair", rlock_fair_new},           {"write", rlock_write_new},
    {"fenced", rlock_fenced_new},       {"spin", rlock_spin_new},
};

static const char *const things[THINGS] = {"order", "product", "shelf"};
static struct rlock_handle *locks[THINGS][MOST];

/* ---- An order ------------------------------------------------------------------------------ */

static int release(struct rlock_handle *all)
{
    const int code = rlock_unlock(all);

    /* a short lease may end on a busy machine */
    return code == RLOCK_ELOST && settings.killing ? 0 : code;
}

/* Takes all three or none, whatever their order. */
static int take(struct rlock_handle *all, struct slot *slot)
{
    const int64_t start_us = now_us();
    int code;

    atomic_store(&slot->waits, true);
    code = rlock_lock(all);
    atomic_store(&slot->waits, false);
    if (now_us() - start_us > atomic_load(&slot->longest_us)) {
        atomic_store(&slot->longest_us, now_us() - start_us);
    }
    return code;
}

/* Reads, thinks, writes back: right only for whoever holds all three. */
static void sell(struct slot *slot, int64_t units, const struct rlock_handle *all)
{
    int64_t values[THINGS];

    for (int i = 0; i < THINGS; i++) {
        values[i] = slot->counters[i]->value;
        slot->changes[i] = i == 0 ? units : -units + (values[i] < units ? DELIVERY : 0);
    }
    nap_us(20);
    if (shop->locked && !rlock_is_valid(all)) { /* costs nothing, so just before the write */
        return;
    }
    atomic_store(&slot->writes, true);
    for (int i = 0; i < THINGS; i++) {
        slot->counters[i]->value = values[i] + slot->changes[i];
        atomic_fetch_add(&slot->counters[i]->happened, slot->changes[i]);
    }
    atomic_store(&slot->writes, false);
    atomic_fetch_add(&slot->orders, 1);
    atomic_fetch_add(&slot->units, units);
}

static int place_order(struct slot *slot, unsigned *seed)
{
    struct rlock_handle *wanted[THINGS], *all = NULL;
    int code = 0;

    for (int i = 0; i < THINGS; i++) {
        const int which = rand_r(seed) % settings.things[i];

        wanted[i] = locks[i][which];
        slot->counters[i] = &shop->counters[i][which];
    }
    if (shop->locked) {
        code = rlock_multi_new(wanted, THINGS, NULL, &all);
        code = code == 0 ? take(all, slot) : code;
    }
    if (code == 0) {
        sell(slot, 1 + rand_r(seed) % 3, all);
        code = shop->locked ? release(all) : 0;
    }
    (void)rlock_free(all);
    return code;
}

/* ---- A worker process ---------------------------------------------------------------------- */

/* A thread's life. Returns NULL, or something else after a failure. */
static void *work(void *payload)
{
    struct slot *slot = payload;
    unsigned seed = (unsigned)(now_us() + (slot - &shop->slots[0][0]) * 7919);
    int code = 0;

    while (code == 0 && atomic_load(&shop->open)) {
        code = place_order(slot, &seed);
    }
    if (code != 0) {
        (void)fprintf(stderr, "orders: %s: %s\n", rlock_code_name(code), rlock_detail());
    }
    return code == 0 ? NULL : slot;
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

bool kind_exists(const char *kind)
{
    return find_kind(kind) != NULL;
}

static int open_locks(struct rlock_client **ret_client)
{
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = server_url(), .renewed_lease_ms = settings.killing ? LEASE_MS : 0);
    const struct kind *kind = find_kind(settings.kind);
    int code = kind != NULL ? rlock_client_open(opts, ret_client) : RLOCK_EINVAL;

    for (int i = 0; i < THINGS * MOST && code == 0; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%s:%d", things[i / MOST], i % MOST);
        code = kind->make(*ret_client, name, NULL, &locks[i / MOST][i % MOST]);
    }
    return code;
}

static void close_locks(struct rlock_client *client)
{
    for (int i = 0; i < THINGS * MOST; i++) {
        (void)rlock_free(locks[i / MOST][i % MOST]);
    }
    (void)rlock_client_close(client);
}

_Noreturn void be_worker(int process)
{
    struct rlock_client *client = NULL;
    pthread_t ids[MOST];
    bool trouble = shop->locked && open_locks(&client) != 0;
    int n = 0;

    (void)signal(SIGINT, SIG_IGN); /* ^C reaches us all: the parent closes the shop */
    while (!trouble && n < settings.threads) {
        trouble = pthread_create(&ids[n], NULL, work, &shop->slots[process][n]) != 0;
        n += trouble ? 0 : 1;
    }
    while (n-- > 0) {
        void *failure;

        (void)pthread_join(ids[n], &failure);
        trouble = trouble || failure != NULL;
    }
    close_locks(client);
    _exit(trouble ? EXIT_FAILURE : EXIT_SUCCESS);
}
