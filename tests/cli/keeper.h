/* SPDX-License-Identifier: Apache-2.0 */
/* Processes for which rlock acquire --keep holds locks, and the keepers. */
#ifndef RLOCK_TEST_KEEPER_H
#define RLOCK_TEST_KEEPER_H

#include "command.h"

#define SHORT_LEASE "1500ms"
#define SHORT_LEASE_MS 1500

/* The number as a word of a command. Valid until the fourth call from now. */
const char *number(pid_t pid);

/* A process that waits to be ended. */
pid_t start_process(void);

/* Waits for the end of the process, and returns the signal that ended it. */
int end_of(pid_t pid);

/* Ends the process by SIGKILL. */
int end_process(pid_t pid);

/* The process that holds a lock on this machine, as the server says. */
pid_t holder_of(const char *name);

bool is_free_soon(const char *name);
bool is_gone_soon(pid_t keeper);

/* Whether somebody waits for "a". */
bool somebody_waits(void);

/* Connects to the keeper of a text, past the command. */
int connect_to(const char *text);

/* The process that listens for the text. */
pid_t keeper_of(const char *text);

#endif
