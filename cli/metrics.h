/* SPDX-License-Identifier: Apache-2.0 */
/* The locks of a scan as OpenMetrics text: counts alone, so that the number of series does not
 * depend on the number of locks. docs/metrics.md explains them. */
#ifndef RLOCK_CLI_METRICS_H
#define RLOCK_CLI_METRICS_H

#include "options.h"

enum cli_mode { CLI_MODE_READ, CLI_MODE_WRITE, CLI_MODE_OTHER, CLI_MODES };

struct cli_metrics {
    uint64_t locks[CLI_MODES]; /* that are held */
    uint64_t endless;          /* those of them without a lease */
    int64_t longest_ms;        /* the rest of the lease that ends last; 0 none */
    uint64_t waiters;          /* in queues of free locks */
    uint64_t dead_waiters;     /* … of which so many are dead */
    bool is_whole;             /* false: some of the servers could not be asked */
    bool is_empty;             /* nothing was found */
    int64_t took_ms;
};

/* Counts a lock. */
void cli_metrics_add(struct cli_metrics *metrics, const struct rlock_info *info);

/* Prints them for the server of a client, and the pattern of the options. */
void cli_metrics_print(const struct cli_metrics *metrics, const struct cli_options *opts,
                       const struct rlock_client *client);

#endif
