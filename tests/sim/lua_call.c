/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running scripts: redis.call and its kin, and the texts of errors. The reference is what redis 7.0
 * does; test_keyspace.c compares.
 */

#include "lua_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_lua *upvalue(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- errors ---- */

/* Pushes {err = text}, with a code in front if the text has none. */
static void push_error(lua_State *L, const char *text)
{
    bool has_code = text[0] == '-' && strchr(text, ' ');

    lua_createtable(L, 0, 1);
    if (has_code) {
        lua_pushstring(L, text + 1);
    } else {
        lua_pushfstring(L, "ERR %s", text[0] == '-' ? text + 1 : text);
    }
    lua_setfield(L, -2, "err");
}

/* Where a script failed: the innermost function that is not C. */
static bool find_place(lua_State *L, lua_Debug *place)
{
    if (!lua_getstack(L, 1, place)) {
        return false;
    }
    lua_getinfo(L, "nSl", place);
    if (strcmp(place->what, "C") == 0) {
        if (!lua_getstack(L, 2, place)) {
            return false;
        }
        lua_getinfo(L, "nSl", place);
    }
    return true;
}

/* The handler of errors that nobody caught: makes them a table, and notes where. */
static int on_error(lua_State *L)
{
    lua_Debug place;
    bool found = find_place(L, &place);

    if (!lua_istable(L, 1)) {
        const char *text = lua_tostring(L, 1);

        lua_createtable(L, 0, 3);
        lua_pushfstring(L, "ERR %s", text ? text : luaL_typename(L, 1));
        lua_setfield(L, -2, "err");
        lua_replace(L, 1);
    }
    if (found) {
        lua_pushstring(L, place.source);
        lua_setfield(L, 1, "source");
        lua_pushinteger(L, place.currentline);
        lua_setfield(L, 1, "line");
    }
    lua_settop(L, 1);
    return 1;
}

int sim_lua_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    if (lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == 0) {
        lua_pushboolean(L, 1);
        lua_insert(L, 1);
        return lua_gettop(L);
    }
    if (lua_istable(L, -1)) {
        lua_getfield(L, -1, "err");
        if (lua_isstring(L, -1)) {
            lua_replace(L, -2);
        } else {
            lua_pop(L, 1);
        }
    }
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

/* ---- redis.call, redis.pcall ---- */

/* As "%.17g" writes it, which for whole numbers of up to 17 digits is plain. */
static size_t format_number(char *out, lua_Number number)
{
    bool is_minus_zero = number == 0 && signbit(number);

    if (fabs(number) < 1e17 && trunc(number) == number && !is_minus_zero) {
        return sim_decimal(out, (int64_t)number);
    }
    return (size_t)snprintf(out, SIM_NUMBER_LEN, "%.17g", number);
}

static void reserve_numbers(struct sim_lua *lua, size_t n)
{
    if (lua->n_numbers < n) {
        lua->n_numbers = n + 16;
        lua->numbers = realloc(lua->numbers, lua->n_numbers * sizeof(*lua->numbers));
        if (!lua->numbers) {
            abort();
        }
    }
}

/* Collects the arguments as words. Returns false if one is neither a string nor a number. */
static bool collect_words(struct sim_lua *lua, int argc)
{
    lua_State *L = lua->L;

    reserve_numbers(lua, (size_t)argc);
    lua->words.n = 0;
    for (int i = 1; i <= argc; i++) {
        struct sim_view word;

        if (lua_type(L, i) == LUA_TNUMBER) {
            word.data = lua->numbers[i - 1];
            word.len = format_number(lua->numbers[i - 1], lua_tonumber(L, i));
        } else if (lua_type(L, i) == LUA_TSTRING) {
            word.data = lua_tolstring(L, i, &word.len);
        } else {
            return false;
        }
        sim_words_add(&lua->words, word);
    }
    return true;
}

/* Executes the command in the arguments and pushes its reply. Returns whether that is an error. */
static bool execute(struct sim_lua *lua)
{
    int argc = lua_gettop(lua->L);
    struct sim_call call = {
        .server = lua->server, .conn = lua->call->conn, .reply = &lua->reply, .in_script = true};

    if (argc == 0) {
        push_error(lua->L, "Please specify at least one argument for this redis lib call");
        return true;
    }
    if (!collect_words(lua, argc)) {
        push_error(lua->L, "Lua redis lib command arguments must be strings or integers");
        return true;
    }
    call.argv = lua->words.words;
    call.argc = lua->words.n;
    lua->reply.len = 0;
    sim_dispatch(&call);
    sim_lua_push_reply(lua->L, lua->reply.data, lua->reply.data + lua->reply.len);
    return lua->reply.data[0] == '-';
}

static int redis_call(lua_State *L)
{
    return execute(upvalue(L)) ? lua_error(L) : 1;
}

