/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of groups, looked at after every step:
 *   no two are valid       at one instant on one key of one server (multi), or of one RedLock;
 *                          unless a multi-lock's server lost its data, or was opened by force; of a
 *                          read/write lock's key two may be valid that both read it
 *   valid means held       a member that counts is on its server; the whole is valid exactly while
 *                          all members are, or a quorum
 *   lost is told           once, within 50 ms, and the other members are given back
 *   leases end             a fixed lease is not renewed once the whole is taken
 *   levels are exact       a hold has as many as its owner's groups have of it; on a perfect
 *                          network its server counts as many
 *   renewed is kept        on a perfect network nothing is lost that any level has renewed
 *   calls return           by the end of their wait, the time for an answer, and 50 ms
 *   every holder is known  to its client, on a perfect network: as a hold, or to be released
 *   free locks are taken   there: nobody sleeps for long while all that it waits for is free
 *   a minority is no hold  a RedLock that has some members waits for silent ones no longer than
 *                          twice what the slowest usually takes, for none that is known to be down
 * and after a call:
 *   all or none            who is refused, or has left, and not in doubt, is at no member; at less
 *                          than a quorum
 *   text follows code      it speaks of no quorum where the code does, and nowhere else
 *   doubt is counted       a call is in doubt exactly where too many members are for the others to
 *                          prove that it has nothing
 *   taken is worth it      what is granted is valid, and on a perfect network for most of its lease
 * and at the end:
 *   nobody waits for ever  with all servers up, and holds that end, every effort came to an end
 *   nothing is left
 */
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "groups.h"
#include "rw/rw.h"

#define SLACK (50 * RLOCK__MS)
#define TRIPS 24             /* ways, within which all members are connected, and answer */
#define LAG (10 * RLOCK__MS) /* of threads that wake late, and clocks that differ */

static void violate(const struct sim_owner *owner, const char *what)
{
    const struct sim_process *process = owner->process;

    sim_violate(sim_home(process->all), "process %u owner %llu, lock %u: %s", process->index,
                (unsigned long long)owner->owner.id, owner->lock, what);
}

static bool is_multi(const struct sim_owner *owner)
{
    return owner->process->all->config.kind == &rlock__multi_ops;
}

static bool counts(const struct rlock__member *member, int64_t now)
{
    return member->view != NULL && atomic_load(&member->view->valid_until) > now;
}

/* Whether the key was taken away from it. */
static bool is_doomed(const struct sim_owner *owner, struct sim_place place)
{
    return owner->lives[place.server][place.key][place.side] !=
           owner->process->all->lives[place.server][place.key];
}

/* The field of a number, as its kind writes it. */
static struct sim_view write_field(const struct rlock__core *core, const struct rlock_ops *kind,
                                   uint64_t number, char out[static SIM_OWNER_SIZE])
{
    int n = snprintf(out, SIM_OWNER_SIZE, "%s:%llu%s", core->opts.uuid, (unsigned long long)number,
                     kind == &rlock__write_ops ? ":write" : "");

    return (struct sim_view){out, (size_t)n};
}

/* Whether a reader is there: it is dead, though its field stays, once its levels' leases end. */
static bool is_read(const struct sim_world *world, unsigned key, struct sim_view reader,
                    struct sim_view count)
{
    struct sim_view name = {world->keys[key], strlen(world->keys[key])};
    long n = rlock__bytes_number(rlock__bytes(count.data, count.len), 0);

    return sim_reader_ttl(world, name, reader, n) != -2;
}

bool sim_owner_is_on_server(const struct sim_owner *owner, struct sim_place place, uint64_t number)
{
    const struct sim_world *world = &owner->process->all->worlds[place.server];
    struct sim_view value, key = {world->keys[place.key], strlen(world->keys[place.key])};
    char name[SIM_OWNER_SIZE];

    return sim_server_find_field(
               world->server, key,
               write_field(&owner->process->clients[place.server]->core,
                           place.side == 0 ? owner->process->all->kinds[place.server][place.key]
                                           : NULL,
                           number, name),
               &value) &&
           (place.side == 0 ||
            is_read(world, place.key, (struct sim_view){name, strlen(name)}, value));
}

/* ---- After every step ---- */

