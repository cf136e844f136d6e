/* SPDX-License-Identifier: Apache-2.0 */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include "begun.h"
#include "client/lock.h"
#include "drive/client.h"
#include "system.h"

#define PIECE_US (20 * RLOCK__MS)
/* Bytes that may have to go out before a call's own: of each of four actors the texts of an acquire
 * (12 kB for several locks at once) and of a release (13 kB for a write lock) that the server does
 * not know. */
#define SENT_MAX 120000

struct stage stage;

/* ---- Clients and locks ---- */

/* What a callback may do, and what it may not: wait. */
static void call_from_callback(void)
{
    int code = rlock_lock(stage.callbacks_own);

    if (code != (stage.loops ? RLOCK_ENOTSUP : RLOCK_EDEADLOCK) && !stage.closing) {
        sched_fail("a callback waits: %s", rlock_code_name(code));
    }
    if (stage.begins) { /* completions would wait for it */
        return;
    }
    if (rlock_try_lock(stage.callbacks_own) == 0) {
        (void)rlock_unlock(stage.callbacks_own);
    }
}

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    (void)payload;
    sched_trace("lost: %s", rlock_reason_text(loss->reason));
    stage.n_told++;
    check_lost(loss);
    call_from_callback();
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    (void)payload;
    sched_trace("log %d: %s", line->level, line->text);
}

static void open_clients(void)
{
    char url[64];

    for (unsigned i = 0; i < stage.n_clients; i++) {
        const struct rlock_client_opts *opts =
            RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 1000,
                              .renewed_lease_ms = stage.scenario->lease_ms, .on_lost = on_lost,
                              .on_log_line = on_log, .log_level = RLOCK_LOG_INFO,
                              .flags = stage.loops ? RLOCK_CLIENT_USER_LOOP : 0);

        (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u",
                       SCHED_PORT + (stage.scenario->own_servers ? i : 0));
        if (rlock_client_open(opts, &stage.clients[i]) != 0) {
            sched_fail("open: %s", rlock_detail());
        }
        stage.clients[i]->corks_always = stage.corks;
        if (stage.loops) {
            loop_start(i, stage.clients[i]);
        }
    }
}

/* One at a time has it, as of the other kinds. An owner that wants a second one would wait for
 * itself. */
static int one_permit(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                      struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_permits_new(client, name, RLOCK_OPTS(.units = 1, .flags = RLOCK_LOCK_NO_REENTRY),
                             ret_lock);
}

static struct rlock_handle *new_lock(unsigned client, const char *name)
{
    static const struct {
        const char *kind;
        int (*make)(struct rlock_client *, const char *, const struct rlock_opts *,
                    struct rlock_handle **);
    } kinds[] = {
        {"reentrant", rlock_reentrant_new},
        {"fenced", rlock_fenced_new},
        {"nonreentrant", rlock_nonreentrant_new},
        {"spin", rlock_spin_new},
        {"fair", rlock_fair_new},
        {"setnx", rlock_setnx_new},
        {"permits", one_permit},
    };
    struct rlock_handle *lock = NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].kind, stage.kind) == 0) {
            (void)kinds[i].make(stage.clients[client], name, NULL, &lock);
        }
    }
    SCHED_REQUIRE(lock != NULL);
    return lock;
}

static void draw_kind(void)
{
    static const char *const kinds[] = {"reentrant", "reentrant", "permits", "setnx",
                                        "fenced",    "spin",      "fair",    "nonreentrant"};

    stage.kind = stage.scenario->own_servers ? "reentrant" : kinds[sched_roll(&stage.dice, 8)];
    if (strcmp(stage.kind, "permits") == 0 && (stage.scenario->moves & MOVE_MULTI) != 0) {
        stage.kind = "reentrant"; /* no group takes permits */
    }
}

static void make_group(void)
{
    struct rlock_handle *members[STAGE_CLIENTS_MAX];

    for (unsigned i = 0; i < stage.n_clients; i++) {
        members[i] = stage.locks[i][0];
    }
    if (stage.scenario->redlock) {
        (void)rlock_redlock_new(members, stage.n_clients, RLOCK_OPTS(.max_lease_ms = -1),
                                &stage.group);
    } else if ((stage.scenario->moves & MOVE_MULTI) != 0) {
        (void)rlock_multi_new(members, stage.n_clients, NULL, &stage.group);
    }
}

static void make_locks(void)
{
    static const char *const names[STAGE_NAMES_MAX] = {"a", "b"};

    draw_kind();
    (void)rlock_reentrant_new(stage.clients[0], "own", NULL, &stage.callbacks_own);
    for (unsigned i = 0; i < stage.n_clients; i++) {
        for (unsigned k = 0; k < stage.n_names; k++) {
            stage.locks[i][k] = new_lock(i, names[k]);
        }
    }
    make_group();
}

static void free_locks(void)
{
    stage.group = rlock_free(stage.group);
    stage.callbacks_own = rlock_free(stage.callbacks_own);
    for (unsigned i = 0; i < stage.n_clients; i++) {
        for (unsigned k = 0; k < stage.n_names; k++) {
            stage.locks[i][k] = rlock_free(stage.locks[i][k]);
        }
    }
}

/* The calls that are under way end now. */
static void end_calls(void)
{
    stage.ending = true;
    for (unsigned i = 0; i < stage.n_actors; i++) {
        stage.actors[i].deadline = rlock__min(stage.actors[i].deadline, sched_now());
    }
}

