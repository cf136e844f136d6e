/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"
#include "topology/slot.h"

#include <stdlib.h>
#include <string.h>

/* Plain and sharded channels are two worlds with the same rules; only the words differ. */
enum { PLAIN, SHARDED };

static const char *const subscribe_word[] = {"subscribe", "ssubscribe"};
static const char *const unsubscribe_word[] = {"unsubscribe", "sunsubscribe"};
static const char *const message_word[] = {"message", "smessage"};

void sim_list_add(struct sim_list *list, void *item)
{
    if (list->n_items == list->cap_items) {
        list->cap_items = list->cap_items ? list->cap_items * 2 : 4;
        list->items = realloc(list->items, list->cap_items * sizeof(*list->items));
        if (!list->items) {
            abort();
        }
    }
    list->items[list->n_items++] = item;
}

static size_t list_find(const struct sim_list *list, const void *item)
{
    size_t at = 0;

    while (at < list->n_items && list->items[at] != item) {
        at++;
    }
    return at;
}

bool sim_list_has(const struct sim_list *list, const void *item)
{
    return list_find(list, item) < list->n_items;
}

bool sim_list_remove(struct sim_list *list, const void *item)
{
    size_t at = list_find(list, item);

    if (at == list->n_items) {
        return false;
    }
    list->n_items--;
    memmove(list->items + at, list->items + at + 1, (list->n_items - at) * sizeof(*list->items));
    return true;
}

size_t sim_n_subscriptions(const struct sim_session *conn)
{
    return conn->channels[PLAIN].n_items + conn->channels[SHARDED].n_items;
}

static struct sim_channel *find_channel(const struct sim_server *server, int world,
                                        struct sim_view name)
{
    struct sim_channel *channel;

    HASH_FIND(hh, server->channels[world], name.data, name.len, channel);
    return channel;
}

static struct sim_channel *create_channel(struct sim_server *server, int world,
                                          struct sim_view name)
{
    struct sim_channel *channel = calloc(1, sizeof(*channel));

    if (!channel || !(channel->name = malloc(name.len + 1))) {
        abort();
    }
    memcpy(channel->name, name.data, name.len);
    channel->name_len = name.len;
    HASH_ADD_KEYPTR(hh, server->channels[world], channel->name, channel->name_len, channel);
    return channel;
}

static void free_channel_if_empty(struct sim_server *server, int world, struct sim_channel *channel)
{
    if (channel->subscribers.n_items > 0) {
        return;
    }
    HASH_DEL(server->channels[world], channel);
    free(channel->subscribers.items);
    free(channel->name);
    free(channel);
}

static void acknowledge(struct sim_call *call, int world, const char *word,
                        const struct sim_view *channel)
{
    struct sim_buf *push = &call->server->push;

    sim_resp_array(push, 3);
    sim_resp_bulk(push, word, strlen(word));
    if (channel) {
        sim_reply_view(push, *channel);
    } else {
        sim_resp_nil(push);
    }
    sim_resp_integer(push, (int64_t)call->conn->channels[world].n_items);
    sim_push(call->server, call->conn);
}

static void subscribe(struct sim_call *call, int world)
{
    for (size_t i = 1; i < call->argc; i++) {
        struct sim_channel *channel = find_channel(call->server, world, call->argv[i]);

        if (!channel) {
            channel = create_channel(call->server, world, call->argv[i]);
        }
        if (!sim_list_has(&channel->subscribers, call->conn)) {
            sim_list_add(&channel->subscribers, call->conn);
            sim_list_add(&call->conn->channels[world], channel);
        }
        acknowledge(call, world, subscribe_word[world], &call->argv[i]);
    }
}

static void leave(struct sim_server *server, int world, struct sim_session *conn,
                  struct sim_channel *channel)
{
    sim_list_remove(&channel->subscribers, conn);
    sim_list_remove(&conn->channels[world], channel);
    free_channel_if_empty(server, world, channel);
}

static void unsubscribe(struct sim_call *call, int world)
{
    struct sim_list *mine = &call->conn->channels[world];
    const char *word = unsubscribe_word[world];

    if (call->server->dialect == SIM_VALKEY_8 && sim_n_subscriptions(call->conn) == 0) {
        sim_reply_errorf(call->reply, "NOSUB '%s' command executed not in subscribed mode", word);
        return;
    }
    if (call->argc == 1 && mine->n_items == 0) {
        acknowledge(call, world, word, NULL);
    }
    while (call->argc == 1 && mine->n_items > 0) {
        struct sim_channel *channel = mine->items[0];

        sim_list_remove(mine, channel);
        acknowledge(call, world, word, &(struct sim_view){channel->name, channel->name_len});
        leave(call->server, world, call->conn, channel);
    }
    for (size_t i = 1; i < call->argc; i++) {
        struct sim_channel *channel = find_channel(call->server, world, call->argv[i]);

        if (channel && sim_list_has(mine, channel)) {
            leave(call->server, world, call->conn, channel);
        }
        acknowledge(call, world, word, &call->argv[i]);
    }
}

void sim_pubsub_leave_all(struct sim_server *server, struct sim_session *conn)
{
    for (int world = PLAIN; world <= SHARDED; world++) {
        while (conn->channels[world].n_items > 0) {
            leave(server, world, conn, conn->channels[world].items[0]);
        }
    }
}

