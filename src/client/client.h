/* SPDX-License-Identifier: Apache-2.0 */
/* A client as its users open and close it, and what the process has once. */
#ifndef RLOCK_CLIENT_CLIENT_H
#define RLOCK_CLIENT_CLIENT_H

#include "drive/client.h"

/* ---- open.c ---- */

/* 0, or why a call on the client cannot begin: forked, closed. */
int rlock__client_check(struct rlock_client *client);

/* Whether a call may wait: where the program's event loop runs the client nobody would do what it
 * waits for. */
int rlock__client_check_wait(const struct rlock_client *client);

/* ---- stats.c ---- */

struct rlock_stats;
/* Reads what the client has counted, and what it has now. */
void rlock__stats_read(struct rlock_client *client, struct rlock_stats *ret_stats) RLOCK__NO_MUTEX;
/* Adds what another client has counted. */
void rlock__stats_add(struct rlock_stats *sum, const struct rlock_stats *more);

/* ---- identity.c ---- */

/* Sets the client's UUID, its name for connections, and the seeds of its jitter. 0 or
 * RLOCK_ERESOURCE. */
int rlock__identity_init(struct rlock_client *client);

/* ---- options.c ---- */

/* Copies the options that were given, whatever version of their struct that is (base/sized.h). */
int rlock__opts_read(void *opts, const void *given);
/* Checks the client's options, and copies them into it. */
int rlock__opts_take(struct rlock_client *client, const struct rlock_client_opts *opts);
/* Frees what was copied, also after a failure, and wipes the secrets. */
void rlock__opts_fini(struct rlock_client *client);

/* ---- process.c: what the process has once: fork generation, thread numbers, what ends with a
 * thread ---- */

void rlock__process_init(void);
void rlock__process_register(struct rlock_client *client);
void rlock__process_unregister(struct rlock_client *client);
unsigned rlock__fork_generation(void);
/* The calling thread's number, never reused in this process. 0 without memory. */
uint64_t rlock__thread_number(void);
/* What the calling thread holds: adds (taking over the reference), finds, and forgets what is over
 * of a lock, or of all clients once one was closed. */
void rlock__thread_add(struct rlock__view *view);
const struct rlock__view *rlock__thread_find(const struct rlock__spec *spec, unsigned hash);
void rlock__thread_forget(const struct rlock__spec *spec);
void rlock__thread_forget_closed(void);
/* The same of locks made of locks. */
void rlock__thread_add_group(struct rlock__group_view *view);
struct rlock__group_view *rlock__thread_find_group(const struct rlock__group_spec *spec);
void rlock__thread_forget_group(const struct rlock__group_spec *spec);

#endif
