/* SPDX-License-Identifier: Apache-2.0 */
/* What a diagnosis has found so far, who is told, and its parts. */
#ifndef RLOCK_CLIENT_DIAGNOSIS_H
#define RLOCK_CLIENT_DIAGNOSIS_H

#include "client/ask.h"
#include "client/lock.h"

/* What a right is for. */
enum rlock__use {
    RLOCK__FOR_ALL,
    RLOCK__FOR_FENCED,
    RLOCK__FOR_FAIR,
    RLOCK__FOR_RW,
    RLOCK__FOR_EASE
};

struct rlock__diagnosis {
    struct rlock_client *client;
    struct rlock__asker asker;
    rlock_finding_fn *fn;
    void *payload;
    int code;                    /* of the first finding that prevents locks */
    bool lacks[RLOCK__FOR_EASE]; /* some right, by what it is for */
};

void rlock__finding(struct rlock__diagnosis *d, enum rlock_level level, const char *subject,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A finding that prevents locks: the code, and the thread's detail. */
void rlock__prevented(struct rlock__diagnosis *d, const char *subject, int code);
/* A right that is missing, as an ACL has it ("+zscore"), and what comes of that; of one that is for
 * some kinds, which they are. */
void rlock__lacks(struct rlock__diagnosis *d, enum rlock__use use, const char *right,
                  const char *meaning);

/* ---- rights.c ---- */

/* Tries each right on names that begin with the client's prefix. key: one that nobody uses. Leaves
 * nothing on the server. Returns 0, or why the server cannot be asked. */
int rlock__rights_try(struct rlock__diagnosis *d, struct rlock__bytes key);

/* ---- probe.c ---- */

typedef int rlock__new_fn(struct rlock_client *client, const char *name,
                          const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/* A lock of a name that nobody else uses: it ends with this word. NULL: that was told. */
struct rlock_handle *rlock__probe_new(struct rlock__diagnosis *d, const char *word,
                                      rlock__new_fn *make);
/* Tries what every lock needs, and then the other kinds that the rights allow. At its end the
 * asker's connection is a subscriber's. */
void rlock__probe(struct rlock__diagnosis *d);

#endif
