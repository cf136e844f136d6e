/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of locks of one key, one constructor for each kind. */
#include <stdlib.h>

#include "base/sized.h"
#include "client/lock.h"
#include "lock/internal.h"
#include "rw/rw.h"

#define NAME_MAX_LEN 65536
#define SLOT_MIN_MS 1000 /* of a fair lock: it must bear a slow network between two looks */

static bool is_time(int64_t ms)
{
    return ms >= 0 && ms <= RLOCK__TIME_MAX_MS;
}

static bool read_tuning(const struct rlock_opts *opts, struct rlock__tuning *ret_tuning)
{
    if (!is_time(opts->max_hold_ms) || !is_time(opts->spin_initial_ms) ||
        !is_time(opts->spin_max_ms) || opts->spin_multiplier < 0 || opts->spin_multiplier > 1000) {
        return false;
    }
    if (opts->fair_slot_ms != 0 &&
        (opts->fair_slot_ms < SLOT_MIN_MS || !is_time(opts->fair_slot_ms))) {
        return false;
    }
    *ret_tuning = (struct rlock__tuning){
        .max_hold_us = opts->max_hold_ms * RLOCK__MS,
        .spin_initial_us = opts->spin_initial_ms * RLOCK__MS,
        .spin_max_us = opts->spin_max_ms * RLOCK__MS,
        .spin_multiplier = opts->spin_multiplier,
        .fair_slot_ms = opts->fair_slot_ms,
        .no_reentry = opts->no_reentry,
        .prefer_writers = opts->prefer_writers,
    };
    return true;
}

static struct rlock *alloc_lock(struct rlock_client *client, const struct rlock_ops *ops,
                                struct rlock__bytes name, const struct rlock__tuning *tuning)
{
    struct rlock *lock = calloc(1, sizeof(*lock));
    struct rlock__spec *spec =
        lock != NULL ? rlock__spec_new(&client->core, ops, name, tuning) : NULL;

    if (spec == NULL) {
        free(lock);
        return NULL;
    }
    *lock = rlock__lock_of(spec);
    (void)rlock__client_ref(client); /* the spec's */
    return lock;
}

static int new_lock(struct rlock_client *client, const struct rlock_ops *ops, const char *name,
                    const struct rlock_opts *opts, struct rlock **ret_lock)
{
    struct rlock_opts copy = {.size = sizeof(copy)};
    struct rlock__tuning tuning;
    struct rlock *lock;
    size_t len;
    int code;

    rlock__detail_clear();
    if (client == NULL || name == NULL || ret_lock == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client, name or ret_lock is NULL");
    }
    code = rlock__client_check(client);
    if (code != 0) {
        return code;
    }
    if (!rlock__sized_take(&copy, opts)) {
        return rlock__fail(
            RLOCK_EINVAL,
            "the options' size is not set, or they want what this library does not know");
    }
    len = copy.name_len != 0 ? copy.name_len : strlen(name);
    if (len == 0 || len > NAME_MAX_LEN) {
        return rlock__fail(RLOCK_EINVAL, "a name has 1 to %d bytes", NAME_MAX_LEN);
    }
    if (!read_tuning(&copy, &tuning)) {
        return rlock__fail(RLOCK_EINVAL, "an option of the lock is out of its range");
    }
    lock = alloc_lock(client, ops, rlock__bytes(name, len), &tuning);
    if (lock == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    *ret_lock = lock;
    return 0;
}

int rlock_reentrant_new(struct rlock_client *client, const char *name,
                        const struct rlock_opts *opts, struct rlock **ret_lock)
{
    return new_lock(client, &rlock__reentrant_ops, name, opts, ret_lock);
}

int rlock_nonreentrant_new(struct rlock_client *client, const char *name,
                           const struct rlock_opts *opts, struct rlock **ret_lock)
{
    return new_lock(client, &rlock__nonreentrant_ops, name, opts, ret_lock);
}

int rlock_spin_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock **ret_lock)
{
    return new_lock(client, &rlock__spin_ops, name, opts, ret_lock);
}

int rlock_fenced_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                     struct rlock **ret_lock)
{
    return new_lock(client, &rlock__fenced_ops, name, opts, ret_lock);
}

int rlock_fair_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock **ret_lock)
{
    return new_lock(client, &rlock__fair_ops, name, opts, ret_lock);
}

int rlock_read_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock **ret_lock)
{
    return new_lock(client, &rlock__read_ops, name, opts, ret_lock);
}

int rlock_write_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                    struct rlock **ret_lock)
{
    return new_lock(client, &rlock__write_ops, name, opts, ret_lock);
}
