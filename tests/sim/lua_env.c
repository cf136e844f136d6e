/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox and the scripts in it.
 *
 * Stock Lua 5.1 has no tables that cannot be written to, so the scripts get empty ones: reading
 * goes through the metatable to the real table behind, writing is refused there. The globals table
 * of the scripts is such a one, and in it the libraries are, too.
 */

#include "lua_impl.h"

#include <lualib.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

void sim_sha1_hex(struct sim_view text, char ret_hex[SIM_SHA_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[SHA_DIGEST_LENGTH];

    SHA1((const unsigned char *)text.data, text.len, digest);
    for (size_t i = 0; i < sizeof(digest); i++) {
        ret_hex[2 * i] = digits[digest[i] >> 4];
        ret_hex[2 * i + 1] = digits[digest[i] & 15];
    }
    ret_hex[SIM_SHA_LEN] = '\0';
}

static struct sim_lua *upvalue(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

/* ---- tables that cannot be written to ---- */

static int refuse_write(lua_State *L)
{
    return luaL_error(L, "Attempt to modify a readonly table");
}

/* Replaces the table on top by a readonly view of it. */
static void make_readonly(lua_State *L)
{
    lua_newtable(L);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_write);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_remove(L, -2);
}

/* Gives the table on top a function that is called for what it lacks. */
static void set_missing(lua_State *L, struct sim_lua *lua, lua_CFunction missing)
{
    lua_createtable(L, 0, 1);
    lua_pushlightuserdata(L, lua);
    lua_pushcclosure(L, missing, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
}

static int missing_global(lua_State *L)
{
    static const char *const real[] = {
        "_G",        "_VERSION",   "bit",          "cjson",        "cmsgpack", "collectgarbage",
        "coroutine", "gcinfo",     "struct",       "load",         "rawset",   "rawget",
        "xpcall",    "loadstring", "getmetatable", "setmetatable", NULL,
    };
    const char *name = luaL_checkstring(L, 2);

    for (size_t i = 0; real[i]; i++) {
        if (strcmp(name, real[i]) == 0) {
            sim_unsupported(upvalue(L)->server, "Lua global",
                            (struct sim_view){name, strlen(name)});
        }
    }
    return luaL_error(L, "Script attempted to access nonexistent global variable '%s'", name);
}

static int missing_in_library(lua_State *L)
{
    size_t len;
    const char *name = lua_tolstring(L, 2, &len);

    if (name) {
        sim_unsupported(upvalue(L)->server, "member of a Lua library",
                        (struct sim_view){name, len});
    }
    lua_pushnil(L);
    return 1;
}

/* ---- what scripts may use ---- */

static void copy_base_functions(lua_State *L)
{
    static const char *const names[] = {
        "assert", "error",    "ipairs",   "next", "pairs",  "rawequal",
        "select", "tonumber", "tostring", "type", "unpack", NULL,
    };

    for (size_t i = 0; names[i]; i++) {
        lua_getglobal(L, names[i]);
        lua_setfield(L, -2, names[i]);
    }
}

/* Puts a library into the table on top, without the functions that would make runs differ. */
static void copy_library(lua_State *L, struct sim_lua *lua, const char *name)
{
    static const char *const dropped[] = {"dump", "random", "randomseed", NULL};

    lua_getglobal(L, name);
    for (size_t i = 0; dropped[i]; i++) {
        lua_pushnil(L);
        lua_setfield(L, -2, dropped[i]);
    }
    set_missing(L, lua, missing_in_library);
    make_readonly(L);
    lua_setfield(L, -2, name);
}

static void open_library(lua_State *L, lua_CFunction open, const char *name)
{
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
}

static void add_redis_table(lua_State *L, struct sim_lua *lua)
{
    sim_lua_push_redis(lua);
    set_missing(L, lua, missing_in_library);
    make_readonly(L);
    lua_setfield(L, -2, "redis");
}

static void build_sandbox(struct sim_lua *lua)
{
    lua_State *L = lua->L;

    open_library(L, luaopen_base, "");
    open_library(L, luaopen_string, LUA_STRLIBNAME);
    open_library(L, luaopen_table, LUA_TABLIBNAME);
    open_library(L, luaopen_math, LUA_MATHLIBNAME);
    lua_newtable(L);
    copy_base_functions(L);
    lua_pushcfunction(L, sim_lua_pcall);
    lua_setfield(L, -2, "pcall");
    copy_library(L, lua, LUA_STRLIBNAME);
    copy_library(L, lua, LUA_TABLIBNAME);
    copy_library(L, lua, LUA_MATHLIBNAME);
    add_redis_table(L, lua);
    set_missing(L, lua, missing_global);
    lua_pushvalue(L, -1);
    lua->globals_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    make_readonly(L);
    lua->env_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

struct sim_lua *sim_lua_new(struct sim_server *server)
{
    struct sim_lua *lua = calloc(1, sizeof(*lua));

    if (!lua || !(lua->L = luaL_newstate())) {
        abort();
    }
    lua->server = server;
    build_sandbox(lua);
    return lua;
}

static void free_all_scripts(struct sim_lua *lua)
{
    struct sim_script *script;
    struct sim_script *next;

    HASH_ITER(hh, lua->scripts, script, next) {
        HASH_DEL(lua->scripts, script);
        free(script);
    }
}

struct sim_lua *sim_lua_free(struct sim_lua *lua)
{
    lua_close(lua->L);
    free_all_scripts(lua);
    sim_words_fini(&lua->words);
    sim_buf_fini(&lua->reply);
    free(lua->numbers);
    free(lua);
    return NULL;
}

/* ---- scripts ---- */

void sim_lua_forget(struct sim_lua *lua)
{
    lua->epoch++;
}

const char *sim_script_sha(const struct sim_script *script)
{
    return script->sha;
}

static struct sim_script *find_compiled(struct sim_lua *lua, const char *sha)
{
    struct sim_script *script;

    HASH_FIND(hh, lua->scripts, sha, SIM_SHA_LEN, script);
    return script;
}

struct sim_script *sim_lua_find(struct sim_lua *lua, struct sim_view sha)
{
    char lower[SIM_SHA_LEN];
    struct sim_script *script;

    if (sha.len != SIM_SHA_LEN) {
        return NULL;
    }
    for (size_t i = 0; i < SIM_SHA_LEN; i++) {
        lower[i] = sim_to_lower(sha.data[i]);
    }
    script = find_compiled(lua, lower);
    return script && script->epoch == lua->epoch ? script : NULL;
}

/* Leaves the function on the stack, or the compiler's message. */
static bool compile(struct sim_lua *lua, struct sim_view body)
{
    lua_State *L = lua->L;

    if (luaL_loadbuffer(L, body.data, body.len, "@user_script") != 0) {
        return false;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->env_ref);
    lua_setfenv(L, -2);
    return true;
}

static struct sim_script *add_script(struct sim_lua *lua, const char *sha)
{
    struct sim_script *script = calloc(1, sizeof(*script));

    if (!script) {
        abort();
    }
    memcpy(script->sha, sha, sizeof(script->sha));
    script->ref = luaL_ref(lua->L, LUA_REGISTRYINDEX);
    HASH_ADD(hh, lua->scripts, sha, SIM_SHA_LEN, script);
    return script;
}

#define TOUCHES_OTHERS "--!df flags=allow-undeclared-keys\n"

struct sim_script *sim_lua_load(struct sim_lua *lua, struct sim_call *call, struct sim_view body)
{
    char sha[SIM_SHA_LEN + 1];
    struct sim_script *script;

    if (body.len >= 2 && memcmp(body.data, "#!", 2) == 0) {
        sim_unsupported(call->server, "script head", SIM_VIEW("#!"));
    }
    sim_sha1_hex(body, sha);
    script = find_compiled(lua, sha);
    if (!script && compile(lua, body)) {
        script = add_script(lua, sha);
    }
    if (script) {
        script->epoch = lua->epoch;
        script->may_touch_others =
            body.len > sizeof(TOUCHES_OTHERS) &&
            memcmp(body.data, TOUCHES_OTHERS, sizeof(TOUCHES_OTHERS) - 1) == 0;
    } else {
        sim_reply_errorf(call->reply, "ERR Error compiling script (new function): %s",
                         lua_tostring(lua->L, -1));
    }
    lua_settop(lua->L, 0);
    return script;
}
