/* SPDX-License-Identifier: Apache-2.0 */
/* What lua_env.c (the sandbox, the scripts), lua_call.c (running them) and lua_convert.c share. */
#ifndef RLOCK_TESTS_SIM_LUA_IMPL_H
#define RLOCK_TESTS_SIM_LUA_IMPL_H

#include "server_impl.h"

#include <lauxlib.h>
#include <lua.h>

#define SIM_NUMBER_LEN 32

struct sim_script {
    UT_hash_handle hh;
    char sha[SIM_SHA_LEN + 1];
    int ref;               /* of the compiled function */
    uint64_t epoch;        /* when it was loaded */
    bool may_touch_others; /* keys that it does not declare: its first line says so */
};

struct sim_lua {
    lua_State *L;
    struct sim_server *server;
    struct sim_script *scripts; /* compiled */
    uint64_t epoch;
    int globals_ref; /* behind the readonly view */
    int env_ref;     /* the view, which is all that scripts see */

    struct sim_call *call; /* that runs a script */
    const struct sim_script *script;
    const struct sim_view *keys; /* that are declared */
    size_t n_keys;

    /* of the command that redis.call executes */
    struct sim_words words;
    struct sim_buf reply;
    char (*numbers)[SIM_NUMBER_LEN];
    size_t n_numbers;
};

/* Pushes the table `redis`. */
void sim_lua_push_redis(struct sim_lua *lua);

/* Pushes one reply of our own making (so it is whole and good), and returns its end. */
const char *sim_lua_push_reply(lua_State *L, const char *at, const char *end);

/* Answers with the value on top, and pops it. */
void sim_lua_reply_top(struct sim_lua *lua, struct sim_buf *reply);

/* pcall as redis has it: an error that is a table with *err* becomes that text. */
int sim_lua_pcall(lua_State *L);

#endif
