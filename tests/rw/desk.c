/* SPDX-License-Identifier: Apache-2.0 */
#include "rw/desk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/reply.h"
#include "support/alone.h"

static void unref(struct rlock__core *core)
{
    (void)core;
}

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct desk *desk = payload;

    if (!is_push) {
        desk->frame.len = 0;
        sim_buf_add(&desk->frame, bytes, len);
    } else if (conn == desk->ear && bytes[8] == 'm') { /* *3 $7 message: its last byte but two */
        sim_buf_add(&desk->heard, bytes + len - 3, 1);
    }
}

static struct rlock__reply send(struct desk *desk, const struct rlock__buf *bytes)
{
    struct rlock__reply reply;

    sim_server_set_time(desk->server, desk->now * RLOCK__MS);
    assert_true(sim_server_command(desk->server, desk->conn, bytes->data, bytes->len));
    desk->tree = sim_resp_free(desk->tree);
    desk->tree = sim_resp_read(desk->frame.data, desk->frame.len);
    assert_non_null(desk->tree);
    reply = sim_reply_of(desk->tree, desk->values);
    if (rlock__reply_is_error(&reply)) {
        fail_msg("the server says: %.*s", (int)desk->values[0].len, desk->values[0].str);
    }
    return reply;
}

static struct rlock__reply run(struct desk *desk, struct rlock__cmd *cmd)
{
    struct rlock__buf bytes = {0};
    struct rlock__reply reply;

    assert_true(rlock__cmd_encode(cmd, true, &bytes));
    rlock__cmd_fini(cmd);
    reply = send(desk, &bytes);
    rlock__buf_fini(&bytes);
    return reply;
}

static struct rlock__bytes channel(const struct desk *desk)
{
    return desk->read->channel;
}

void desk_init(struct desk *desk, struct rlock__bytes name, bool prefer_writers)
{
    const struct rlock__tuning tuning = {.prefer_writers = prefer_writers};
    struct rlock__cmd cmd = {0};
    uint64_t asks;

    *desk = (struct desk){.server = sim_server_new(1),
                          .core = {.driver.unref = unref,
                                   .driver.route = alone_route,
                                   .servers = &desk->here,
                                   .opts.prefix = {"", 0}},
                          .here.core = &desk->core};
    (void)snprintf(desk->core.opts.uuid, sizeof(desk->core.opts.uuid),
                   "285475da-9152-4c83-822a-67ee2f116a79");
    sim_server_set_events(desk->server,
                          &(struct sim_events){.on_frame = on_frame, .payload = desk});
    desk->conn = sim_server_connect(desk->server);
    desk->ear = sim_server_connect(desk->server);
    desk->read = rlock__spec_new(&desk->core, &rlock__read_ops, name, &tuning);
    desk->write = rlock__spec_new(&desk->core, &rlock__write_ops, name, &tuning);
    rlock__cmd_arg(&cmd, rlock__bytes_of("SUBSCRIBE"));
    rlock__cmd_arg(&cmd, channel(desk));
    asks = desk->conn;
    desk->conn = desk->ear;
    sim_buf_add(&desk->frame, "+OK\r\n", 5); /* an acknowledgement is no reply */
    (void)run(desk, &cmd);
    desk->conn = asks;
}

void desk_fini(struct desk *desk)
{
    (void)rlock__spec_unref(desk->read);
    (void)rlock__spec_unref(desk->write);
    desk->tree = sim_resp_free(desk->tree);
    desk->server = sim_server_free(desk->server);
    sim_buf_fini(&desk->frame);
    sim_buf_fini(&desk->heard);
}

void desk_wait(struct desk *desk, int64_t ms)
{
    desk->now += ms;
    sim_server_set_time(desk->server, desk->now * RLOCK__MS);
}

const char *desk_heard(struct desk *desk)
{
    sim_buf_add(&desk->heard, "", 1);
    desk->heard.len = 0;
    return desk->heard.data;
}

/* ---- Ours ---- */

const char *desk_owner(struct desk *desk, uint64_t number)
{
    static char text[RLOCK__OWNER_SIZE];

    (void)snprintf(text, sizeof(text), "%s:%llu", desk->core.opts.uuid, (unsigned long long)number);
    return text;
}

static struct rlock__bytes owner_text(struct desk *desk, uint64_t number,
                                      char out[static RLOCK__OWNER_SIZE])
{
    if (number == 0) {
        return rlock__bytes("", 0);
    }
    (void)snprintf(out, RLOCK__OWNER_SIZE, "%s", desk_owner(desk, number));
    return rlock__bytes_of(out);
}

struct rlock__answer desk_acquire(struct desk *desk, const struct rlock__spec *side, uint64_t owner,
                                  uint32_t count, int64_t lease, uint64_t other, bool waits)
{
    char own[RLOCK__OWNER_SIZE], others[RLOCK__OWNER_SIZE];
    struct rlock__args args = {.owner = owner_text(desk, owner, own),
                               .count = count,
                               .lease_ms = lease,
                               .other = owner_text(desk, other, others),
                               .waits = waits};
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    side->ops->acquire(side, &args, &cmd);
    reply = run(desk, &cmd);
    return side->ops->read_acquire(NULL, &reply);
}

