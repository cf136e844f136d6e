/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command that runs under the lock: the leader of a process group of its own, so that one
 * signal reaches all of it, and killed by the kernel when the thread that started it ends.
 */
#ifndef RLOCK_CLI_CHILD_H
#define RLOCK_CLI_CHILD_H

#include "signals.h"
#include "terminal.h"

#include <stdbool.h>
#include <sys/types.h>

struct cli_child {
    pid_t pid;
    struct cli_terminal terminal;
    int exec_fd; /* where a failed exec leaves its errno; -1 */
    int status;  /* as from waitpid, once it has ended */
    bool stopped_by_terminal;
};

#define CLI_CHILD_NULL                                                                             \
    {                                                                                              \
        .pid = -1, .terminal = CLI_TERMINAL_NULL, .exec_fd = -1                                    \
    }

/* Starts the command. Returns 0, or an errno. */
int cli_child_start(struct cli_child *child, char **argv, const struct cli_signals *signals);

/* Sends a signal to its whole group. */
void cli_child_signal(const struct cli_child *child, int signo);

/* Whether anybody of its group is left, also after its own end. */
bool cli_child_group_lives(const struct cli_child *child);

/* Looks without waiting; returns whether it has ended. Sets stopped_by_terminal if ^Z or the like
 * stopped it. */
bool cli_child_reap(struct cli_child *child);

/* After its end: takes the terminal back. Returns the errno of an exec that failed, 0 if the
 * command did run. */
int cli_child_finish(struct cli_child *child);

#endif
