/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/sentinel.h"

#include <string.h>

#include "base/time.h"

static void add(struct rlock__buf *out, const char *verb, const char *name)
{
    (void)rlock__buf_add_head(out, '*', name != NULL ? 3 : 2);
    (void)rlock__buf_add_bulk(out, rlock__bytes_of("SENTINEL"));
    (void)rlock__buf_add_bulk(out, rlock__bytes_of(verb));
    if (name != NULL) {
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(name));
    }
}

bool rlock__primary_ask(struct rlock__buf *out, const char *name, struct rlock__sentinel_asks asks)
{
    if (asks.id) {
        add(out, "MYID", NULL);
    }
    if (asks.peers) {
        add(out, "SENTINELS", name);
    }
    add(out, "MASTER", name);
    add(out, "REPLICAS", name);
    add(out, "GET-MASTER-ADDR-BY-NAME", name);
    return !out->failed;
}

/* Arrays are flat: each peer is names and values, its id behind its address. */
void rlock__primary_read_peers(const struct rlock__reply *reply, struct rlock__buf *out)
{
    struct rlock__bytes ip = rlock__bytes("", 0), port = ip;

    rlock__buf_clear(out);
    for (size_t i = 0; reply->is_nested && i + 1 < reply->n; i += 2) {
        struct rlock__bytes field = rlock__reply_str(reply, i);
        struct rlock__bytes value = rlock__reply_str(reply, i + 1);

        if (rlock__bytes_equal(field, rlock__bytes_of("ip"))) {
            ip = value;
        } else if (rlock__bytes_equal(field, rlock__bytes_of("port"))) {
            port = value;
        } else if (rlock__bytes_equal(field, rlock__bytes_of("runid"))) {
            (void)rlock__buf_addf(out, "%.*s %.*s:%.*s\n", (int)value.len, value.at, (int)ip.len,
                                  ip.at, (int)port.len, port.at);
        }
    }
}

static int64_t number(const struct rlock__reply *reply, const char *name, int64_t none)
{
    return rlock__bytes_number(rlock__reply_field(reply, name), none);
}

bool rlock__primary_read(const struct rlock__reply *reply, struct rlock__primary *ret_primary)
{
    ret_primary->epoch = number(reply, "config-epoch", -1);
    ret_primary->down_after_ms = number(reply, "down-after-milliseconds", 0);
    ret_primary->replicas = rlock__max(number(reply, "num-slaves", 0), 0);
    ret_primary->silence_ms = number(reply, "last-ok-ping-reply", -1);
    ret_primary->is_down = rlock__has_word(rlock__reply_field(reply, "flags"), "s_down");
    return ret_primary->epoch >= 0;
}

bool rlock__primary_read_place(const struct rlock__reply *reply, struct rlock__primary *ret_primary)
{
    struct rlock__bytes host = rlock__reply_str(reply, 0);
    int64_t port = rlock__bytes_number(rlock__reply_str(reply, 1), 0);

    if (!reply->is_array || reply->n != 2 || host.len == 0 ||
        host.len >= sizeof(ret_primary->host) || port < 1 || port > UINT16_MAX) {
        return false;
    }
    memcpy(ret_primary->host, host.at, host.len);
    ret_primary->host[host.len] = '\0';
    ret_primary->port = (uint16_t)port;
    return true;
}

bool rlock__primary_is_same(const struct rlock__primary *one, const struct rlock__primary *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}
