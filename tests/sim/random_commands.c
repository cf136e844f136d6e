/* SPDX-License-Identifier: Apache-2.0 */
#include "random_commands.h"

#include "keyspace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct form {
    const char *line; /* words; those with % are drawn from the pool of that letter */
    unsigned rules;
};

static const struct form forms[] = {
    {"exists %k", 0},
    {"exists %k %k", 0},
    {"del %k", 0},
    {"DEL %k %k", 0},
    {"type %k", 0},
    {"pexpire %k %t", 0},
    {"pexpire %k %t", 0},
    {"pexpire %k %t GT", 0},
    {"pexpireat %k %T", 0},
    {"pttl %k", TWIN_TTL},
    {"pttl %k", TWIN_TTL},
    {"persist %k", 0},
    {"keys %p", TWIN_UNORDERED},
    {"scan 0 match %p count 1000", TWIN_UNORDERED},
    {"scan 0 count x", 0},
    {"scan 0 count 0", 0},
    {"dbsize", 0},
    {"flushall", 0},
    {"get %k", 0},
    {"set %k %v", 0},
    {"SET %k %v PX %t", 0},
    {"set %k %v nx", 0},
    {"set %k %v xx", 0},
    {"set %k %v keepttl", 0},
    {"set %k %v px %t nx", 0},
    {"set %k %v xx ex %t", 0},
    {"set %k %v nx xx", 0},
    {"set %k %v px %t keepttl", 0},
    {"set %k %v px", 0},
    {"incr %k", 0},
    {"incrby %k %n", 0},
    {"hset %k %f %v", 0},
    {"hset %k %f %v", 0},
    {"hset %k %f %n %f %v", 0},
    {"hset %k %f %v %f", 0},
    {"hsetnx %k %f %v", 0},
    {"hget %k %f", 0},
    {"hdel %k %f", 0},
    {"hdel %k %f %f", 0},
    {"hexists %k %f", 0},
    {"hlen %k", 0},
    {"hkeys %k", 0},
    {"hgetall %k", 0},
    {"hmget %k %f %f %f", 0},
    {"hincrby %k %f %n", 0},
    {"hincrby %k %f %n", 0},
    {"rpush %k %f", 0},
    {"rpush %k %f %f %f %v", 0},
    {"lpush %k %f %f", 0},
    {"lpop %k", 0},
    {"lpop %k %i", 0},
    {"lpop %k %i %i", 0},
    {"lindex %k %i", 0},
    {"lrange %k %i %i", 0},
    {"lrange %k 0 -1", 0},
    {"lrem %k %i %f", 0},
    {"lrem %k 0 %f", 0},
    {"lrem %k -1 %f", 0},
    {"lpos %k %f", 0},
    {"lpos %k %f rank -1 maxlen 2", 0},
    {"lpos %k %f RANK 2", 0},
    {"llen %k", 0},
    {"zadd %k %d %f", 0},
    {"zadd %k %d %f %d %f", 0},
    {"zadd %k nx %d %f", 0},
    {"zadd %k xx ch %d %f", 0},
    {"zadd %k gt %d %f %d %f", 0},
    {"zadd %k LT CH %d %f", 0},
    {"zadd %k nx gt %d %f", 0},
    {"zadd %k %d %f %d", 0},
    {"zscore %k %f", 0},
    {"zrank %k %f", 0},
    {"zrem %k %f", 0},
    {"zrem %k %f %f", 0},
    {"zcard %k", 0},
    {"zincrby %k %d %f", 0},
    {"zrange %k %i %i", 0},
    {"zrange %k 0 -1 withscores", 0},
    {"zrangebyscore %k %b %b", 0},
    {"zrangebyscore %k %b %b withscores limit %i %i", 0},
    {"zrangebyscore %k -inf +inf WITHSCORES", 0},
    {"publish %f %v", 0},
    {"pubsub numsub %f %f", 0},
    {"ping", 0},
    {"ping %v", 0},
    {"select 0", 0},
    {"select x", 0},
    {"get", 0},
    {"get %k %k", 0},
    {"hset %k %f", 0},
    {"pexpire %k", 0},
    {"zadd %k 1", 0},
    {"script exists %f %v", 0},
    {"subscribe", 0},
};

struct pool {
    char letter;
    struct sim_view words[24]; /* to the first without data */
};

#define V(literal)                                                                                 \
    {                                                                                              \
        (literal), sizeof(literal) - 1                                                             \
    }

