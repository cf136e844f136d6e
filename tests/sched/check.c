/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold in every run; see stage.h. */
#include <string.h>

#include "drive/client.h"
#include "files.h"
#include "stage.h"

#define PROMISED_US (50 * RLOCK__MS) /* a call returns no later after its deadline */
#define TICK_US (50 * RLOCK__MS)     /* the service thread's, after a caller kept watch */
#define TICKS_US (110 * RLOCK__MS)   /* until the service thread does what others leave undone */
#define RECHECK_US (6 * RLOCK__SECOND)
#define PAUSES_US (30 * RLOCK__MS) /* others wait too */
#define SPIN_US (400 * RLOCK__MS)
#define LOOK_US (2 * RLOCK__SECOND) /* who waits in a queue sees by then that a lease has ended */

/* What anything may be late by because threads stood still. */
static int64_t stalled_us(void)
{
    return sched_stalled_us(NULL) + sched_n_stalls() * TICKS_US;
}

/* What a call may be late by: of the threads that stand still only its own and the service thread
 * keep it waiting, others until the service thread sees it. */
static int64_t stalled_for(const struct actor *actor)
{
    return sched_stalled_us(actor->name) + sched_stalled_us("service") +
           sched_stalled_us("cancels") + sched_n_stalls() * TICKS_US;
}

/* So long a call takes at most that need not wait for anybody. */
static int64_t prompt_us(void)
{
    return 15 * sched_net_round_trip() + stage.window_us + PAUSES_US;
}

static int64_t wake_us(void)
{
    const bool polls = strcmp(stage.kind, "spin") == 0;
    int64_t us = 2 * prompt_us() + (polls ? SPIN_US : 0);

    if (strcmp(stage.kind, "fair") == 0 && (stage.scenario->moves & MOVE_EXIT) != 0) {
        us += LOOK_US;
    }
    return us + (stage.disturbed ? RECHECK_US + 2 * stage.scenario->lease_ms * RLOCK__MS : 0);
}

/* ---- Calls ---- */

void check_begin(struct actor *actor, enum doing doing, int64_t wait_us, unsigned cells)
{
    actor->doing = doing;
    actor->since = sched_now();
    actor->cells = cells;
    /* the wait for the holder, and op_timeout for an answer */
    actor->deadline = rlock__later(rlock__later(actor->since, wait_us), RLOCK__SECOND);
    if (stage.ending) {
        actor->deadline = actor->since;
    }
    if (doing == GIVES_BACK) {
        for (unsigned i = 0; i < STAGE_CELLS_MAX; i++) {
            stage.cells[i].leaving += (cells & 1U << i) != 0;
        }
    }
}

/* Whether it may say that, as far as is known here. */
static bool is_plausible(const struct actor *actor, int code)
{
    switch (code) {
    case 0:
        return true;
    case RLOCK_ECLOSED:
        return stage.closing;
    case RLOCK_ECANCELED:
        return actor->fired;
    case RLOCK_EBUSY:
        return actor->doing == TAKES;
    case RLOCK_ENOQUORUM:
        return stage.scenario->redlock && actor->doing != GIVES_BACK;
    case RLOCK_EREACQUIRE:
        return actor->doing != GIVES_BACK &&
               (strcmp(stage.kind, "nonreentrant") == 0 || strcmp(stage.kind, "permits") == 0);
    case RLOCK_EINDOUBT:
    case RLOCK_ETIMEDOUT:
    case RLOCK_ECONN:
        return (code == RLOCK_EINDOUBT && actor->fired) ||
               (actor->doing == TAKES_WAITING && actor->deadline != RLOCK__NEVER);
    default:
        return false;
    }
}

static void check_late(const struct actor *actor)
{
    int64_t now = sched_now(), slack = stalled_for(actor);
    /* a member of a group may be given back little by little, when the clients close */
    int64_t most = PROMISED_US + (stage.ending ? stage.window_us : 0);
    bool prompt = actor->doing != TAKES_WAITING && !stage.disturbed;

    if (actor->deadline != RLOCK__NEVER && now > actor->deadline + most + slack) {
        sched_fail("a call of actor %u returns late: %lld us after its deadline", actor->number,
                   (long long)(now - actor->deadline));
    }
    if (prompt && now > actor->since + prompt_us() + slack) {
        sched_fail("a call of actor %u that need not wait takes %lld us", actor->number,
                   (long long)(now - actor->since));
    }
}

