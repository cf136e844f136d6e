/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that rlock did not start: whether it lives, and signals for it. Another process that
 * gets the same number later is never taken for it. A pidfd does that; on a kernel without pidfds,
 * or in a sandbox that forbids them, the start time of the process does.
 */
#ifndef RLOCK_CLI_PROCESS_H
#define RLOCK_CLI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cli_process {
    pid_t pid;
    int fd;           /* readable when the process has ended; -1: no pidfd, look now and then */
    uint64_t started; /* without a pidfd: its start time in /proc; 0 unknown */
};

/* Finds the process. Returns NULL, or what is wrong with it. */
const char *cli_process_open(struct cli_process *process, pid_t pid);

/* Whether the process has ended. A zombie has. */
bool cli_process_ended(const struct cli_process *process);

/* How long poll() may wait, in ms: -1, or without a pidfd the pause between two looks. */
int cli_process_pause_ms(const struct cli_process *process);

/* Sends a signal, unless the process has ended. */
void cli_process_signal(const struct cli_process *process, int signo);

#endif
