/* SPDX-License-Identifier: Apache-2.0 */
#include "group/fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Fleets ---- */

static void *do_nothing(void *arg)
{
    return arg;
}

/* ThreadSanitizer starts a thread of its own with the first one. */
static void count_from_here(struct fleet *fleet)
{
    pthread_t thread;

    TEST_CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    fleet->fds = test_fds_open();
    fleet->threads = test_threads_running();
}

void fleet_open(struct fleet *fleet, const struct fleet_opts *opts)
{
    *fleet = (struct fleet){.n = opts->n};
    count_from_here(fleet);
    fleet->witness = witness_new(16);
    for (size_t i = 0; i < opts->n; i++) {
        fleet->servers[i] = test_server_start(&(struct test_server_opts){.aof = opts->aof});
        if (opts->proxied) {
            fleet->proxies[i] = proxy_start_unix(test_server_unix_url(fleet->servers[i]));
        }
    }
}

void fleet_close(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->n; i++) {
        assert_true(TEST_EVENTUALLY(test_server_clients(fleet->servers[i]) == 0, 2000));
        test_server_assert_clean(fleet->servers[i]);
        fleet->proxies[i] = proxy_stop(fleet->proxies[i]);
        fleet->servers[i] = test_server_stop(fleet->servers[i]);
    }
    assert_true(witness_is_clean(fleet->witness, stderr));
    fleet->witness = witness_free(fleet->witness);
    assert_true(TEST_EVENTUALLY(test_fds_open() <= fleet->fds, 2000));
    assert_true(TEST_EVENTUALLY(test_threads_running() <= fleet->threads, 2000));
}

void fleet_view_open(struct fleet *view, const struct fleet *fleet)
{
    *view = *fleet;
    for (size_t i = 0; i < view->n; i++) {
        view->proxies[i] = proxy_start_unix(test_server_unix_url(view->servers[i]));
    }
}

void fleet_view_close(struct fleet *view)
{
    for (size_t i = 0; i < view->n; i++) {
        view->proxies[i] = proxy_stop(view->proxies[i]);
    }
}

void fleet_reach_only(const struct fleet *fleet, unsigned int mask)
{
    for (size_t i = 0; i < fleet->n; i++) {
        bool is_reachable = (mask >> i & 1) != 0;

        proxy_refuse(fleet->proxies[i], !is_reachable);
        if (!is_reachable) {
            proxy_cut_all(fleet->proxies[i], PROXY_ANY);
        }
    }
}

size_t fleet_holding(const struct fleet *fleet, const char *key)
{
    size_t n = 0;

    for (size_t i = 0; i < fleet->n; i++) {
        n += test_server_int(fleet->servers[i], "EXISTS %s", key) == 1;
    }
    return n;
}

/* ---- Crews ---- */

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct crew *crew = payload;

    (void)pthread_mutex_lock(&crew->mutex);
    crew->losses++;
    crew->reason = loss->reason;
    test_text(crew->kind, sizeof(crew->kind), "%s", loss->kind);
    test_text(crew->name, sizeof(crew->name), "%s", loss->name);
    (void)pthread_mutex_unlock(&crew->mutex);
    if (loss->reason == RLOCK_LOST_EXPIRED) {
        (void)test_expired(crew->lease_us);
    }
}

static void on_log(enum rlock_level level, const char *text, void *payload)
{
    struct crew *crew = payload;
    size_t len;

    (void)level;
    (void)pthread_mutex_lock(&crew->mutex);
    len = strlen(crew->log);
    (void)snprintf(crew->log + len, sizeof(crew->log) - len, "%s\n", text);
    (void)pthread_mutex_unlock(&crew->mutex);
}

unsigned int crew_losses(struct crew *crew)
{
    unsigned int n;

    (void)pthread_mutex_lock(&crew->mutex);
    n = crew->losses;
    (void)pthread_mutex_unlock(&crew->mutex);
    return n;
}

bool crew_logged(struct crew *crew, const char *text)
{
    bool found;

    (void)pthread_mutex_lock(&crew->mutex);
    found = strstr(crew->log, text) != NULL;
    (void)pthread_mutex_unlock(&crew->mutex);
    return found;
}

struct rlock *crew_lock(const struct crew *crew, size_t server, const char *name)
{
    struct rlock *lock;

    assert_code(rlock_reentrant_new(crew->clients[server], name, NULL, &lock), 0);
    return lock;
}

void crew_open(struct crew *crew, struct fleet *fleet, struct rlock_client_opts opts,
               int64_t max_lease_ms)
{
    *crew = (struct crew){.fleet = fleet, .mutex = PTHREAD_MUTEX_INITIALIZER};
    crew->lease_us = (opts.renewed_lease_ms != 0 ? opts.renewed_lease_ms : 30000) * 1000;
    opts.on_lost = on_lost;
    opts.on_log = on_log;
    opts.payload = crew;
    for (size_t i = 0; i < fleet->n; i++) {
        bool proxied = fleet->proxies[i] != NULL;

        opts.url = proxied ? proxy_url(fleet->proxies[i]) : test_server_url(fleet->servers[i]);
        opts.ca_file = proxied ? NULL : test_server_cacert(fleet->servers[i]);
        assert_code(rlock_client_open(&opts, &crew->clients[i]), 0);
        crew->members[i] = crew_lock(crew, i, "a");
    }
    assert_code(rlock_redlock_new(crew->members, fleet->n,
                                  &RLOCK_OPTS(.max_lease_ms = max_lease_ms), &crew->lock),
                0);
}

void crew_close(struct crew *crew)
{
    crew->lock = rlock_free(crew->lock);
    for (size_t i = 0; i < crew->fleet->n; i++) {
        crew->members[i] = rlock_free(crew->members[i]);
    }
    for (size_t i = 0; i < crew->fleet->n; i++) {
        crew->clients[i] = rlock_client_close(crew->clients[i]);
    }
}

struct codes {
    const struct crew *crew;
    int *codes;
};

static void note_code(const struct rlock_member *member, void *payload)
{
    const struct codes *codes = payload;

    for (size_t i = 0; i < codes->crew->fleet->n; i++) {
        const char *url = codes->crew->fleet->proxies[i] != NULL
                              ? proxy_url(codes->crew->fleet->proxies[i])
                              : test_server_url(codes->crew->fleet->servers[i]);

        if (strstr(url, member->server) != NULL || strstr(member->server, url) != NULL) {
            codes->codes[i] = member->code;
        }
    }
}

void crew_codes(const struct crew *crew, int codes[static FLEET_MAX])
{
    for (size_t i = 0; i < FLEET_MAX; i++) {
        codes[i] = 1;
    }
    assert_code(rlock_members(crew->lock, note_code, &(struct codes){crew, codes}), 0);
}
