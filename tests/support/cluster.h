/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of a test's own as one cluster, and slots that are moved between them step by step. */
#ifndef RLOCK_TEST_CLUSTER_H
#define RLOCK_TEST_CLUSTER_H

#include "support/server.h"

#include <stddef.h>

/* The lines of a server's configuration that it needs for this, on a transport with a port. */
extern const char *const cluster_conf[];

/* Makes one cluster of servers that were started with them. The first has all slots. Returns when
 * each knows all others. */
void cluster_join(struct test_server *const *servers, size_t n);

/* Makes one cluster of primaries, each with a share of the slots, and as many replicas or fewer
 * behind them, one for each primary in this order. Returns when all is copied, and known to all. */
void cluster_form(struct test_server *const *servers, size_t n_primaries, size_t n);
/* Which of these primaries had the slot at first. */
struct test_server *cluster_primary_of(struct test_server *const *servers, size_t n_primaries,
                                       unsigned int slot);
/* Writes the URL of a cluster that some of its servers are asked for. */
void cluster_url(struct test_server *const *servers, size_t n, char *out, size_t size);

/* The configuration that cluster_enlarge() needs in place of cluster_conf. */
extern const char *const cluster_large_conf[];
/* Adds n primaries to what the servers of a cluster know, each with a slot of the first server,
 * which had all. These primaries do not run; the servers take an hour to notice. */
void cluster_enlarge(struct test_server *const *servers, size_t n_servers, size_t n);
/* For a client's on_address: leads from an added primary to the last server of the latest cluster
 * that was enlarged, so that a client may ask any node for the map. */
unsigned int cluster_map_added(unsigned int port);

/* Has one more server, which has nothing yet, join n others; and has them forget it when it has no
 * slots. */
void cluster_add(struct test_server *const *servers, size_t n, struct test_server *added);
void cluster_remove(struct test_server *const *servers, size_t n, struct test_server *removed);

/* Moves a slot with all its keys, and tells all n primaries. */
void cluster_move_slot(struct test_server *const *servers, size_t n, size_t from, size_t to,
                       unsigned int slot);
/* One step of a move: which state the slot has at a server, with the other side where the state has
 * one (else NULL). */
void cluster_set_slot(struct test_server *server, unsigned int slot, const char *state,
                      struct test_server *other);
/* Lets a slot be moved from one to the other: the target imports it, then the source lets go. */
void cluster_open_slot(struct test_server *from, struct test_server *to, unsigned int slot);
/* Moves a key of an open slot. */
void cluster_move_key(struct test_server *from, struct test_server *to, const char *key);
/* Moves all keys of an open slot. */
void cluster_move_keys(struct test_server *from, struct test_server *to, unsigned int slot);
/* Ends the move where it began: the slot stays with the source, which is told first. */
void cluster_abort_slot(struct test_server *from, struct test_server *to, unsigned int slot);

#endif
