/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds that are passed on inside a client: to whom, when not, and for how long. Owners of client 0
 * want one lock; what the server has shows whether a hold was passed, or released and taken anew.
 */
#include "lock/common.h"
#include "lock/hold/hold.h"
#include "lock/server/listener.h"
#include "plain/stage.h"
#include "support/test.h"

#define LEASE (30 * RLOCK__SECOND)
#define MOST_PASSES 60
#define MOST_PASSING (10 * RLOCK__MS)

struct room {
    struct stage stage;
    struct rlock__call calls[STAGE_OWNERS];
    struct rlock__texts texts; /* of the second's acquisition */
    struct rlock__call other;  /* of client 1, or of nobody */
    int n_lost;
};

static void on_done(void *payload, struct rlock__call *call)
{
    (void)payload;
    (void)rlock__view_unref(call->view);
    call->view = NULL;
}

static void on_lost(void *payload, size_t client, const struct rlock__loss *loss)
{
    (void)client;
    (void)loss;
    ((struct room *)payload)->n_lost++;
}

static void nothing(void *payload)
{
    (void)payload;
}

static void room_open_kind(struct room *room, const struct rlock_ops *kind)
{
    const struct stage_events events = {on_lost, on_done, nothing, nothing, room};

    *room = (struct room){.n_lost = 0};
    stage_open(&room->stage, kind, LEASE, &events);
    room->stage.clients[0].core.opts.no_pass = false;
}

static void room_open(struct room *room)
{
    room_open_kind(room, &rlock__reentrant_ops);
}

static void room_close(struct room *room)
{
    stage_close(&room->stage);
}

#define ROOM_TEST(name) TEST_AROUND(name, struct room, room, room_open(room), room_close(room))

static void take_for(struct room *room, size_t owner, int64_t wait, int64_t lease)
{
    room->calls[owner] = (struct rlock__call){.kind = RLOCK__ACQUIRE,
                                              .acquire.wait_us = wait,
                                              .acquire.lease_us = lease,
                                              .texts = owner == 1 ? &room->texts : NULL,
                                              .owner = {.id = owner + 1, .given = true}};
    stage_begin(&room->stage, 0, &room->calls[owner]);
}

static void take(struct room *room, size_t owner)
{
    take_for(room, owner, -1, 0);
}

static void leave(struct room *room, size_t owner)
{
    room->calls[owner] =
        (struct rlock__call){.kind = RLOCK__RELEASE, .owner = {.id = owner + 1, .given = true}};
    stage_begin(&room->stage, 0, &room->calls[owner]);
    assert_int_equal(room->calls[owner].step, RLOCK__COMPLETE);
    assert_int_equal(room->calls[owner].code, 0);
}

static bool has(const struct room *room, size_t owner)
{
    return room->calls[owner].step == RLOCK__COMPLETE && room->calls[owner].code == 0 &&
           room->calls[owner].kind == RLOCK__ACQUIRE;
}

/* The number under which the server has the lock; 0 nobody holds it. */
static uint64_t on_server(const struct room *room)
{
    struct sim_key_info lock;
    char name[RLOCK__OWNER_SIZE];

    if (!sim_server_find_key(room->stage.server, SIM_VIEW(STAGE_KEY), &lock)) {
        return 0;
    }
    assert_int_equal(lock.n_items, 1);
    (void)snprintf(name, sizeof(name), "%.*s", (int)sim_key_item(&lock, 0).name.len,
                   sim_key_item(&lock, 0).name.data);
    return strtoull(name + RLOCK__UUID_LEN + 1, NULL, 10);
}

/* One has it; the others wait, in their order. Returns its number. */
static uint64_t fill(struct room *room)
{
    for (size_t i = 0; i < STAGE_OWNERS; i++) {
        take(room, i);
    }
    assert_true(has(room, 0) && !has(room, 1) && !has(room, 2));
    return on_server(room);
}