static void close_clients(void)
{
    for (unsigned i = 0; i < stage.n_clients; i++) {
        int64_t began = sched_now();
        struct rlock_client *client = stage.clients[i];

        if (stage.loops) {
            loop_stop(i);
        }
        sched_trace("closes");
        /* a multi-lock ends when its home is closed, not when another client of its members is */
        if (stage.group == NULL || client == stage.group->client) {
            end_calls();
        }
        stage.clients[i] = NULL;
        (void)rlock_client_close(client);
        sched_trace("closed");
        check_close(sched_now() - began);
    }
}

/* ---- The network ---- */

static void draw_net(struct sim_server *const servers[SCHED_SERVERS_MAX], uint64_t seed)
{
    static const int64_t delays[] = {20, 50, 100, 200, 500, 2000};
    struct sched_net_config config = {.seed = seed};

    config.delay_min_us = delays[sched_roll(&stage.dice, stage.scenario->narrow ? 2 : 6)];
    config.delay_max_us = config.delay_min_us * sched_between(&stage.dice, 1, 4);
    config.window = 65536;
    config.pieces = sched_chance(&stage.dice, 300) ? 200 : 0;
    if (stage.scenario->narrow ||
        (!stage.scenario->stalls && config.delay_max_us <= 200 && sched_chance(&stage.dice, 400))) {
        config.window = (size_t)(40 << sched_roll(&stage.dice, 5));
        stage.window_us = (SENT_MAX / (int64_t)config.window + 10) * config.delay_max_us;
    }
    sched_net_begin(servers, &config);
}

static void disturb(int64_t us)
{
    stage.disturbed_until = rlock__max(stage.disturbed_until, sched_now() + us);
}

static void on_cut(void *arg)
{
    (void)arg;
    disturb(0);
    if (sched_chance(&stage.dice, 500)) {
        sched_net_cut(0);
    } else {
        sched_net_cut_one(0);
    }
}

static void on_stop(void *arg)
{
    int64_t us = sched_roll(&stage.dice, sched_chance(&stage.dice, 500) ? 3000000 : 50000);

    (void)arg;
    disturb(us);
    sched_net_stop(0, us);
}

static void draw_faults(void)
{
    int64_t cuts = stage.scenario->cuts ? sched_between(&stage.dice, 0, 3) : 0;
    int64_t stops = stage.scenario->stops ? sched_between(&stage.dice, 0, 1) : 0;

    stage.disturbed = cuts + stops > 0;
    for (; cuts > 0; cuts--) {
        sched_at(sched_roll(&stage.dice, 400000), on_cut, NULL);
    }
    for (; stops > 0; stops--) {
        sched_at(sched_roll(&stage.dice, 400000), on_stop, NULL);
    }
}

/* ---- A play ---- */

static void start_actors(void)
{
    const struct scenario *scenario = stage.scenario;

    stage.n_actors =
        (unsigned)sched_between(&stage.dice, scenario->actors_min, scenario->actors_max);
    for (unsigned i = 0; i < stage.n_actors; i++) {
        struct actor *actor = &stage.actors[i];

        actor->number = i + 1;
        actor->dice.state = (uint64_t)sched_roll(&stage.dice, INT64_MAX);
        (void)pthread_create(&actor->thread, NULL, actor_main, actor);
    }
}

static void join_actors(void)
{
    for (unsigned i = 0; i < stage.n_actors; i++) {
        (void)pthread_join(stage.actors[i].thread, NULL);
    }
}

/* By dice of its own: the other runs stay as they are. */
static void draw_calls(uint64_t seed, bool loops)
{
    struct sched_dice dice = {.state = seed * 13};
    bool may_begin = !stage.scenario->stalls &&
                     (stage.scenario->moves & (unsigned)(MOVE_EXIT | MOVE_FORCE)) == 0;

    stage.begins = sched_chance(&dice, 250) || loops;
    stage.begins = stage.scenario->begins || (may_begin && stage.begins);
    stage.loops = (sched_chance(&dice, 500) || loops) && stage.begins;
}

/* Nobody calls for so long. It is in pieces: what is left undone is looked for after each. */
static void rest(int64_t us)
{
    for (; us > 0; us -= PIECE_US) {
        sched_sleep(rlock__min(us, PIECE_US));
    }
}

static void play(void)
{
    open_clients();
    make_locks();
    start_actors();
    if (stage.scenario->closes) {
        sched_sleep(sched_roll(&stage.dice, 50 * RLOCK__MS));
        stage.closing = true;
        close_clients();
        stage.closed = true;
    }
    join_actors();
    if (stage.scenario->rests) {
        rest(sched_roll(&stage.dice, 3 * RLOCK__SECOND));
    }
    if (!stage.scenario->closes) {
        stage.closing = true;
        close_clients();
    }
    check_rest();
    free_locks();
    if (sched_files_open() != 0) {
        sched_fail("%u descriptors are left open", sched_files_open());
    }
}

void stage_play(const struct scenario *scenario, uint64_t seed, bool loops,
                struct sim_server *const servers[SCHED_SERVERS_MAX])
{
    stage = (struct stage){.scenario = scenario,
                           .dice.state = seed * 11,
                           .corks = seed % 2 != 0,
                           .n_clients = (unsigned)scenario->clients,
                           .busy_since = RLOCK__NEVER,
                           .untold_since = RLOCK__NEVER};
    draw_calls(seed, loops);
    memcpy(stage.servers, servers, sizeof(stage.servers));
    for (unsigned i = 0; i < STAGE_CLIENTS_MAX; i++) {
        stage.late[i].since = RLOCK__NEVER;
    }
    stage.n_names = (unsigned)sched_between(&stage.dice, 1, scenario->names);
    sched_system_begin(seed);
    draw_net(servers, seed);
    draw_faults();
    play();
    sched_net_end();
}
