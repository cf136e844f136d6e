/* SPDX-License-Identifier: Apache-2.0 */
/* rlock_admin_scan(): finds all locks on the servers. A hash is a lock if its fields look like
 * owners. The scan also reports the queue of a free fair lock, and a semaphore with permits out. */
#include <rlock/admin.h>
#include <stdio.h>

#include <lua_scripts.h>

#include "admin/primaries.h"
#include "client/lock.h"
#include "drive/ask.h"
#include "lock/server/classify.h"
#include "rw/rw.h"
#include "topology/redirect.h"

/* Whether a field is "uuid:number", or the write side's "uuid:number:write". */
static bool is_owner(const char *field)
{
    size_t digits;

    if (rlock__uuid_version(rlock__bytes_of(field)) < 0) {
        return false;
    }
    field += RLOCK__UUID_LEN + 1;
    digits = strspn(field, "0123456789");
    field += digits;
    return digits != 0 && (*field == '\0' || strcmp(field, ":write") == 0);
}

struct scan {
    struct rlock_client *client;
    struct rlock__asker asker;
    rlock_found_fn *fn;
    void *payload;
    struct rlock__buf keys; /* of a page: each behind its length, a size_t; each is asked for */
    char cursor[32];
    bool ended; /* fn said so */
};

/* The keys that a scan looks for, one after the other. */
static const struct sort {
    const char *type, *before, *after; /* of the key, around the lock's */
    const struct rlock_ops *ops;       /* of the kind; NULL: it is asked as any hash */
    const struct rlock__script *script;
    enum { ANY, WITHOUT_BRACES, WITH_BRACES } names;
} sorts[] = {
    {"hash", "", "", NULL, &rlock__script_rw_inspect, ANY},
    {"list", RLOCK__FAIR_QUEUE ":{", "}", &rlock__fair_ops, &rlock__script_fair_inspect,
     WITHOUT_BRACES},
    {"list", RLOCK__FAIR_QUEUE ":", "", &rlock__fair_ops, &rlock__script_fair_inspect, WITH_BRACES},
    {"zset", "{", "}:timeout", &rlock__permits_ops, &rlock__script_permits_inspect, WITHOUT_BRACES},
    {"zset", "", ":timeout", &rlock__permits_ops, &rlock__script_permits_inspect, WITH_BRACES},
    {"zset", "{", "}:rlock-permits", &rlock__semaphore_ops, &rlock__script_permits_inspect,
     WITHOUT_BRACES},
    {"zset", "", ":rlock-permits", &rlock__semaphore_ops, &rlock__script_permits_inspect,
     WITH_BRACES},
};

/* Whether the sort names locks so. If a name has braces around all of it, its keys are those of the
 * name within them: the scan reports that name. */
static bool is_name(const struct sort *sort, struct rlock__bytes key)
{
    const bool has_braces = key.len > 0 && memchr(key.at, '{', key.len) != NULL;

    if (!has_braces || sort->names == ANY) {
        return key.len > 0 && sort->names != WITH_BRACES;
    }
    return sort->names == WITH_BRACES &&
           (key.at[key.len - 1] != '}' || memchr(key.at + 1, '{', key.len - 1) != NULL);
}

static int read_page(struct scan *scan, const struct sort *sort, const char *pattern)
{
    struct rlock__reply reply;
    struct rlock__bytes cursor;
    int code = rlock__asker_words(&scan->asker, &reply, "SCAN", scan->cursor, "MATCH", pattern,
                                  "COUNT", "200", "TYPE", sort->type, NULL);

    if (code != 0) {
        return code;
    }
    if (rlock__reply_is_error(&reply)) {
        struct rlock__class class = rlock__classify(&reply);

        return rlock__fail(class.code, "%.*s", (int)reply.v[0].len, reply.v[0].str);
    }
    cursor = rlock__reply_str(&reply, 0);
    (void)snprintf(scan->cursor, sizeof(scan->cursor), "%.*s", (int)cursor.len, cursor.at);
    rlock__buf_clear(&scan->keys);
    for (size_t i = 1; i < reply.n; i++) {
        struct rlock__bytes key = rlock__reply_str(&reply, i);

        (void)rlock__buf_add(&scan->keys, &key.len, sizeof(key.len));
        (void)rlock__buf_add(&scan->keys, key.at, key.len);
    }
    return scan->keys.failed ? rlock__fail(RLOCK_ENOMEM, "no memory") : 0;
}

static void spell(struct scan *scan, const struct sort *sort, struct rlock__bytes key,
                  struct rlock__cmd *ret_cmd)
{
    struct rlock__spec spec = {.core = &scan->client->core, .ops = sort->ops, .key = key};
    struct rlock__buf channel = {0};

    if (sort->ops == NULL) {
        rlock__rw_inspect(key, "any", NULL, ret_cmd);
        return;
    }
    sort->ops->channel(key, &channel);
    spec.channel = rlock__bytes(channel.data, channel.len);
    sort->ops->inspect(&spec, ret_cmd);
    rlock__buf_fini(&channel);
}

/* asking: the slot of the key is on its way here. */
static int ask_key(struct scan *scan, const struct sort *sort, struct rlock__bytes key, bool asking,
                   struct rlock__reply *ret_reply)
{
    struct rlock__cmd cmd = {0};
    int code = asking ? rlock__asker_words(&scan->asker, ret_reply, "ASKING", NULL) : 0;

    if (code != 0) {
        return code;
    }
    spell(scan, sort, key, &cmd);
    if (asking) {
        rlock__cmd_arg(&cmd, rlock__bytes_of("asking"));
    }
    return rlock__asker_ask(&scan->asker, &cmd, ret_reply);
}

