/* SPDX-License-Identifier: Apache-2.0 */
/* What a program does with locks and the command does not: levels, both sides, writers first. It is
 * killed on the way (test_kills.c). */
#include <rlock/rlock.h>
#include <stdlib.h>
#include <string.h>

static int take(struct rlock_handle *lock)
{
    return rlock_lock_for(lock, 5000, RLOCK_TAKE(.lease_ms = 8000), NULL);
}

static int two_levels(struct rlock_handle *lock)
{
    int code = take(lock);

    code = code == 0 ? take(lock) : code;
    code = code == 0 ? rlock_unlock(lock) : code;
    return code == 0 ? rlock_unlock(lock) : code;
}

/* A writer reads, and goes on reading when it has given up writing. */
static int downgrade(struct rlock_handle *write, struct rlock_handle *read)
{
    int code = take(write);

    code = code == 0 ? two_levels(read) : code;
    code = code == 0 ? take(read) : code;
    code = code == 0 ? rlock_unlock(write) : code;
    return code == 0 ? rlock_unlock(read) : code;
}

static int play(const char *role, struct rlock_client *client)
{
    const struct rlock_opts first = *RLOCK_OPTS(.flags = RLOCK_LOCK_PREFER_WRITERS);
    const struct rlock_opts *opts = strcmp(role, "writer-first") == 0 ? &first : NULL;
    struct rlock_handle *read = NULL, *write = NULL, *fair = NULL, *plain = NULL;
    int code = rlock_read_new(client, "a", opts, &read);

    code = code == 0 ? rlock_write_new(client, "a", opts, &write) : code;
    code = code == 0 ? rlock_fair_new(client, "a", NULL, &fair) : code;
    code = code == 0 ? rlock_reentrant_new(client, "a", NULL, &plain) : code;
    if (code == 0) {
        code = strcmp(role, "levels") == 0        ? two_levels(plain)
               : strcmp(role, "fair-levels") == 0 ? two_levels(fair)
               : strcmp(role, "read-levels") == 0 ? two_levels(read)
               : strcmp(role, "downgrade") == 0   ? downgrade(write, read)
                                                  : two_levels(write);
    }
    (void)rlock_free(read);
    (void)rlock_free(write);
    (void)rlock_free(fair);
    (void)rlock_free(plain);
    return code;
}

int main(int argc, char **argv)
{
    struct rlock_client *client = NULL;
    const struct rlock_client_opts *opts = RLOCK_CLIENT_OPTS(.url = getenv("RLOCK_URL"));
    int code = argc > 1 ? rlock_client_open(opts, &client) : RLOCK_EINVAL;

    code = code == 0 ? play(argv[1], client) : code;
    (void)rlock_client_close(client);
    return code == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
