/* Latches with Redisson. */
#ifndef RLOCK_INTEROP_LATCHES_H
#define RLOCK_INTEROP_LATCHES_H

#include <stdbool.h>

#include "peer.h"

struct rlock_client;
struct test_server;

/* Whether both sides count one latch down, and wake each other. The peer's client is "long". */
bool latches_meet(struct test_server *server, struct peer *java, struct rlock_client *client);

#endif
