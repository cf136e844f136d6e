/* SPDX-License-Identifier: Apache-2.0 */
/* Chance, the clock, and what stands in frames and scripts. */
#include "fair/town.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

int64_t town_below(struct town *town, int64_t n)
{
    return rlock__random_below(&town->random, n);
}

bool town_chance(struct town *town, int64_t per_mille)
{
    return town_below(town, 1000) < per_mille;
}

void town_tell_time(struct town *town)
{
    sim_server_set_time(town->server, town->now * 1000);
}

void town_type(struct town *town, const char *const *words)
{
    town_tell_time(town);
    (void)sim_server_words(town->server, town->conn, words);
    town_see(town, NULL);
}

const struct rlock__script *town_without_counts(const struct rlock__script *script)
{
    static struct rlock__script copies[8];
    static char texts[8][16384];
    static size_t n;
    char *at;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(copies[i].name, script->name) == 0) {
            return &copies[i];
        }
    }
    (void)snprintf(texts[n], sizeof(texts[n]), "%s", script->body);
    for (at = strstr(texts[n], "'numsub'"); at != NULL; at = strstr(at, "'numsub'")) {
        memcpy(at, "'nobody'", 8);
    }
    copies[n] = *script;
    copies[n].body = texts[n];
    return &copies[n++];
}

int64_t town_ticket_in(const char *bytes, size_t len)
{
    char text[256];
    const char *at;

    (void)snprintf(text, sizeof(text), "%.*s", (int)len, bytes);
    at = strstr(text, "\r\np ");
    at = at != NULL ? strchr(at + 4, ' ') : NULL;
    return at != NULL ? strtoll(at, NULL, 10) : 0;
}
