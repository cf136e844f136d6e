/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of locks, by the names that the command line and texts have for them. */
#include "options.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* One line per kind of lock. */
static const struct cli_kind kinds[] = {
    {"reentrant", rlock_reentrant_new}, {"non-reentrant", rlock_nonreentrant_new},
    {"spin", rlock_spin_new},           {"fenced", rlock_fenced_new},
    {"fair", rlock_fair_new},           {"read", rlock_read_new},
    {"write", rlock_write_new},         {"setnx", rlock_setnx_new},
    {"permits", rlock_permits_new},     {"semaphore", rlock_semaphore_new},
};

const char *cli_kind_set(struct cli_options *opts, char *value)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(value, kinds[i].name) == 0) {
            opts->kind = &kinds[i];
            return NULL;
        }
    }
    return "is not a kind of lock (reentrant, non-reentrant, spin, fenced, fair, read, write, "
           "setnx, permits, semaphore)";
}

bool cli_kind_of_text(struct cli_options *opts, const char *text)
{
    const char *at = strchr(text, ':'), *end = at != NULL ? strchr(at + 1, ':') : NULL;
    char kind[16];

    if (end == NULL || (size_t)(end - at) > sizeof(kind)) {
        return false;
    }
    (void)snprintf(kind, sizeof(kind), "%.*s", (int)(end - at - 1), at + 1);
    return cli_kind_set(opts, kind) == NULL;
}

bool cli_is_kind(const struct cli_options *opts, const char *name)
{
    return opts->kind != NULL && strcmp(opts->kind->name, name) == 0;
}

bool cli_has_slots(const struct cli_options *opts)
{
    return cli_is_kind(opts, "permits") || cli_is_kind(opts, "semaphore");
}

const char *cli_shared_set(struct cli_options *opts, char *value)
{
    (void)value;
    return cli_kind_set(opts, (char[]){"read"});
}

const char *cli_exclusive_set(struct cli_options *opts, char *value)
{
    (void)value;
    return cli_kind_set(opts, (char[]){"write"});
}

const char *cli_slots_set(struct cli_options *opts, char *value)
{
    opts->slots = cli_number_of(value, 1, INT_MAX);
    if (opts->slots == CLI_NO_NUMBER) {
        return "is not a number from 1 on";
    }
    return opts->kind == NULL ? cli_kind_set(opts, (char[]){"permits"}) : NULL;
}
