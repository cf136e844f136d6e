/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/sentinel.h"

#include <string.h>

#include "base/time.h"

bool rlock__primary_ask(struct rlock__buf *out, const char *name)
{
    static const char *const verbs[] = {"MASTER", "GET-MASTER-ADDR-BY-NAME"};

    for (size_t i = 0; i < 2; i++) {
        (void)rlock__buf_add_head(out, '*', 3);
        (void)rlock__buf_add_bulk(out, rlock__bytes_of("SENTINEL"));
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(verbs[i]));
        (void)rlock__buf_add_bulk(out, rlock__bytes_of(name));
    }
    return !out->failed;
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

static size_t count_same(const struct rlock__primary *said, size_t n,
                         const struct rlock__primary *as)
{
    size_t same = 0;

    for (size_t i = 0; i < n; i++) {
        same += said[i].epoch == as->epoch && rlock__primary_is_same(&said[i], as);
    }
    return same;
}

/* Whether it is to be believed rather than the other one. */
static bool is_better(const struct rlock__primary *said, size_t n, const struct rlock__primary *it,
                      const struct rlock__primary *other, const struct rlock__primary *known)
{
    size_t same = count_same(said, n, it), others = count_same(said, n, other);

    if (it->epoch != other->epoch) {
        return it->epoch > other->epoch;
    }
    return same != others ? same > others : rlock__primary_is_same(it, known);
}

const struct rlock__primary *rlock__primary_choose(const struct rlock__primary *said, size_t n,
                                                   const struct rlock__primary *known)
{
    const struct rlock__primary *best = NULL;

    for (size_t i = 0; i < n; i++) {
        if (said[i].host[0] != '\0' &&
            (best == NULL || is_better(said, n, &said[i], best, known))) {
            best = &said[i];
        }
    }
    return best;
}
