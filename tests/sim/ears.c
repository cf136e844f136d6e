/* SPDX-License-Identifier: Apache-2.0 */
/* Who believes to hear a channel hears it. */
#include "lock/server/channel.h"
#include "world.h"

/* With nothing broken all that listen are there, at any time. */
static void check_ears(struct sim_world *world, unsigned key)
{
    struct rlock__bytes channel = world->clients[0]->specs[0][key]->channel;
    size_t believing = 0;

    for (unsigned i = 0; i < world->config.n_clients; i++) {
        bool believes = false;

        for (unsigned j = 0; j < world->clients[i]->n_users; j++) {
            const struct sim_user *user = &world->clients[i]->users[j];

            believes |= user->calling && user->key == key && rlock__channel_is_live(&user->call);
        }
        believing += believes;
    }
    if (sim_n_subscribers(world, (struct sim_view){channel.at, channel.len}) < believing) {
        sim_violate(world, "somebody believes to hear the channel of %s, and does not",
                    world->keys[key]);
    }
}

static struct sim_view key_of(const struct rlock__channel *channel)
{
    size_t prefix = strlen(RLOCK__TRACKED);

    return (struct sim_view){channel->name.at + prefix, channel->name.len - prefix};
}

/* With nothing under way the server has each subscription that it acknowledged, and did not end. A
 * channel that is kept for a waiter to come is heard, or asked for. */
static void check_subscriptions(const struct sim_client *client, unsigned node)
{
    const struct sim_world *world = client->world;
    const struct sim_conn *conn = client->subs[node].conn;
    const struct sim_server *server = world->nodes[node].server;
    struct rlock__table_node *at = NULL;

    if (client->subs[node].state != SIM_UP || conn->under_way != NULL) {
        return;
    }
    while ((at = rlock__table_after(&client->nodes[node].channels, at)) != NULL) {
        const struct rlock__channel *channel = RLOCK__OF(struct rlock__channel, node, at);
        struct sim_view name = {channel->name.at, channel->name.len};

        if ((channel->live &&
             !sim_server_hears(server, conn->id, name, client->nodes[node].sub.is_sharded)) ||
            (channel->plain && !sim_server_hears(server, conn->id, name, false))) {
            sim_violate(client->world, "client %u: believes to hear %.*s at node %u, and does not",
                        client->index, (int)name.len, name.data, node);
        }
        if (channel->is_armed && world->config.faults == 0 && /* no message is lost */
            !sim_server_tracks(server, conn->id, key_of(channel))) {
            sim_violate(client->world, "client %u: relies on node %u for %.*s, and is not told",
                        client->index, node, (int)name.len, name.data);
        }
        if (channel->stock != NULL && !channel->live && channel->asked == RLOCK__ASKED_NOTHING) {
            sim_violate(client->world, "client %u: counts on %.*s, and does not ask to hear it",
                        client->index, (int)name.len, name.data);
        }
    }
}

void sim_check_ears(struct sim_world *world)
{
    bool one_channel = world->config.other == NULL && world->only.queues == 0 &&
                       (world->config.kind->caps & (RLOCK__CAP_QUEUES | RLOCK__CAP_TRACKS)) == 0;

    for (unsigned i = 0; i < world->config.n_keys && world->config.faults == 0 && one_channel;
         i++) {
        check_ears(world, i);
    }
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        for (unsigned node = 0; node < world->config.n_nodes; node++) {
            check_subscriptions(world->clients[i], node);
        }
    }
}
