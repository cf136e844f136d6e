/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the read/write lock share, beyond fixtures and their clients. The
 * lock is the read side, its rival the write side: a witness that knows readers and writers,
 * the lock as the server has it, and peers who are not ours.
 */
#ifndef RLOCK_TEST_RW_ROOM_H
#define RLOCK_TEST_RW_ROOM_H

#include "support/clients.h"

#define CHANNEL "redisson_rwlock:{" NAME "}"
#define ASKS "rlock_writer_waits:{" NAME "}"

/* A test of read/write locks: room_open() opens its fixture, and takes the fixture's witness. */
void room_open(struct fixture *f);
#define ROOM_TEST(name, f) TEST_AROUND(name, struct fixture, f, room_open(f), fixture_close(f))

/* ---- taking part, seen by the witness ---- */

/* Goes in as its lock's kind says, under an id of its own; and out again. */
struct inside {
    uint64_t id;
    bool writes;
};

struct inside room_enter(const struct rlock_handle *lock);
void room_leave(struct inside inside);
/* How many readers are in the room at this moment, as far as actors told. */
size_t room_readers(void);

/* For actors: takes the lock as told, goes in, out, and unlocks; the first code that is not 0. */
act_fn act_visit;
/* The same, staying inside until so many readers are there together. */
act_fn act_visit_with_all;
void room_expect_readers(size_t n);
/* Visits for as long as they are wanted. Ends with a code that is neither 0 nor EBUSY nor
 * ETIMEDOUT. */
void room_stop_visits(void);
act_fn act_keep_visiting;
/* How often readers, or writers, were in the room. */
size_t room_visits(bool writers);

/* ---- what the server has ---- */

/* The hash, "mode read uuid:1 1", in the order of its fields; "" none. Valid until the
 * next call. */
const char *room_hash(struct fixture *f);
#define assert_hash(f, ...) room_assert_hash(f, __FILE__, __LINE__, __VA_ARGS__)
void room_assert_hash(struct fixture *f, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* PTTL of a level of an owner, "uuid:number"; -2 it is not there. */
long long room_level(struct fixture *f, const char *owner, int level);
/* How many levels of anybody there are. */
long long room_levels(struct fixture *f);
/* The name on the wire of a client's n-th acquisition. Of the last few calls. */
const char *room_owner(const struct rlock_client *client, int n);
long long room_ttl(struct fixture *f);

/* A lease as PTTL should say it shortly after it was given. */
#define assert_lease(ms, lease_ms) assert_in_range(ms, (lease_ms)-1000, lease_ms)

/* Messages on the channel, from the moment of the call on: a raw connection. */
int room_listen(struct fixture *f);
/* Waits for one, "0" or "1". */
void room_hears(int fd, const char *payload);
/* Sees that none comes within a moment. */
void room_hears_nothing(int fd);

/* ---- peers ---- */

/* Runs one of the scripts of peer.h: its reply as test_server_cmd() has it; nil is "". */
char *peer_run(struct fixture *f, const char *script, const char *owner, long long lease_ms);
#define peer_says(f, reply, script, owner, lease_ms)                                               \
    room_assert_peer(f, reply, script, owner, lease_ms, __FILE__, __LINE__)
void room_assert_peer(struct fixture *f, const char *reply, const char *script, const char *owner,
                      long long lease_ms, const char *file, int line);

#endif
