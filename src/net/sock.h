/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and addresses: what a connection needs of the system. Nothing here blocks. */
#ifndef RLOCK_NET_SOCK_H
#define RLOCK_NET_SOCK_H

#include <netdb.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "base/guarded.h"

/*
 * Around each step in which a descriptor is opened or closed and noted: nobody forks meanwhile,
 * since the child would not know what to close. A leaf among mutexes; not for what blocks.
 */
void rlock__sock_changing(void) RLOCK__LOCKS(sock);
void rlock__sock_changed(void) RLOCK__UNLOCKS(sock);

/* Enough for "[address%interface]:port". */
#define RLOCK__SOCK_NAME_SIZE 96

/* Writes "127.0.0.1:6379" or "[::1]:6379". */
void rlock__sock_name(const struct sockaddr *addr, socklen_t len,
                      char out[static RLOCK__SOCK_NAME_SIZE]);

/* Makes a socket and begins to connect it, see rlock__sock_connected(). Returns it, or a negative
 * errno. */
int rlock__sock_connect(const struct sockaddr *addr, socklen_t len);
/* Returns 0 when it is connected, EINPROGRESS, or the errno with which connecting failed. */
int rlock__sock_connected(int fd);
/* Closes it; -1 is ok. Returns -1. */
int rlock__sock_close(int fd);

/* send() and recv() that never wait and never raise SIGPIPE; a negative errno where they fail. */
ssize_t rlock__sock_send(int fd, const void *bytes, size_t len);
ssize_t rlock__sock_recv(int fd, void *bytes, size_t len);

/* What an errno of connecting means for the caller. */
int rlock__sock_code(int error);

#endif