/* Whether two hold one key of one server, and both rightly. */
static bool collide(const struct sim_owner *a, const struct sim_owner *b)
{
    const struct rlock__group *one = a->group, *other = b->group;

    if (!is_multi(a)) {
        return a->lock == b->lock;
    }
    if (a->process == b->process && a->owner.id == b->owner.id &&
        a->owner.given == b->owner.given) {
        return false;
    }
    for (size_t i = 0; i < one->spec->n; i++) {
        struct sim_place place = sim_place_of(&one->members[i]);

        for (size_t j = 0; j < other->spec->n; j++) {
            struct sim_place there = sim_place_of(&other->members[j]);

            if (place.server == there.server && place.key == there.key &&
                (place.side == 0 || there.side == 0) && !is_doomed(a, place) &&
                !is_doomed(b, place)) {
                return true;
            }
        }
    }
    return false;
}

static void check_pairs(struct sim_owner *const *valid, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (collide(valid[i], valid[j])) {
                violate(valid[i], SIM_TWO_VALID);
            }
        }
    }
}

/* What the members make of the whole, reckoned anew. */
static bool is_valid_by_members(const struct rlock__group *group, int64_t now)
{
    size_t n = 0;

    for (size_t i = 0; i < group->spec->n; i++) {
        n += counts(&group->members[i], now);
    }
    return n >= (group->spec->ops == &rlock__multi_ops ? group->spec->n : group->spec->n / 2 + 1);
}

static void check_members(struct sim_owner *owner, int64_t now)
{
    const struct rlock__group *group = owner->group;

    for (size_t i = 0; i < group->spec->n; i++) {
        const struct rlock__member *member = &group->members[i];
        const struct rlock__hold *hold =
            counts(member, now) ? rlock__hold_find(member->spec->core, member->spec, group->owner)
                                : NULL;

        if (hold != NULL && (is_multi(owner) || hold->grant->is_guarded) &&
            !is_doomed(owner, sim_place_of(member)) && !owner->process->all->drift_beyond &&
            !sim_owner_is_on_server(owner, sim_place_of(member), hold->grant->number)) {
            violate(owner, "counts a member that its server does not know");
        }
    }
    if (rlock__group_left(group) > 0 && !group->lost &&
        (rlock__group_valid_until(group) > now) != is_valid_by_members(group, now)) {
        violate(owner, "is valid otherwise than by its members");
    }
    if (group->view != NULL &&
        rlock__group_view_valid_until(group->view) != rlock__group_valid_until(group)) {
        violate(owner, "tells its thread another validity than it has");
    }
}

/* What was given up is not valid; when the call is over no member is kept for it. */
static void check_given_up(struct sim_owner *owner, int64_t now)
{
    const struct rlock__group *group = owner->group;

    owner->gave_all_up &= rlock__group_left(group) == 0; /* or it has a level more by now */
    if (rlock__group_left(group) == 0 && rlock__group_valid_until(group) > now) {
        violate(owner, "is valid, and was given up");
    }
    for (size_t i = 0; !owner->calling && group->count == 0 && i < group->spec->n; i++) {
        if (group->members[i].state == RLOCK__MEMBER_HELD) {
            violate(owner, "has nothing, and keeps a member");
        }
    }
    if (!owner->calling && group->owed > 0) {
        violate(owner, "owes a level, and has no call");
    }
}

static void check_told(struct sim_owner *owner, int64_t now)
{
    const struct rlock__group *group = owner->group;
    struct sim_process *process = owner->process;
    int64_t world_now = sim_home(process->all)->now;
    bool over = owner->depth > 0 && !owner->calling && rlock__group_valid_until(group) <= now;

    if (!over || owner->excused) {
        owner->ended_at = RLOCK__NEVER;
        owner->excused &= owner->calling || sim_process_is_paused(process);
        return;
    }
    owner->ended_at = rlock__min(owner->ended_at, world_now);
    if (owner->told_at == RLOCK__NEVER && world_now > owner->ended_at + SLACK + LAG) {
        violate(owner, "was lost, and is not told");
    }
    for (size_t i = 0; world_now > owner->ended_at + SLACK + LAG && i < group->spec->n; i++) {
        if (group->members[i].state == RLOCK__MEMBER_HELD) {
            violate(owner, "was lost, and keeps a member");
        }
    }
}

bool sim_key_is_written(const struct sim_world *world, struct sim_view key)
{
    struct sim_view mode;

    return sim_server_find_field(world->server, key, (struct sim_view){"mode", 4}, &mode) &&
           mode.len == 5;
}

/* Whether its hold has levels that are others', or are being left. */
static bool has_more(const struct rlock__member *member)
{
    const struct rlock__hold *hold =
        rlock__hold_find(member->spec->core, member->spec, member->group->owner);

    return hold != NULL && hold->count > member->levels;
}

