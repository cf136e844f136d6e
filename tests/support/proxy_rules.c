/* What becomes of a request, and of the reply that it will get. */
#include "proxy_impl.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

uint64_t proxy__random(uint64_t *state)
{
    /* splitmix64: any seed will do, 0 as well */
    *state += 0x9e3779b97f4a7c15U;
    uint64_t mixed = *state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
}

static bool matches(const struct proxy_rule *rule, const struct proxy_conn *conn,
                    struct resp_bytes frame)
{
    return proxy__conn_is(conn, rule->which) &&
           (rule->command == NULL || resp_is(resp_word(frame, 0), rule->command)) &&
           (rule->contains == NULL ||
            memmem(frame.data, frame.len, rule->contains, strlen(rule->contains)) != NULL);
}

/* Counts, and says whether it is this rule's turn to act. */
static bool is_due(struct proxy_rule_kept *kept)
{
    const unsigned int times = kept->rule.times > 0 ? kept->rule.times : 1;

    kept->seen++;
    if (kept->seen <= kept->rule.skip) {
        return false;
    }
    if (kept->rule.act != PROXY_PASS && times != PROXY_ALWAYS && kept->fired >= times) {
        return false;
    }
    kept->fired++;
    return kept->rule.act != PROXY_PASS;
}

static const struct proxy_rule_kept *rule_for(const struct proxy_conn *conn,
                                              struct resp_bytes frame)
{
    for (struct proxy_rule_kept *kept = conn->proxy->rules; kept != NULL; kept = kept->next) {
        if (!kept->is_removed && matches(&kept->rule, conn, frame) && is_due(kept)) {
            return kept;
        }
    }
    return NULL;
}

static void copy_word(char *text, size_t size, struct resp_bytes frame, size_t i)
{
    const struct resp_bytes word = resp_word(frame, i);
    const size_t len = word.len < size ? word.len : size - 1;

    memcpy(text, word.data, len);
    text[len] = '\0';
}

static void note_request(struct proxy_stats *stats, struct resp_bytes frame)
{
    const bool has_keys =
        resp_is(resp_word(frame, 0), "EVAL") || resp_is(resp_word(frame, 0), "EVALSHA");

    stats->requests++;
    copy_word(stats->command, sizeof(stats->command), frame, 0);
    copy_word(stats->argument, sizeof(stats->argument), frame, 1);
    stats->key[0] = '\0';
    if (has_keys) {
        copy_word(stats->key, sizeof(stats->key), frame, 3);
    }
}

static bool is_one_of(struct resp_bytes word, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (resp_is(word, *names)) {
            return true;
        }
    }
    return false;
}

static bool is_subscribing(struct resp_bytes command)
{
    static const char *const names[] = {"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", NULL};

    return is_one_of(command, names);
}

/* One acknowledgement per channel. UNSUBSCRIBE without channels has as many as there were; we then
 * count one. */
static size_t count_replies(struct resp_bytes frame)
{
    static const char *const leaving[] = {"UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", NULL};
    const struct resp_bytes command = resp_word(frame, 0);
    size_t n = 1;

    if (is_subscribing(command) || is_one_of(command, leaving)) {
        while (resp_word(frame, n + 1).len > 0) {
            n++;
        }
    }
    return n;
}

static struct proxy_expected *expect(struct proxy_conn *conn, const struct proxy_rule_kept *rule,
                                     bool is_repeat)
{
    struct proxy_expected *expected = calloc(1, sizeof(*expected));

    TEST_CHECK(expected != NULL);
    expected->rule = rule;
    expected->is_repeat = is_repeat;
    *conn->last_expected = expected;
    conn->last_expected = &expected->next;
    return expected;
}

static void forward(struct proxy_conn *conn, struct resp_bytes frame,
                    const struct proxy_rule_kept *rule, bool is_repeat)
{
    struct proxy_frame *sent = proxy__send(conn, PROXY_TO_SERVER, frame, THEN_NOTHING);

    if (conn->is_holding) {
        sent->is_held = true;
        conn->proxy->stats.held++;
    }
    for (size_t n = count_replies(frame); n > 0; n--) {
        (void)expect(conn, rule, is_repeat);
        rule = NULL; /* a rule is for the first of the acknowledgements */
    }
}

static struct proxy_expected take_expected(struct proxy_conn *conn)
{
    struct proxy_expected *first = conn->expected;
    struct proxy_expected taken = {.rule = NULL};

    if (first != NULL) {
        taken = *first;
        conn->expected = first->next;
        if (conn->expected == NULL) {
            conn->last_expected = &conn->expected;
        }
        free(first);
    }
    return taken;
}

/* Says what the server is not asked for, once what was asked before has its replies. */
static void answer_ours(struct proxy_conn *conn)
{
    while (conn->expected != NULL && conn->expected->is_ours) {
        const struct proxy_rule *rule = &take_expected(conn).rule->rule;
        const bool hangs_up = rule->act == PROXY_HANG_UP;
        const struct resp_bytes bytes = {.data = hangs_up ? "" : rule->bytes,
                                         .len = hangs_up ? 0 : rule->len};

        (void)proxy__send(conn, PROXY_TO_CLIENT, bytes, hangs_up ? THEN_HANG_UP : THEN_NOTHING);
    }
}

