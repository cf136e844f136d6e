/* SPDX-License-Identifier: Apache-2.0 */
/* The locks there are: every hash whose fields look like owners. */
#include <stdio.h>

#include "client/ask.h"
#include "client/lock.h"
#include "lock/classify.h"
#include "rw/rw.h"

/* Whether a field is "uuid:number", or the write side's "uuid:number:write". */
static bool is_owner(const char *field)
{
    int len = 0; /* of a whole UUID and a colon */
    size_t digits;

    (void)sscanf(field, "%*8[0-9a-f]-%*4[0-9a-f]-%*4[0-9a-f]-%*4[0-9a-f]-%*12[0-9a-f]:%n", &len);
    if (len != RLOCK__UUID_LEN + 1) {
        return false;
    }
    digits = strspn(field + len, "0123456789");
    field += (size_t)len + digits;
    return digits != 0 && (*field == '\0' || strcmp(field, ":write") == 0);
}

struct scan {
    struct rlock_client *client;
    struct rlock__asker asker;
    rlock_scan_fn *fn;
    void *payload;
    struct rlock__buf keys; /* of a page: each behind its length, a size_t; each is asked for */
    char cursor[32];
};

static int read_page(struct scan *scan, const char *pattern)
{
    struct rlock__reply reply;
    struct rlock__bytes cursor;
    int code = rlock__asker_words(&scan->asker, &reply, "SCAN", scan->cursor, "MATCH", pattern,
                                  "COUNT", "200", "TYPE", "hash", NULL);

    if (code != 0) {
        return code;
    }
    if (rlock__reply_is_error(&reply)) {
        struct rlock__class class = rlock__classify(&reply);

        return rlock__fail(class.code, "%.*s", (int)reply.v[0].len, reply.v[0].str);
    }
    cursor = rlock__reply_str(&reply, 0);
    memset(scan->cursor, 0, sizeof(scan->cursor));
    memcpy(scan->cursor, cursor.at,
           (size_t)rlock__min((int64_t)cursor.len, sizeof(scan->cursor) - 1));
    rlock__buf_clear(&scan->keys);
    for (size_t i = 1; i < reply.n; i++) {
        struct rlock__bytes key = rlock__reply_str(&reply, i);

        (void)rlock__buf_add(&scan->keys, &key.len, sizeof(key.len));
        (void)rlock__buf_add(&scan->keys, key.at, key.len);
    }
    return scan->keys.failed ? rlock__fail(RLOCK_ENOMEM, "no memory") : 0;
}

static int show_key(struct scan *scan, struct rlock__bytes key)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;
    const char *shapes;
    int code;

    rlock__rw_inspect(key, "any", NULL, &cmd);
    shapes = cmd.script->shapes;
    code = rlock__asker_ask(&scan->asker, &cmd, &reply);
    if (code != 0) {
        return code;
    }
    if (!rlock__reply_fits(&reply, shapes, 0)) {
        return 0; /* gone meanwhile, or not a lock */
    }
    rlock__rw_read_inspect(&reply, &info, NULL);
    if (!is_owner(info.holder)) {
        return 0;
    }
    info.mine = strncmp(info.holder, scan->client->core.uuid, RLOCK__UUID_LEN) == 0;
    return scan->fn(key.at, key.len, &info, scan->payload);
}

static int show_page(struct scan *scan)
{
    int code = 0;

    for (size_t i = 0, len; code == 0 && i < scan->keys.len; i += sizeof(len) + len) {
        memcpy(&len, scan->keys.data + i, sizeof(len));
        code = show_key(scan, rlock__bytes(scan->keys.data + i + sizeof(len), len));
    }
    return code;
}

/* The client's prefix, taken literally, and the user's pattern. */
static bool full_pattern(const struct rlock_client *client, const char *pattern,
                         struct rlock__buf *ret_pattern)
{
    struct rlock__bytes prefix = client->core.prefix;

    for (size_t i = 0; i < prefix.len; i++) {
        (void)rlock__buf_add(ret_pattern, "\\", strchr("*?[]\\^-", prefix.at[i]) != NULL ? 1 : 0);
        (void)rlock__buf_add(ret_pattern, prefix.at + i, 1);
    }
    return rlock__buf_addf(ret_pattern, "%s", pattern != NULL ? pattern : "*") &&
           rlock__buf_add(ret_pattern, "", 1);
}

static int scan_node(struct scan *scan, struct rlock__node *node, const char *pattern)
{
    int code = rlock__asker_init(&scan->asker, node, RLOCK__NEVER);

    memcpy(scan->cursor, "0", sizeof("0"));
    do {
        code = code == 0 ? read_page(scan, pattern) : code;
        code = code == 0 ? show_page(scan) : code;
    } while (code == 0 && strcmp(scan->cursor, "0") != 0);
    rlock__buf_fini(&scan->keys);
    rlock__asker_fini(&scan->asker);
    return code;
}

/* The nodes of a cluster are known once one of them has answered for a key. */
static int await_nodes(struct rlock_client *client)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__spec *spec =
        rlock__spec_new(&client->core, &rlock__reentrant_ops, rlock__bytes_of("nodes"), NULL);
    int code;

    if (spec == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    (void)atomic_fetch_add(&client->refs, 1); /* the spec's */
    code = rlock__single_inspect(spec, &info);
    (void)rlock__spec_unref(spec);
    return code;
}

static int scan_all(struct scan *scan, const char *pattern)
{
    struct rlock_client *client = scan->client;
    struct rlock__node *node;
    int code = client->router != NULL ? await_nodes(client) : 0;

    RLOCK__EACH_NODE(client, node) {
        if (code == 0 && atomic_load(&node->is_used)) {
            code = scan_node(scan, node, pattern);
        }
    }
    return code;
}

int rlock_client_scan(struct rlock_client *client, const char *pattern, rlock_scan_fn *fn,
                      void *payload)
{
    RLOCK__WHOLE;
    struct scan scan = {.client = client, .fn = fn, .payload = payload, .cursor = "0"};
    struct rlock__buf full = {0};
    int code;

    rlock__detail_clear();
    if (client == NULL || fn == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client or fn is NULL");
    }
    code = rlock__client_check(client);
    if (code == 0) {
        code = full_pattern(client, pattern, &full) ? scan_all(&scan, full.data)
                                                    : rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    rlock__buf_fini(&full);
    return code;
}