static const struct pool pools[] = {
    /* The keys come first. */
    {'k', {V("k1"), V("k2"), V("k3"), V("k4"), V("k5")}},
    {'f', {V("a"), V("b"), V("1"), V("f-longer-than-others:12"), V("")}},
    {'v',
     {V("0"), V("1"), V("10"), V("-5"), V("abc"), V(""), V("1.5"), V("9223372036854775807"),
      V("007"), V("a b\r\nc"), V("nul \0 byte"), V("\xff\xfe"), V("nil"), V("-0")}},
    {'i',
     {V("0"), V("1"), V("2"), V("3"), V("-1"), V("-2"), V("-3"), V("100"), V("-100"), V("x"),
      V("1.5"), V("9223372036854775807"), V("-9223372036854775807"), V("01"), V("")}},
    {'n',
     {V("1"), V("1"), V("-1"), V("2"), V("1000000"), V("9223372036854775807"),
      V("-9223372036854775808"), V("9223372036854775808"), V("x"), V("1.0"), V("+1"), V(" 1")}},
    {'d',
     {V("0"),
      V("1"),
      V("2"),
      V("-1"),
      V("1.5"),
      V("0.1"),
      V("1700000330000"),
      V("inf"),
      V("-inf"),
      V("nan"),
      V("x"),
      V("1e3"),
      V("3.0000000000000001"),
      V("-0"),
      V(" 1"),
      V("0x10"),
      V("123456789012345678"),
      V("1e-7"),
      V("+inf"),
      V("")}},
    {'b',
     {V("-inf"), V("+inf"), V("0"), V("(0"), V("1"), V("(1"), V("1.5"), V("(1700000330000"), V("x"),
      V("(x"), V("(-inf"), V("2")}},
    {'p',
     {V("*"), V("k*"), V("k[1-3]"), V("?1"), V("x*"), V("k\\1"), V("*[^1]"), V("k[3-1]"),
      V("*k*1*"), V("k1"), V("k[12"), V("k1\\"), V("["), V("")}},
    {'t',
     {V("0"), V("-1"), V("x"), V("1.5"), V("9223372036854775807"), V("-9223372036854775808"),
      V("")}},
};