void check_end(struct actor *actor, int code)
{
    check_late(actor);
    if (!is_plausible(actor, code) && !stage.disturbed && !stage.closing && sched_n_stalls() == 0) {
        sched_fail("a call of actor %u returns %s: %s", actor->number, rlock_code_name(code),
                   rlock_detail());
    }
    stage.in_doubt = stage.in_doubt || code == RLOCK_EINDOUBT;
    if (actor->doing == GIVES_BACK) {
        for (unsigned i = 0; i < STAGE_CELLS_MAX; i++) {
            stage.cells[i].leaving -= (actor->cells & 1U << i) != 0;
            if ((actor->cells & 1U << i) != 0) {
                stage.cells[i].free_since = sched_now();
            }
        }
    }
    actor->doing = IDLE;
}

/* ---- Who is inside ---- */

void check_enter(struct actor *actor, unsigned cells, int64_t valid_ms)
{
    for (unsigned i = 0; i < STAGE_CELLS_MAX; i++) {
        struct cell *cell = &stage.cells[i];

        if ((cells & 1U << i) == 0) {
            continue;
        }
        if (cell->holder != 0 && cell->holder != actor->number && sched_now() < cell->valid_until) {
            sched_fail("actor %u enters where actor %u is", actor->number, cell->holder);
        }
        cell->holder = actor->number;
        cell->valid_until = sched_now() + valid_ms * RLOCK__MS;
    }
}

void check_leave(struct actor *actor, unsigned cells)
{
    for (unsigned i = 0; i < STAGE_CELLS_MAX; i++) {
        if ((cells & 1U << i) != 0 && stage.cells[i].holder == actor->number) {
            stage.cells[i].holder = 0;
            stage.cells[i].valid_until = 0;
            stage.cells[i].free_since = sched_now();
        }
    }
}

void check_levels(const struct actor *actor, const struct rlock_handle *lock)
{
    uint32_t count = rlock_hold_count_as(lock, actor->owner);
    bool is_valid = rlock_is_valid_as(lock, actor->owner);

    if (stage.disturbed || stage.closing || sched_n_stalls() != 0) {
        return;
    }
    if (count != actor->levels || is_valid != (count != 0)) {
        sched_fail("actor %u holds %u times what it took %u times", actor->number, count,
                   actor->levels);
    }
}

/* Since when nobody has had any of them, RLOCK__NEVER somebody has. */
static int64_t free_since(unsigned cells)
{
    int64_t since = stage.disturbed_until;

    for (unsigned i = 0; i < STAGE_CELLS_MAX; i++) {
        const struct cell *cell = &stage.cells[i];
        bool taken = cell->leaving != 0 || (cell->holder != 0 && sched_now() < cell->valid_until);

        if ((cells & 1U << i) != 0) {
            since = rlock__max(since, rlock__max(cell->free_since, cell->valid_until));
            since = taken ? RLOCK__NEVER : since;
        }
    }
    return since;
}

static void check_woken(const struct actor *actor)
{
    int64_t since = rlock__max(actor->since, free_since(actor->cells));

    if (since != RLOCK__NEVER && sched_now() - since > wake_us() + stalled_us()) {
        sched_fail("actor %u waits for %lld us for what nobody has", actor->number,
                   (long long)(sched_now() - since));
    }
}

/* ---- While all sleep ---- */

/* Whether what is there to read on the link may wait for the service thread's tick. */
static bool waits_for_tick(const struct rlock__io *io, struct late *late)
{
    int64_t heard_at = io->link->pipeline.heard_at;

    if (late->since == RLOCK__NEVER || late->heard_at != heard_at) {
        *late = (struct late){.since = sched_now(), .heard_at = heard_at};
    }
    return rlock__io_is_unawaited(io) &&
           sched_now() - late->since <= TICK_US + prompt_us() + stalled_us();
}