static int redis_pcall(lua_State *L)
{
    execute(upvalue(L));
    return 1;
}

/* ---- the rest of the table `redis` ---- */

static int redis_error_reply(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        push_error(L, "wrong number or type of arguments");
        return 1;
    }
    if (lua_tostring(L, 1)[0] != '-') {
        lua_pushfstring(L, "-%s", lua_tostring(L, 1));
    }
    push_error(L, lua_tostring(L, -1));
    return 1;
}

static int redis_status_reply(lua_State *L)
{
    if (lua_gettop(L) != 1 || lua_type(L, 1) != LUA_TSTRING) {
        push_error(L, "wrong number or type of arguments");
        return 1;
    }
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "ok");
    return 1;
}

static int redis_sha1hex(lua_State *L)
{
    char hex[SIM_SHA_LEN + 1];
    struct sim_view text;

    if (lua_gettop(L) != 1) {
        push_error(L, "wrong number of arguments");
        return lua_error(L);
    }
    text.data = lua_tolstring(L, 1, &text.len);
    sim_sha1_hex(text.data ? text : SIM_VIEW(""), hex);
    lua_pushlstring(L, hex, SIM_SHA_LEN);
    return 1;
}

/* Nobody reads the log. */
static int redis_log(lua_State *L)
{
    if (lua_gettop(L) < 2) {
        push_error(L, "redis.log() requires two arguments or more.");
        return lua_error(L);
    }
    return 0;
}

static void add_function(struct sim_lua *lua, const char *name, lua_CFunction function)
{
    lua_pushlightuserdata(lua->L, lua);
    lua_pushcclosure(lua->L, function, 1);
    lua_setfield(lua->L, -2, name);
}

void sim_lua_push_redis(struct sim_lua *lua)
{
    static const char *const levels[] = {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"};

    lua_newtable(lua->L);
    add_function(lua, "call", redis_call);
    add_function(lua, "pcall", redis_pcall);
    add_function(lua, "error_reply", redis_error_reply);
    add_function(lua, "status_reply", redis_status_reply);
    add_function(lua, "sha1hex", redis_sha1hex);
    add_function(lua, "log", redis_log);
    for (int i = 0; i < 4; i++) {
        lua_pushinteger(lua->L, i);
        lua_setfield(lua->L, -2, levels[i]);
    }
}

/* ---- running ---- */

bool sim_lua_may_touch(const struct sim_lua *lua, struct sim_view key)
{
    bool may = lua->script->may_touch_others;

    for (size_t i = 0; !may && i < lua->n_keys; i++) {
        may = lua->keys[i].len == key.len && memcmp(lua->keys[i].data, key.data, key.len) == 0;
    }
    return may;
}

static void set_global_words(struct sim_lua *lua, const char *name, const struct sim_view *words,
                             size_t n)
{
    lua_State *L = lua->L;

    lua_createtable(L, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        lua_pushlstring(L, words[i].data, words[i].len);
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_setfield(L, -2, name);
}

/* The error of a script that ended with one is on top: a table, made by on_error. */
static void reply_failure(struct sim_lua *lua, struct sim_buf *reply, const char *sha)
{
    lua_State *L = lua->L;

    lua_getfield(L, -1, "err");
    lua_getfield(L, -2, "source");
    lua_getfield(L, -3, "line");
    if (!lua_isstring(L, -3)) {
        /* error({}) crashes redis 7.0.15. */
        sim_unsupported(lua->server, "error value", SIM_VIEW("a table without err"));
        sim_resp_error(reply, "ERR unknown error");
    } else if (lua_isstring(L, -2) && lua_isstring(L, -1)) {
        sim_reply_errorf(reply, "%s script: %s, on %s:%s.", lua_tostring(L, -3), sha,
                         lua_tostring(L, -2), lua_tostring(L, -1));
    } else {
        sim_resp_error(reply, lua_tostring(L, -3));
    }
}

void sim_lua_run(struct sim_lua *lua, struct sim_call *call, const struct sim_script *script,
                 size_t first_key, size_t n_keys)
{
    lua_State *L = lua->L;
    const struct sim_view *keys = call->argv + first_key;
    int status;

    lua_pushcfunction(L, on_error);
    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->globals_ref);
    set_global_words(lua, "KEYS", keys, n_keys);
    set_global_words(lua, "ARGV", keys + n_keys, call->argc - first_key - n_keys);
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, script->ref);
    lua->call = call;
    lua->script = script;
    lua->keys = keys;
    lua->n_keys = n_keys;
    status = lua_pcall(L, 0, 1, 1);
    lua->call = NULL;
    if (status == 0) {
        sim_lua_reply_top(lua, call->reply);
    } else {
        reply_failure(lua, call->reply, script->sha);
    }
    lua_settop(L, 0);
}
