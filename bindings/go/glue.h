/* SPDX-License-Identifier: Apache-2.0 */
/* What cgo cannot do: macros, pointers to functions, and the failure of the thread that called. */
#ifndef RLOCK_GO_GLUE_H
#define RLOCK_GO_GLUE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rlock/latch.h>
#include <rlock/leader.h>
#include <rlock/rlock.h>
#include <rlock/stats.h>

/* ---- Callbacks, in Go ---- */

typedef const struct rlock_loss glue_const_loss; /* cgo has no const of its own */
typedef const struct rlock_log_line glue_const_line;
typedef const struct rlock_trace glue_const_trace;
typedef const struct rlock_term glue_const_term;

void rlockDone(uintptr_t payload);
void rlockLost(glue_const_loss *loss, uintptr_t payload);
void rlockLogLine(glue_const_line *line, uintptr_t payload);
void rlockAddress(struct rlock_address *address, uintptr_t payload);
int rlockLogin(struct rlock_login *login, uintptr_t payload);
void rlockTrace(glue_const_trace *trace, uintptr_t context, uintptr_t payload);
void rlockTerm(glue_const_term *term, uintptr_t payload);

static inline void glue_done(struct rlock_op *op, void *payload)
{
    (void)op;
    rlockDone((uintptr_t)payload);
}

static inline void glue_lost(const struct rlock_loss *loss, void *payload)
{
    rlockLost(loss, (uintptr_t)payload);
}

static inline void glue_log_line(const struct rlock_log_line *line, void *payload)
{
    rlockLogLine(line, (uintptr_t)payload);
}

static inline void glue_address(struct rlock_address *address, void *payload)
{
    rlockAddress(address, (uintptr_t)payload);
}

static inline int glue_login(struct rlock_login *login, void *payload)
{
    return rlockLogin(login, (uintptr_t)payload);
}

static inline void glue_trace(const struct rlock_trace *trace, void *payload)
{
    /* The context is a number, which Go must not read as a pointer. */
    rlockTrace(trace, (uintptr_t)trace->context, (uintptr_t)payload);
}

static inline void glue_term(const struct rlock_term *term, void *payload)
{
    rlockTerm(term, (uintptr_t)payload);
}

/* ---- Calls, each with the failure of its own thread ---- */

/* If the call failed, copies its failure. A goroutine may be on another thread when it asks for it
 * in a call of its own. NULL without memory; free() it. */
static inline int glue_failed(int code, struct rlock_failure **ret_failure)
{
    struct rlock_failure failure = RLOCK_FAILURE_INIT;

    if (code != 0 && rlock_last_failure(&failure) == 0) {
        size_t len = strlen(failure.detail) + 1;
        struct rlock_failure *copy = malloc(sizeof(failure) + len);

        if (copy != NULL) {
            *copy = failure;
            copy->detail = memcpy(copy + 1, failure.detail, len);
        }
        *ret_failure = copy;
    }
    return code;
}

static inline int glue_open(struct rlock_client_opts *opts, int log, int addresses, int login,
                            int traces, uintptr_t payload, struct rlock_client **ret_client,
                            struct rlock_failure **ret_failure)
{
    opts->on_lost = glue_lost;
    opts->on_log_line = log ? glue_log_line : NULL;
    opts->on_address = addresses ? glue_address : NULL;
    opts->on_login = login ? glue_login : NULL;
    opts->on_trace = traces ? glue_trace : NULL;
    opts->payload = (void *)payload;
    return glue_failed(rlock_client_open(opts, ret_client), ret_failure);
}

typedef int glue_new_fn(struct rlock_client *, const char *, const struct rlock_opts *,
                        struct rlock_handle **);

static inline int glue_new(glue_new_fn *new_lock, struct rlock_client *client, const char *name,
                           const struct rlock_opts *opts, struct rlock_handle **ret_lock,
                           struct rlock_failure **ret_failure)
{
    return glue_failed(new_lock(client, name, opts, ret_lock), ret_failure);
}

typedef int glue_group_fn(struct rlock_handle *const *, size_t, const struct rlock_opts *,
                          struct rlock_handle **);

static inline int glue_group(glue_group_fn *new_lock, struct rlock_handle *const *members, size_t n,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock,
                             struct rlock_failure **ret_failure)
{
    return glue_failed(new_lock(members, n, opts, ret_lock), ret_failure);
}

