/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resp.h"

#include <hiredis/read.h>
#include <rlock/rlock.h>
#include <stdlib.h>

/* No value, and no array, takes fewer bytes than this on the wire: ":0\r\n", "*0\r\n". */
#define WIRE_MIN 4

struct rlock__resp {
    redisReader *reader;
    redisReplyObjectFunctions build; /* hiredis wants a table that it could write to */
    size_t cap;
    struct rlock__value *values; /* a string's num is its offset in text until the reply is whole */
    size_t n, n_cap;
    struct rlock__buf text;
    size_t weight; /* lower bound of what the reply in progress took on the wire */
    bool is_array, is_nested, is_push;
    bool takes_pushes;
    bool whole; /* the last reply was given out: the next begins with empty arrays */
    const char *error;
    int code;
};

/* ---- What hiredis calls for each part of a reply; NULL ends the parsing ---- */

static void *refuse(struct rlock__resp *resp, int code, const char *why)
{
    resp->code = code;
    resp->error = why;
    return NULL;
}

static void *too_long(struct rlock__resp *resp)
{
    return refuse(resp, RLOCK_ECONN, "reply longer than allowed");
}

static bool fits(struct rlock__resp *resp, size_t more)
{
    return resp->weight + more <= resp->cap || too_long(resp) != NULL;
}

static bool weigh(struct rlock__resp *resp, size_t bytes)
{
    resp->weight += WIRE_MIN + bytes;
    return fits(resp, 0);
}

/* We ask for version 3 of the protocol on subscriber connections alone, and use no more of it than
 * they need. */
static void *of_version_3(struct rlock__resp *resp)
{
    return refuse(resp, RLOCK_ECONN, "a reply of another version of the protocol");
}

static void *out_of_memory(struct rlock__resp *resp)
{
    return refuse(resp, RLOCK_ENOMEM, "no memory for the reply");
}

static bool grow(struct rlock__resp *resp)
{
    size_t cap = resp->n_cap != 0 ? 2 * resp->n_cap : 16;
    struct rlock__value *values = realloc(resp->values, cap * sizeof(*values));

    if (values == NULL) {
        return out_of_memory(resp) != NULL;
    }
    resp->values = values;
    resp->n_cap = cap;
    return true;
}

static void *add(struct rlock__resp *resp, struct rlock__value value)
{
    if (!weigh(resp, value.len) || (resp->n == resp->n_cap && !grow(resp))) {
        return NULL;
    }
    resp->values[resp->n++] = value;
    return resp; /* stands for the object: anything but NULL */
}

static void *add_string(const redisReadTask *task, char *str, size_t len)
{
    struct rlock__resp *resp = task->privdata;
    struct rlock__value value = {RLOCK__REPLY_STR, (int64_t)resp->text.len, NULL, len};

    if (task->type == REDIS_REPLY_ERROR) {
        value.type = RLOCK__REPLY_ERROR;
    } else if (task->type == REDIS_REPLY_STATUS) {
        value.type = RLOCK__REPLY_STATUS;
    } else if (task->type != REDIS_REPLY_STRING &&
               !(resp->takes_pushes && task->type == REDIS_REPLY_VERB)) {
        return of_version_3(resp);
    }
    if (!rlock__buf_add(&resp->text, str, len)) {
        return out_of_memory(resp);
    }
    return add(resp, value);
}

static bool takes_version_3(struct rlock__resp *resp, int type)
{
    resp->is_push = resp->is_push || type == REDIS_REPLY_PUSH;
    return resp->takes_pushes && (type == REDIS_REPLY_PUSH || type == REDIS_REPLY_MAP);
}

static void *add_array(const redisReadTask *task, size_t elements)
{
    struct rlock__resp *resp = task->privdata;

    if (task->type != REDIS_REPLY_ARRAY && !takes_version_3(resp, task->type)) {
        return of_version_3(resp);
    }
    *(task->parent == NULL ? &resp->is_array : &resp->is_nested) = true;
    /* The elements are only announced; each is weighed when it comes. */
    return elements <= resp->cap / WIRE_MIN && weigh(resp, 0) ? resp : too_long(resp);
}

