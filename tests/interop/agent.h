/*
 * One rlock process of the interop tests: the twin of java/, speaking the protocol of peer.h. It
 * sees the public header alone, as any program does.
 */
#ifndef RLOCK_INTEROP_AGENT_H
#define RLOCK_INTEROP_AGENT_H

#include <rlock/rlock.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AGENT_WORDS = 40 };

/* A request: words in the order of the protocol, decoded. */
struct agent_request {
    size_t n_args;
    char *words[AGENT_WORDS];
};

static inline const char *agent_client(const struct agent_request *request)
{
    return request->words[1];
}
static inline const char *agent_owner(const struct agent_request *request)
{
    return request->words[2];
}
static inline const char *agent_kind(const struct agent_request *request)
{
    return request->words[3];
}
static inline const char *agent_name(const struct agent_request *request)
{
    return request->words[4];
}
static inline const char *agent_verb(const struct agent_request *request)
{
    return request->words[5];
}
static inline const char *const *agent_args(const struct agent_request *request)
{
    return (const char *const *)&request->words[6];
}

/* An argument that is a number; 0 where there is none. */
int64_t agent_number(const struct agent_request *request, size_t i);

/* One line on the standard output, whole, whichever threads speak. A request gets one of the first
 * two. */
void agent_ok(const struct agent_request *request, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void agent_fail(const struct agent_request *request, int code);
void agent_event(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The word with percent signs for what would end it; valid until this thread's next call. */
const char *agent_encode(const char *word);

/* Carries out a request and answers it. In the owner's own thread. */
void agent_perform(const struct agent_request *request);

/* A handle for a lock of that kind, the same each time. Returns NULL for a kind that is not there.
 */
struct rlock_handle *agent_lock(const char *client, const char *kind, const char *name);

/* The C half of the mixed stress. Returns when it is stopped. */
void agent_stress(const struct agent_request *request);

/* The verb "loop". */
void agent_loop(const struct agent_request *request, struct rlock_handle *lock);

#endif
