/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations of several owners in several clients on a lock with one hash, against the
 * reference: each result, each hold, each loss, and what is on the server, at its time.
 */
#include "plain/model.h"
#include "plain/stage.h"
#include "support/run.h"

#include "base/random.h"
#include "support/test.h"

#define OPERATIONS 100000
#define LEASE (3 * RLOCK__SECOND) /* of holds that are renewed */
#define TOKEN "redisson_lock_token:{" STAGE_KEY "}"

_Static_assert((int)MODEL_OWNERS == (int)STAGE_CLIENTS * (int)STAGE_OWNERS, "each has a model");

struct player {
    struct rlock__call call;
    bool calling;
    int64_t began;
};

struct trial {
    struct stage stage;
    struct model model;
    struct player players[MODEL_OWNERS];
    uint64_t random;
    char last[160]; /* the latest operation, for texts */
    /* the latest look at the lock, and what is done with it */
    struct rlock_info seen;
    bool opened, forcing;
    char proof[MODEL_NAME]; /* the hold that the reported end of another one presumes; "" none */
    uint64_t grants, nested, waited, renewals, proofs, losses[16];
};

#define same(trial, what, found, expected)                                                         \
    do {                                                                                           \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                  \
        if (found_ != expected_) {                                                                 \
            fail_msg("at %lld, after %s: %s is %lld, not %lld", (long long)(trial)->model.now,     \
                     (trial)->last, what, found_, expected_);                                      \
        }                                                                                          \
    } while (0)

static int64_t dice(struct trial *t, int64_t n)
{
    return rlock__random_below(&t->random, n);
}

static void note(struct trial *t, const char *what, size_t owner, int64_t lease, int64_t wait)
{
    (void)snprintf(t->last, sizeof(t->last), "%s by %zu, lease %lld, wait %lld, at %lld", what,
                   owner, (long long)lease, (long long)wait, (long long)t->model.now);
}

static struct rlock__owner identity(size_t owner)
{
    uint64_t id = owner % STAGE_OWNERS + 1;

    return (struct rlock__owner){.id = id, .given = id == STAGE_OWNERS};
}

static struct stage_client *client_of(struct trial *t, size_t owner)
{
    return &t->stage.clients[owner / STAGE_OWNERS];
}

static void name_of(struct trial *t, size_t owner, uint64_t number, char out[static MODEL_NAME])
{
    (void)snprintf(out, MODEL_NAME, "%s:%llu", client_of(t, owner)->core.opts.uuid,
                   (unsigned long long)number);
}

/* ---- What must be the same ---- */

static bool is_text(struct sim_view view, const char *text)
{
    return view.len == strlen(text) && memcmp(view.data, text, view.len) == 0;
}

static int64_t number_at(struct sim_view view)
{
    return rlock__bytes_number(rlock__bytes(view.data, view.len), -1);
}

static void compare_server(struct trial *t)
{
    const struct model_server *expected = &t->model.server;
    struct sim_key_info lock, token;
    bool found = sim_server_find_key(t->stage.server, SIM_VIEW(STAGE_KEY), &lock);

    same(t, "whether it is locked", found, !model_is_free(&t->model));
    if (found) {
        same(t, "how many hold it", lock.n_items, 1);
        assert_true(is_text(sim_key_item(&lock, 0).name, expected->holder));
        same(t, "the count on the server", number_at(sim_key_item(&lock, 0).value),
             expected->count);
        same(t, "when its lease ends", lock.pttl_ms + t->model.now / RLOCK__MS, expected->ends_ms);
    }
    found = sim_server_find_key(t->stage.server, SIM_VIEW(TOKEN), &token);
    same(t, "whether there is a token", found, expected->token != 0);
    if (found) {
        same(t, "the token", number_at(sim_key_item(&token, 0).value), expected->token);
    }
}

