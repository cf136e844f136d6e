/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/ask.h"

#include <poll.h>
#include <stdarg.h>

#include "base/clock.h"

int rlock__asker_init(struct rlock__asker *asker, struct rlock__node *node, int64_t deadline)
{
    return rlock__asker_dial(asker, node->client, &node->conn_opts, deadline);
}

/* Says why there is no answer, and gives up the connection: one that comes late is none to the next
 * question. */
static int fail(struct rlock__asker *asker, int code)
{
    struct rlock__question *question = &asker->question;
    const char *why = rlock__question_error(question);

    if (question->conn == NULL || code == RLOCK_ENOMEM) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    asker->broke = why != NULL && code == RLOCK_ECONN;
    code = why != NULL
               ? rlock__fail(code, "%s", why)
               : rlock__fail(code, "server %s: no answer", rlock__conn_peer(question->conn));
    rlock__question_failed(question);
    return code;
}

/* Begins a question, and waits for its answer; without commands until the connection is up. */
static int run(struct rlock__asker *asker, struct rlock__bytes commands,
               struct rlock__reply *ret_reply)
{
    struct rlock__question *question = &asker->question;
    int64_t now = rlock__now_us();
    struct pollfd fd;
    int code;

    question->patience_us = rlock__max(1, rlock__min(asker->deadline - now, asker->timeout_us));
    code = rlock__question_begin(question, commands, 1, now);
    while (code == 0 && (code = rlock__question_go_on(question, ret_reply, now)) == 0 &&
           (commands.len != 0 || !rlock__conn_is_up(question->conn))) {
        int64_t until = rlock__question_plan(question);

        fd = (struct pollfd){.fd = rlock__conn_fd(question->conn),
                             .events = rlock__conn_events(question->conn)};
        (void)poll(&fd, 1, rlock__timeout_ms(until, now));
        now = rlock__now_us();
    }
    return code < 0 ? fail(asker, code) : 0;
}

int rlock__asker_dial(struct rlock__asker *asker, const struct rlock_client *client,
                      const struct rlock__conn_opts *conn_opts, int64_t deadline)
{
    struct rlock__reply none;

    asker->question = (struct rlock__question){.conn_opts = *conn_opts};
    asker->timeout_us = client->core.opts.op_timeout_us;
    asker->deadline = deadline;
    return run(asker, rlock__bytes("", 0), &none);
}

void rlock__asker_fini(struct rlock__asker *asker)
{
    rlock__question_fini(&asker->question);
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

int rlock__asker_ask(struct rlock__asker *asker, struct rlock__cmd *cmd,
                     struct rlock__reply *ret_reply)
{
    struct rlock__buf out = {0};
    int code;

    asker->broke = false;
    if (!rlock__asker_is_up(asker)) {
        code = fail(asker, RLOCK_ECONN);
    } else if (rlock__cmd_encode(cmd, true, &out)) {
        code = run(asker, rlock__bytes(out.data, out.len), ret_reply);
    } else {
        code = rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    rlock__buf_fini(&out);
    rlock__cmd_fini(cmd);
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
