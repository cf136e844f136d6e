/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of requests in flight on one link: which requests wait for the link, which were sent
 * and in what order their replies come, and what became of copies that went down with an earlier
 * link.
 *
 * A link lives in generations: each connection that came up is one. A copy of a request is
 * accounted for when its reply was read, or when its generation is fenced (fence.h): a later
 * connection sent CLIENT KILL for it and read the answer. Then the server cannot run the copy any
 * more. (A stopped server that goes on runs what lies in a broken connection's buffer; only the
 * kill prevents it.)
 *
 * Threads: none of its own; used under the client's mutex. It knows no socket and no clock.
 */
#ifndef RLOCK_WIRE_PIPELINE_H
#define RLOCK_WIRE_PIPELINE_H

#include <rlock/stats.h>

#include "base/time.h"
#include "wire/command.h"
#include "wire/fence.h"
#include "wire/patience.h"
#include "wire/reply.h"

struct rlock__link;
struct rlock__pipeline;
struct rlock__request;
struct rlock__spec;

/* Takes a request's outcome, and the request with it. Runs exactly once, unless the request was
 * withdrawn. reply: of a script, an error or what has one of the script's shapes; NULL when no
 * reply will come: the copies that were sent, if any, went down with their link. */
typedef void rlock__answer_fn(struct rlock__request *request, const struct rlock__reply *reply,
                              int64_t now);

/* What becomes of a request whose link breaks before its reply. */
enum rlock__resend {
    RLOCK__RESEND, /* it is sent again on the next link, once that is fenced; not behind ASKING */
    RLOCK__ONCE,   /* it has no answer; only a copy that certainly did not run (NOSCRIPT) is sent
                      again */
    RLOCK__DROP,   /* it has no answer, and is never sent again: nobody wants it any more */
};

struct rlock__request {
    struct rlock__request *prev, *next; /* in sent or waiting */
    struct rlock__cmd cmd;
    struct rlock__spec *spec; /* what it is about, and the link that has it: whoever submits it */
    struct rlock__link *link;
    rlock__answer_fn *answer;
    void *subject; /* the answer's own */
    enum rlock__resend resend;
    bool asking;       /* each copy goes out right behind ASKING, which is answered first; one that
                        may have run is not sent again */
    bool acked;        /* what it writes is to be acknowledged, where that is needed */
    size_t untold_len; /* asking: of the arguments without the one that tells the script */
    unsigned hops;     /* lock/server/hop.h: how often this attempt went to another server */
    bool homed;        /* lock/server/hop.h: this attempt was asked once more where the map says */
    int64_t first_t0;  /* lock/server/hop.h: the t0 of its first copy, once it has hopped */
    bool sent;         /* which of the two lists it is in */
    bool garbled;      /* what came in place of its reply was none: it is never sent again */
    unsigned copies;   /* how many went out and may have run */
    uint64_t gen;      /* generation of the latest copy */
    uint64_t lost_gen; /* generation that broke with a copy on it, and is fenced last; 0 none */
    int64_t t0;        /* when the latest copy was appended for sending */
    uint64_t end;      /* of the latest copy, in bytes of its generation */
    uint64_t asking_end;      /* the same of its ASKING, until that is answered; 0 none */
    struct rlock__pool *pool; /* that it goes back to; NULL none */
};

/* Requests of a few bytes, kept for the next ones with their buffers. Zero is an empty pool. */
struct rlock__pool {
    struct rlock__request *idle;
    unsigned n;
};

struct rlock__pipeline {
    struct rlock__request *sent;    /* replies come in this order */
    struct rlock__request *waiting; /* for the link */
    struct rlock__buf out;          /* bytes for the driver to send on generation gen */
    uint64_t appended;              /* bytes of this generation: all of them, */
    uint64_t taken;                 /* those that the driver may have sent, */
    uint64_t written;               /* and those that it says it has */
    uint64_t gen;                   /* of the link that is up, or was last */
    struct rlock__fence fence;
    bool is_nameless; /* the server did not report the id of the connection of generation gen */
    bool up;
    bool close;         /* the driver must close generation gen; what it held is settled already */
    bool drains;        /* nothing more is sent on it; once all is answered it is closed */
    bool lied;          /* something came on it that is no reply, or the reply to nothing */
    const char *why;    /* close: for texts */
    int64_t op_timeout; /* a reply that takes longer breaks the link */
    /*
     * How long a server must be silent before another one is promoted in its place; 0: none is. One
     * that stood still so long and goes on answers what lay in its sockets as if it had not been
     * replaced. So an answer counts only if it is read less than that after the server certainly
     * lived: when the latest command was sent that it has answered.
     */
    int64_t failover_us;
    int64_t alive_at;               /* when the server certainly lived */
    int64_t heard_at;               /* when the latest reply came, or the link */
    int64_t rtt;                    /* the usual round trip; 0 unknown */
    uint64_t requests, resends;     /* copies that were sent, and of these second ones */
    struct rlock_histogram replies; /* how long they took */
    struct rlock__patience patience;
};