static void cut_here(struct proxy_conn *conn, enum proxy_way way)
{
    proxy__send(conn, way, (struct resp_bytes){.data = "", .len = 0}, THEN_RESET);
}

void proxy__on_request(struct proxy_conn *conn, struct resp_bytes frame)
{
    note_request(&conn->proxy->stats, frame);
    if (is_subscribing(resp_word(frame, 0))) {
        conn->is_subscriber = true;
        conn->is_black = conn->is_black || conn->proxy->is_black[PROXY_SUBSCRIBERS];
    }
    const struct proxy_rule_kept *kept = rule_for(conn, frame);
    const enum proxy_act act = kept != NULL ? kept->rule.act : PROXY_PASS;

    if (act == PROXY_CUT_REQUEST) {
        cut_here(conn, PROXY_TO_SERVER);
        return;
    }
    if (act == PROXY_DROP_REQUEST) {
        return;
    }
    if (act == PROXY_ANSWER || act == PROXY_HANG_UP) {
        expect(conn, kept, false)->is_ours = true;
        answer_ours(conn);
        return;
    }
    if (act == PROXY_HOLD) {
        conn->is_holding = true;
    }
    forward(conn, frame, kept, false);
    if (act == PROXY_REPEAT) {
        forward(conn, frame, NULL, true);
    }
}

static bool is_message(const struct proxy_conn *conn, struct resp_bytes frame)
{
    static const char *const names[] = {"message", "pmessage", "smessage", NULL};

    return conn->is_subscriber && (frame.data[0] == '*' || frame.data[0] == '>') &&
           is_one_of(resp_word(frame, 0), names);
}

static void on_message(struct proxy_conn *conn, struct resp_bytes frame)
{
    struct proxy *proxy = conn->proxy;

    proxy->stats.messages++;
    if (proxy__random(&proxy->drop_state) % 100 < proxy->drop_percent) {
        proxy->stats.dropped_messages++;
        return;
    }
    proxy__send(conn, PROXY_TO_CLIENT, frame, THEN_NOTHING);
}

static void delay(struct proxy_flow *flow, struct proxy_frame *frame, int64_t us)
{
    frame->due_us += us;
    flow->last_due_us = frame->due_us;
}

/* Whether the reply is seen, in part at least. */
static bool act_on_reply(struct proxy_conn *conn, const struct proxy_rule *rule,
                         struct resp_bytes frame)
{
    const struct resp_bytes start = {.data = frame.data,
                                     .len = rule->at < frame.len ? rule->at : frame.len};
    const struct resp_bytes other = {.data = rule->bytes, .len = rule->len};

    switch (rule->act) {
    case PROXY_CUT_REPLY:
        cut_here(conn, PROXY_TO_CLIENT);
        return false;
    case PROXY_CUT_IN_REPLY:
        proxy__send(conn, PROXY_TO_CLIENT, start, THEN_RESET);
        return true;
    case PROXY_DROP_REPLY:
        return false;
    case PROXY_REPLACE_REPLY:
        proxy__send(conn, PROXY_TO_CLIENT, other, THEN_NOTHING);
        return true;
    case PROXY_DELAY_REPLY:
        delay(&conn->flow[PROXY_TO_CLIENT], proxy__send(conn, PROXY_TO_CLIENT, frame, THEN_NOTHING),
              rule->delay_us);
        return true;
    case PROXY_ECHO_REPLY:
        proxy__send(conn, PROXY_TO_CLIENT, frame, THEN_NOTHING);
        delay(&conn->flow[PROXY_TO_CLIENT],
              proxy__send(conn, PROXY_TO_CLIENT, rule->at != 0 ? start : frame, THEN_COUNT),
              rule->delay_us);
        return true;
    case PROXY_PASS:
    case PROXY_CUT_REQUEST:
    case PROXY_DROP_REQUEST:
    case PROXY_ANSWER:
    case PROXY_HANG_UP:
    case PROXY_REPEAT:
    case PROXY_HOLD:
        break; /* these acted on the request */
    }
    proxy__send(conn, PROXY_TO_CLIENT, frame, THEN_NOTHING);
    return true;
}

void proxy__on_reply(struct proxy_conn *conn, struct resp_bytes frame)
{
    if (is_message(conn, frame)) {
        on_message(conn, frame);
        return;
    }
    const struct proxy_expected expected = take_expected(conn);
    conn->proxy->stats.replies++;
    if (expected.is_repeat) {
        conn->proxy->stats.swallowed++;
    } else if (expected.rule == NULL) {
        proxy__send(conn, PROXY_TO_CLIENT, frame, THEN_NOTHING);
    } else if (!act_on_reply(conn, &expected.rule->rule, frame)) {
        conn->proxy->stats.swallowed++;
    }
    answer_ours(conn);
}
