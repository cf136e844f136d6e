/* SPDX-License-Identifier: Apache-2.0 */
/* What may be left when all users have ended. */
#include <stdio.h>

#include "lock/core/finish.h"
#include "permits.h"
#include "world.h"

static bool begins(struct sim_view name, const char *prefix)
{
    return name.len > strlen(prefix) && memcmp(name.data, prefix, strlen(prefix)) == 0;
}

/* The next key that must not stay; tokens stay for ever, what a waiting writer asks for 5 s, and
 * notes about the dead 10 min. */
static bool next_lock_key(const struct sim_world *world, unsigned *inout_node,
                          struct sim_key_info *info, int64_t *inout_left)
{
    while (!sim_latch_is(world) && sim_next_key(world, inout_node, info)) {
        bool queue = begins(info->name, "redisson_lock_queue:") ||
                     begins(info->name, "redisson_lock_timeout:");
        bool asks = begins(info->name, "rlock_writer_waits:") && info->pttl_ms >= 0 &&
                    info->pttl_ms <= 5000;

        bool entries = begins(info->name, "rlock_wait:") &&
                       (world->config.faults != 0 || sim_has_marks_alone(info)) &&
                       info->pttl_ms >= 0 && info->pttl_ms <= SIM_ENTRIES_MS;
        bool tickets = begins(info->name, "rlock_fair_asks:") && world->config.faults != 0 &&
                       info->pttl_ms >= 0 && info->pttl_ms <= 60000;
        bool notes = begins(info->name, "rlock_fair:") && world->config.faults != 0 &&
                     info->pttl_ms >= 0 && info->pttl_ms <= 600000;

        if (!sim_permits_are_free(world, info, inout_left) &&
            !begins(info->name, "redisson_lock_token:") && !asks && !notes && !entries &&
            !tickets &&
            !(queue && world->config.faults != 0 && sim_queue_is_settled(world, info) &&
              sim_queue_ends(world, info))) {
            return true;
        }
    }
    return false;
}

/* Whether the key is a lock that a text has, or a level of its: "{name}:owner:rwlock_timeout:1". */
static bool is_detached(const struct sim_key_info *info)
{
    const char *brace = memchr(info->name.data, '}', info->name.len);
    size_t at = brace != NULL ? (size_t)(brace - info->name.data) + 2 : info->name.len;
    bool has_text = sim_is_text(
        (struct sim_view){info->name.data + at, at < info->name.len ? info->name.len - at : 0});

    for (size_t i = 0; i < info->n_items && !has_text; i++) {
        const struct sim_item_info item = sim_key_item(info, i);

        has_text = sim_is_text(info->type == SIM_STRING ? item.value : item.name);
    }
    return has_text;
}

void sim_check_end(struct sim_world *world)
{
    struct sim_key_info info = {0};
    unsigned node = 0;
    int64_t left = 0, after = 0;

    sim_replicas_catch_up(world);
    while (next_lock_key(world, &node, &info, &left)) {
        left = rlock__max(left, info.pttl_ms);
        if (world->config.faults == 0 && !is_detached(&info) &&
            !sim_permits_are_texts(world, &info)) {
            sim_violate(world, "%.*s is left at the end, held by %.*s", (int)info.name.len,
                        info.name.data, (int)sim_key_item(&info, 0).name.len,
                        sim_key_item(&info, 0).name.data);
        }
    }
    if (world->config.faults == 0 && sim_server_n_channels(world->server) != 0) {
        sim_violate(world, "%zu channels are left at the end",
                    sim_server_n_channels(world->server));
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        struct sim_client *client = world->clients[i];

        if (!rlock__core_is_settled(&client->core) || client->core.queues.n != 0) {
            sim_violate(world, "client %u is not settled 10 s after its close", i);
        }
    }
    world->now += (left + 2) * RLOCK__MS;
    sim_set_time(world);
    info = (struct sim_key_info){0};
    node = 0;
    if (left > sim_longest_ms(world) || next_lock_key(world, &node, &info, &after)) {
        sim_violate(world, "%.*s is left one lease after the end", (int)info.name.len,
                    info.name.data);
    }
}