ROOM_TEST(an_unlock_passes_its_hold_to_who_has_waited_longest)
{
    uint64_t number = fill(room);

    leave(room, 0);
    assert_true(has(room, 1) && !has(room, 2));
    assert_int_equal(on_server(room), number);
    assert_int_equal(room->calls[1].number, number);
    assert_int_equal(room->calls[1].count, 1);
    leave(room, 1);
    assert_true(has(room, 2));
    assert_int_equal(on_server(room), number);
    leave(room, 2);
    assert_int_equal(on_server(room), 0);
}

ROOM_TEST(who_gave_it_has_it_no_more)
{
    struct stage_client *client = &room->stage.clients[0];
    struct rlock__owner first = {.id = 1, .given = true}, second = {.id = 2, .given = true};
    uint32_t count;

    (void)fill(room);
    leave(room, 0);
    assert_int_equal(rlock__core_valid_until(&client->core, client->spec, first, &count), 0);
    assert_int_equal(count, 0);
    assert_true(rlock__core_valid_until(&client->core, client->spec, second, &count) >
                room->stage.now);
    assert_int_equal(count, 1);
    room->calls[0] = (struct rlock__call){.kind = RLOCK__RELEASE, .owner = first};
    stage_begin(&room->stage, 0, &room->calls[0]);
    assert_int_equal(room->calls[0].code, RLOCK_ENOTOWNER);
    assert_true(on_server(room) != 0);
}

ROOM_TEST(who_waits_for_a_hold_of_its_client_asks_nothing)
{
    take(room, 0);
    take(room, 1);
    stage_wait(&room->stage, room->stage.now + RLOCK__SECOND);
    assert_int_equal(room->calls[1].acquire.attempts, 0);
    take_for(room, 2, 0, 0); /* who does not wait asks at once */
    assert_int_equal(room->calls[2].code, RLOCK_EBUSY);
    assert_int_equal(room->calls[2].acquire.attempts, 1);
}

ROOM_TEST(what_was_passed_on_is_renewed_for_its_new_owner)
{
    uint64_t number = fill(room);

    leave(room, 0);
    stage_wait(&room->stage, room->stage.now + 3 * LEASE + 3 * RLOCK__SECOND);
    assert_int_equal(on_server(room), number);
    assert_int_equal(room->n_lost, 0);
    take(room, 0);
    leave(room, 1); /* long after: it is released */
    assert_true(has(room, 2));
    assert_true(on_server(room) != number);
}

ROOM_TEST(after_ten_milliseconds_it_is_released)
{
    uint64_t number = fill(room);

    stage_wait(&room->stage, room->stage.now + MOST_PASSING - 1);
    leave(room, 0);
    assert_int_equal(on_server(room), number);
    stage_wait(&room->stage, room->stage.now + 1);
    leave(room, 1);
    assert_true(has(room, 2));
    assert_true(on_server(room) != number);
}

ROOM_TEST(after_sixty_passes_it_is_released)
{
    uint64_t number = fill(room);
    size_t holder = 0;

    for (int i = 0; i < MOST_PASSES; i++) {
        leave(room, holder);
        take(room, holder);
        holder = (holder + 1) % STAGE_OWNERS;
        assert_true(has(room, holder));
        assert_int_equal(on_server(room), number);
    }
    leave(room, holder);
    assert_true(on_server(room) != number);
}

ROOM_TEST(a_lease_of_its_own_is_neither_given_nor_taken_so)
{
    uint64_t number;

    take_for(room, 0, -1, LEASE);
    take(room, 1);
    take_for(room, 2, -1, LEASE);
    number = on_server(room);
    leave(room, 0);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
    number = on_server(room);
    leave(room, 1);
    assert_true(has(room, 2));
    assert_true(on_server(room) != number);
}

ROOM_TEST(nobody_is_given_it_past_the_first)
{
    uint64_t number;

    take(room, 0);
    take_for(room, 1, -1, LEASE); /* may not be given it */
    take(room, 2);
    number = on_server(room);
    leave(room, 0);
    assert_true(has(room, 1) && !has(room, 2));
    assert_true(on_server(room) != number);
}

ROOM_TEST(a_nested_level_stays)
{
    uint64_t number = fill(room);
    struct rlock__call more = {
        .kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}, .acquire.wait_us = 0};

    stage_begin(&room->stage, 0, &more);
    assert_int_equal(more.count, 2);
    leave(room, 0);
    assert_false(has(room, 1));
    leave(room, 0);
    assert_true(has(room, 1));
    assert_int_equal(on_server(room), number);
}