/* A member that the owner's other group has as well may be had for longer by that. */
static void check_lease(struct sim_owner *owner, int64_t now)
{
    const struct sim_group_config *config = &owner->process->all->config;
    int64_t cap = RLOCK__NEVER;

    for (size_t i = 0; i < owner->group->spec->n; i++) {
        const struct rlock__member *member = &owner->group->members[i];
        struct sim_place place = sim_place_of(member);
        int64_t *stretched = &owner->stretched[place.server][place.key][place.side];

        if (sim_twin_has(owner, place) || has_more(member) ||
            (owner->calling && *stretched > now)) { /* kept with the longest lease that it had */
            *stretched = now + config->lease + config->op_timeout;
        }
        cap = rlock__min(cap, rlock__max(owner->cap, *stretched));
    }
    if (owner->depth > 0 && !owner->calling && rlock__group_valid_until(owner->group) > cap) {
        violate(owner, "is valid past its fixed lease");
    }
}

static void check_owner(struct sim_owner *owner, int64_t now)
{
    if (owner->calling && !owner->excused && owner->due != RLOCK__NEVER &&
        now > owner->due + SLACK + LAG) {
        violate(owner, "waits for a call past its deadline");
    }
    if (owner->group == NULL) {
        return;
    }
    sim_doubt_look(owner);
    check_members(owner, now);
    check_given_up(owner, now);
    sim_groups_check_minority(owner, now);
    check_told(owner, now);
    if (owner->process->all->config.faults == 0) {
        sim_groups_check_waiting(owner);
    }
    check_lease(owner, now);
}

/* The levels of a hold that its owner's groups have of it. */
static uint32_t levels_of(const struct sim_process *process, const struct rlock__hold *hold)
{
    const struct rlock__group *group;
    uint32_t levels = 0;

    DL_FOREACH(process->groups, group) {
        bool its = group->owner.id == hold->owner_id && group->owner.given == hold->given;

        for (size_t i = 0; its && i < group->spec->n; i++) {
            levels += group->members[i].spec == hold->spec ? group->members[i].levels : 0;
        }
    }
    return levels;
}

/* What the server counts; 0 it knows nothing of it. */
static uint32_t count_on_server(const struct sim_world *world, const struct rlock__hold *hold)
{
    struct sim_view value, key = {hold->spec->key.at, hold->spec->key.len};
    char name[SIM_OWNER_SIZE];

    return sim_server_find_field(
               world->server, key,
               write_field(hold->spec->core, hold->spec->ops, hold->grant->number, name), &value)
               ? (uint32_t)rlock__bytes_number(rlock__bytes(value.data, value.len), 0)
               : 0;
}

/* Of holds that no call is about. */
static void check_levels(const struct sim_process *process, struct sim_world *world)
{
    const struct rlock__hold *hold;

    DL_FOREACH(world->clients[process->index]->core.rows.holds, hold) {
        if (hold->busy || hold->state != RLOCK__HOLD_HELD || hold->grant->releasing) {
            continue;
        }
        if (hold->count != levels_of(process, hold)) {
            sim_violate(world, "process %u owner %llu: %.*s counts %u levels, its groups %u",
                        process->index, (unsigned long long)hold->owner_id,
                        (int)hold->spec->name.len, hold->spec->name.at, hold->count,
                        levels_of(process, hold));
        }
        if (world->config.faults == 0 && !process->all->drift_beyond &&
            hold->spec->core->recovery.tickets == NULL &&
            hold->grant->valid_until > sim_process_clock(process) &&
            hold->count != count_on_server(world, hold)) {
            sim_violate(world, "process %u owner %llu: %.*s counts %u levels, its server %u",
                        process->index, (unsigned long long)hold->owner_id,
                        (int)hold->spec->name.len, hold->spec->name.at, hold->count,
                        count_on_server(world, hold));
        }
    }
}

/* Whether the client holds, asks for, or looks after a number. */
static bool knows(const struct sim_client *client, uint64_t number)
{
    const struct rlock__hold *hold;
    const struct rlock__call *call;

    DL_FOREACH(client->core.rows.holds, hold) {
        if (hold->grant != NULL && hold->grant->number == number) {
            return true;
        }
    }
    DL_FOREACH2(client->core.calls, call, all.next)
    {
        if (call->number == number) {
            return true;
        }
    }
    return client->core.recovery.tickets != NULL;
}

