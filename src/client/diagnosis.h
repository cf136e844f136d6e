/* SPDX-License-Identifier: Apache-2.0 */
/* What a diagnosis has found so far, and who is told. */
#ifndef RLOCK_CLIENT_DIAGNOSIS_H
#define RLOCK_CLIENT_DIAGNOSIS_H

#include "client/lock.h"
#include "client/rights.h"

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

/* ---- probe.c ---- */

/* A reentrant lock of a name that nobody else uses: it ends with this word. NULL: that was told. */
struct rlock_handle *rlock__probe_new(struct rlock__diagnosis *d, const char *word);
/* Tries what every lock needs. */
void rlock__probe_basic(struct rlock__diagnosis *d, struct rlock_handle *lock);
/* Tries the other kinds that the rights allow; lock: a probe. */
void rlock__probe_others(struct rlock__diagnosis *d, struct rlock_handle *lock);

#endif
