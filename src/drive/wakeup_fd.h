/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eventfd on which a thread sleeps while it runs a group operation, or waits in line with it.
 * Making and closing one costs two system calls for each operation, so a home keeps some.
 *
 * A thread may be woken once by a notification for the operation that had the descriptor before.
 * Each thread that wakes up looks for work, and sleeps again.
 */
#ifndef RLOCK_DRIVE_WAKEUP_FD_H
#define RLOCK_DRIVE_WAKEUP_FD_H

#include <stddef.h>

#include "base/guarded.h"

#define RLOCK__WAKEUP_FDS                                                                          \
    64 /* that a home keeps; operations beyond that make and close their own */

struct rlock_client;

struct rlock__wakeup_fds {
    size_t n;
    int fds[RLOCK__WAKEUP_FDS]; /* -1: none. A child of fork closes what it finds, in any state */
};

void rlock__wakeup_fds_init(struct rlock__wakeup_fds *wakeup_fds);
/* Closes the descriptors. Nobody uses the home any more, or this is a child of fork. */
void rlock__wakeup_fds_close(struct rlock__wakeup_fds *wakeup_fds);
/* Returns -1 when there is no descriptor. */
int rlock__wakeup_fd_take(struct rlock_client *home) RLOCK__EXCLUDES(groups);
void rlock__wakeup_fd_give(struct rlock_client *home, int fd) RLOCK__EXCLUDES(groups);

#endif