/* A renewal shows in what its owner believes. */
static void compare_hold(struct trial *t, size_t owner)
{
    const struct model_hold *hold = &t->model.holds[owner];
    struct stage_client *client = client_of(t, owner);
    int64_t valid =
        rlock__core_valid_until(&client->core, client->spec, identity(owner), &(uint32_t){0});

    if (hold->standing != MODEL_HELD) {
        same(t, "the validity of what is not held", valid, 0);
        return;
    }
    if (valid != hold->valid_until && hold->renewed_from != 0 && model_has(&t->model, owner)) {
        model_renew(&t->model, owner);
        t->renewals++;
    }
    same(t, "until when it is valid", valid, hold->valid_until);
    assert_true(t->model.now < hold->valid_until);
    assert_true(model_has(&t->model, owner) || hold->taken_away);
    if (hold->renewed_from != 0 && t->model.now > model_renewed_by(&t->model, owner)) {
        fail_msg("at %lld, after %s: %s was not renewed, nor is it lost", (long long)t->model.now,
                 t->last, hold->name);
    }
}

static void compare(void *payload)
{
    struct trial *t = payload;
    bool waits = false;

    same(t, "whether the grant that proves a loss is missing", t->proof[0] != '\0', false);
    for (size_t i = 0; i < MODEL_OWNERS; i++) {
        compare_hold(t, i);
        waits |= t->players[i].calling;
    }
    compare_server(t);
    if (waits && model_is_free(&t->model) && t->model.now >= model_taken_by(&t->model)) {
        fail_msg("at %lld, after %s: it is free since %lld, and nobody of those who wait takes it",
                 (long long)t->model.now, t->last, (long long)t->model.server.free_since);
    }
}

/* ---- What is told ---- */

static void on_time(void *payload)
{
    struct trial *t = payload;

    model_wait(&t->model, t->stage.now);
}

/* A grant to another owner of the client proves the end of a hold that somebody deleted. The loss
 * is reported first. By then the server has the other hold, and its grant follows in the same
 * instant. */
static bool is_proven_by_a_grant(struct trial *t, size_t owner, const struct rlock__loss *loss)
{
    const char *uuid = client_of(t, owner)->core.opts.uuid;
    struct sim_key_info lock;
    struct sim_view holder;

    if (loss->reason != RLOCK_LOST_TAKEN ||
        !sim_server_find_key(t->stage.server, SIM_VIEW(STAGE_KEY), &lock)) {
        return false;
    }
    holder = sim_key_item(&lock, 0).name;
    if (holder.len <= RLOCK__UUID_LEN || memcmp(holder.data, uuid, RLOCK__UUID_LEN) != 0 ||
        is_text(holder, t->model.holds[owner].name)) {
        return false;
    }
    (void)snprintf(t->proof, sizeof(t->proof), "%.*s", (int)holder.len, holder.data);
    return true;
}

static void note_grant(struct trial *t, const char *name)
{
    if (strcmp(name, t->proof) == 0) {
        t->proof[0] = '\0';
        t->proofs++;
    }
}

static void on_lost(void *payload, size_t client, const struct rlock__loss *loss)
{
    struct trial *t = payload;
    bool given = loss->given;
    size_t owner = client * STAGE_OWNERS + (size_t)loss->owner_id - 1;
    const struct model_hold *hold = &t->model.holds[owner];
    enum rlock_reason reason = model_reason(&t->model, owner);

    if (reason == RLOCK_LOST_DELETED && is_proven_by_a_grant(t, owner, loss)) {
        reason = RLOCK_LOST_TAKEN;
    }
    same(t, "whose hold is lost", given, identity(owner).given);
    same(t, "the standing of what is lost", hold->standing, MODEL_HELD);
    same(t, "why it is lost", loss->reason, t->forcing ? RLOCK_LOST_FORCED : reason);
    same(t, "how many levels are lost", loss->own, hold->count);
    model_lose(&t->model, owner);
    t->losses[loss->reason]++;
}

/* Those of a hold are those of its owner's model. */
static void compare_grant(struct trial *t, size_t owner, const struct rlock__call *call)
{
    const struct model_hold *hold = &t->model.holds[owner];

    same(t, "the count", call->count, hold->count);
    same(t, "the token of the hold", call->acquire.token, hold->token);
    same(t, "the lease", call->acquire.lease_granted_us,
         call->acquire.lease_us != 0 ? call->acquire.lease_us : LEASE);
    same(t, "until when the call says it is valid", call->acquire.valid_until, hold->valid_until);
    t->grants += call->count == 1;
    t->nested += call->count > 1;
    t->waited += t->model.now != t->players[owner].began;
}

