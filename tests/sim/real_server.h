/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A redis-server for the differential test: on a unix socket in a directory of its own, ended and
 * removed when the test ends, however that happens.
 */
#ifndef RLOCK_TESTS_SIM_REAL_SERVER_H
#define RLOCK_TESTS_SIM_REAL_SERVER_H

#include "resp.h"

struct real_server;

/* NULL if this machine has no server. The program is the one that RLOCK_REDIS_SERVER names, or the
   one of scripts/setup, or that of the package redis-tools. nodes: what a node of a cluster had
   written to its nodes.conf when it ended; NULL: it is none. */
struct real_server *real_server_start(const char *nodes);
struct real_server *real_server_stop(struct real_server *server);

/* A socket, or -1. */
int real_server_connect(const struct real_server *server);

/* Sends all of it. */
bool real_send(int fd, const char *data, size_t len);

/* Waits up to two seconds for the next whole frame; the buffer holds what was read beyond it.
   Returns its length, to be taken off the front of the buffer by real_take; 0 if none came. */
size_t real_wait_frame(int fd, struct sim_buf *in);
void real_take(struct sim_buf *in, size_t len);

#endif