static inline int glue_lock(struct rlock_handle *lock, int64_t wait_ms, int64_t lease_ms,
                            int64_t units, uint64_t owner, uintptr_t payload,
                            struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    struct rlock_take *take =
        RLOCK_TAKE(.context = (void *)payload, .lease_ms = lease_ms, .owner = owner, .units = units,
                   .flags = owner == 0 ? RLOCK_TAKE_NEW_OWNER : 0);

    return glue_failed(rlock_lock_async(lock, wait_ms, take, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_adopt(struct rlock_handle *lock, const char *text, int64_t lease_ms,
                             uint64_t owner, int from_dead, uintptr_t payload,
                             struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    struct rlock_take *take =
        RLOCK_TAKE(.context = (void *)payload, .lease_ms = lease_ms, .owner = owner);

    take->flags = (owner == 0 ? RLOCK_TAKE_NEW_OWNER : 0) | (from_dead ? RLOCK_TAKE_FROM_DEAD : 0);
    return glue_failed(rlock_adopt_async(lock, text, take, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_detach(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                              uintptr_t payload, struct rlock_op **ret_op,
                              struct rlock_failure **ret_failure)
{
    return glue_failed(
        rlock_detach_async(lock, owner, lease_ms, glue_done, (void *)payload, ret_op), ret_failure);
}

static inline int glue_hold_text(const struct rlock_handle *lock, uint64_t owner, char *ret_text,
                                 struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_hold_text(lock, owner, ret_text), ret_failure);
}

static inline int glue_unlock(struct rlock_handle *lock, uint64_t owner, uintptr_t payload,
                              struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_unlock_async(lock, owner, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_extend(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                              uintptr_t payload, struct rlock_op **ret_op,
                              struct rlock_failure **ret_failure)
{
    return glue_failed(
        rlock_extend_async(lock, owner, lease_ms, glue_done, (void *)payload, ret_op), ret_failure);
}

static inline int glue_force_unlock(struct rlock_handle *lock, uintptr_t payload,
                                    struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_force_unlock_async(lock, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_inspect(struct rlock_handle *lock, uintptr_t payload,
                               struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_inspect_async(lock, glue_done, (void *)payload, ret_op), ret_failure);
}

static inline int glue_stats(const struct rlock_client *client, struct rlock_stats *ret_stats,
                             struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_client_stats(client, ret_stats), ret_failure);
}

static inline int glue_latch_new(struct rlock_client *client, const char *name,
                                 const struct rlock_opts *opts, struct rlock_latch **ret_latch,
                                 struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_latch_new(client, name, opts, ret_latch), ret_failure);
}

static inline int glue_latch_set(struct rlock_latch *latch, int64_t count, uintptr_t payload,
                                 struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_latch_set_async(latch, count, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_latch_down(struct rlock_latch *latch, const char *party, uintptr_t payload,
                                  struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_latch_down_async(latch, party, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_latch_wait(struct rlock_latch *latch, uintptr_t payload,
                                  struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(
        rlock_latch_wait_async(latch, RLOCK_FOREVER, NULL, glue_done, (void *)payload, ret_op),
        ret_failure);
}

static inline int glue_latch_count(struct rlock_latch *latch, uintptr_t payload,
                                   struct rlock_op **ret_op, struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_latch_count_async(latch, glue_done, (void *)payload, ret_op),
                       ret_failure);
}

static inline int glue_leader_new(struct rlock_handle *lock, int64_t margin_ms, int64_t rest_ms,
                                  uintptr_t payload, struct rlock_leader **ret_leader,
                                  struct rlock_failure **ret_failure)
{
    struct rlock_leader_opts *opts =
        RLOCK_LEADER_OPTS(.on_term = glue_term, .payload = (void *)payload, .rest_ms = rest_ms,
                          .margin_ms = margin_ms);

    return glue_failed(rlock_leader_new(lock, opts, ret_leader), ret_failure);
}

static inline int glue_leader_resign(struct rlock_leader *leader,
                                     struct rlock_failure **ret_failure)
{
    return glue_failed(rlock_leader_resign(leader), ret_failure);
}

/* ---- Outcomes ---- */

static inline uint64_t glue_grant(const struct rlock_op *op, uint64_t *ret_token)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;

    (void)rlock_op_grant(op, &grant);
    *ret_token = grant.token;
    return grant.owner;
}

/* Returns the reason of the owner's loss, 0 if it holds the lock, or a negative code. */
static inline int glue_loss(const struct rlock_handle *lock, uint64_t owner)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    int code = rlock_held(lock, owner, &grant);

    return code == 0 ? grant.reason : code;
}

/* Sets the login, and wipes the strings. NULL: as the options say. */
static inline int glue_login_set(struct rlock_login *login, char *user, char *password)
{
    int code = rlock_login_set(login, user, password);

    if (password != NULL) {
        explicit_bzero(password, strlen(password));
    }
    free(user);
    free(password);
    return code;
}

#endif
