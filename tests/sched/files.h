/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors: eventfds, epolls, timers, and the sockets of net.c. */
#ifndef RLOCK_TEST_SCHED_FILES_H
#define RLOCK_TEST_SCHED_FILES_H

#include "system.h"

struct sched_socket;

/* NULL: there is no such socket. */
struct sched_socket *sched_socket_of(int fd);
int sched_socket_fd(struct sched_socket *socket);
/* Whether a thread sleeps in poll() until the descriptor is readable. */
bool sched_is_polled(int fd);

/* ---- net.c ---- */

/* What poll() would say of it: POLLIN and so on. */
short sched_socket_events(const struct sched_socket *socket);
/* Its last descriptor is closed. */
void sched_socket_close(struct sched_socket *socket);

#endif
