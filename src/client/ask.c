/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ask.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

/* Waits until the connection is ready for something, or until the deadline. */
static int wait_ready(const struct rlock__conn *conn, short events, int64_t deadline)
{
    struct pollfd fd = {.fd = rlock__conn_fd(conn), .events = events};
    int64_t left = deadline - rlock__now_us();

    if (left <= 0) {
        return rlock__fail(RLOCK_ECONN, "server %s: no answer", rlock__conn_peer(conn));
    }
    (void)poll(&fd, 1, (int)rlock__min(rlock__ms_up(left), 60000));
    return 0;
}

int rlock__asker_init(struct rlock__asker *asker, struct rlock__node *node, int64_t deadline)
{
    return rlock__asker_dial(asker, node->client, &node->conn_opts, deadline);
}

int rlock__asker_dial(struct rlock__asker *asker, const struct rlock_client *client,
                      const struct rlock__conn_opts *conn_opts, int64_t deadline)
{
    int code;

    asker->conn = rlock__conn_new(conn_opts);
    asker->timeout_us = client->core.op_timeout_us;
    asker->deadline = deadline;
    deadline = rlock__min(deadline, rlock__now_us() + client->core.op_timeout_us);
    if (asker->conn == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    code = rlock__conn_start(asker->conn, NULL, 0, rlock__now_us());
    while (code == 0 && !rlock__conn_is_up(asker->conn)) {
        int64_t until = rlock__min(rlock__conn_deadline(asker->conn), deadline);

        code = wait_ready(asker->conn, rlock__conn_events(asker->conn), until);
        if (rlock__now_us() < deadline) {
            code = rlock__conn_step(asker->conn, rlock__now_us());
        }
    }
    if (code != 0) {
        const char *why = rlock__conn_error(asker->conn);

        return why[0] != '\0' ? rlock__fail(code, "%s", why) : code;
    }
    rlock__conn_set_reply_cap(asker->conn, RLOCK__REPLY_CAP_LARGE);
    return 0;
}

void rlock__asker_fini(struct rlock__asker *asker)
{
    asker->conn = rlock__conn_free(asker->conn);
}

/* In the words of servers that say so. */
#define HUNG_UP "ERR unknown command: the server closed the connection"

static const struct rlock__value hung_up = {
    .type = RLOCK__REPLY_ERROR, .str = HUNG_UP, .len = sizeof(HUNG_UP) - 1};

/* Connects again. The end of the connection was the answer, unless that fails. */
static int read_hang_up(struct rlock__asker *asker, int code, struct rlock__reply *ret_reply)
{
    if (asker->reconnects == NULL || !asker->broke) {
        return code;
    }
    rlock__asker_fini(asker);
    code = rlock__asker_dial(asker, asker->reconnects, asker->conn_opts, asker->deadline);
    if (code != 0) { /* the server is gone */
        asker->reconnects = NULL;
        return code;
    }
    asker->n_hung_up++;
    *ret_reply = (struct rlock__reply){.v = &hung_up, .n = 1};
    return 0;
}

static int send_all(struct rlock__asker *asker, const struct rlock__buf *buf, int64_t deadline)
{
    size_t sent = 0;
    int code = 0;

    while (code == 0 && sent < buf->len) {
        ssize_t n = rlock__conn_write(asker->conn, buf->data + sent, buf->len - sent);

        if (n < 0) {
            asker->broke = true;
            return rlock__fail((int)n, "%s", rlock__conn_error(asker->conn));
        }
        sent += (size_t)n;
        code = n == 0 ? wait_ready(asker->conn, POLLOUT, deadline) : 0;
    }
    return code;
}

static int receive(struct rlock__asker *asker, struct rlock__reply *ret_reply, int64_t deadline)
{
    for (;;) {
        int n = rlock__conn_next(asker->conn, ret_reply);

        if (n == 0) {
            n = rlock__conn_read(asker->conn);
            if (n == 0 && wait_ready(asker->conn, POLLIN, deadline) != 0) {
                return RLOCK_ECONN;
            }
        } else if (n > 0) {
            return 0;
        }
        if (n < 0) {
            asker->broke = n == RLOCK_ECONN;
            return rlock__fail(n, "%s", rlock__conn_error(asker->conn));
        }
    }
}

int rlock__asker_ask(struct rlock__asker *asker, struct rlock__cmd *cmd,
                     struct rlock__reply *ret_reply)
{
    struct rlock__buf out = {0};
    int64_t deadline = rlock__min(asker->deadline, rlock__now_us() + asker->timeout_us);
    int code;

    asker->broke = false;
    if (asker->conn == NULL) {
        rlock__cmd_fini(cmd);
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    code = rlock__cmd_encode(cmd, true, &out) ? send_all(asker, &out, deadline)
                                              : rlock__fail(RLOCK_ENOMEM, "no memory");

    rlock__buf_fini(&out);
    rlock__cmd_fini(cmd);
    code = code == 0 ? receive(asker, ret_reply, deadline) : code;
    return code == 0 ? 0 : read_hang_up(asker, code, ret_reply);
}

int rlock__asker_words(struct rlock__asker *asker, struct rlock__reply *ret_reply, ...)
{
    struct rlock__cmd cmd = {0};
    const char *word;
    va_list words;

    va_start(words, ret_reply);
    while ((word = va_arg(words, const char *)) != NULL) {
        rlock__cmd_arg(&cmd, rlock__bytes_of(word));
    }
    va_end(words);
    return rlock__asker_ask(asker, &cmd, ret_reply);
}
