/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys on the server show only in part which kind a lock is. A read/write lock has a mode, a
 * fair lock has waiters, a fenced lock has a token, and a semaphore of either kind has units that
 * are held. The other kinds look alike. So the command asks as a lock of each of these kinds.
 */
#include "find.h"

#include "client.h"
#include "say.h"

#include <stddef.h>
#include <string.h>

/* A handle and what the server says when it is asked by it. */
struct found {
    struct rlock_handle *lock;
    struct rlock_info info;
};

/* Asks as a lock of another kind would. */
static struct found ask_as(cli_new_fn *make, struct rlock_client *client, const char *name)
{
    struct found found = {.info = RLOCK_INFO_INIT};

    if (make(client, name, NULL, &found.lock) != 0 ||
        rlock_inspect(found.lock, &found.info) != 0) { /* a user may not have the right to */
        found.lock = rlock_free(found.lock);
        found.info = (struct rlock_info)RLOCK_INFO_INIT;
    }
    return found;
}

/* Takes the other one instead, if it is better. */
static void prefer(struct found *found, struct found other, bool is_better)
{
    const struct found worse = is_better ? *found : other;

    *found = is_better ? other : *found;
    (void)rlock_free(worse.lock);
}

/* How many there are does not matter here. */
static int permits_new(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                       struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_permits_new(client, name, RLOCK_OPTS(.units = 1), ret_lock);
}

static int semaphore_new(struct rlock_client *client, const char *name,
                         const struct rlock_opts *opts, struct rlock_handle **ret_lock)
{
    (void)opts;
    return rlock_semaphore_new(client, name, RLOCK_OPTS(.units = 1), ret_lock);
}

/* If no unit is held, the string may belong to another program. */
static void find_units(struct found *found, struct rlock_client *client, const char *name)
{
    cli_new_fn *const makes[] = {permits_new, semaphore_new};

    for (size_t i = 0; i < 2 && !found->info.locked; i++) {
        const struct found other = ask_as(makes[i], client, name);

        prefer(found, other, other.info.locked);
    }
}

static void find_kind(struct found *found, struct rlock_client *client, const char *name)
{
    struct found other = ask_as(rlock_write_new, client, name);
    const bool has_sides = other.info.mode[0] != '\0';

    prefer(found, other, has_sides);
    if (has_sides && strcmp(found->info.mode, "read") == 0) {
        other = ask_as(rlock_read_new, client, name);
        prefer(found, other, other.lock != NULL);
    }
    if (has_sides) {
        return;
    }
    other = ask_as(rlock_fair_new, client, name);
    prefer(found, other, other.info.waiters != 0);
    other = ask_as(rlock_fenced_new, client, name);
    found->info.token = other.info.token;
    prefer(found, other, false);
    if (!found->info.locked && found->info.waiters == 0) { /* the number may have been deleted */
        find_units(found, client, name);
    }
}

int cli_holder_ask(struct rlock_handle *lock, struct rlock_client *client, const char *name,
                   struct rlock_info *ret_info)
{
    const int code = rlock_inspect(lock, ret_info);

    if (code == 0 && !ret_info->locked && ret_info->mode[0] != '\0') {
        const bool is_read = strcmp(ret_info->mode, "read") == 0;
        struct found other = ask_as(is_read ? rlock_read_new : rlock_write_new, client, name);

        *ret_info = other.info;
        (void)rlock_free(other.lock);
    }
    return code;
}

int cli_lock_find(const struct cli_options *opts, struct rlock_client *client, const char *name,
                  struct rlock_handle **ret_lock, struct rlock_info *ret_info)
{
    struct found found = {.info = RLOCK_INFO_INIT};
    int status = cli_lock_make(opts, client, name, &found.lock);

    if (status == 0) {
        int code = rlock_inspect(found.lock, &found.info);

        if (code == RLOCK_EWRONGTYPE && opts->kind == NULL) {
            find_units(&found, client, name);
            code = found.info.locked ? 0 : rlock_inspect(found.lock, &found.info);
        }
        status = code == 0 ? 0 : cli_fail(opts, name, code);
    }
    if (status != 0) {
        (void)rlock_free(found.lock);
        return status;
    }
    if (opts->kind == NULL && found.info.units == 0) {
        find_kind(&found, client, name);
    }
    *ret_lock = found.lock;
    *ret_info = found.info;
    return 0;
}