static void on_taken(struct trial *t, size_t owner, const struct rlock__call *call)
{
    int64_t now = t->model.now, began = t->players[owner].began;
    char name[MODEL_NAME];
    bool fresh;

    switch (call->code) {
    case RLOCK_ETIMEDOUT:
        assert_true(call->acquire.wait_us > 0);
        same(t, "when it gives up", now, began + call->acquire.wait_us);
        break;
    case RLOCK_ECANCELED:
        assert_ptr_equal(call->cancel, &t->random);
        break;
    default:
        name_of(t, owner, call->number, name);
        fresh = model_find(&t->model, name) == MODEL_OWNERS;
        same(t, "the code", call->code, model_take(&t->model, owner, name, call->acquire.lease_us));
        if (call->code == 0) {
            assert_true(fresh || call->count > 1);
            note_grant(t, name);
            compare_grant(t, owner, call);
        } else if (call->code == RLOCK_EBUSY) {
            same(t, "the wait of one that is told that it is busy", call->acquire.wait_us, 0);
        }
    }
}

static void on_done(void *payload, struct rlock__call *call)
{
    struct trial *t = payload;
    size_t owner = (size_t)(call->payload != NULL ? (struct player *)call->payload - t->players
                                                  : MODEL_OWNERS);

    if (owner == MODEL_OWNERS) {
        same(t, "the code", call->code, 0);
        return;
    }
    t->players[owner].calling = false;
    if (call->kind == RLOCK__ACQUIRE) {
        on_taken(t, owner, call);
    } else {
        same(t, "the code", call->code, model_unlock(&t->model, owner));
        if (call->code != RLOCK_ENOTOWNER) {
            same(t, "the count that is left", call->count, t->model.holds[owner].count);
        }
    }
    (void)rlock__view_unref(call->view);
    call->view = NULL;
}

/* ---- Operations ---- */

static void begin(struct trial *t, size_t owner, struct rlock__call call)
{
    struct player *player = &t->players[owner];

    player->call = call;
    player->call.owner = identity(owner);
    player->call.payload = player;
    player->calling = true;
    player->began = t->model.now;
    stage_begin(&t->stage, owner / STAGE_OWNERS, &player->call);
}

/* Who comes to a lock that others of its client wait for stands behind them. */
static bool is_waited_for(const struct trial *t, size_t client)
{
    bool waits = false;

    for (size_t i = 0; i < STAGE_OWNERS; i++) {
        waits |= t->players[client * STAGE_OWNERS + i].calling;
    }
    return waits;
}

static void take(struct trial *t, size_t owner)
{
    int64_t lease = dice(t, 2) == 0 ? 0 : (20 + dice(t, dice(t, 4) == 0 ? 15000 : 500)) * RLOCK__MS;
    int64_t how = dice(t, 10);
    int64_t wait = how < 5   ? 0
                   : how < 9 ? (1 + dice(t, dice(t, 4) == 0 ? 9000 : 300)) * RLOCK__MS
                             : -1;
    bool none = t->model.holds[owner].standing == MODEL_NONE;
    bool queues = !model_is_free(&t->model) || t->model.now < model_paused_until(&t->model) ||
                  is_waited_for(t, owner / STAGE_OWNERS);

    note(t, "a lock", owner, lease, wait);
    begin(t, owner,
          (struct rlock__call){
              .kind = RLOCK__ACQUIRE, .acquire.wait_us = wait, .acquire.lease_us = lease});
    assert_true(!t->players[owner].calling || (none && queues && wait != 0));
}

static void leave(struct trial *t, size_t owner)
{
    note(t, "an unlock", owner, 0, 0);
    begin(t, owner, (struct rlock__call){.kind = RLOCK__RELEASE});
    same(t, "whether an unlock waits", t->players[owner].calling, false);
}

static void cancel(struct trial *t, size_t owner)
{
    struct rlock__call *call = &t->players[owner].call;

    note(t, "a cancellation", owner, 0, 0);
    call->cancel = &t->random;
    stage_cancel(&t->stage, owner / STAGE_OWNERS, call->cancel);
    same(t, "whether a call that is cancelled waits", t->players[owner].calling, false);
    same(t, "the code", call->code, RLOCK_ECANCELED);
}

