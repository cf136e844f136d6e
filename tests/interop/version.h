/* The Redissons that are played with, as they were built, and the processes of both sides. */
#ifndef RLOCK_INTEROP_VERSION_H
#define RLOCK_INTEROP_VERSION_H

#include "interop.h"

struct version {
    const char *argument;
    char name[32];
    char directory[512];
    char classpath[16384];
};

/* Reads a version, = and its directory. */
void version_read(struct version *ret_version, const char *argument);

/* The arguments of a process of this Redisson. The next call overwrites them. */
const char *const *version_argv(const struct version *version);

/* Starts Redisson, or rlock where the version is NULL. programs: the directory of ours. */
struct party party_start(const char *label, const struct version *version, const char *programs,
                         const struct deployment *deployment);

#endif
