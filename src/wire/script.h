/* SPDX-License-Identifier: Apache-2.0 */
/* A Lua script, embedded at build time from lua/<kind>/<verb>.lua. */
#ifndef RLOCK_WIRE_SCRIPT_H
#define RLOCK_WIRE_SCRIPT_H

#include <stddef.h>

struct rlock__script {
    const char *name; /* "reentrant/acquire" */
    const char *body;
    size_t size;
    char sha1[41];      /* of the body, as the server names it */
    const char *shapes; /* of its replies, as rlock__reply_fits() takes them */
};

#endif