/* Answers what is left with NULL; their subjects must be gone, or able to take it. */
void rlock__pipeline_fini(struct rlock__pipeline *pipeline);
/* Sends a request, or keeps it until the link is up. False where there was no memory for it, or
 * now is none to send it: nothing of it is sent, and it is the caller's still. */
bool rlock__pipeline_submit(struct rlock__pipeline *pipeline, struct rlock__request *request,
                            int64_t now);
/* Answers those that wait for the link and that this function picks, as if one copy more had been
 * sent and refused. */
void rlock__pipeline_refuse_waiting(struct rlock__pipeline *pipeline,
                                    bool (*is_picked)(const struct rlock__request *request),
                                    const struct rlock__reply *reply, int64_t now);
/* Has the driver close the link. What was sent on it is accounted for: another server has taken
 * this one's place. */
void rlock__pipeline_replaced(struct rlock__pipeline *pipeline, int64_t now);
/* Has the driver close the link once what was sent on it is answered. What comes from now on waits
 * for the next one. */
void rlock__pipeline_drain(struct rlock__pipeline *pipeline, const char *why);
/* Has the driver close the link now, if it is up: nothing that it says counts any more. */
void rlock__pipeline_break(struct rlock__pipeline *pipeline, const char *why, int64_t now);
/* Withdraws a request that waits for the link: no answer will come; the caller owns it again. */
void rlock__pipeline_withdraw(struct rlock__pipeline *pipeline, struct rlock__request *request);
/* The link is up as a new generation; what waits goes out. fenced: all earlier connections with a
 * known id were killed. If failover_us is not 0, the caller sets alive_at
 * before. */
void rlock__pipeline_up(struct rlock__pipeline *pipeline, uint64_t gen, bool fenced, int64_t now);
/* The link of this generation is down; ignored unless it is the present one. */
void rlock__pipeline_down(struct rlock__pipeline *pipeline, uint64_t gen, int64_t now);
/* Gives out the bytes that are to be sent now, in exchange for an empty buffer. */
void rlock__pipeline_take(struct rlock__pipeline *pipeline, struct rlock__buf *swap);
/* So many bytes of what was taken last stay here: nothing of them went out, nor will. */
void rlock__pipeline_untake(struct rlock__pipeline *pipeline, size_t n);
/* So many bytes more of what was taken went out. */
void rlock__pipeline_wrote(struct rlock__pipeline *pipeline, size_t n);
/* Whether no reply is awaited: nothing that went out whole is without one. */
bool rlock__pipeline_is_quiet(const struct rlock__pipeline *pipeline);
/*
 * A reply was read on this generation; ignored unless it is the present one, and up. One that
 * nobody awaits, or that is not of its script's shapes, breaks the link, as in
 * rlock__pipeline_garbled().
 */
void rlock__pipeline_reply(struct rlock__pipeline *pipeline, uint64_t gen,
                           const struct rlock__reply *reply, int64_t now);
/*
 * Something was read on this generation that is no reply. What is awaited next is what it came in
 * place of: that request has no answer and is never sent again. The others have lost their link.
 */
void rlock__pipeline_garbled(struct rlock__pipeline *pipeline, uint64_t gen, int64_t now);
/* When the oldest reply is overdue; RLOCK__NEVER if none is awaited. */
int64_t rlock__pipeline_overdue_at(const struct rlock__pipeline *pipeline);
/* Breaks the link if its oldest reply is overdue. */
void rlock__pipeline_check(struct rlock__pipeline *pipeline, int64_t now);

/* NULL without memory. */
struct rlock__request *rlock__request_new(struct rlock__pool *pool, rlock__answer_fn *answer,
                                          void *subject);
void rlock__pool_fini(struct rlock__pool *pool);
/* Frees a request that no list holds. Returns NULL. */
struct rlock__request *rlock__request_free(struct rlock__request *request);

#endif
