/* SPDX-License-Identifier: Apache-2.0 */
/* The permits of a semaphore on the server. */
#ifndef RLOCK_TEST_SIM_PERMITS_H
#define RLOCK_TEST_SIM_PERMITS_H

#include "world.h"

/* How many permits of the semaphore an owner "uuid:number" has, and how long. */
uint32_t sim_permits_of(const struct sim_world *world, unsigned key, const char *owner,
                        int64_t *ret_left_ms);
/* The number of free permits. Returns false if the server has none, or what is no number. */
bool sim_permits_number(const struct sim_world *world, unsigned key, int64_t *ret_free);
/* How many levels of the user's hold these are. */
long sim_permits_levels(const struct sim_user *user, const char *owner);
/* Looks at the invariants of a semaphore. */
void sim_permits_look(struct sim_world *world, unsigned key);
/* Somebody deletes all permits that are out. */
void sim_permits_delete(struct sim_world *world, unsigned key);
/* Whether each permit that is out is a text's. */
bool sim_permits_are_texts(const struct sim_world *world, const struct sim_key_info *info);
/* Whether a key at the end says that all permits are free. inout_left_ms: until they are. */
bool sim_permits_are_free(const struct sim_world *world, const struct sim_key_info *info,
                          int64_t *inout_left_ms);

/* ---- peers.c ---- */

void sim_peer_start(struct sim_world *world);
/* Before each step: it takes units, or gives some back. */
void sim_peer_step(struct sim_world *world);
/* At the end it gives back all. */
void sim_peer_goes(struct sim_world *world);
/* This key is gone: if it is the number, the units that the program has do not count any more. */
void sim_peer_forgets(struct sim_world *world, const char *name);

/* ---- latch.c ---- */

/* Whether the world has latches, and no locks. */
bool sim_latch_is(const struct sim_world *world);
void sim_latch_start(void);
/* After each step: looks at the invariants of a latch. */
void sim_latch_look(struct sim_world *world, unsigned key);
/* What the program with another library does next. dice: 0 or more. */
void sim_latch_peer(struct sim_world *world, unsigned key, int64_t dice);
/* A user begins a call, and ends it. */
void sim_latch_act(struct sim_user *user);
void sim_latch_done(struct sim_user *user);

#endif
