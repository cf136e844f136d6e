/* SPDX-License-Identifier: Apache-2.0 */
/* From options to a client and its locks. */
#ifndef RLOCK_CLI_CLIENT_H
#define RLOCK_CLI_CLIENT_H

#include "options.h"

#include <stdatomic.h>

/* Where the client's callbacks write. Must outlive the client. */
struct cli_sink {
    const struct cli_options *opts;
    int lost_fd;                 /* an eventfd that wakes whoever watches a hold; -1 none */
    atomic_int reason;           /* of the first loss, RLOCK_LOST_…; 0 none */
    struct cli_waiting *waiting; /* who is told what is wrong while the command waits; or NULL */
};

/* Which server is meant, where the options do not say: $RLOCK_URL, or the default; and its name for
 * messages. Returns 0, or an exit status. */
int cli_server_default(struct cli_options *opts);

/* Opens the client and erases the options' secrets. Returns as cli_lock_make(). */
int cli_client_open(struct cli_options *opts, struct cli_sink *sink,
                    struct rlock_client **ret_client);

/* Makes the lock that the options ask for, by default a reentrant one. Returns 0, or the exit
 * status after saying why. */
int cli_lock_make(const struct cli_options *opts, struct rlock_client *client, const char *name,
                  struct rlock_handle **ret_lock);

#endif
