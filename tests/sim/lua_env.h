/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lua scripts as redis 7.0 runs them: the sandbox, redis.call and its conversions, the texts of
 * errors, and the compiled scripts by SHA-1. Private to the simulated server.
 *
 * Compiling is dear and depends on the text alone, so compiled scripts live as long as the Lua
 * state; what the server "has loaded" is those of the current epoch.
 */
#ifndef RLOCK_TESTS_SIM_LUA_ENV_H
#define RLOCK_TESTS_SIM_LUA_ENV_H

#include "resp.h"

#include <stdbool.h>

struct sim_call;
struct sim_lua;
struct sim_script;
struct sim_server;

#define SIM_SHA_LEN 40

struct sim_lua *sim_lua_new(struct sim_server *server);
struct sim_lua *sim_lua_free(struct sim_lua *lua);

/* SCRIPT FLUSH. */
void sim_lua_forget(struct sim_lua *lua);

/* NULL if the server has not loaded it. The digest may be in capitals, or no digest at all. */
struct sim_script *sim_lua_find(struct sim_lua *lua, struct sim_view sha);

/* Loads a script; on NULL the error has been answered. */
struct sim_script *sim_lua_load(struct sim_lua *lua, struct sim_call *call, struct sim_view body);
const char *sim_script_sha(const struct sim_script *script);

/* Runs a script with the call's words from *first_key* on, and answers. */
void sim_lua_run(struct sim_lua *lua, struct sim_call *call, const struct sim_script *script,
                 size_t first_key, size_t n_keys);

/* Whether the script that runs may touch the key. */
bool sim_lua_may_touch(const struct sim_lua *lua, struct sim_view key);

void sim_sha1_hex(struct sim_view text, char ret_hex[SIM_SHA_LEN + 1]);

#endif
