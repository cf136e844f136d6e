/* SPDX-License-Identifier: Apache-2.0 */
/* The lock that rlock run takes: one, several at once, or one on several servers. */
#ifndef RLOCK_CLI_TEAM_H
#define RLOCK_CLI_TEAM_H

#include "client.h"

struct cli_team {
    struct rlock_client *clients[CLI_MEMBERS_MAX];
    struct rlock_handle *members[CLI_MEMBERS_MAX];
    int n_clients, n_members;
    struct rlock_handle *lock; /* of all members; the only one itself */
    char *name;                /* for messages */
};

/* Opens the clients and makes the lock. Returns 0, or the exit status after saying why; end it in
 * either case. */
int cli_team_open(struct cli_team *team, struct cli_options *opts, struct cli_sink *sink);

/* Frees the locks and closes the clients. */
void cli_team_close(struct cli_team *team);

#endif
