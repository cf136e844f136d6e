/* SPDX-License-Identifier: Apache-2.0 */
#include "router/descent.h"

#include <stdio.h>

#include "net/hello.h"

#define EACH_US (10 * RLOCK__SECOND) /* its replicas may all have gone, which gives it another id */
#define SOON_US RLOCK__SECOND        /* the same while its id is unknown */
#define COMMANDS                                                                                   \
    "*1\r\n$4\r\nROLE\r\n"                                                                         \
    "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"

void rlock__descent_know(struct rlock__descent *descent, const struct rlock__node *known)
{
    if (known != descent->known) {
        descent->known = known;
        descent->known_at = 0;
        descent->id[0] = '\0';
    }
}

void rlock__descent_ask(struct rlock__descent *descent, const struct rlock__node *node, int64_t now)
{
    struct rlock__question *question = &descent->question;

    if (rlock__question_is_open(question) &&
        (node == descent->asked || descent->asked != descent->known)) {
        return;
    }
    if (node != descent->asked) {
        rlock__question_close(question);
        descent->asked = node;
        question->failures = 0;
        question->conn_opts = node->conn_opts;
        question->conn_opts.want_info = question->conn_opts.want_role = false;
    }
    descent->known_at = node == descent->known ? now : descent->known_at;
    if (rlock__question_begin(question, rlock__bytes_of(COMMANDS), 2, now) != 0) {
        rlock__question_failed(question);
    }
}

/* Where ROLE is not permitted the Sentinels' word counts, as for a new link. */
static void take_role(struct rlock__descent *descent, const struct rlock__reply *reply)
{
    descent->says_primary =
        rlock__reply_is_error(reply) ||
        rlock__bytes_equal(rlock__reply_str(reply, 0), rlock__bytes_of("master"));
}

/* Without permission for INFO nothing is proven. */
static void take_info(struct rlock__descent *descent, const struct rlock__reply *reply)
{
    struct rlock__bytes info = rlock__reply_str(reply, 0);
    struct rlock__bytes id = rlock__info_field(info, "\nmaster_replid:");
    struct rlock__bytes former = rlock__info_field(info, "\nmaster_replid2:");
    struct rlock__evidence *evidence = &descent->evidence;

    if (descent->asked == descent->known) {
        (void)snprintf(descent->id, sizeof(descent->id), "%.*s", (int)id.len, id.at);
        return;
    }
    *evidence = (struct rlock__evidence){.is_primary = descent->says_primary};
    (void)snprintf(evidence->of.host, sizeof(evidence->of.host), "%s", descent->asked->uri.host);
    evidence->of.port = descent->asked->uri.port;
    evidence->descends = former.len == RLOCK__REPLICATION_ID &&
                         rlock__bytes_equal(former, rlock__bytes_of(descent->id));
}

bool rlock__descent_go_on(struct rlock__descent *descent, int64_t now)
{
    struct rlock__question *question = &descent->question;
    struct rlock__reply reply;
    int code = 0;

    if (!rlock__question_is_open(question)) {
        return false;
    }
    while (rlock__question_is_open(question) &&
           (code = rlock__question_go_on(question, &reply, now)) > 0) {
        (rlock__question_is_open(question) ? take_role : take_info)(descent, &reply);
    }
    if (code < 0) {
        rlock__question_failed(question);
    } else if (code > 0) {
        question->failures = 0;
    }
    return code > 0 && descent->evidence.is_primary && descent->evidence.descends;
}

int64_t rlock__descent_due(const struct rlock__descent *descent)
{
    bool waits = descent->known == NULL || rlock__question_is_open(&descent->question);

    return waits ? RLOCK__NEVER
           : descent->known_at == 0
               ? 0
               : descent->known_at + (descent->id[0] != '\0' ? EACH_US : SOON_US);
}
