/* SPDX-License-Identifier: Apache-2.0 */
#include "support/room.h"

#include <stdatomic.h>
#include <string.h>

enum { STAY_MS = 20000 };

static struct {
    struct witness *witness;
    atomic_int inside;
    atomic_ullong ids;
    atomic_bool may_go;
} room;

void room_open(struct witness *witness)
{
    room.witness = witness;
    atomic_store(&room.may_go, false);
}

int room_inside(void)
{
    return atomic_load(&room.inside);
}

void room_let_go(void)
{
    atomic_store(&room.may_go, true);
}

int act_stay(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    const char *name = rlock_name(lock, NULL);
    const size_t cell = (size_t)(name[strlen(name) - 1] - '0');
    const uint64_t id = atomic_fetch_add(&room.ids, 1) + 1;
    const int code = rlock_lock_for(lock, wait_ms, take, NULL);

    if (code != 0) {
        return code;
    }
    witness_enter(room.witness, cell, id);
    atomic_fetch_add(&room.inside, 1);
    TEST_CHECK(TEST_EVENTUALLY(atomic_load(&room.may_go), STAY_MS));
    atomic_fetch_sub(&room.inside, 1);
    witness_leave(room.witness, cell, id);
    return rlock_unlock(lock);
}
