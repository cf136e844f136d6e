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

/* The process that holds a lock on this machine, by the server's answer. */
pid_t holder_of(const char *name);

bool is_free_soon(const char *name);
bool is_gone_soon(pid_t keeper);

/* Has a keeper hold "a" while the process lives, with the default lease or with SHORT_LEASE. Fills
 * in its text, and returns the keeper. */
pid_t keep_a(pid_t process, char ret_text[static COMMAND_TEXT]);
pid_t keep_a_shortly(pid_t process, char ret_text[static COMMAND_TEXT]);

/* Connects to the keeper of a text, past the command. */
int connect_to(const char *text);

/* The process that listens for the text. */
pid_t keeper_of(const char *text);

#endif
