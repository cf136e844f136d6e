/* SPDX-License-Identifier: Apache-2.0 */
/* What world.c and actor.c say to each other. */
#ifndef RLOCK_TEST_CONFORMANCE_WORLD_IMPL_H
#define RLOCK_TEST_CONFORMANCE_WORLD_IMPL_H

#include "world.h"

enum { CONF_MAX = 600 }; /* clients, locks, actors of a world */

struct actor *actor_new(void);
/* Ends the thread if it has not exited. */
void actor_free(struct actor *actor);

#endif
