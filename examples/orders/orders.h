/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the order flow share: the shop in shared memory, its workers, and its
 * server. */
#ifndef RLOCK_EXAMPLES_ORDERS_H
#define RLOCK_EXAMPLES_ORDERS_H

#include "show.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MOST 64       /* processes, threads of each, and counters of each thing */
#define THINGS 3      /* order, product, shelf: in the order of their names */
#define DELIVERY 1000 /* units, when a product or a shelf is sold out */
#define LEASE_MS 600  /* with --kill: how soon a dead worker's locks are free */

struct counter {
    volatile int64_t value;   /* what the shop believes; plain on purpose */
    _Atomic int64_t happened; /* what is true */
};

/* What one thread of one process is doing. */
struct slot {
    _Atomic int64_t orders, units, longest_us;
    atomic_bool waits;
    atomic_bool writes; /* is between the first and the last of these changes */
    struct counter *counters[THINGS];
    int64_t changes[THINGS];
};

struct shop {
    atomic_bool open;
    bool locked;
    struct counter counters[THINGS][MOST];
    struct slot slots[MOST][MOST]; /* of process and thread */
};

extern struct shop *shop;

extern struct settings {
    int seconds, processes, threads;
    int things[THINGS]; /* how many there are of each */
    bool killing;
    const char *kind; /* of the locks */
} settings;

/* Whether orders can be taken under locks of that kind: those that exclude everybody else. */
bool kind_exists(const char *kind);
#define KINDS "reentrant, non-reentrant, fair, write, fenced, spin"

/* Takes orders until the shop closes. */
_Noreturn void be_worker(int process);

/* Starts a private server; false, after saying why, if there is none. */
bool server_start(void);
const char *server_url(void);
void server_stop(void);

/* Sends a command. Returns the number in the answer, 0 for other answers, -1 without one. */
long server_ask(const char *command);

#endif