/* Whether an owner that the server has is unknown to its client. */
static bool is_unknown(const struct sim_world *world, const char *owner)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        if (strncmp(owner, client->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
            return !knows(client, strtoull(owner + RLOCK__UUID_LEN + 1, NULL, 10));
        }
    }
    return true;
}

/* A holder that nobody knows; "" there is none. Of a lock that is read each holder counts that is
 * alive. */
static void find_stray(const struct sim_groups *all, struct sim_place place,
                       char ret_holder[static SIM_OWNER_SIZE])
{
    const struct sim_world *world = &all->worlds[place.server];
    struct sim_view name = {world->keys[place.key], strlen(world->keys[place.key])};
    bool rw = sim_is_rw(all, place), read = rw && !sim_key_is_written(world, name);
    struct sim_key_info info;

    for (size_t i = 0; sim_server_find_key(world->server, name, &info) && i < info.n_items; i++) {
        struct sim_item_info item = sim_key_item(&info, i);

        (void)snprintf(ret_holder, SIM_OWNER_SIZE, "%.*s", (int)item.name.len, item.name.data);
        if (strcmp(ret_holder, "mode") != 0 && is_unknown(world, ret_holder) &&
            (!read || is_read(world, place.key, item.name, item.value))) {
            return;
        }
    }
    ret_holder[0] = '\0';
}

static void check_known(struct sim_groups *all, struct sim_place place)
{
    struct sim_world *world = &all->worlds[place.server];
    unsigned key = place.key;
    char holder[SIM_OWNER_SIZE] = "";

    find_stray(all, place, holder);
    if (strcmp(holder, world->stray[key]) != 0) {
        (void)snprintf(world->stray[key], sizeof(world->stray[key]), "%s", holder);
        world->stray_since[key] = world->now;
    }
    if (holder[0] != '\0' &&
        world->now > world->stray_since[key] + LAG + 2 * world->config.delay_max) {
        sim_violate(world, "%s holds %s, and its client knows nothing of it", holder,
                    world->keys[key]);
    }
}

void sim_groups_check(struct sim_groups *all)
{
    struct sim_owner *valid[SIM_PROCESSES * SIM_OWNERS];
    size_t n = 0;

    for (unsigned i = 0; i < all->config.n_processes; i++) {
        struct sim_process *process = all->processes[i];
        int64_t now = sim_process_clock(process);

        for (unsigned j = 0; j < all->config.n_owners; j++) {
            struct sim_owner *owner = &process->owners[j];

            check_owner(owner, now);
            if (owner->group != NULL && rlock__group_valid_until(owner->group) > now) {
                valid[n++] = owner;
            }
        }
        for (unsigned j = 0; j < all->config.n_servers; j++) {
            check_levels(process, &all->worlds[j]);
        }
    }
    check_pairs(valid, n);
    for (unsigned i = 0; all->config.faults == 0 && i < all->config.n_servers; i++) {
        for (unsigned key = 0; key < all->config.n_keys; key++) {
            check_known(all, (struct sim_place){.server = i, .key = key});
        }
    }
}

/* ---- After a call ---- */

/* Whether a later mark is of the same member: and, if so, of one that still has it. */
static bool is_counted_later(const struct sim_owner *owner, size_t i, bool last)
{
    const struct sim_place place = owner->marks[i].place;

    for (size_t j = i + 1; j < owner->n_marks; j++) {
        const struct sim_mark *mark = &owner->marks[j];

        if (mark->place.server == place.server && mark->place.key == place.key &&
            (last || sim_owner_is_on_server(owner, place, mark->number))) {
            return true;
        }
    }
    return false;
}

/* How many members still have what the owner took and gave back; last: in its last round alone. */
static size_t leftovers(const struct sim_owner *owner, bool last)
{
    size_t n = 0;

    for (size_t i = 0; i < owner->n_marks; i++) {
        const struct sim_mark *mark = &owner->marks[i];

        n += !mark->excused && !mark->twins && sim_home(owner->process->all)->now < mark->free_by &&
             owner->process->clients[mark->place.server]->may_kill &&
             !owner->process->clients[mark->place.server]->closed &&
             sim_owner_is_on_server(owner, mark->place, mark->number) &&
             !is_counted_later(owner, i, last);
    }
    return n;
}

