/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches a running command while its lock is held, so that it never runs past the hold's validity.
 *
 * Stages, which only go forward:
 *   running   the hold is valid for longer than the time that the command gets to end by itself
 *   reported  the validity is about to end: the group has been sent SIGTERM
 *   killed    it has ended, or will in a moment: the group has been sent SIGKILL
 */
#ifndef RLOCK_CLI_WATCH_H
#define RLOCK_CLI_WATCH_H

#include "child.h"
#include "options.h"
#include "signals.h"

enum cli_stage { CLI_RUNNING, CLI_REPORTED, CLI_KILLED };

struct cli_watch {
    const struct cli_options *opts;
    const struct rlock_handle *lock;
    const char *name;
    int64_t lease_ms;
    struct cli_child *child;
    struct cli_signals *signals;
    int lost_fd; /* readable when a hold was lost */
};

/* Returns when the command has ended, with the stage it had come to. */
enum cli_stage cli_watch(const struct cli_watch *watch);

/* ---- The same times and clock, for other commands that depend on a hold ---- */

/* Returns the validity that is left when the coming loss is reported: a fifth of the lease within
 * limits, but never more than half of it. */
int64_t cli_report_ms(int64_t lease_ms);

/* Sets a timer of CLOCK_BOOTTIME, which the validity follows too: it also runs while the machine
 * sleeps. The least time is 1 ms. */
void cli_timer_set(int timer_fd, int64_t ms);

/* Makes a timer or an eventfd unreadable until the next event. */
void cli_drain(int fd);

#endif
