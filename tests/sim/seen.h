/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator's checkers remember of the server between two looks. */
#ifndef RLOCK_TESTS_SIM_SEEN_H
#define RLOCK_TESTS_SIM_SEEN_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "lock/core.h"

#define SIM_MAX_CLIENTS 8
#define SIM_QUEUE 160
#define SIM_ENTRIES 64
#define SIM_ENTRIES_MS 120000 /* a queue ends by then: a minute, but clocks may be set back */
#define SIM_OWNER_SIZE 64

/* A lock's queue on the server as it was last seen. */
struct sim_queue {
    size_t n;
    size_t most_peers;
    bool agrees;                /* list and scores have the same members */
    int64_t list_ms, scores_ms; /* until they end; -1 never */
    bool had_text;              /* its last holder was a text: no message reports its end */
    bool meddled;               /* somebody changed it by hand */
    char holder[SIM_OWNER_SIZE];
    int64_t free_at;    /* since when the lock is free, or will be */
    int64_t head_since; /* since when the first one is that */
    int64_t dead_since; /* and that under a free lock with one score, nobody hearing it */
    int64_t seen_dead;  /* when a call was refused that began after that; 0 none */
    char names[SIM_QUEUE][SIM_OWNER_SIZE];
    double scores[SIM_QUEUE];
    char notes[SIM_QUEUE][SIM_OWNER_SIZE];
};

/* The queue that waiting calls enter on the server, as it was last seen. */
struct sim_entries {
    size_t n;
    int64_t ends_ms;
    char holder[SIM_OWNER_SIZE]; /* of the lock; "" none */
    int64_t held_since, free_at; /* world clock */
    char names[SIM_ENTRIES][SIM_OWNER_SIZE];
    double tickets[SIM_ENTRIES];
    int64_t since[SIM_ENTRIES]; /* world clock */
};

/* Somebody else's key, now and then. */
struct sim_foreign {
    uint64_t random;
    int64_t at;                       /* when it comes, or goes */
    bool stands, is_lock, looks_held; /* under the lock's own name; somebody's, as it looks */
    unsigned key;
    int64_t since;
    uint64_t was; /* what it is, as a number */
    char name[64];
};

/* A program with another library that has units of a semaphore: sim_world.peer_units. */
struct sim_peer {
    uint64_t random;
    int64_t at; /* when it takes some, or gives some back */
};

/* An owner that must not be on the server any more. */
struct sim_dead {
    UT_hash_handle hh;
    char why[24];
    char owner[RLOCK__OWNER_SIZE + 6];
};

/* Who has had a key when, by the world's clock. */
struct sim_turns {
    char holder[SIM_OWNER_SIZE];
    int64_t left_at[SIM_MAX_CLIENTS];      /* the client's latest hold ended */
    int64_t left_before[SIM_MAX_CLIENTS];  /* the one before that */
    int64_t peer_at[SIM_MAX_CLIENTS];      /* it was answered that another library has the key */
    int64_t gave_at[SIM_MAX_CLIENTS];      /* its latest release was begun */
    bool was_clear[SIM_MAX_CLIENTS];       /* and it was known then whether it heard the channel */
    int64_t wanted_at[SIM_MAX_CLIENTS];    /* a user's call for it was last seen to go on */
    int64_t adopted_at[SIM_MAX_CLIENTS];   /* it adopted a hold, which was announced */
    int64_t answered_at[SIM_MAX_CLIENTS];  /* a release that others heard was */
    int64_t yields_until[SIM_MAX_CLIENTS]; /* it lets others go first */
};

#endif
