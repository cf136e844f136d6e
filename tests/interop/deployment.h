/* What the locks of a job are on: servers by themselves, a cluster, or what Sentinels watch. */
#ifndef RLOCK_INTEROP_DEPLOYMENT_H
#define RLOCK_INTEROP_DEPLOYMENT_H

#include "support/sentinel.h"
#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>

enum { MAX_SERVERS = 6 };

enum topology { STANDALONE, CLUSTER, SENTINEL };

/* A deployment by its name. */
struct layout {
    const char *name;
    enum topology topology;
};

struct deployment {
    const struct layout *layout;
    struct test_server *servers[MAX_SERVERS];
    bool is_down[MAX_SERVERS];
    bool hears_plain; /* everybody hears plain channels, some sharded ones too */
    size_t n_servers;
    struct sentinels sentinels;
    char urls[MAX_SERVERS][160]; /* a client needs one of each */
    size_t n_urls;
};

extern const struct layout deployment_layouts[];
extern const size_t deployment_n_layouts;
extern const struct layout *const deployment_standalone;
const struct layout *deployment_layout(const char *name); /* NULL: there is none */

/* Starts it with servers of that program; by themselves, so many. A cluster is three primaries with
 * a replica each; behind Sentinels a primary has two. */
struct deployment *deployment_start(const struct layout *layout, const char *program, size_t n);
struct deployment *deployment_stop(struct deployment *deployment); /* returns NULL */

/* Which server has the key, or NULL while none is; of servers by themselves, which place says. */
struct test_server *deployment_server(struct deployment *deployment, size_t place, const char *key);

/* ---- not of servers by themselves ---- */

/* Kills the primary of a key whose replica has what it has, and returns when that is primary.
 * False: it was not within 20 s. */
bool deployment_fail_over(struct deployment *deployment, const char *key);
/* Starts those that were killed as replicas, and returns when they have all. */
bool deployment_heal(struct deployment *deployment);
/* Moves the slot of a key, with what is in it, to another primary of the cluster. */
void deployment_reshard(struct deployment *deployment, const char *key);

#endif