/* Groups are not in the queue: without a release they would wait for ever. */
ROOM_TEST(while_a_group_listens_it_is_released)
{
    struct stage_client *client = &room->stage.clients[0];
    struct rlock__listener listener = {.spec = client->spec};
    uint64_t number = fill(room);

    rlock__core_listen(&client->core, &listener, room->stage.now);
    leave(room, 0);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
    rlock__core_ignore(&client->core, &listener, room->stage.now);
    while (rlock__core_take_notified(&client->core) != NULL) {
    }
}

static int read_nothing(struct rlock__call *call, const struct rlock__reply *reply)
{
    (void)call;
    (void)reply;
    return 0;
}

static void ask(struct room *room, size_t client, const char *seen)
{
    struct rlock__spec *spec = room->stage.clients[client].spec;
    struct rlock__args args = {.seen = rlock__bytes_of(seen)};
    struct rlock__call call = {.kind = RLOCK__COMMAND, .command.read = read_nothing};

    if (seen[0] == '\0') {
        spec->ops->inspect(spec, &call.command.cmd);
    } else {
        spec->ops->force(spec, &args, &call.command.cmd);
    }
    stage_begin(&room->stage, client, &call);
}

/* It may be one that opens the lock by force. */
ROOM_TEST(once_a_command_is_asked_of_the_lock_it_is_released)
{
    uint64_t number = fill(room);

    ask(room, 0, "");
    leave(room, 0);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
}

/* The announcement of another client has the hold verified, and the next one asks. */
ROOM_TEST(a_hold_that_another_client_opened_is_lost_at_once)
{
    uint64_t number = fill(room);
    char seen[RLOCK__OWNER_SIZE];

    ask(room, 1, rlock__owner_text(&room->stage.clients[0].core, number, seen).at);
    stage_wait(&room->stage, room->stage.now + 1);
    assert_int_equal(room->n_lost, 1);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
}

/* Nobody says so: who waits has the hold verified now and then. */
ROOM_TEST(a_hold_that_was_deleted_is_lost_soon)
{
    uint64_t number = fill(room);

    stage_type(&room->stage, (const char *const[]){"DEL", STAGE_KEY, NULL});
    stage_wait(&room->stage, room->stage.now + RLOCK__RECHECK_US);
    assert_int_equal(room->n_lost, 1);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
}

ROOM_TEST(what_is_being_verified_is_released)
{
    uint64_t number = fill(room);
    struct rlock__core *core = &room->stage.clients[0].core;

    rlock__grant_verify(rlock__hold_by_number(core, number)->grant, room->stage.now);
    leave(room, 0);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
}

/* One that the other client has before: returns its number once one here has it, and two wait. */
static uint64_t fill_behind_another(struct room *room)
{
    room->other = (struct rlock__call){.kind = RLOCK__ACQUIRE, .owner = {.id = 1, .given = true}};
    stage_begin(&room->stage, 1, &room->other);
    assert_int_equal(room->other.code, 0);
    take(room, 0); /* asks, and is told who has it */
    take(room, 1);
    take(room, 2);
    room->other = (struct rlock__call){.kind = RLOCK__RELEASE, .owner = {.id = 1, .given = true}};
    stage_begin(&room->stage, 1, &room->other);
    stage_wait(&room->stage, room->stage.now + 5 * RLOCK__MS);
    assert_true(has(room, 0) && !has(room, 1));
    return on_server(room);
}

/* Its threads have the lock once in each turn. */
ROOM_TEST(beside_another_library_it_is_released)
{
    uint64_t number = fill_behind_another(room); /* whose UUID is of version 4, as Redisson's */

    leave(room, 0);
    assert_true(on_server(room) != number);
}

ROOM_TEST(beside_another_client_of_ours_it_is_passed_on)
{
    uint64_t number;

    room->stage.clients[1].core.opts.uuid[14] = '8';
    number = fill_behind_another(room);
    leave(room, 0);
    assert_true(has(room, 1));
    assert_int_equal(on_server(room), number);
}

