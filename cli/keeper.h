/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock acquire --keep: a process of its own, the keeper, takes the lock and holds it while another
 * process lives.
 *
 *   command   starts the keeper before any client is open, and waits for its text. It prints the
 *             text, and then confirms that to the keeper. Until then the keeper gives the lock
 *             back if the command ends, however that happens.
 *   keeper    takes the lock and sends the text. From then on it has no standard error. It passes
 *             a signal on to the process, which still works under the lock.
 */
#ifndef RLOCK_CLI_KEEPER_H
#define RLOCK_CLI_KEEPER_H

#include "options.h"
#include "process.h"

/* rlock acquire with --keep. Returns the exit status, in the keeper as well. */
int cli_keep(struct cli_options *opts);

/* rlock release with a keeper's text. */
int cli_keep_release(const struct cli_options *opts);

/* The keeper itself. command: the number of the process that waits for the text, at the other end
 * of command_fd. Returns the exit status. */
int cli_keeper_run(struct cli_options *opts, const struct cli_process *process, pid_t command,
                   int command_fd);

#endif
