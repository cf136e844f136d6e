/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of lock, one row each. A new kind gets every test of cases.h by its row here; CMake
 * reads this list as well.
 */
#ifndef RLOCK_TEST_CONFORMANCE_KINDS_H
#define RLOCK_TEST_CONFORMANCE_KINDS_H

#include "support/fixture.h"

/* What a kind can do. A case that needs more than its kind has is skipped, with the reason. */
enum conf_can {
    CAN_NEST = 1 << 0,          /* its owner may take it again */
    REFUSES_AGAIN = 1 << 1,     /* its owner may not, and is told so */
    EXCLUDES_ITSELF = 1 << 2,   /* two of its kind exclude each other */
    CAN_BE_ASKED = 1 << 3,      /* inspect and force_unlock */
    IS_PLAIN_HASH = 1 << 4,     /* a hash under the lock's own name, its one field the owner */
    ANNOUNCES = 1 << 5,         /* a release is published on redisson_lock__channel */
    LISTENS = 1 << 6,           /* its waiters subscribe to a channel */
    LINES_UP = 1 << 7,          /* of a process only the head of the line asks the server */
    COSTS_TWO_SCRIPTS = 1 << 8, /* one to lock, one to unlock, and nothing else */
    HAS_TOKEN = 1 << 9,         /* each grant has a number, kept under redisson_lock_token */
    QUEUES = 1 << 10,           /* its waiters queue on the server, where dead ones stay a while */
    CALLS_WAIT = 1 << 11,       /* the calling thread waits, and owns: no async calls */
    HAS_ONE_KEY = 1 << 12,      /* that of its own name, held while it is there */
    IS_QUIET = 1 << 13,         /* its waiters hear of a release, and send nothing meanwhile */
    NAMES_HOLDER = 1 << 14,     /* the answer to an attempt names the holder, who alone has it */
    LEASES = 1 << 15, /* its holds may have fixed leases, and be extended and handed over */
    HEARS = LISTENS | IS_QUIET
};

/* What the kinds of one hash have in common. */
#define CONF_PLAIN                                                                                 \
    (EXCLUDES_ITSELF | CAN_BE_ASKED | HAS_ONE_KEY | IS_PLAIN_HASH | ANNOUNCES | LINES_UP |         \
     COSTS_TWO_SCRIPTS | NAMES_HOLDER | LEASES)

/* A row is a struct kind: name, constructor, constructor of a rival, what it can. */
#define CONF_KINDS(X)                                                                              \
    X(reentrant, rlock_reentrant_new, rlock_reentrant_new, CONF_PLAIN | CAN_NEST | HEARS)          \
    X(nonreentrant, rlock_nonreentrant_new, rlock_nonreentrant_new,                                \
      CONF_PLAIN | REFUSES_AGAIN | HEARS)                                                          \
    X(spin, rlock_spin_new, rlock_spin_new, CONF_PLAIN | CAN_NEST)                                 \
    X(setnx, rlock_setnx_new, rlock_setnx_new,                                                     \
      CAN_NEST | EXCLUDES_ITSELF | CAN_BE_ASKED | HAS_ONE_KEY | LINES_UP | COSTS_TWO_SCRIPTS |     \
          IS_QUIET | NAMES_HOLDER | LEASES)                                                        \
    X(permits, one_permit, one_permit,                                                             \
      EXCLUDES_ITSELF | CAN_BE_ASKED | HEARS | LINES_UP | COSTS_TWO_SCRIPTS | LEASES)              \
    X(semaphore, one_unit, one_unit,                                                               \
      EXCLUDES_ITSELF | CAN_BE_ASKED | HEARS | LINES_UP | COSTS_TWO_SCRIPTS)                       \
    X(fenced, rlock_fenced_new, rlock_fenced_new, CONF_PLAIN | CAN_NEST | HEARS | HAS_TOKEN)       \
    X(fair, rlock_fair_new, rlock_fair_new,                                                        \
      CAN_NEST | EXCLUDES_ITSELF | CAN_BE_ASKED | HAS_ONE_KEY | IS_PLAIN_HASH | HEARS |            \
          COSTS_TWO_SCRIPTS | QUEUES | NAMES_HOLDER | LEASES)                                      \
    X(write, rlock_write_new, rlock_write_new,                                                     \
      CAN_NEST | EXCLUDES_ITSELF | CAN_BE_ASKED | HEARS | LINES_UP | COSTS_TWO_SCRIPTS |           \
          NAMES_HOLDER | LEASES)                                                                   \
    X(read, rlock_read_new, rlock_write_new,                                                       \
      CAN_NEST | CAN_BE_ASKED | HEARS | COSTS_TWO_SCRIPTS | NAMES_HOLDER | LEASES)

#endif
