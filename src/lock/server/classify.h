/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_LOCK_CLASSIFY_H
#define RLOCK_LOCK_CLASSIFY_H

#include "lock/core.h"
#include "wire/errors.h"

struct rlock__server;

/* rlock__classify() for servers whose keys may move: after MOVED and ASK the request is routed
 * again. */
struct rlock__class rlock__core_classify(const struct rlock__core *core,
                                         const struct rlock__reply *reply);
/*
 * Writes why the server refused: plain words, then the server and its own words. command: the
 * refused command, if the server's words may not name it; NULL: a script.
 */
#define RLOCK__REFUSAL_SIZE 640
const char *rlock__refusal(const struct rlock__spec *spec, const struct rlock__server *server,
                           const struct rlock__reply *error, const char *command,
                           char out[static RLOCK__REFUSAL_SIZE]);

#endif
