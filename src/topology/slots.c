/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/slots.h"

#include "topology/slot.h"

#define PLACE 3 /* values of a server: its host, its port, its id */

static bool has_type(const struct rlock__reply *reply, size_t at, enum rlock__reply_type type)
{
    return at < reply->n && reply->v[at].type == type;
}

/* Whether it can stand between blanks and commas. */
static bool is_word(struct rlock__bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if ((unsigned char)bytes.at[i] <= ' ' || bytes.at[i] == ',' || bytes.at[i] == '@') {
            return false;
        }
    }
    return true;
}

/* A host that is nil, or empty, is that of the asked server. */
static bool is_place(const struct rlock__reply *reply, size_t at)
{
    struct rlock__bytes host = rlock__reply_str(reply, at), id = rlock__reply_str(reply, at + 2);

    return (has_type(reply, at, RLOCK__REPLY_STR) || has_type(reply, at, RLOCK__REPLY_NIL)) &&
           has_type(reply, at + 1, RLOCK__REPLY_INT) && has_type(reply, at + 2, RLOCK__REPLY_STR) &&
           is_word(host) && is_word(id) && id.len != 0;
}

/* Where what stands behind a place begins: newer servers tell other names and addresses with it. */
static size_t behind(const struct rlock__reply *reply, size_t at)
{
    at += PLACE;
    while (has_type(reply, at, RLOCK__REPLY_STR) && has_type(reply, at + 1, RLOCK__REPLY_STR)) {
        at += 2;
    }
    return at;
}

/* A line, up to its slots. primary: the id of a replica's; empty: it is one itself. */
static void add_place(const struct rlock__reply *reply, size_t at, struct rlock__bytes primary,
                      struct rlock__bytes myself, struct rlock__buf *out)
{
    struct rlock__bytes host = rlock__reply_str(reply, at), id = rlock__reply_str(reply, at + 2);
    const char *flags = primary.len != 0 ? "slave" : "master";

    (void)rlock__buf_addf(out, "%.*s %.*s:%lld@0 %s%s %.*s%s 0 0 0 connected", (int)id.len, id.at,
                          (int)host.len, host.at, (long long)rlock__reply_int(reply, at + 1, 0),
                          rlock__bytes_equal(id, myself) ? "myself," : "", flags, (int)primary.len,
                          primary.at, primary.len != 0 ? "" : "-");
}

/* The next range, and the servers that have it: the primary, then its replicas. Arrays are flat:
 * two integers begin another range. */
static bool add_range(const struct rlock__reply *reply, size_t *inout_at,
                      struct rlock__bytes myself, struct rlock__buf *out)
{
    int64_t from = rlock__reply_int(reply, *inout_at, -1);
    int64_t to = rlock__reply_int(reply, *inout_at + 1, -1);
    size_t at = *inout_at + 2;
    struct rlock__bytes primary = rlock__reply_str(reply, at + 2), none = rlock__bytes("", 0);

    if (from < 0 || from > to || to >= RLOCK__SLOTS || !is_place(reply, at)) {
        return false;
    }
    add_place(reply, at, none, myself, out);
    (void)rlock__buf_addf(out, " %lld-%lld\n", (long long)from, (long long)to);
    for (at = behind(reply, at); is_place(reply, at); at = behind(reply, at)) {
        add_place(reply, at, primary, myself, out);
        (void)rlock__buf_add(out, "\n", 1);
    }
    *inout_at = at;
    return true;
}

bool rlock__slots_rewrite(const struct rlock__reply *reply, struct rlock__bytes myself,
                          struct rlock__buf *out)
{
    unsigned n = 0;

    rlock__buf_clear(out);
    for (size_t at = 0; at < reply->n;) {
        if (++n > RLOCK__SLOTS || !add_range(reply, &at, myself, out)) {
            return false;
        }
    }
    return reply->is_array && !out->failed;
}