static uint64_t draw(struct random_command *command)
{
    uint64_t z = (command->state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t below(struct random_command *command, size_t n)
{
    return (size_t)(draw(command) % n);
}

static struct sim_view draw_from_pool(struct random_command *command, char letter)
{
    const struct pool *pool = pools;
    size_t n = 0;

    while (pool->letter != letter) {
        pool++;
    }
    do {
        n++;
    } while (pool->words[n].data);
    return pool->words[below(command, n)];
}

/* A time to live that neither server lives to see the end of, or none at all. */
static struct sim_view draw_ttl(struct random_command *command, int64_t base_ms)
{
    char *text = command->numbers[command->n_numbers++];
    int len;

    if (below(command, 4) == 0) {
        return draw_from_pool(command, 't');
    }
    len = snprintf(text, sizeof(command->numbers[0]), "%" PRId64,
                   base_ms + 200000 + (int64_t)below(command, 1000000));
    return (struct sim_view){text, (size_t)len};
}

/* Mostly a key where the command finds its own type; the first letters tell. */
static struct sim_view draw_key(struct random_command *command, const char *line)
{
    static const char *const families[] = {"h", "lr", "z", "sgi"};

    for (size_t i = 0; i < COUNT(families); i++) {
        if (strchr(families[i], line[0]) && below(command, 5) > 0) {
            return pools[0].words[i];
        }
    }
    return draw_from_pool(command, 'k');
}

static struct sim_view draw_word(struct random_command *command, char letter, const char *line)
{
    switch (letter) {
    case 'k':
        return draw_key(command, line);
    case 't':
        return draw_ttl(command, 0);
    case 'T':
        return draw_ttl(command, (int64_t)time(NULL) * 1000);
    default:
        return draw_from_pool(command, letter);
    }
}

/* Adds the words of a form. */
static void draw_words(struct random_command *command, const struct form *form)
{
    const char *at = form->line;

    command->rules |= form->rules;
    while (*at) {
        size_t len = strcspn(at, " ");
        bool is_drawn = at[0] == '%';

        sim_words_add(&command->words, is_drawn ? draw_word(command, at[1], form->line)
                                                : (struct sim_view){at, len});
        at += len + (at[len] == ' ');
    }
}

/* ---- scripts ---- */

/* What a script does: @ is a command's words, as arguments of a function. */
static const char *const script_forms[] = {
    "return redis.call(@)",
    "return redis.pcall(@)",
    "redis.call(@) redis.call(@) return redis.call(@)",
    "local a = redis.pcall(@) local b = redis.pcall(@) return {a, b}",
    "local a, b, c = redis.pcall(@), redis.pcall(@), redis.pcall(@)\nreturn {a, {b, {c}}, 'end'}",
    "return type(redis.pcall(@))",
    "local a = redis.pcall(@)\nif type(a) ~= 'table' then return {a, tostring(a), a == false} end\n"
    "return {a.ok or '', a.err or '', #a, a[1] or 'none', a[2] or 'none'}",
    "return {pcall(redis.call, @)}",
    "local ok, e = pcall(redis.call, @)\nlocal t = redis.pcall(@)\nreturn {ok, e, t, nil, 3}",
    "local a = redis.call(@)\nreturn tonumber(a) + 0.75",
    "local a = tonumber(redis.pcall('hget', 'k1', 'a') or '1') or 7\n"
    "return redis.call('set', 'k2', math.max(-1e9, math.min(a, 1e9)) / 4 + 0.5)",
    "local a = redis.pcall(@)\nreturn {[1] = a, [2] = redis.pcall(@), [4] = 1, x = 2}",
    "if redis.call('exists', 'k1') == 1 then return redis.status_reply('there') end\n"
    "return redis.error_reply('NOT there')",
    "local r = {}\nfor i, k in ipairs(redis.call('hkeys', 'k1')) do r[i] = k .. i end\nreturn r",
};

static void add_text(struct random_command *command, const char *text, size_t len)
{
    sim_buf_add(&command->text, text, len);
}

static void add_quoted(struct random_command *command, struct sim_view word)
{
    char byte[8];

    add_text(command, "\"", 1);
    for (size_t i = 0; i < word.len; i++) {
        snprintf(byte, sizeof(byte), "\\%03u", (unsigned char)word.data[i]);
        add_text(command, byte, 4);
    }
    add_text(command, "\"", 1);
}

static bool is_lua_number(struct sim_view word)
{
    double number;

    /* A literal -0 would become the 0 of the whole script: Lua 5.1 keeps both as one constant.
       Longer ones are where servers differ. */
    return word.len < 17 && sim_parse_double(word, &number) && (number < 0 || number > 0) &&
           strcspn(word.data, "nxi+") >= word.len;
}

/* A word as an argument in a script: from ARGV, a number, or a string. */
static void add_argument(struct random_command *command, struct sim_view word,
                         struct sim_words *args)
{
    char name[32];
    size_t way = below(command, 4);

    if (way < 2) {
        sim_words_add(args, word);
        add_text(command, name, (size_t)snprintf(name, sizeof(name), "ARGV[%zu]", args->n));
    } else if (way == 2 && is_lua_number(word)) {
        add_text(command, word.data, word.len);
    } else {
        add_quoted(command, word);
    }
}

static const struct form *draw_form(struct random_command *command, unsigned without)
{
    const struct form *form;

    do {
        form = &forms[below(command, COUNT(forms))];
    } while (form->rules & without);
    return form;
}

static void add_command(struct random_command *command, struct sim_words *args)
{
    command->words.n = 0;
    draw_words(command, draw_form(command, TWIN_UNORDERED));
    for (size_t i = 0; i < command->words.n; i++) {
        if (i > 0) {
            add_text(command, ", ", 2);
        }
        add_argument(command, command->words.words[i], args);
    }
}

static void draw_script(struct random_command *command)
{
    const char *form = script_forms[below(command, COUNT(script_forms))];
    struct sim_words args = {0};

    for (const char *at = form; *at; at++) {
        if (*at == '@') {
            add_command(command, &args);
        } else {
            add_text(command, at, 1);
        }
    }
    command->words.n = 0;
    sim_words_add(&command->words, SIM_VIEW("EVAL"));
    sim_words_add(&command->words, (struct sim_view){command->text.data, command->text.len});
    sim_words_add(&command->words, SIM_VIEW("0"));
    for (size_t i = 0; i < args.n; i++) {
        sim_words_add(&command->words, args.words[i]);
    }
    sim_words_fini(&args);
}

void random_command_next(struct random_command *command)
{
    command->words.n = 0;
    command->text.len = 0;
    command->n_numbers = 0;
    command->rules = 0;
    if (below(command, 3) == 0) {
        draw_script(command);
    } else {
        draw_words(command, draw_form(command, 0));
    }
}

void random_command_fini(struct random_command *command)
{
    sim_words_fini(&command->words);
    sim_buf_fini(&command->text);
}
