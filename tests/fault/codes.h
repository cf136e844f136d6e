/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which codes the functions of the library return: what the header lists, and what was seen. A
 * scene is a state of the world in which functions are called.
 */
#ifndef RLOCK_TEST_FAULT_CODES_H
#define RLOCK_TEST_FAULT_CODES_H

#include <rlock/admin.h>
#include <rlock/leader.h>
#include <rlock/stats.h>

#include "support/fixture.h"

enum function {
    OPEN,
    NEW,
    MULTI_NEW,
    REDLOCK_NEW,
    CANCEL_NEW,
    LOCK_FOR,
    UNLOCK,
    EXTEND,
    DETACH,
    HOLD_TEXT,
    ADOPT,
    FORCE,
    INSPECT,
    MEMBERS,
    ASYNC, /* what the async calls return at once */
    OP_GRANT,
    OP_INFO,
    OP_TEXT,
    DISPATCH,
    SCAN,
    SET_UNITS,
    ADD_UNITS,
    HELD,
    LAST_FAILURE,
    OP_FAILURE,
    OWNER_END,
    STATS,
    METRICS,
    LEADER_NEW,
    LEADER_RESIGN,
    FUNCTIONS
};

/* Nothing was seen yet. What a child of fork sees counts too. */
void open_codes(void);
/* Fails the test unless each function returned every code that the header lists for it, and no
 * other; ends what open_codes() began. */
void check_seen(void);

/* What the scene before has left on the servers is gone. f: NULL for none. */
void begin_scene(const struct fixture *f, const char *name);
/* Counts what a function returned in this scene. Returns it. */
int record(enum function function, int code);
bool was_seen(enum function function, int code);

struct stage {
    struct fixture *f;
    struct rlock_client *client; /* of the first server, behind the proxy */
    struct rlock_handle *lock;
    struct rlock_handle *permits; /* NULL: none */
};

/* Short timeouts, for a server that does not answer. */
struct rlock_client_opts opts_of(const char *url);
/* These functions record each code that they get. */
struct rlock_client *open_client(const struct rlock_client_opts *opts);
struct rlock_handle *new_lock(struct rlock_client *client);
void open_stage(struct stage *stage, struct fixture *f, struct rlock_client_opts opts);
void close_stage(struct stage *stage);
int lock_for(struct rlock_handle *lock, int64_t wait_ms);
int unlock(struct rlock_handle *lock);
int extend(struct rlock_handle *lock);
int detach(struct rlock_handle *lock, char text[static RLOCK_TEXT_SIZE]);
/* Resizes the stage's permits; or the lock, which cannot be resized. */
void resize(const struct stage *stage);
/* text: NULL for a text of a hold that has ended. */
int adopt(struct rlock_handle *lock, const char *text);
/* The async calls, each once; and all that a lock and its client have. */
void call_async(struct rlock_handle *lock);
void call_all(const struct stage *stage);
/* Makes a candidate. */
struct rlock_leader *make_leader(struct rlock_handle *lock);

rlock_found_fn pass_key;
rlock_member_fn pass_member;

/* ---- Groups ---- */

enum { SERVERS = 3 };

struct group {
    struct rlock_client *clients[SERVERS];
    struct rlock_handle *members[SERVERS], *multi, *redlock;
};

/* is_direct: past the proxies, which are threads of this process. */
void open_group(struct group *group, struct fixture *f, int64_t max_lease_ms, bool is_direct);
void call_group(const struct group *group);
void close_group(struct group *group);
void free_group(struct group *group);

/* ---- Scenes of codes_process.c ---- */

void play_callbacks(struct fixture *f);
void play_closed(struct fixture *f);
void play_loop(struct fixture *f);
void play_fork(struct fixture *f);
void play_memory(struct fixture *f);
void play_files(struct fixture *f);

#endif