static int read_inspect(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct trial *t = call->command.reader;

    t->seen = (struct rlock_info)RLOCK_INFO_INIT;
    call->spec->ops->read_inspect(reply, &t->seen, NULL);
    return 0;
}

static int read_force(struct rlock__call *call, const struct rlock__reply *reply)
{
    struct trial *t = call->command.reader;

    t->opened = call->spec->ops->read_release(reply).outcome == RLOCK__DONE;
    if (t->opened) {
        model_open(&t->model, true);
    }
    return 0;
}

static void inspect(struct trial *t)
{
    const struct model_server *server = &t->model.server;
    size_t client = (size_t)dice(t, STAGE_CLIENTS);
    struct rlock__spec *spec = t->stage.clients[client].spec;
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .spec = spec, .command.read = read_inspect, .command.reader = t};
    bool locked = !model_is_free(&t->model);

    note(t, "an inspection", client, 0, 0);
    spec->ops->inspect(spec, &call.command.cmd);
    stage_begin(&t->stage, client, &call);
    same(t, "whether it is seen locked", t->seen.locked, locked);
    same(t, "how many are seen to hold it", t->seen.holders, locked);
    same(t, "the count that is seen", t->seen.count, server->count);
    same(t, "the TTL", t->seen.ttl_ms,
         locked ? server->ends_ms - t->model.now / RLOCK__MS : (int64_t)-2);
    same(t, "the token that is seen", t->seen.token, server->token);
    assert_string_equal(t->seen.holder, server->holder);
}

/* By what was seen, however long ago: it opens that one's lock, or nothing. */
static void force(struct trial *t)
{
    size_t client = (size_t)dice(t, STAGE_CLIENTS);
    struct rlock__spec *spec = t->stage.clients[client].spec;
    struct rlock__call call = {
        .kind = RLOCK__COMMAND, .spec = spec, .command.read = read_force, .command.reader = t};
    struct rlock__args args = {.seen = rlock__bytes_of(t->seen.holder)};
    size_t owner = model_find(&t->model, t->seen.holder);
    bool may = !model_is_free(&t->model) && strcmp(t->seen.holder, t->model.server.holder) == 0;

    if (!t->seen.locked) { /* the library does not ask */
        inspect(t);
        return;
    }
    note(t, "a force", client, 0, 0);
    spec->ops->force(spec, &args, &call.command.cmd);
    stage_begin(&t->stage, client, &call);
    same(t, "whether it was opened", t->opened, may);
    if (may && owner < MODEL_OWNERS && owner / STAGE_OWNERS == client) {
        t->forcing = true;
        stage_forced(&t->stage, client, strtoull(t->seen.holder + RLOCK__UUID_LEN + 1, NULL, 10));
        t->forcing = false;
        assert_int_not_equal(t->model.holds[owner].standing, MODEL_HELD);
    }
}

static void delete_by_hand(struct trial *t)
{
    bool token = dice(t, 2) == 0;

    note(t, token ? "a deletion of all" : "a deletion", 0, 0, 0);
    model_open(&t->model, false);
    t->model.server.token = token ? 0 : t->model.server.token;
    stage_type(&t->stage, (const char *const[]){"DEL", STAGE_KEY, token ? TOKEN : NULL, NULL});
    if (dice(t, 8) == 0) { /* nobody else comes, who waits must look */
        stage_wait(&t->stage, t->stage.now + dice(t, 8 * RLOCK__SECOND));
    }
}

/* The lease is cut, or made longer than anybody asked for. */
static void set_end(struct trial *t)
{
    int64_t ms = 1 + dice(t, dice(t, 2) == 0 ? 3 : 8000);
    char text[24];

    note(t, "an end that was set", 0, ms * RLOCK__MS, 0);
    (void)snprintf(text, sizeof(text), "%lld", (long long)ms);
    model_set_end(&t->model, t->model.now / RLOCK__MS + ms);
    stage_type(&t->stage, (const char *const[]){"PEXPIRE", STAGE_KEY, text, NULL});
}

/* Tokens were given while the server's clock was ahead: those that follow must exceed them. */
static void set_token(struct trial *t)
{
    uint64_t ahead = (uint64_t)(t->model.epoch_us + t->model.now + dice(t, RLOCK__SECOND));
    char text[24];

    if (!t->model.kind.fenced || ahead <= t->model.server.token) {
        delete_by_hand(t);
        return;
    }
    note(t, "a token ahead of time", 0, 0, 0);
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)ahead);
    t->model.server.token = ahead;
    stage_type(&t->stage, (const char *const[]){"SET", TOKEN, text, NULL});
}