struct rlock__answer desk_release(struct desk *desk, const struct rlock__spec *side, uint64_t owner,
                                  uint32_t count, int64_t lease)
{
    char own[RLOCK__OWNER_SIZE];
    struct rlock__args args = {
        .owner = owner_text(desk, owner, own), .count = count, .lease_ms = lease};
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    side->ops->release(side, &args, &cmd);
    reply = run(desk, &cmd);
    return side->ops->read_release(&reply);
}

void desk_renew(struct desk *desk, const struct rlock__spec *side, const uint64_t *owners, size_t n,
                int64_t lease, int64_t *ret_status)
{
    char own[RLOCK__OWNER_SIZE];
    struct rlock__cmd batch = {0};
    struct rlock__reply reply;

    for (size_t i = 0; i < n; i++) {
        struct rlock__args args = {
            .owner = owner_text(desk, owners[i], own), .count = 1, .lease_ms = lease};

        side->ops->renew(side, &args, &batch);
    }
    reply = run(desk, &batch);
    assert_true(reply.n == n + 2);
    for (size_t i = 0; i < n; i++) {
        ret_status[i] = rlock__reply_int(&reply, i + 2, -9);
    }
}

struct rlock_info desk_inspect(struct desk *desk, const struct rlock__spec *side,
                               struct rlock__buf *ret_seen)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    side->ops->inspect(side, &cmd);
    reply = run(desk, &cmd);
    side->ops->read_inspect(&reply, &info, ret_seen);
    return info;
}

bool desk_force(struct desk *desk, const struct rlock__spec *side, struct rlock__bytes seen)
{
    struct rlock__args args = {.seen = seen};
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;

    side->ops->force(side, &args, &cmd);
    reply = run(desk, &cmd);
    return side->ops->read_release(&reply).outcome == RLOCK__DONE;
}

/* ---- Others ---- */

int64_t desk_peer(struct desk *desk, const char *script, const char *owner, int64_t lease,
                  int64_t none)
{
    const struct rlock__script whole = {.body = script, .size = strlen(script)};
    struct rlock__cmd cmd = {.script = &whole};
    struct rlock__buf levels = {0};
    struct rlock__reply reply;

    rlock__cmd_key(&cmd, desk->read->key);
    rlock__suffixed_name(desk->read->key, "", &levels);
    rlock__cmd_key(&cmd, rlock__bytes(levels.data, levels.len)); /* what their keys begin with */
    rlock__buf_fini(&levels);
    rlock__cmd_key(&cmd, channel(desk));
    rlock__cmd_arg(&cmd, rlock__bytes_of(owner));
    rlock__cmd_num(&cmd, lease);
    reply = run(desk, &cmd);
    return rlock__reply_int(&reply, 0, none);
}

void desk_by_hand(struct desk *desk, const char *command, const char *more)
{
    struct rlock__cmd cmd = {0};
    char words[200], *rest = words;

    (void)snprintf(words, sizeof(words), "%s", command);
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        rlock__cmd_arg(&cmd, strcmp(word, "%b") == 0 ? desk->read->key : rlock__bytes_of(word));
    }
    if (more != NULL) {
        rlock__cmd_arg(&cmd, rlock__bytes_of(more));
    }
    (void)run(desk, &cmd);
}

/* ---- What is there ---- */

static struct sim_view key_of(const struct desk *desk)
{
    return (struct sim_view){desk->read->key.at, desk->read->key.len};
}

static bool find(struct desk *desk, const char *field, struct sim_view *ret_value)
{
    return sim_server_find_field(desk->server, key_of(desk),
                                 (struct sim_view){field, strlen(field)}, ret_value);
}

long desk_field(struct desk *desk, const char *field)
{
    struct sim_view value;

    return find(desk, field, &value)
               ? (long)rlock__bytes_number(rlock__bytes(value.data, value.len), -1)
               : 0;
}

char desk_mode(struct desk *desk)
{
    struct sim_view value;

    return (char)(find(desk, "mode", &value) && value.len > 0 ? value.data[0] : '-');
}

int64_t desk_key_ends(struct desk *desk, const char *key, size_t len)
{
    struct sim_key_info info;

    if (!sim_server_find_key(desk->server, (struct sim_view){key, len}, &info)) {
        return 0;
    }
    return info.pttl_ms < 0 ? -1 : desk->now + info.pttl_ms;
}

int64_t desk_ends(struct desk *desk)
{
    return desk_key_ends(desk, key_of(desk).data, key_of(desk).len);
}

int64_t desk_level_ends(struct desk *desk, const char *owner, unsigned level)
{
    struct rlock__buf name = {0};
    int64_t ends;

    rlock__suffixed_name(desk->read->key, owner, &name);
    (void)rlock__buf_addf(&name, ":rwlock_timeout:%u", level);
    assert_true(!name.failed);
    ends = desk_key_ends(desk, name.data, name.len);
    rlock__buf_fini(&name);
    return ends;
}

size_t desk_keys(struct desk *desk)
{
    struct sim_key_info info = {0};
    size_t n = 0;

    while (sim_server_next_key(desk->server, &info)) {
        n++;
    }
    return n;
}

size_t desk_fields(struct desk *desk)
{
    struct sim_key_info info;

    return sim_server_find_key(desk->server, key_of(desk), &info) ? info.n_items : 0;
}
