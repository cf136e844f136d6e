/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that the program's event loop runs: what its service thread and its dispatcher would do,
 * the loop's thread does in each dispatch. An epoll has the descriptors that the service thread
 * would poll, and a timer that fires when that thread would wake up. The loop polls this epoll
 * alone.
 */
#ifndef RLOCK_DRIVE_LOOP_H
#define RLOCK_DRIVE_LOOP_H

#include "drive/client.h"

struct rlock__loop {
    int fd; /* the epoll */
    int timer_fd;
    int64_t armed_at; /* when the timer fires; RLOCK__NEVER it does not */
    atomic_bool busy; /* a thread dispatches */
};

/* Sets client.loop; it is to be freed even after a failure. Returns 0, RLOCK_ENOMEM or
 * RLOCK_ERESOURCE. */
int rlock__loop_new(struct rlock_client *client);
struct rlock__loop *rlock__loop_free(struct rlock__loop *loop);
/* In a child of fork. */
void rlock__loop_close_fds(const struct rlock__loop *loop);
/* The timer fires no later than this; NULL: RLOCK__NEVER. */
static inline int64_t rlock__loop_armed_at(const struct rlock__loop *loop)
{
    return loop != NULL ? loop->armed_at : RLOCK__NEVER;
}
/* Plans the first round. */
void rlock__loop_begin(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Does what is due, and runs the callbacks. */
int rlock__loop_dispatch(struct rlock_client *client) RLOCK__NO_MUTEX;
/* Does what is left to do until the client is settled, or the deadline is there. The core is
 * closed. */
void rlock__loop_end(struct rlock_client *client, int64_t deadline) RLOCK__NO_MUTEX;

#endif