/* What is left undone with the link; NULL nothing. */
static const char *left_undone(const struct rlock_client *client, struct late *late)
{
    const struct rlock__io *io = client->nodes->ios;
    const struct rlock__server *server = &client->nodes->server;
    const struct rlock__pipeline *pipeline = &server->links[0].pipeline;
    const struct rlock__sub *sub = &client->nodes->sub;

    if (io->gen != 0 && pipeline->up && sched_net_is_writable(rlock__conn_fd(io->conn)) &&
        (pipeline->out.len != 0 || io->sent < io->out.len)) {
        return "a request is not sent";
    }
    if (io->gen != 0 && client->watch.state == RLOCK__WATCH_ASLEEP && client->links_fd < 0 &&
        !sched_is_polled(rlock__conn_fd(io->conn))) {
        return "the leader does not poll the link";
    }
    if (io->gen == 0 || pipeline->sent == NULL ||
        !sched_net_is_readable(rlock__conn_fd(io->conn))) {
        late->since = RLOCK__NEVER;
    } else if (!waits_for_tick(io, late)) {
        return "a reply is not read";
    }
    if (sub->up && sched_net_is_writable(rlock__conn_fd(sub->conn)) &&
        (server->sub.out.len != 0 || sub->sent < sub->out.len)) {
        return "a subscription is not sent";
    }
    return NULL;
}

static void check_clients(void)
{
    const char *what = NULL;

    for (unsigned i = 0; i < stage.n_clients && what == NULL; i++) {
        what = stage.clients[i] != NULL ? left_undone(stage.clients[i], &stage.late[i]) : NULL;
    }
    if (what == NULL) {
        stage.busy_since = RLOCK__NEVER;
        return;
    }
    stage.busy_since = rlock__min(stage.busy_since, sched_now());
    if (sched_now() - stage.busy_since >= stalled_us()) {
        sched_fail("%s, and all sleep", what);
    }
}

/* Losses that are to be told. */
static void check_told(void)
{
    if (stage.n_losses <= stage.n_told) {
        stage.untold_since = RLOCK__NEVER;
        return;
    }
    stage.untold_since = rlock__min(stage.untold_since, sched_now());
    /* callbacks run one after the other, and each makes two calls */
    if (sched_now() - stage.untold_since > 2 * stage.n_actors * prompt_us() + stalled_us()) {
        sched_fail("a loss is not told");
    }
}

void check_idle(void)
{
    check_told();
    for (unsigned i = 0; i < stage.n_actors; i++) {
        const struct actor *actor = &stage.actors[i];

        if (actor->doing != IDLE) {
            check_late(actor);
        }
        if (actor->doing == TAKES_WAITING) {
            check_woken(actor);
        }
    }
    check_clients();
}

/* ---- Losses, and the end ---- */

void check_lost(const struct rlock_loss *loss)
{
    bool ended =
        loss->reason == RLOCK_LOST_THREAD_EXITED && (stage.scenario->moves & MOVE_EXIT) != 0;

    if (!ended && !stage.disturbed && !stage.closing && sched_n_stalls() == 0) {
        sched_fail("a hold is lost: %s", rlock_reason_text(loss->reason));
    }
}

/* All losses were told, and nothing is left on a server that was not disturbed. */
void check_rest(void)
{
    bool ends_alone = (stage.scenario->moves & MOVE_EXIT) != 0 || stage.in_doubt;

    if (stage.n_told < stage.n_losses) {
        sched_fail("%u losses are told of %u", stage.n_told, stage.n_losses);
    }
    for (unsigned i = 0; i < SCHED_SERVERS_MAX && !ends_alone && !stage.disturbed; i++) {
        struct sim_key_info key = {0};

        while (sim_server_next_key(stage.servers[i], &key)) {
            if (key.type == SIM_HASH) {
                sched_fail("%.*s is held by nobody", (int)key.name.len, key.name.data);
            }
        }
    }
}

void check_close(int64_t took_us)
{
    int64_t most = stage.disturbed ? RLOCK__SECOND + PROMISED_US : prompt_us();

    if (took_us > most + stalled_us()) {
        sched_fail("close takes %lld us", (long long)took_us);
    }
}
