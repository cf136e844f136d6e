/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

static void describe(const struct sim_keyspace *space, const struct sim_key *key,
                     struct sim_key_info *info)
{
    *info = (struct sim_key_info){
        .name = sim_view_of(key->name),
        .type = key->type,
        .pttl_ms = key->expire_at_ms == SIM_NEVER ? -1 : key->expire_at_ms - space->now_ms,
        .n_items = key->type == SIM_STRING ? 1 : key->n_items,
        .internal = key,
    };
}

bool sim_server_next_key(const struct sim_server *server, struct sim_key_info *info)
{
    const struct sim_key *at = info->internal;
    const struct sim_key *key = at ? at->hh.next : server->space.keys;

    while (key && !sim_key_is_live(&server->space, key)) {
        key = key->hh.next;
    }
    if (!key) {
        return false;
    }
    describe(&server->space, key, info);
    return true;
}

bool sim_server_find_key(const struct sim_server *server, struct sim_view name,
                         struct sim_key_info *ret_info)
{
    const struct sim_key *key = sim_key_peek(&server->space, name);

    if (!key) {
        return false;
    }
    describe(&server->space, key, ret_info);
    return true;
}

struct sim_item_info sim_key_item(const struct sim_key_info *info, size_t i)
{
    const struct sim_key *key = info->internal;
    const struct sim_item *item;

    if (key->type == SIM_STRING) {
        return (struct sim_item_info){.value = sim_view_of(key->string)};
    }
    item = &key->items[i];
    return (struct sim_item_info){
        .name = sim_view_of(item->name),
        .value = sim_view_of(item->value),
        .score = item->score,
    };
}

bool sim_server_find_field(const struct sim_server *server, struct sim_view key_name,
                           struct sim_view field, struct sim_view *ret_value)
{
    const struct sim_key *key = sim_key_peek(&server->space, key_name);
    size_t at;

    if (key && key->type == SIM_STRING && sim_view_equal(sim_view_of(key->string), field)) {
        *ret_value = (struct sim_view){"1", 1};
        return true;
    }
    if (!key || key->type != SIM_HASH) {
        return false;
    }
    at = sim_item_find(key, field, 0);
    if (at == key->n_items) {
        return false;
    }
    *ret_value = sim_view_of(key->items[at].value);
    return true;
}

size_t sim_server_n_conns(const struct sim_server *server)
{
    return HASH_COUNT(server->conns);
}

size_t sim_server_n_channels(const struct sim_server *server)
{
    return (size_t)HASH_COUNT(server->channels[0]) + HASH_COUNT(server->channels[1]);
}

static const struct sim_list *subscribers_of(const struct sim_server *server,
                                             struct sim_view channel, bool sharded)
{
    static const struct sim_list none;
    const struct sim_channel *found;

    HASH_FIND(hh, server->channels[sharded], channel.data, channel.len, found);
    return found ? &found->subscribers : &none;
}

size_t sim_server_n_subscribers(const struct sim_server *server, struct sim_view channel,
                                bool sharded)
{
    return subscribers_of(server, channel, sharded)->n_items;
}

bool sim_server_hears(const struct sim_server *server, uint64_t conn, struct sim_view channel,
                      bool sharded)
{
    return sim_list_has(subscribers_of(server, channel, sharded), sim_session_find(server, conn));
}

uint64_t sim_server_n_scripts_run(const struct sim_server *server)
{
    return server->n_scripts_run;
}

uint64_t sim_server_n_writes(const struct sim_server *server)
{
    return server->n_writes;
}