void sim_pubsub_drop_slot(struct sim_server *server, unsigned slot)
{
    struct sim_channel *channel;
    struct sim_channel *next;

    HASH_ITER(hh, server->channels[SHARDED], channel, next) {
        size_t n = channel->subscribers.n_items;

        if (rlock__slot((struct rlock__bytes){channel->name, channel->name_len}) != slot) {
            continue;
        }
        for (size_t i = 0; i < n; i++) { /* the channel goes with the last */
            struct sim_session *conn = channel->subscribers.items[0];
            struct sim_call call = {.server = server, .conn = conn};
            struct sim_view name = {channel->name, channel->name_len};

            sim_list_remove(&conn->channels[SHARDED], channel);
            acknowledge(&call, SHARDED, unsubscribe_word[SHARDED], &name);
            leave(server, SHARDED, conn, channel);
        }
    }
}

/* Returns how many heard it. */
static size_t deliver(struct sim_server *server, int world, struct sim_view name,
                      struct sim_view message)
{
    const struct sim_channel *channel = find_channel(server, world, name);
    struct sim_buf *push = &server->push;
    size_t n = channel ? channel->subscribers.n_items : 0;

    for (size_t i = 0; i < n; i++) {
        sim_resp_array(push, 3);
        sim_resp_bulk(push, message_word[world], strlen(message_word[world]));
        sim_reply_view(push, name);
        sim_reply_view(push, message);
        sim_push(server, channel->subscribers.items[i]);
    }
    return n;
}

void sim_server_deliver(struct sim_server *server, struct sim_view channel, struct sim_view message)
{
    deliver(server, PLAIN, channel, message);
}

static void publish(struct sim_call *call, int world)
{
    const struct sim_events *events = &call->server->events;

    sim_resp_integer(call->reply,
                     (int64_t)deliver(call->server, world, call->argv[1], call->argv[2]));
    if (world == PLAIN && events->on_publish) {
        events->on_publish(events->payload, call->argv[1], call->argv[2]);
    }
}

static void reply_numsub(struct sim_call *call, int world)
{
    sim_resp_array(call->reply, 2 * (call->argc - 2));
    for (size_t i = 2; i < call->argc; i++) {
        const struct sim_channel *channel = find_channel(call->server, world, call->argv[i]);

        sim_reply_view(call->reply, call->argv[i]);
        sim_resp_integer(call->reply, channel ? (int64_t)channel->subscribers.n_items : 0);
    }
}

static void reply_channels(struct sim_call *call, int world)
{
    struct sim_view pattern = call->argc > 2 ? call->argv[2] : SIM_VIEW("*");
    const struct sim_channel *channel;
    size_t n = 0;

    for (channel = call->server->channels[world]; channel; channel = channel->hh.next) {
        n += sim_glob_match(pattern, (struct sim_view){channel->name, channel->name_len});
    }
    sim_resp_array(call->reply, n);
    for (channel = call->server->channels[world]; channel; channel = channel->hh.next) {
        if (sim_glob_match(pattern, (struct sim_view){channel->name, channel->name_len})) {
            sim_resp_bulk(call->reply, channel->name, channel->name_len);
        }
    }
}

static void cmd_subscribe(struct sim_call *call)
{
    subscribe(call, PLAIN);
}

static void cmd_ssubscribe(struct sim_call *call)
{
    subscribe(call, SHARDED);
}

static void cmd_unsubscribe(struct sim_call *call)
{
    unsubscribe(call, PLAIN);
}

static void cmd_sunsubscribe(struct sim_call *call)
{
    unsubscribe(call, SHARDED);
}

static void cmd_publish(struct sim_call *call)
{
    publish(call, PLAIN);
}

static void cmd_spublish(struct sim_call *call)
{
    publish(call, SHARDED);
}

static void cmd_numsub(struct sim_call *call)
{
    reply_numsub(call, PLAIN);
}

static void cmd_shardnumsub(struct sim_call *call)
{
    reply_numsub(call, SHARDED);
}

static void cmd_channels(struct sim_call *call)
{
    reply_channels(call, PLAIN);
}

static void cmd_shardchannels(struct sim_call *call)
{
    reply_channels(call, SHARDED);
}

static const struct sim_command pubsub_subs[] = {
    {"numsub", -2, 0, cmd_numsub, NULL},
    {"channels", -2, 0, cmd_channels, NULL},
    {"shardnumsub", -2, 0, cmd_shardnumsub, NULL},
    {"shardchannels", -2, 0, cmd_shardchannels, NULL},
    {NULL, 0, 0, NULL, NULL},
};

const struct sim_command sim_commands_pubsub[] = {
    {"subscribe", -2, SIM_CMD_NOSCRIPT | SIM_CMD_PUBSUB, cmd_subscribe, NULL},
    {"unsubscribe", -1, SIM_CMD_NOSCRIPT | SIM_CMD_PUBSUB, cmd_unsubscribe, NULL},
    {"ssubscribe", -2, SIM_CMD_NOSCRIPT | SIM_CMD_PUBSUB, cmd_ssubscribe, NULL},
    {"sunsubscribe", -1, SIM_CMD_NOSCRIPT | SIM_CMD_PUBSUB, cmd_sunsubscribe, NULL},
    {"publish", 3, 0, cmd_publish, NULL},
    {"spublish", 3, 0, cmd_spublish, NULL},
    {"pubsub", -2, 0, NULL, pubsub_subs},
    {NULL, 0, 0, NULL, NULL},
};
