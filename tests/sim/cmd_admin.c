/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define REDIS_VERSION "7.0.15"

static void cmd_ping(struct sim_call *call)
{
    if (call->argc > 2) {
        sim_resp_error(call->reply, "ERR wrong number of arguments for 'ping' command");
    } else if (!call->in_script && sim_n_subscriptions(call->conn) > 0) {
        sim_resp_array(call->reply, 2);
        sim_resp_bulk(call->reply, "pong", 4);
        sim_reply_view(call->reply, call->argc == 2 ? call->argv[1] : SIM_VIEW(""));
    } else if (call->argc == 2) {
        sim_reply_view(call->reply, call->argv[1]);
    } else {
        sim_resp_status(call->reply, "PONG");
    }
}

static uint64_t client_id(const struct sim_call *call)
{
    return call->conn->id - call->server->first_conn + 1;
}

static void reply_pair(struct sim_buf *reply, const char *name, const char *value)
{
    sim_resp_bulk(reply, name, strlen(name));
    sim_resp_bulk(reply, value, strlen(value));
}

static void reply_hello(struct sim_call *call)
{
    sim_resp_array(call->reply, 14);
    reply_pair(call->reply, "server", "redis");
    reply_pair(call->reply, "version", REDIS_VERSION);
    sim_resp_bulk(call->reply, "proto", 5);
    sim_resp_integer(call->reply, call->conn->is_version_3 ? 3 : 2);
    sim_resp_bulk(call->reply, "id", 2);
    sim_resp_integer(call->reply, (int64_t)client_id(call));
    reply_pair(call->reply, "mode", "standalone");
    reply_pair(call->reply, "role", "master");
    sim_resp_bulk(call->reply, "modules", 7);
    sim_resp_array(call->reply, 0);
}

static bool set_name(struct sim_call *call, struct sim_view name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            sim_resp_error(call->reply, "ERR Client names cannot contain spaces, newlines or "
                                        "special characters.");
            return false;
        }
    }
    call->conn->name.len = 0;
    sim_buf_add(&call->conn->name, name.data, name.len);
    return true;
}

static void cmd_hello(struct sim_call *call)
{
    int64_t version = 2;

    if (call->argc > 1 && !sim_parse_int64(call->argv[1], &version)) {
        sim_resp_error(call->reply, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2 && version != 3) {
        sim_resp_error(call->reply, "NOPROTO unsupported protocol version");
        return;
    }
    for (size_t i = 2; i < call->argc; i++) {
        if (!sim_word_is(call->argv[i], "setname") || i + 1 == call->argc) {
            sim_reply_unsupported_option(call, i);
            return;
        }
        if (!set_name(call, call->argv[++i])) {
            return;
        }
    }
    call->conn->is_version_3 = version == 3;
    reply_hello(call);
}

static void cmd_select(struct sim_call *call)
{
    int64_t db;

    if (!sim_int_arg(call, 1, &db)) {
        return;
    }
    if (db < 0 || db > 15) {
        sim_resp_error(call->reply, "ERR DB index is out of range");
        return;
    }
    if (db != 0) {
        sim_reply_unsupported_option(call, 1);
        return;
    }
    sim_resp_status(call->reply, "OK");
}

static void reply_number_text(struct sim_buf *reply, int64_t number)
{
    char text[20];

    sim_resp_bulk(reply, text, sim_decimal(text, number));
}

static void cmd_time(struct sim_call *call)
{
    int64_t now_us = sim_server_clock_us(call->server);

    sim_resp_array(call->reply, 2);
    reply_number_text(call->reply, now_us / 1000000);
    reply_number_text(call->reply, now_us % 1000000);
}

/* The section "server", and of that what clients read. The age is by the wall clock, in whole
   seconds, as in redis: a step of the clock changes it. */
static void cmd_info(struct sim_call *call)
{
    const struct sim_server *server = call->server;
    int64_t age_s = sim_server_clock_us(server) / 1000000 - server->started_us / 1000000;
    char text[256];
    int len;

    if (call->argc != 2 || !sim_word_is(call->argv[1], "server")) {
        sim_unsupported(call->server, "section of INFO", call->argv[call->argc - 1]);
        sim_resp_bulk(call->reply, "", 0);
        return;
    }
    len = snprintf(text, sizeof(text),
                   "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\n"
                   "uptime_in_seconds:%" PRId64 "\r\n",
                   REDIS_VERSION, server->run_id, age_s);
    sim_resp_bulk(call->reply, text, (size_t)len);
}

static void cmd_role(struct sim_call *call)
{
    sim_resp_array(call->reply, 3);
    sim_resp_bulk(call->reply, "master", 6);
    sim_resp_integer(call->reply, 0);
    sim_resp_array(call->reply, 0);
}

static void cmd_client_id(struct sim_call *call)
{
    sim_resp_integer(call->reply, (int64_t)client_id(call));
}

static void cmd_client_getname(struct sim_call *call)
{
    if (call->conn->name.len > 0) {
        sim_resp_bulk(call->reply, call->conn->name.data, call->conn->name.len);
    } else {
        sim_resp_nil(call->reply);
    }
}

static void cmd_client_setname(struct sim_call *call)
{
    if (set_name(call, call->argv[2])) {
        sim_resp_status(call->reply, "OK");
    }
}

static void cmd_client_kill(struct sim_call *call)
{
    struct sim_session *victim;
    int64_t id;

    if (call->argc != 4 || !sim_word_is(call->argv[2], "id")) {
        sim_reply_unsupported_option(call, 2);
        return;
    }
    if (!sim_parse_int64(call->argv[3], &id) || id < 1) {
        sim_resp_error(call->reply, "ERR client-id should be greater than 0");
        return;
    }
    victim = sim_session_find(call->server, (uint64_t)id + call->server->first_conn - 1);
    if (victim == call->conn) {
        /* SKIPME is yes by default. */
        victim = NULL;
    }
    if (victim) {
        sim_session_kill(call->server, victim);
    }
    sim_resp_integer(call->reply, victim != NULL);
}

static void cmd_client_tracking(struct sim_call *call)
{
    if (call->argc != 3 || !sim_word_is(call->argv[2], "on")) {
        sim_reply_unsupported_option(call, 2);
        return;
    }
    call->conn->tracks = true;
    sim_resp_status(call->reply, "OK");
}

static const struct sim_command client_subs[] = {
    {"id", 2, SIM_CMD_NOSCRIPT, cmd_client_id, NULL},
    {"getname", 2, SIM_CMD_NOSCRIPT, cmd_client_getname, NULL},
    {"setname", 3, SIM_CMD_NOSCRIPT, cmd_client_setname, NULL},
    {"tracking", -3, SIM_CMD_NOSCRIPT, cmd_client_tracking, NULL},
    {"kill", -3, SIM_CMD_NOSCRIPT, cmd_client_kill, NULL},
    {NULL, 0, 0, NULL, NULL},
};

const struct sim_command sim_commands_admin[] = {
    {"ping", -1, SIM_CMD_PUBSUB, cmd_ping, NULL},
    {"hello", -1, SIM_CMD_NOSCRIPT, cmd_hello, NULL},
    {"select", 2, 0, cmd_select, NULL},
    {"time", 1, 0, cmd_time, NULL},
    {"info", -1, 0, cmd_info, NULL},
    {"role", 1, SIM_CMD_NOSCRIPT, cmd_role, NULL},
    {"client", -2, SIM_CMD_NOSCRIPT, NULL, client_subs},
    {NULL, 0, 0, NULL, NULL},
};