static void *add_integer(const redisReadTask *task, long long num)
{
    return add(task->privdata, (struct rlock__value){RLOCK__REPLY_INT, num, NULL, 0});
}

static void *add_double(const redisReadTask *task, double num, char *str, size_t len)
{
    (void)num;
    (void)str;
    (void)len;
    return of_version_3(task->privdata);
}

static void *add_nil(const redisReadTask *task)
{
    return add(task->privdata, (struct rlock__value){RLOCK__REPLY_NIL, 0, NULL, 0});
}

static void *add_bool(const redisReadTask *task, int num)
{
    (void)num;
    return of_version_3(task->privdata);
}

/* ---- The reader ---- */

struct rlock__resp *rlock__resp_new(size_t cap)
{
    struct rlock__resp *resp = calloc(1, sizeof(*resp));

    if (resp == NULL) {
        return NULL;
    }
    resp->build = (redisReplyObjectFunctions){
        .createString = add_string,
        .createArray = add_array,
        .createInteger = add_integer,
        .createDouble = add_double,
        .createNil = add_nil,
        .createBool = add_bool,
    };
    resp->error = "";
    resp->whole = true;
    resp->reader = redisReaderCreateWithFunctions(&resp->build);
    if (resp->reader == NULL) {
        free(resp);
        return NULL;
    }
    resp->reader->privdata = resp;
    resp->cap = cap;
    return resp;
}

struct rlock__resp *rlock__resp_free(struct rlock__resp *resp)
{
    if (resp != NULL) {
        redisReaderFree(resp->reader);
        rlock__buf_fini(&resp->text);
        free(resp->values);
        free(resp);
    }
    return NULL;
}

void rlock__resp_take_pushes(struct rlock__resp *resp)
{
    resp->takes_pushes = true;
}

void rlock__resp_set_cap(struct rlock__resp *resp, size_t cap)
{
    resp->cap = cap;
}

int rlock__resp_feed(struct rlock__resp *resp, const char *bytes, size_t len)
{
    if (redisReaderFeed(resp->reader, bytes, len) != REDIS_OK && resp->code == 0) {
        (void)out_of_memory(resp);
    }
    return resp->code;
}

static int fail(struct rlock__resp *resp)
{
    if (resp->code == 0 && resp->reader->err == REDIS_ERR_OOM) {
        (void)out_of_memory(resp);
    }
    if (resp->code == 0) {
        (void)refuse(resp, RLOCK_ECONN, "not a reply of the Redis protocol");
    }
    return resp->code;
}

/* The bytes of strings stay where they are from now on. */
static void settle(struct rlock__resp *resp)
{
    for (size_t i = 0; i < resp->n; i++) {
        struct rlock__value *value = &resp->values[i];

        if (value->type >= RLOCK__REPLY_STR) {
            value->str = value->len != 0 ? resp->text.data + value->num : "";
            value->num = 0;
        }
    }
    resp->whole = true;
}

static void begin(struct rlock__resp *resp)
{
    resp->n = 0;
    resp->weight = 0;
    resp->is_array = resp->is_nested = resp->is_push = false;
    resp->whole = false;
    rlock__buf_clear(&resp->text);
}

int rlock__resp_next(struct rlock__resp *resp, struct rlock__reply *ret_reply)
{
    void *done = NULL;

    if (resp->code != 0) {
        return resp->code;
    }
    if (resp->whole) {
        begin(resp);
    }
    if (redisReaderGetReply(resp->reader, &done) != REDIS_OK) {
        return fail(resp);
    }
    if (done == NULL) {
        return fits(resp, resp->reader->len - resp->reader->pos) ? 0 : resp->code;
    }
    settle(resp);
    *ret_reply = (struct rlock__reply){resp->values, resp->n, resp->is_array, resp->is_nested,
                                       resp->is_push};
    return 1;
}

bool rlock__resp_is_empty(const struct rlock__resp *resp)
{
    const redisReader *reader = resp->reader;
    bool begun = reader->ridx > 0 || (reader->ridx == 0 && reader->task[0]->type != -1);

    return !begun && reader->pos == reader->len;
}

const char *rlock__resp_error(const struct rlock__resp *resp)
{
    return resp->error;
}