static void operate(struct trial *t)
{
    int64_t what = dice(t, 1000);
    size_t holder = model_find(&t->model, t->model.server.holder);
    size_t owner = (size_t)dice(t, MODEL_OWNERS);

    if (holder < MODEL_OWNERS &&
        (dice(t, 2) == 0 || (t->players[owner].calling && dice(t, 8) != 0))) {
        owner = holder; /* some are cancelled, most wait */
    }
    if (what >= 900 && what < 960) {
        inspect(t);
    } else if (what >= 960 && what < 985) {
        force(t);
    } else if (what >= 995) {
        set_token(t);
    } else if (what >= 990) {
        set_end(t);
    } else if (what >= 985) {
        delete_by_hand(t);
    } else if (t->players[owner].calling) {
        cancel(t, owner);
    } else if (t->model.holds[owner].count < 5 && what < 450) {
        take(t, owner);
    } else {
        leave(t, owner);
    }
}

/* Mostly moments, now and then a pause that outlasts leases. */
static int64_t some_time(struct trial *t)
{
    int64_t how = dice(t, 100);

    return dice(t, (how < 70 ? 20 : how < 98 ? 300 : 8000) * RLOCK__MS);
}

static void play(uint64_t seed, const struct rlock_ops *kind, struct model_kind is)
{
    const int n = OPERATIONS / (test_slack() > 1 ? 6 : 1);
    struct trial t = {.random = seed,
                      .model = {.kind = is, .epoch_us = SIM_EPOCH_US, .lease = LEASE},
                      .last = "the beginning"};
    const struct stage_events events = {on_lost, on_done, on_time, compare, &t};

    stage_open(&t.stage, kind, LEASE, &events);
    for (size_t i = 0; i < STAGE_CLIENTS; i++) {
        t.stage.clients[i].core.opts.uuid[14] =
            '8'; /* of ours: for others a spinning client pauses */
    }
    for (int i = 0; i < n; i++) {
        stage_wait(&t.stage, t.stage.now + some_time(&t));
        operate(&t);
    }
    stage_close(&t.stage);
    print_message(
        "%d operations, %llu grants, %llu of them later, %llu nested, %llu renewals; lost: "
        "%llu expired, %llu deleted, %llu taken (%llu by a grant), %llu forced\n",
        n, (unsigned long long)t.grants, (unsigned long long)t.waited, (unsigned long long)t.nested,
        (unsigned long long)t.renewals, (unsigned long long)t.losses[RLOCK_LOST_EXPIRED],
        (unsigned long long)t.losses[RLOCK_LOST_DELETED],
        (unsigned long long)t.losses[RLOCK_LOST_TAKEN], (unsigned long long)t.proofs,
        (unsigned long long)t.losses[RLOCK_LOST_FORCED]);
    assert_true(t.grants > (uint64_t)n / 20 && t.waited > (uint64_t)n / 100);
    assert_true((t.nested > 0) == is.reenters && t.renewals > (uint64_t)n / 100);
    assert_true(t.losses[RLOCK_LOST_EXPIRED] > 0 && t.losses[RLOCK_LOST_DELETED] > 0);
    assert_true(t.losses[RLOCK_LOST_TAKEN] > t.proofs && t.proofs > 0 &&
                t.losses[RLOCK_LOST_FORCED] > 0);
}

TEST(a_reentrant_lock_does_what_the_model_says)
{
    play(1, &rlock__reentrant_ops, (struct model_kind){.reenters = true});
}

TEST(a_nonreentrant_lock_does_what_the_model_says)
{
    play(2, &rlock__nonreentrant_ops, (struct model_kind){0});
}

TEST(a_spin_lock_does_what_the_model_says)
{
    play(3, &rlock__spin_ops, (struct model_kind){.reenters = true, .spins = true});
}

TEST(a_fenced_lock_does_what_the_model_says)
{
    play(4, &rlock__fenced_ops, (struct model_kind){.reenters = true, .fenced = true});
}