ROOM_TEST(a_client_may_pass_nothing)
{
    uint64_t number;

    room->stage.clients[0].core.opts.no_pass = true;
    number = fill(room);
    leave(room, 0);
    assert_true(has(room, 1));
    assert_true(on_server(room) != number);
}

TEST(a_fenced_lock_is_released_each_time)
{
    struct room room;
    uint64_t number;

    room_open_kind(&room, &rlock__fenced_ops);
    number = fill(&room);
    leave(&room, 0);
    assert_true(has(&room, 1));
    assert_true(on_server(&room) != number);
    room_close(&room);
}

static void pass_a_kind(const struct rlock_ops *kind)
{
    struct room room;
    uint64_t number;

    room_open_kind(&room, kind);
    number = fill(&room);
    leave(&room, 0);
    assert_true(has(&room, 1));
    assert_int_equal(on_server(&room), number);
    room_close(&room);
}

TEST(a_nonreentrant_lock_is_passed_on)
{
    pass_a_kind(&rlock__nonreentrant_ops);
}

TEST(a_spin_lock_is_passed_on)
{
    pass_a_kind(&rlock__spin_ops);
}

/* What the client says of who gave up waiting behind another one here. */
ROOM_TEST(who_waits_in_vain_is_told_which_hold_of_its_client_it_was)
{
    char expected[96];

    take(room, 0);
    take_for(room, 1, RLOCK__SECOND, 0);
    stage_wait(&room->stage, room->stage.now + RLOCK__SECOND);
    assert_int_equal(room->calls[1].code, RLOCK_ETIMEDOUT);
    (void)snprintf(expected, sizeof(expected), "held by %s:%llu",
                   room->stage.clients[0].core.opts.uuid, (unsigned long long)on_server(room));
    assert_non_null(strstr(room->texts.detail, expected));
}

/* ---- Holds that linger ---- */

/* Clients 0 and 1 are of this library, and enter the lock's queue. Holds of client 0 linger. */
static void begin_lingering(struct room *room)
{
    static const struct rlock__tuning tuning = {.linger_us = 10 * RLOCK__MS};

    for (size_t i = 0; i < 2; i++) {
        struct stage_client *client = &room->stage.clients[i];

        client->core.opts.uuid[14] = '8';
        client->core.opts.queues = true;
        (void)rlock__spec_unref(client->spec);
        client->spec = rlock__spec_new(&client->core, &rlock__reentrant_ops,
                                       rlock__bytes_of(STAGE_KEY), i == 0 ? &tuning : NULL);
    }
    take(room, 0);
    leave(room, 0); /* and subscribes */
    assert_int_equal(on_server(room), 0);
    take(room, 0);
    leave(room, 0);
    assert_int_not_equal(on_server(room), 0);
}

ROOM_TEST(what_lingers_is_taken_over_and_ends_in_10_ms)
{
    int64_t began = room->stage.now;
    uint64_t number;

    begin_lingering(room);
    number = on_server(room);
    while (room->stage.now < began + 9 * RLOCK__MS) {
        take(room, 1);
        assert_int_equal(room->calls[1].number, number);
        stage_wait(&room->stage, room->stage.now + RLOCK__MS);
        leave(room, 1);
    }
    assert_int_equal(on_server(room), number);
    stage_wait(&room->stage, began + 10 * RLOCK__MS);
    assert_int_equal(on_server(room), 0);
}

/* The server says so to the client that has it (lua/queue/acquire.lua). */
ROOM_TEST(who_waits_elsewhere_gets_at_once_what_lingers)
{
    int64_t began;

    begin_lingering(room);
    began = room->stage.now;
    room->other = (struct rlock__call){
        .kind = RLOCK__ACQUIRE, .acquire.wait_us = -1, .owner = {.id = 1, .given = true}};
    stage_begin(&room->stage, 1, &room->other);
    stage_wait(&room->stage, began + 1); /* what is due now */
    assert_int_equal(room->other.step, RLOCK__COMPLETE);
    assert_int_equal(room->other.code, 0);
    take_for(room, 0, 0, 0);
    assert_int_equal(room->calls[0].code, RLOCK_EBUSY);
}
