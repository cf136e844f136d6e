/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of values: replies to Lua's, and Lua's to replies, as redis 7.0 does it for RESP2. */

#include "lua_impl.h"

#include <string.h>

/* ---- replies to Lua ---- */

static const char *push_line_table(lua_State *L, const char *field, const char *text,
                                   const char *end)
{
    lua_createtable(L, 0, 1);
    lua_pushlstring(L, text, (size_t)(end - text));
    lua_setfield(L, -2, field);
    return end + 2;
}

static int64_t read_number(const char **at)
{
    const char *p = *at;
    bool negative = *p == '-';
    uint64_t number = 0;

    for (p += negative; *p != '\r'; p++) {
        number = number * 10 + (uint64_t)(*p - '0');
    }
    *at = p + 2;
    return (int64_t)(negative ? 0 - number : number);
}

const char *sim_lua_push_reply(lua_State *L, const char *at, const char *end)
{
    char mark = *at++;
    int64_t n;

    if (mark == '+' || mark == '-') {
        const char *stop = memchr(at, '\r', (size_t)(end - at));

        return push_line_table(L, mark == '+' ? "ok" : "err", at, stop);
    }
    n = read_number(&at);
    if (mark == ':') {
        lua_pushnumber(L, (lua_Number)n);
    } else if (n < 0) {
        lua_pushboolean(L, 0);
    } else if (mark == '$') {
        lua_pushlstring(L, at, (size_t)n);
        at += n + 2;
    } else {
        lua_createtable(L, (int)n, 0);
        for (int i = 1; i <= n; i++) {
            at = sim_lua_push_reply(L, at, end);
            lua_rawseti(L, -2, i);
        }
    }
    return at;
}

/* ---- Lua to replies ---- */

/* Cut towards zero; what does not fit is what x86 makes of it. */
static int64_t to_integer(lua_Number number)
{
    if (number >= -9223372036854775808.0 && number < 9223372036854775808.0) {
        return (int64_t)number;
    }
    return INT64_MIN;
}

/* RESP3's tables, {double = 1.5} and so on: nobody should write them for RESP2. */
static void check_resp3_table(struct sim_lua *lua)
{
    static const char *const fields[] = {"double", "map", "set", "big_number", "verbatim_string"};

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        lua_getfield(lua->L, -1, fields[i]);
        if (!lua_isnil(lua->L, -1)) {
            sim_unsupported(lua->server, "reply of RESP3",
                            (struct sim_view){fields[i], strlen(fields[i])});
        }
        lua_pop(lua->L, 1);
    }
}

/* Answers {err = text} or {ok = text}, if the table on top is one. */
static bool reply_line(lua_State *L, struct sim_buf *reply, const char *field,
                       void (*answer)(struct sim_buf *, const char *))
{
    bool is_line;

    lua_getfield(L, -1, field);
    is_line = lua_type(L, -1) == LUA_TSTRING;
    if (is_line) {
        answer(reply, lua_tostring(L, -1));
    }
    lua_pop(L, 1);
    return is_line;
}

/* Up to the first nil. */
static int count_items(lua_State *L)
{
    int n = 0;
    bool is_nil;

    do {
        lua_rawgeti(L, -1, n + 1);
        is_nil = lua_isnil(L, -1);
        lua_pop(L, 1);
        n += !is_nil;
    } while (!is_nil);
    return n;
}

static void reply_table(struct sim_lua *lua, struct sim_buf *reply)
{
    lua_State *L = lua->L;
    int n;

    if (reply_line(L, reply, "err", sim_resp_error) ||
        reply_line(L, reply, "ok", sim_resp_status)) {
        return;
    }
    check_resp3_table(lua);
    n = count_items(L);
    sim_resp_array(reply, (size_t)n);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, i);
        sim_lua_reply_top(lua, reply);
    }
}

void sim_lua_reply_top(struct sim_lua *lua, struct sim_buf *reply)
{
    lua_State *L = lua->L;
    struct sim_view text;

    if (!lua_checkstack(L, 4)) {
        sim_resp_error(reply, "ERR reached lua stack limit");
        lua_pop(L, 1);
        return;
    }
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
        text.data = lua_tolstring(L, -1, &text.len);
        sim_reply_view(reply, text);
        break;
    case LUA_TNUMBER:
        sim_resp_integer(reply, to_integer(lua_tonumber(L, -1)));
        break;
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1)) {
            sim_resp_integer(reply, 1);
        } else {
            sim_resp_nil(reply);
        }
        break;
    case LUA_TTABLE:
        reply_table(lua, reply);
        break;
    default:
        sim_resp_nil(reply);
    }
    lua_pop(L, 1);
}
