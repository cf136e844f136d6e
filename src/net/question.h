/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to a server, over a connection of its own. The connection stays open for the next
 * question. Only one thread uses it.
 */
#ifndef RLOCK_NET_QUESTION_H
#define RLOCK_NET_QUESTION_H

#include "net/conn.h"

/* Zero is one that was never asked. */
struct rlock__question {
    struct rlock__conn_opts conn_opts; /* set them before it is asked, and close it before they
                                        * change; the URL and texts are borrowed */
    struct rlock__conn *conn;
    struct rlock__buf out;
    size_t sent;
    unsigned awaited;  /* replies that are still to come */
    unsigned failures; /* in a row; the asker's to reset */
    int64_t asked_at;  /* when the latest was sent; before that, when it was begun */
    int64_t
        patience_us; /* for an answer; 0: half a second, and more after each that does not come */
};

static inline bool rlock__question_is_open(const struct rlock__question *question)
{
    return question->awaited != 0;
}

/* Closes the connection; the counts stay. */
void rlock__question_close(struct rlock__question *question);
void rlock__question_fini(struct rlock__question *question);
/* Asks: commands, and how many. Returns 0, or why it cannot be asked. */
int rlock__question_begin(struct rlock__question *question, struct rlock__bytes commands,
                          unsigned n_replies, int64_t now);
/* Goes on with what is open. Returns 1 with a reply that is borrowed until the next call, 0 when
 * none is there, or why there will be none: overdue counts as that. */
int rlock__question_go_on(struct rlock__question *question, struct rlock__reply *ret_reply,
                          int64_t now);
/* What its connection failed with: names the server. NULL: it did not fail, there is no answer. */
const char *rlock__question_error(const struct rlock__question *question);
/* What was asked has no answer: closes, and counts it. */
void rlock__question_failed(struct rlock__question *question);
/* Until when to wait. */
int64_t rlock__question_plan(const struct rlock__question *question);
/* Registers the question's connection in an epoll, without data, while the question is open. If the
 * system has no room for that, the reply is read when the question is overdue. */
void rlock__question_register(const struct rlock__question *question, int epoll_fd);

#endif
