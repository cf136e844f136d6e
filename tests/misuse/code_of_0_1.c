/* SPDX-License-Identifier: Apache-2.0 */
/* Each line is of a program for 0.1: none means something else now. */
#include <rlock/admin.h>

int before(struct rlock_client *client, struct rlock_handle *lock,
           struct rlock_client_opts *client_opts, struct rlock_opts *opts, struct rlock_take *take,
           struct rlock_op **op);
int before(struct rlock_client *client, struct rlock_handle *lock,
           struct rlock_client_opts *client_opts, struct rlock_opts *opts, struct rlock_take *take,
           struct rlock_op **op)
{
    take->wait_ms = 500;             /* C: error: wait_ms; C++: error: wait_ms */
    opts->no_reentry = true;         /* C: error: no_reentry; C++: error: no_reentry */
    opts->prefer_writers = true;     /* C: error: prefer_writers; C++: error: prefer_writers */
    opts->spin_initial_ms = 1;       /* C: error: spin_initial_ms; C++: error: spin_initial_ms */
    opts->spin_max_ms = 1;           /* C: error: spin_max_ms; C++: error: spin_max_ms */
    opts->spin_multiplier = 1;       /* C: error: spin_multiplier; C++: error: spin_multiplier */
    client_opts->loop = 1;           /* C: error: loop; C++: error: loop */
    client_opts->pass = -1;          /* C: error: pass; C++: error: pass */
    client_opts->acks_on_disk = 1;   /* C: error: acks_on_disk; C++: error: acks_on_disk */
    client_opts->announce_both = 1;  /* C: error: announce_both; C++: error: announce_both */
    client_opts->sentinel_tls = 1;   /* C: error: sentinel_tls; C++: error: sentinel_tls */
    client_opts->on_log = NULL;      /* C: error: on_log; C++: error: on_log */
    client_opts->map_address = NULL; /* C: error: map_address; C++: error: map_address */
    (void)rlock_lock_async(lock, take, NULL, NULL, op); /* C: error: too few; C++: error: async */
    return client != NULL && lock != NULL;
}