/* Whether it is what the scan looks for. Otherwise it is gone meanwhile, or is no lock. A queue
 * counts if the lock is free: a lock that is held is found by its hash. */
static bool read_info(const struct sort *sort, const struct rlock__reply *reply,
                      struct rlock_info *ret_info)
{
    if (!rlock__reply_fits(reply, sort->script->shapes, 0)) {
        return false;
    }
    if (sort->ops == NULL) {
        rlock__rw_read_inspect(reply, ret_info, NULL);
        return is_owner(ret_info->holder);
    }
    sort->ops->read_inspect(reply, ret_info, NULL);
    return (sort->ops->caps & RLOCK__CAP_UNITS) != 0 ? ret_info->locked
                                                     : !ret_info->locked && ret_info->waiters > 0;
}

/* The lock's key, of the key that was found. */
static struct rlock__bytes lock_of(const struct sort *sort, struct rlock__bytes found)
{
    const size_t before = strlen(sort->before), after = strlen(sort->after);

    return rlock__bytes(found.at + before, found.len - before - after);
}

static int show_key(struct scan *scan, const struct sort *sort, struct rlock__bytes found)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    struct rlock__bytes key = lock_of(sort, found);
    struct rlock__redirection to;
    struct rlock__reply reply;
    int code;

    if (!is_name(sort, key)) {
        return 0;
    }
    code = ask_key(scan, sort, key, false, &reply);
    if (code == 0 && rlock__redirection_read(&reply, &to) && !to.ask) {
        code = ask_key(scan, sort, key, true, &reply);
    }
    if (code != 0 || !read_info(sort, &reply, &info)) {
        return code;
    }
    info.mine = strncmp(info.holder, scan->client->core.opts.uuid, RLOCK__UUID_LEN) == 0;
    code = scan->fn(
        &(struct rlock_found){
            .size = sizeof(struct rlock_found), .key = key.at, .key_len = key.len, .info = &info},
        scan->payload);
    scan->ended = code != 0;
    return code;
}

static int show_page(struct scan *scan, const struct sort *sort)
{
    int code = 0;

    for (size_t i = 0, len; code == 0 && i < scan->keys.len; i += sizeof(len) + len) {
        memcpy(&len, scan->keys.data + i, sizeof(len));
        code = show_key(scan, sort, rlock__bytes(scan->keys.data + i + sizeof(len), len));
    }
    return code;
}

/* The client's prefix, taken literally, and the user's pattern; around them what the sort has. */
static bool full_pattern(const struct rlock_client *client, const struct sort *sort,
                         const char *pattern, struct rlock__buf *ret_pattern)
{
    struct rlock__bytes prefix = client->core.opts.prefix;

    (void)rlock__buf_addf(ret_pattern, "%s", sort->before);
    for (size_t i = 0; i < prefix.len; i++) {
        (void)rlock__buf_add(ret_pattern, "\\", strchr("*?[]\\^-", prefix.at[i]) != NULL ? 1 : 0);
        (void)rlock__buf_add(ret_pattern, prefix.at + i, 1);
    }
    return rlock__buf_addf(ret_pattern, "%s%s", pattern != NULL ? pattern : "*", sort->after) &&
           rlock__buf_add(ret_pattern, "", 1);
}

static int scan_sort(struct scan *scan, const struct sort *sort, const char *pattern)
{
    struct rlock__buf full = {0};
    int code = full_pattern(scan->client, sort, pattern, &full)
                   ? 0
                   : rlock__fail(RLOCK_ENOMEM, "no memory");

    memcpy(scan->cursor, "0", sizeof("0"));
    do {
        code = code == 0 ? read_page(scan, sort, full.data) : code;
        code = code == 0 ? show_page(scan, sort) : code;
    } while (code == 0 && strcmp(scan->cursor, "0") != 0);
    rlock__buf_fini(&full);
    return code;
}

static int scan_node(struct scan *scan, struct rlock__node *node, const char *pattern)
{
    int code = rlock__asker_init(&scan->asker, node, RLOCK__NEVER);

    for (size_t i = 0; code == 0 && i < sizeof(sorts) / sizeof(sorts[0]); i++) {
        code = scan_sort(scan, &sorts[i], pattern);
    }
    rlock__buf_fini(&scan->keys);
    rlock__asker_fini(&scan->asker);
    return code;
}

/* All of them, also where one cannot be asked: the first failure is what counts. */
static int scan_all(struct scan *scan, const char *pattern)
{
    struct rlock__primaries primaries = {0};
    char why[RLOCK__DETAIL_SIZE];
    int code = rlock__primaries_find(scan->client, &primaries);

    for (size_t i = 0; !scan->ended && i < primaries.n; i++) {
        int one = scan_node(scan, primaries.nodes[i], pattern);

        if (one != 0 && code == 0) {
            (void)snprintf(why, sizeof(why), "%s", rlock_detail());
        }
        code = scan->ended || code == 0 ? one : code;
    }
    if (code != 0 && primaries.n != 0 && !scan->ended) {
        rlock__detail("%s", why);
    }
    rlock__primaries_fini(&primaries);
    return code;
}

int rlock_admin_scan(struct rlock_client *client, const char *pattern, rlock_found_fn *fn,
                     void *payload)
{
    RLOCK__WHOLE;
    struct scan scan = {.client = client, .fn = fn, .payload = payload};
    int code = rlock__primaries_check(client, fn != NULL);

    return code == 0 ? scan_all(&scan, pattern) : code;
}
