/* The kinds of locks: what both sides call them, and what decides which steps they have. */
#include "interop.h"

#include <string.h>

const struct kind interop_kinds[] = {
    {.name = "reentrant",
     .channel = "redisson_lock__channel",
     .is_reentrant = true,
     .is_brief = true},
    {.name = "nonreentrant", .channel = "redisson_lock__channel", .shares_hash = true},
    {.name = "spin", .is_reentrant = true, .shares_hash = true},
    {.name = "fenced",
     .channel = "redisson_lock__channel",
     .is_reentrant = true,
     .is_fenced = true,
     .shares_hash = true},
    {.name = "fair",
     .channel = "redisson_lock__channel",
     .is_reentrant = true,
     .is_fair = true,
     .is_lenient = true,
     .is_brief = true},
    {.name = "read",
     .label = "read, write",
     .waits_as = "write",
     .channel = "redisson_rwlock",
     .is_reentrant = true,
     .is_shared = true,
     .is_lenient = true,
     .is_missed = true,
     .is_brief = true},
    {.name = "write",
     .label = "write, read",
     .waits_as = "read",
     .channel = "redisson_rwlock",
     .is_reentrant = true,
     .is_lenient = true,
     .is_missed = true},
    {.name = "write",
     .channel = "redisson_rwlock",
     .is_reentrant = true,
     .is_lenient = true,
     .is_missed = true},
    {.name = "multi",
     .members = {{"reentrant", 0, ".a", NULL},
                 {"reentrant", 0, ".b", NULL},
                 {"reentrant", 1, ".c", NULL}},
     .n_members = 3,
     .quorum = 3,
     .is_reentrant = true},
    {.name = "multi",
     .label = "multi, mixed",
     .members = {{"reentrant", 0, ".a", NULL},
                 {"fenced", 0, ".b", NULL},
                 {"read", 0, ".c", "write"},
                 {"fair", 0, ".d", NULL}},
     .n_members = 4,
     .quorum = 4,
     .is_reentrant = true,
     .is_lenient = true,
     .is_brief = true},
    {.name = "redlock",
     .members = {{"reentrant", 0, "", NULL},
                 {"reentrant", 1, "", NULL},
                 {"reentrant", 2, "", NULL}},
     .n_members = 3,
     .quorum = 2,
     .is_reentrant = true,
     .is_silent = true},
};
const size_t interop_n_kinds = sizeof(interop_kinds) / sizeof(interop_kinds[0]);

const struct kind *interop_kind(const char *name)
{
    for (size_t i = 0; i < interop_n_kinds; i++) {
        if (strcmp(interop_kinds[i].name, name) == 0) {
            return &interop_kinds[i];
        }
    }
    return NULL;
}

size_t kind_servers(const struct kind *kind)
{
    size_t n = 1;

    for (size_t i = 0; i < kind->n_members; i++) {
        n = kind->members[i].server >= n ? kind->members[i].server + 1 : n;
    }
    return n;
}
