/* SPDX-License-Identifier: Apache-2.0 */
/* The locks there are: every hash whose fields look like owners. */
#include <stdio.h>

#include "client/ask.h"
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

/* One page of a scan: its keys are copied, since each is asked for in turn. */
struct page {
    struct rlock__buf keys; /* each behind its length, a size_t */
    char cursor[32];
};

static int read_page(struct rlock__asker *asker, const char *pattern, struct page *page)
{
    struct rlock__reply reply;
    struct rlock__bytes cursor;
    int code = rlock__asker_words(asker, &reply, "SCAN", page->cursor, "MATCH", pattern, "COUNT",
                                  "200", "TYPE", "hash", NULL);

    if (code != 0) {
        return code;
    }
    if (rlock__reply_is_error(&reply)) {
        struct rlock__class class = rlock__classify(&reply);

        return rlock__fail(class.code, "%.*s", (int)reply.v[0].len, reply.v[0].str);
    }
    cursor = rlock__reply_str(&reply, 0);
    memset(page->cursor, 0, sizeof(page->cursor));
    memcpy(page->cursor, cursor.at,
           (size_t)rlock__min((int64_t)cursor.len, sizeof(page->cursor) - 1));
    rlock__buf_clear(&page->keys);
    for (size_t i = 1; i < reply.n; i++) {
        struct rlock__bytes key = rlock__reply_str(&reply, i);

        (void)rlock__buf_add(&page->keys, &key.len, sizeof(key.len));
        (void)rlock__buf_add(&page->keys, key.at, key.len);
    }
    return page->keys.failed ? rlock__fail(RLOCK_ENOMEM, "no memory") : 0;
}

static int show_key(struct rlock__asker *asker, struct rlock_client *client,
                    struct rlock__bytes key, rlock_scan_fn *fn, void *payload)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__cmd cmd = {0};
    struct rlock__reply reply;
    const char *shapes;
    int code;

    rlock__rw_inspect(key, "any", NULL, &cmd);
    shapes = cmd.script->shapes;
    code = rlock__asker_ask(asker, &cmd, &reply);
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
    info.mine = strncmp(info.holder, client->core.uuid, RLOCK__UUID_LEN) == 0;
    return fn(key.at, key.len, &info, payload);
}

static int show_page(struct rlock__asker *asker, struct rlock_client *client,
                     const struct page *page, rlock_scan_fn *fn, void *payload)
{
    int code = 0;

    for (size_t i = 0, len; code == 0 && i < page->keys.len; i += sizeof(len) + len) {
        memcpy(&len, page->keys.data + i, sizeof(len));
        code = show_key(asker, client, rlock__bytes(page->keys.data + i + sizeof(len), len), fn,
                        payload);
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

static int scan(struct rlock_client *client, const char *pattern, rlock_scan_fn *fn, void *payload)
{
    struct rlock__asker asker = {0};
    struct page page = {.cursor = "0"};
    int code = rlock__asker_init(&asker, client, RLOCK__NEVER);

    while (code == 0) {
        code = read_page(&asker, pattern, &page);
        if (code == 0) {
            code = show_page(&asker, client, &page, fn, payload);
        }
        if (strcmp(page.cursor, "0") == 0) {
            break;
        }
    }
    rlock__buf_fini(&page.keys);
    rlock__asker_fini(&asker);
    return code;
}

int rlock_client_scan(struct rlock_client *client, const char *pattern, rlock_scan_fn *fn,
                      void *payload)
{
    RLOCK__WHOLE;
    struct rlock__buf full = {0};
    int code;

    rlock__detail_clear();
    if (client == NULL || fn == NULL) {
        return rlock__fail(RLOCK_EINVAL, "client or fn is NULL");
    }
    code = rlock__client_check(client);
    if (code == 0 && !full_pattern(client, pattern, &full)) {
        code = rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    if (code == 0) {
        code = scan(client, full.data, fn, payload);
    }
    rlock__buf_fini(&full);
    return code;
}
