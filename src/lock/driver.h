/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver of a core sets before it starts the core: options, and the functions that the
 * core calls. Both are constant from then on. */
#ifndef RLOCK_LOCK_DRIVER_H
#define RLOCK_LOCK_DRIVER_H

#include <rlock/rlock.h>

#include "base/bytes.h"
#include "base/guarded.h"
#include "base/uuid.h"

struct rlock__core;
struct rlock__link;
struct rlock__reply;
struct rlock__server;
struct rlock__spec;

struct rlock__core_opts {
    char uuid[RLOCK__UUID_LEN + 1];
    char text_uuid[RLOCK__UUID_LEN + 1]; /* the texts that holds are detached to have this one */
    uint64_t serial;                     /* of the client in this process */
    int64_t op_timeout_us, renewed_lease_us, margin_us;
    int64_t failover_us; /* wire/pipeline.h; 0: nobody replaces a server */
    int64_t unused_us;   /* an unneeded server is disconnected after this; 0: RLOCK__UNUSED_US */
    bool announces_both; /* with sharded channels: uses plain ones too, for sending and receiving */
    bool no_pass;        /* no hold is passed on inside the client */
    bool queues;         /* waiting calls enter the lock's queue on the server: call/enter.h */
    int acks;            /* how many replicas must acknowledge: a number, or RLOCK_ACKS_... */
    bool acks_on_disk;   /* they must have it on disk, and the primary too */
    struct rlock__bytes prefix;
    int log_level;
    bool logs_all;       /* logs each line, without a limit: a simulator replays a seed */
    size_t slice;        /* holds and recoveries that one event visits; 0: RLOCK__SLICE */
    const char *address; /* the client's whole deployment: for ordering, and for texts */
};

/* What a server's error says about the place of a key. */
enum rlock__redirect {
    RLOCK__NO_REDIRECT,
    RLOCK__MOVED, /* another server has the key */
    RLOCK__ASK,   /* another server has it for this command alone */
};

struct rlock__driver {
    void (*unref)(struct rlock__core *core); /* the last spec is gone */
    /* The slot of a key in a cluster; NULL: there is one server. */
    unsigned (*slot)(struct rlock__bytes key);
    /* The server that has the lock's key, as far as the driver knows by now. */
    struct rlock__server *(*route)(struct rlock__core *core, const struct rlock__spec *spec);
    /*
     * Reads a server's error. On MOVED the driver's map has learned the place; on ASK nothing
     * remembers it. ret_server: the server that has the key; NULL: the driver cannot reach it.
     * The function is NULL if there is one server.
     */
    enum rlock__redirect (*redirect)(struct rlock__core *core, const struct rlock__link *link,
                                     const struct rlock__reply *reply,
                                     struct rlock__server **ret_server);
    /* A server has become a replica: the driver may know the primary. NULL: it does not. */
    void (*on_demoted)(struct rlock__core *core);
};

#endif
