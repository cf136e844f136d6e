/* SPDX-License-Identifier: Apache-2.0 */
/* Those who hold locks until they are let go, and are counted meanwhile. */
#ifndef RLOCK_TEST_ROOM_H
#define RLOCK_TEST_ROOM_H

#include "support/clients.h"

/* Whoever is inside is in a cell of this witness: that of the digit which ends the lock's name. */
void room_open(struct witness *witness);
int room_inside(void);
/* All may go, those who come too. */
void room_let_go(void);

/* For an actor: takes the lock, stays, gives it back. */
act_fn act_stay;

#endif
