/* SPDX-License-Identifier: Apache-2.0 */
/* What the server says of a lock, for people and as JSON members. */
#ifndef RLOCK_CLI_SHOW_H
#define RLOCK_CLI_SHOW_H

#include <rlock/rlock.h>
#include <stdio.h>

/* Writes "8743…:12 on db1 (process 4711)", and how many others. */
void cli_show_holder(FILE *out, const struct rlock_info *info);

/* The same as a text, which is the caller's to be freed; NULL without memory. */
char *cli_holder_text(const struct rlock_info *info);

/* Writes how long the lease has to go. */
void cli_show_ttl(FILE *out, const struct rlock_info *info);

/* Writes ", 3 waiting", and how many of them are dead; nothing if none waits, or that is not
 * known. */
void cli_show_waiters(FILE *out, const struct rlock_info *info);

/* Writes ", mode read" or ", mode write" of a read/write lock, else nothing. */
void cli_show_mode(FILE *out, const struct rlock_info *info);
/* Writes ", 2 of 8 slots free" of a semaphore, else nothing. */
void cli_show_slots(FILE *out, const struct rlock_info *info);

/* Writes {"<label>":"<name>","locked":…,"holder":… without the closing brace, so that more can
 * follow. */
void cli_show_json(FILE *out, const char *label, const char *name, size_t len,
                   const struct rlock_info *info);

#endif
