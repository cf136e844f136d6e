/* SPDX-License-Identifier: Apache-2.0 */
/* The commands. Each returns the exit status. */
#ifndef RLOCK_CLI_VERBS_H
#define RLOCK_CLI_VERBS_H

#include "options.h"

/* A command at work. The options' secrets are gone once it has opened its client. */
typedef int cli_verb_fn(struct cli_options *opts);

int cli_run(struct cli_options *opts);
int cli_elect(struct cli_options *opts);
int cli_acquire(struct cli_options *opts);
int cli_extend(struct cli_options *opts);
int cli_release(struct cli_options *opts);
int cli_info(struct cli_options *opts);
int cli_ls(struct cli_options *opts);
int cli_break(struct cli_options *opts);
int cli_slots(struct cli_options *opts);
int cli_doctor(struct cli_options *opts);

#endif
