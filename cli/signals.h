/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signals that rlock run passes on. Until the command runs, those that would end rlock cancel
 * the wait instead; from then on all of them are blocked and read from a descriptor. What was
 * ignored at the start stays ignored, as nohup(1) wants it. rlock acquire uses the same signals.
 */
#ifndef RLOCK_CLI_SIGNALS_H
#define RLOCK_CLI_SIGNALS_H

#include <rlock/rlock.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct cli_signals {
    sigset_t inherited_mask;
    struct sigaction inherited_pipe; /* what SIGPIPE did */
    sigset_t watched;                /* read from fd: those passed on, and SIGCHLD */
    int fd;
    int ended_by; /* one that asks a program to end was passed on to the command; 0: none */
};

/* Lets the ending signals fire `cancel`, which may be NULL, from now on. */
void cli_signals_catch(struct cli_signals *signals, struct rlock_cancel *cancel);

/* Returns the signal that was caught, 0 for none. */
int cli_signals_caught(void);

/* Blocks them; from now on they are read from signals->fd. Returns 0, or an errno. */
int cli_signals_block(struct cli_signals *signals);

/* The opposite: from now on they are caught again. What came meanwhile is caught at once. */
void cli_signals_unblock(struct cli_signals *signals);

/* Whether it asks a program to end, as SIGTERM does. */
bool cli_signals_asks_to_end(int signo);

/* Waits for the next ending signal from signals->fd, for a time at most. Returns it; 0: none. */
int cli_signals_await(const struct cli_signals *signals, int64_t most_ms);

/* Returns the next ending signal from signals->fd, 0 for none. Does not wait. */
int cli_signals_read(const struct cli_signals *signals);

/* Returns an ending signal that has arrived, either caught or read from signals->fd; 0 for none.
 * Does not wait. */
int cli_signals_ending(const struct cli_signals *signals);

/* In a child, before exec: everything as rlock found it. Async-signal-safe. */
void cli_signals_restore(const struct cli_signals *signals);

#endif
