/* SPDX-License-Identifier: Apache-2.0 */
/* The network between the library's sockets and simulated servers: bytes arrive late, in pieces, in
 * their order; connections break; servers stop. */
#ifndef RLOCK_TEST_SCHED_NET_H
#define RLOCK_TEST_SCHED_NET_H

#include "sched.h"
#include "sim/server.h"

#define SCHED_SERVERS_MAX 3
#define SCHED_PORT 6001 /* of the first server; the next ones follow */

struct sched_net_config {
    uint64_t seed;
    int64_t delay_min_us, delay_max_us; /* of each way */
    size_t window;                      /* so many bytes are under way to a server at most */
    int64_t pieces;                     /* so many of a thousand sends and replies come in two */
};

void sched_net_begin(struct sim_server *const servers[SCHED_SERVERS_MAX],
                     const struct sched_net_config *config);
void sched_net_end(void);
/* Breaks every connection to a server: what was under way arrives in part, or late, or never. */
void sched_net_cut(unsigned server);
/* Breaks one of them. */
void sched_net_cut_one(unsigned server);
/* The server stands still, and takes up what came meanwhile. */
void sched_net_stop(unsigned server, int64_t us);
/* The longest that a round trip takes by itself. */
int64_t sched_net_round_trip(void);
/* Whether bytes can be sent on the socket now; whether some are there to be read. */
bool sched_net_is_writable(int fd);
bool sched_net_is_readable(int fd);

#endif