void sim_groups_check_taken(const struct sim_owner *owner)
{
    const struct sim_group_config *config = &owner->process->all->config;
    const struct rlock__group *group = owner->group;
    int64_t left = rlock__group_valid_until(group) - sim_process_clock(owner->process);
    int64_t lease = owner->effort.lease_us;

    if (!owner->taking || group->code != 0) {
        return;
    }
    if (left <= 0) {
        violate(owner, "was granted what is over");
    }
    if (config->faults == 0 && lease != 0 && lease > 20 * config->delay_max &&
        (!is_multi(owner) || group->count == 1) && owner->given_up == 0 && left < lease / 2) {
        violate(owner, "was granted less than half of its lease");
    }
}

/* How many members of a RedLock said last that they cannot grant it. */
static size_t failing(const struct rlock__group *group)
{
    size_t n = 0;

    for (size_t i = 0; i < group->spec->n; i++) {
        n += group->members[i].answer == RLOCK__MEMBER_FAILS;
    }
    return n;
}

static bool has_closed_client(const struct sim_owner *owner)
{
    const struct rlock__group_spec *spec = owner->group->spec;
    bool closed = false;

    for (size_t i = 0; i < spec->n; i++) {
        closed |= spec->members[i]->core->closed;
    }
    return closed;
}

/* Whether what it took may be there still, as it says. */
static bool is_open(const struct rlock__group *group)
{
    return group->code == RLOCK_EINDOUBT ||
           (group->code == RLOCK_ECANCELED &&
            strstr(group->texts.detail, "if it was granted") != NULL);
}

/* On a perfect network all answers come while there is time for them. */
static void check_doubt(const struct sim_owner *owner)
{
    const struct sim_group_config *config = &owner->process->all->config;

    if (owner->taking && owner->group->code == RLOCK_EINDOUBT && config->faults == 0 &&
        TRIPS * config->delay_max < config->op_timeout) {
        violate(owner, "is in doubt on a perfect network");
    }
}

void sim_groups_check_done(const struct sim_owner *owner)
{
    const struct rlock__group *group = owner->group;
    size_t n = group->spec->n, quorum = n / 2 + 1;
    size_t most = is_multi(owner) ? 0 : owner->taking ? quorum - 1 : n - quorum;
    bool ended = has_closed_client(owner); /* before its owner looked: the rest is given back */

    if (group->code != 0 && group->code != RLOCK_EINDOUBT &&
        (strstr(group->texts.detail, "no quorum") != NULL) != (group->code == RLOCK_ENOQUORUM)) {
        violate(owner, "is told another thing by the text than by the code");
    }
    if (owner->taking && (group->code == RLOCK_ETIMEDOUT || group->code == RLOCK_EBUSY) &&
        failing(group) > n - quorum) {
        violate(owner, "is told to wait for others, and too few servers could grant it");
    }
    if (group->code == RLOCK_ENOTOWNER) {
        violate(owner, "is told that it does not own what it holds");
    }
    check_doubt(owner);
    if (group->count == 0 && owner->given_up == 0 && !ended && !is_open(group) &&
        group->code != RLOCK_ELOST && group->code != RLOCK_ECLOSED &&
        leftovers(owner, !owner->taking) > most) {
        violate(owner, owner->taking ? "was refused, and is left as a holder"
                                     : "has left, and is left as a holder");
    }
}

/* ---- At the end ---- */

static void check_owner_end(struct sim_owner *owner)
{
    if (owner->calling) {
        violate(owner, owner->taking ? "waits for ever" : "leaves for ever");
    } else if (owner->group != NULL) {
        violate(owner, "has something under way at the end");
    }
}

/* The locks alone: tokens stay, and in a fair lock's queue the dead until somebody comes. */
static void check_server_end(struct sim_groups *all, unsigned server)
{
    struct sim_world *world = &all->worlds[server];
    struct sim_key_info info;

    sim_server_now(all, server);
    for (unsigned key = 0; key < all->config.n_keys; key++) {
        struct sim_view name = {world->keys[key], strlen(world->keys[key])};

        if (sim_server_find_key(world->server, name, &info)) {
            sim_violate(sim_home(all), "server %u: %s is left, held by %.*s", server,
                        world->keys[key], (int)sim_key_item(&info, 0).name.len,
                        sim_key_item(&info, 0).name.data);
        }
    }
}

void sim_groups_check_end(struct sim_groups *all)
{
    for (unsigned i = 0; i < all->config.n_processes * all->config.n_owners; i++) {
        check_owner_end(
            &all->processes[i / all->config.n_owners]->owners[i % all->config.n_owners]);
    }
    for (unsigned i = 0; i < all->config.n_servers; i++) {
        check_server_end(all, i);
    }
}
