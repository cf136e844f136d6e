/* SPDX-License-Identifier: Apache-2.0 */
#include "net/question.h"

#include "base/time.h"

#define PATIENCE_US (RLOCK__SECOND / 2) /* for an answer; doubles with each that does not come */

void rlock__question_close(struct rlock__question *question)
{
    question->conn = rlock__conn_free(question->conn);
    question->awaited = 0;
}

void rlock__question_fini(struct rlock__question *question)
{
    rlock__question_close(question);
    rlock__buf_fini(&question->out);
}

int rlock__question_begin(struct rlock__question *question, struct rlock__bytes commands,
                          unsigned n_replies, int64_t now)
{
    question->asked_at = now;
    question->awaited = n_replies;
    question->sent = 0;
    rlock__buf_clear(&question->out);
    if (!rlock__buf_add(&question->out, commands.at, commands.len)) {
        return RLOCK_ENOMEM;
    }
    if (question->conn != NULL && rlock__conn_is_up(question->conn)) {
        return 0;
    }
    (void)rlock__conn_free(question->conn);
    question->conn = rlock__conn_new(&question->conn_opts);
    return question->conn != NULL ? rlock__conn_start(question->conn, NULL, 0, now) : RLOCK_ENOMEM;
}

static int64_t give_up_at(const struct rlock__question *question)
{
    int64_t patience = PATIENCE_US << (question->failures < 2 ? question->failures : 2);

    return question->asked_at + (question->patience_us != 0 ? question->patience_us : patience);
}

/* Sends what goes now. */
static int send_rest(struct rlock__question *question, int64_t now)
{
    ssize_t n;

    if (question->sent == question->out.len) {
        return 0;
    }
    if (question->sent == 0) {
        question->asked_at = now;
        rlock__conn_set_reply_cap(question->conn, RLOCK__REPLY_CAP_LARGE);
    }
    n = rlock__conn_write(question->conn, question->out.data + question->sent,
                          question->out.len - question->sent);
    question->sent += n > 0 ? (size_t)n : 0;
    return n < 0 ? (int)n : 0;
}

int rlock__question_go_on(struct rlock__question *question, struct rlock__reply *ret_reply,
                          int64_t now)
{
    int code = rlock__conn_step(question->conn, now);

    if (code == 0 && rlock__conn_is_up(question->conn)) {
        code = send_rest(question, now);
        code = code == 0 ? rlock__conn_next(question->conn, ret_reply) : code;
        if (code == 0) {
            code = rlock__conn_read(question->conn);
            code = code > 0 ? rlock__conn_next(question->conn, ret_reply) : code;
        }
    }
    question->awaited -= code > 0;
    return code == 0 && now >= give_up_at(question) ? RLOCK_ECONN : code;
}

const char *rlock__question_error(const struct rlock__question *question)
{
    const char *error = question->conn != NULL ? rlock__conn_error(question->conn) : "";

    return error[0] != '\0' ? error : NULL;
}

void rlock__question_failed(struct rlock__question *question)
{
    question->awaited = 0;
    question->failures++;
    if (question->conn != NULL) {
        rlock__conn_close(question->conn);
    }
}

int64_t rlock__question_plan(const struct rlock__question *question)
{
    return rlock__question_is_open(question)
               ? rlock__min(rlock__conn_deadline(question->conn), give_up_at(question))
               : RLOCK__NEVER;
}

void rlock__question_register(const struct rlock__question *question, int epoll_fd)
{
    if (question->conn != NULL) {
        short events = 0;

        if (rlock__question_is_open(question)) {
            events = rlock__conn_events(question->conn);
        }
        (void)rlock__conn_register(question->conn, epoll_fd, events, NULL);
    }
}
