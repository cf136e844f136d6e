/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that one call opens for questions about a server, not about a lock. The replies may
 * be long, and must not delay replies to locks. The calling thread does all the work.
 */
#ifndef RLOCK_DRIVE_ASK_H
#define RLOCK_DRIVE_ASK_H

#include "drive/client.h"
#include "net/question.h"

struct rlock__asker {
    struct rlock__question question;
    int64_t timeout_us, deadline; /* of each question, and of all together */
    /* If set, a server that closes the connection in place of an answer has refused the command: it
     * counts, connects again, and reads an error. NULL: the question fails. */
    const struct rlock_client *reconnects;
    const struct rlock__conn_opts *conn_opts;
    unsigned n_hung_up;
    bool broke; /* the latest question met the end of the connection */
};

/* Connects to a node, within the client's connect timeout. End with rlock__asker_fini(), whatever
 * it returns. */
int rlock__asker_init(struct rlock__asker *asker, struct rlock__node *node, int64_t deadline);
/* The same, to any place. */
int rlock__asker_dial(struct rlock__asker *asker, const struct rlock_client *client,
                      const struct rlock__conn_opts *conn_opts, int64_t deadline);
void rlock__asker_fini(struct rlock__asker *asker);
static inline bool rlock__asker_is_up(const struct rlock__asker *asker)
{
    const struct rlock__conn *conn = asker->question.conn;

    return conn != NULL && rlock__conn_is_up(conn);
}
/* Asks, taking over cmd. The reply, maybe an error of the server, is borrowed until the next
 * question. */
int rlock__asker_ask(struct rlock__asker *asker, struct rlock__cmd *cmd,
                     struct rlock__reply *ret_reply);
/* The same with words: NULL ends them. */
int rlock__asker_words(struct rlock__asker *asker, struct rlock__reply *ret_reply, ...)
    __attribute__((sentinel));

#endif
