/* SPDX-License-Identifier: Apache-2.0 */
/* Holds that a text stands for. The calls are repeated while their outcome is not known. */
#ifndef RLOCK_CLI_HANDOVER_H
#define RLOCK_CLI_HANDOVER_H

#include "options.h"

/* Takes over the hold of a text, for the calling thread. Returns the code of rlock_adopt(). */
int cli_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *how,
              struct rlock_grant *ret_grant);
/* Gives the thread's hold to a text. Returns the code of rlock_detach(). */
int cli_detach(struct rlock_handle *lock, int64_t lease_ms, char text[static RLOCK_TEXT_SIZE]);
/* Says why a lock was not taken, and returns the exit status. A canceled wait is a signal's. */
int cli_fail_take(const struct cli_options *opts, const char *name, int code);
/* Says why a text was not adopted, and returns the exit status. */
int cli_fail_adopt(const struct cli_options *opts, const char *name, int code);

#endif
