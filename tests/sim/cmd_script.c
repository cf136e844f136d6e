/* SPDX-License-Identifier: Apache-2.0 */
#include "server_impl.h"

/* Reads the number of keys, word 2; the keys are the words behind it. */
static bool read_n_keys(struct sim_call *call, size_t *ret_n_keys)
{
    int64_t n_keys;

    if (!sim_int_arg(call, 2, &n_keys)) {
        return false;
    }
    if (n_keys > (int64_t)call->argc - 3) {
        sim_resp_error(call->reply, "ERR Number of keys can't be greater than number of args");
        return false;
    }
    if (n_keys < 0) {
        sim_resp_error(call->reply, "ERR Number of keys can't be negative");
        return false;
    }
    *ret_n_keys = (size_t)n_keys;
    return true;
}

static void run(struct sim_call *call, const struct sim_script *script, size_t n_keys)
{
    call->server->n_scripts_run++;
    sim_lua_run(call->server->lua, call, script, 3, n_keys);
}

static void cmd_eval(struct sim_call *call)
{
    struct sim_script *script;
    size_t n_keys;

    if (!read_n_keys(call, &n_keys)) {
        return;
    }
    script = sim_lua_load(call->server->lua, call, call->argv[1]);
    if (script) {
        run(call, script, n_keys);
    }
}

static void cmd_evalsha(struct sim_call *call)
{
    struct sim_script *script;
    size_t n_keys;

    script = sim_lua_find(call->server->lua, call->argv[1]);
    if (call->argv[1].len != SIM_SHA_LEN) {
        sim_resp_error(call->reply, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    if (!read_n_keys(call, &n_keys)) {
        return;
    }
    if (!script) {
        sim_resp_error(call->reply, "NOSCRIPT No matching script. Please use EVAL.");
        return;
    }
    run(call, script, n_keys);
}

static void cmd_load(struct sim_call *call)
{
    const struct sim_script *script = sim_lua_load(call->server->lua, call, call->argv[2]);

    if (script) {
        sim_resp_bulk(call->reply, sim_script_sha(script), SIM_SHA_LEN);
    }
}

static void cmd_exists(struct sim_call *call)
{
    sim_resp_array(call->reply, call->argc - 2);
    for (size_t i = 2; i < call->argc; i++) {
        sim_resp_integer(call->reply, sim_lua_find(call->server->lua, call->argv[i]) != NULL);
    }
}

static void cmd_flush(struct sim_call *call)
{
    if (call->argc > 3 || (call->argc == 3 && !sim_word_is(call->argv[2], "sync") &&
                           !sim_word_is(call->argv[2], "async"))) {
        sim_resp_error(call->reply, "ERR SCRIPT FLUSH only support SYNC|ASYNC option");
        return;
    }
    sim_lua_forget(call->server->lua);
    sim_resp_status(call->reply, "OK");
}

static const struct sim_command script_subs[] = {
    {"load", 3, SIM_CMD_NOSCRIPT, cmd_load, NULL},
    {"exists", -3, SIM_CMD_NOSCRIPT, cmd_exists, NULL},
    {"flush", -2, SIM_CMD_NOSCRIPT, cmd_flush, NULL},
    {NULL, 0, 0, NULL, NULL},
};

const struct sim_command sim_commands_script[] = {
    {"eval", -3, SIM_CMD_NOSCRIPT, cmd_eval, NULL},
    {"evalsha", -3, SIM_CMD_NOSCRIPT, cmd_evalsha, NULL},
    {"script", -2, SIM_CMD_NOSCRIPT, NULL, script_subs},
    {NULL, 0, 0, NULL, NULL},
};
