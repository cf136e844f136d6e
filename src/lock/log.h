/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of the log, until the driver passes them to the program. */
#ifndef RLOCK_LOCK_LOG_H
#define RLOCK_LOCK_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct rlock__core;

/* What a line of the log is about, for programs that filter lines. */
struct rlock__about {
    const char *subject; /* static: a word of docs/log.md */
    const char *server;  /* its address; NULL: no server */
    int code;
};

static inline struct rlock__about rlock__about(const char *subject, const char *server, int code)
{
    return (struct rlock__about){.subject = subject, .server = server, .code = code};
}

/* A line for the log. */
struct rlock__note {
    struct rlock__note *prev, *next;
    int level, code;
    const char *subject;
    char server[300];
    char text[RLOCK__DETAIL_SIZE];
};

/* The lines of one level in the present second: lock/log.c. */
struct rlock__log_quota {
    unsigned lines, left_out;
};

/* A line for the log, from inside an event or before the first one. */
void rlock__note(struct rlock__core *core, int level, struct rlock__about about, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
/* Logs a line of a sort that may come in large numbers. Lines beyond the limit are counted, and a
 * line of their level says how many were left out. */
void rlock__log_event(struct rlock__core *core, int level, struct rlock__about about, int64_t now,
                      const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Whether the log may have one more such line now; counts the line either way. routine: the line
 * is about a call that did not have to wait. */
bool rlock__log_may(struct rlock__core *core, int level, bool routine, int64_t now);
/* Logs how many lines were left out since that was last logged. */
void rlock__log_left_out(struct rlock__core *core);

#endif
