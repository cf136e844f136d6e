/* SPDX-License-Identifier: Apache-2.0 */
/* What every simulated world is made of: chance, clocks, and what it says. */
#include <stdarg.h>
#include <stdio.h>

#include "world.h"

int64_t sim_random(struct sim_world *world, int64_t n)
{
    uint64_t z =
        (world->random += 0x9E3779B97F4A7C15ULL); /* splitmix64 (Steele, Lea, Flood 2014) */

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return n > 0 ? (int64_t)(((z ^ (z >> 31)) >> 1) % (uint64_t)n) : 0;
}

bool sim_chance(struct sim_world *world, int64_t per_mille)
{
    return sim_random(world, 1000) < per_mille;
}

void sim_trace(const struct sim_world *world, const char *format, ...)
{
    va_list args;

    if (!world->trace) {
        return;
    }
    printf("%10.3f ms  ", (double)world->now / 1000);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    printf("\n");
}

void sim_violate(struct sim_world *world, const char *format, ...)
{
    va_list args;

    if (world->violation[0] != '\0') {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(world->violation, sizeof(world->violation), format, args);
    va_end(args);
    sim_trace(world, "VIOLATION: %s", world->violation);
}

int64_t sim_drifted(int64_t now, int64_t ppm)
{
    return now + now / 1000000 * ppm + now % 1000000 * ppm / 1000000;
}

int64_t sim_clock(const struct sim_client *client)
{
    return sim_drifted(client->world->now, client->ppm) + client->offset;
}

bool sim_is_paused(const struct sim_client *client)
{
    return client->world->now < client->paused_until;
}

int64_t sim_world_time(const struct sim_client *client, int64_t at)
{
    int64_t left = at - sim_clock(client);

    return left <= 0 ? client->world->now
                     : client->world->now + left * 1000000 / (1000000 + client->ppm) + 1;
}

int64_t sim_reader_ttl(const struct sim_world *world, struct sim_view key, struct sim_view owner,
                       long count)
{
    struct sim_key_info info;
    int64_t longest = -2;
    char name[160];

    for (; count > 0; count--) {
        int n = snprintf(name, sizeof(name), "{%.*s}:%.*s:rwlock_timeout:%ld", (int)key.len,
                         key.data, (int)owner.len, owner.data, count);

        if (sim_find_key(world, (struct sim_view){name, (size_t)n}, &info)) {
            longest = rlock__max(longest, info.pttl_ms < 0 ? RLOCK__NEVER : info.pttl_ms);
        }
    }
    return longest;
}

const struct sim_client *sim_owner_client(const struct sim_world *world, struct sim_view owner)
{
    for (unsigned i = 0; i < world->config.n_clients; i++) {
        const struct sim_client *client = world->clients[i];

        if (client != NULL && owner.len >= RLOCK__UUID_LEN &&
            memcmp(owner.data, client->core.opts.uuid, RLOCK__UUID_LEN) == 0) {
            return client;
        }
    }
    return NULL;
}
