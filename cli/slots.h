/* SPDX-License-Identifier: Apache-2.0 */
/* How many slots a semaphore has. */
#ifndef RLOCK_CLI_SLOTS_H
#define RLOCK_CLI_SLOTS_H

#include "options.h"

/* Says if --slots differs from the number on the server. */
void cli_slots_compare(const struct cli_options *opts, struct rlock_handle *lock, const char *name);

#endif
