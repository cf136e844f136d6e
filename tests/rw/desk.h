/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A read/write lock on the simulated server, without clients and without a network: each function
 * runs one script, as the library sends it, at the desk's own time. Peers use it as Redisson does.
 */
#ifndef RLOCK_TEST_RW_DESK_H
#define RLOCK_TEST_RW_DESK_H

#include "lock/core.h"
#include "rw/rw.h"
#include "sim/server.h"

struct desk {
    struct sim_server *server;
    uint64_t conn, ear; /* the one that asks, the one that hears the lock's channel */
    int64_t now;        /* ms */
    struct rlock__core core;
    struct rlock__server here; /* of the core */
    struct rlock__spec *read, *write;
    struct sim_buf frame, heard; /* the latest reply; the messages since desk_heard() */
    struct sim_resp *tree;
    struct rlock__value values[400];
};

void desk_init(struct desk *desk, struct rlock__bytes name, bool prefer_writers);
void desk_fini(struct desk *desk);
/* Lets time pass. */
void desk_wait(struct desk *desk, int64_t ms);
/* What was said on the channel since the last look: "", "0", "1", "01", … */
const char *desk_heard(struct desk *desk);

/* One attempt of ours. other: the number of the owner's hold on the other side, 0 none. */
struct rlock__answer desk_acquire(struct desk *desk, const struct rlock__spec *side, uint64_t owner,
                                  uint32_t count, int64_t lease, uint64_t other, bool waits);
struct rlock__answer desk_release(struct desk *desk, const struct rlock__spec *side, uint64_t owner,
                                  uint32_t count, int64_t lease);
/* A batch of one side; what is said of each goes to ret_status. */
void desk_renew(struct desk *desk, const struct rlock__spec *side, const uint64_t *owners, size_t n,
                int64_t lease, int64_t *ret_status);
struct rlock_info desk_inspect(struct desk *desk, const struct rlock__spec *side,
                               struct rlock__buf *ret_seen);
bool desk_force(struct desk *desk, const struct rlock__spec *side, struct rlock__bytes seen);

/* Runs a script of somebody else on the lock: its one integer, or none where that was nil. */
int64_t desk_peer(struct desk *desk, const char *script, const char *owner, int64_t lease,
                  int64_t none);

/* A command by hand: its words, with %b for the lock's key. */
void desk_by_hand(struct desk *desk, const char *command, const char *more);

/* What the server has: a field's value, 0 none; when the lock or a level ends, 0 not there, -1
 * never; how many keys there are. */
long desk_field(struct desk *desk, const char *field);
char desk_mode(struct desk *desk);
int64_t desk_ends(struct desk *desk);
int64_t desk_level_ends(struct desk *desk, const char *owner, unsigned level);
int64_t desk_key_ends(struct desk *desk, const char *key, size_t len);
size_t desk_keys(struct desk *desk);
size_t desk_fields(struct desk *desk);

/* Our owner's name on the wire. */
const char *desk_owner(struct desk *desk, uint64_t number);

#endif
