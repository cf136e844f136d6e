/* SPDX-License-Identifier: Apache-2.0 */
#include "net/uri_pieces.h"

#include <rlock/rlock.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct rlock__uri_scheme schemes[] = {
    {"redis", RLOCK__URI_TCP, false},
    {"rediss", RLOCK__URI_TCP, true},
    {"unix", RLOCK__URI_UNIX, false},
    {"redis+sentinel", RLOCK__URI_LATER, false},
    {"rediss+sentinel", RLOCK__URI_LATER, true},
    {"redis+cluster", RLOCK__URI_LATER, false},
    {"rediss+cluster", RLOCK__URI_LATER, true},
};

int rlock__uri_fail(const struct rlock__uri_why *why, int code, const char *text)
{
    (void)snprintf(why->at, why->size, "%s", text);
    return code;
}

int rlock__uri_invalid(const struct rlock__uri_why *why, const char *text)
{
    return rlock__uri_fail(why, RLOCK_EINVAL, text);
}

struct rlock__bytes rlock__uri_take_until(struct rlock__bytes *text, const char *stops)
{
    struct rlock__bytes head = *text;

    for (size_t i = 0; i < text->len; i++) {
        if (strchr(stops, text->at[i]) != NULL) {
            head.len = i;
            break;
        }
    }
    text->at += head.len;
    text->len -= head.len;
    return head;
}

void rlock__uri_skip(struct rlock__bytes *text, size_t n)
{
    text->at += n;
    text->len -= n;
}

static const struct rlock__uri_scheme *find_scheme(struct rlock__bytes name)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i].name) == name.len &&
            strncasecmp(schemes[i].name, name.at, name.len) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

/* Splits "user:password@" off; at the last @, since a host has none. */
static void take_user_info(struct rlock__uri_pieces *pieces)
{
    const char *at = memrchr(pieces->authority.at, '@', pieces->authority.len);
    struct rlock__bytes info = pieces->authority;

    if (at == NULL) {
        return;
    }
    info.len = (size_t)(at - info.at);
    rlock__uri_skip(&pieces->authority, info.len + 1);
    pieces->user = rlock__uri_take_until(&info, ":");
    if (info.len != 0) {
        rlock__uri_skip(&info, 1);
        pieces->password = info;
    }
}

const struct rlock__uri_scheme *rlock__uri_scheme(const char *url)
{
    struct rlock__bytes rest = rlock__bytes_of(url);

    return find_scheme(rlock__uri_take_until(&rest, ":"));
}

int rlock__uri_split(const char *url, struct rlock__uri_pieces *ret_pieces,
                     const struct rlock__uri_why *why)
{
    struct rlock__bytes rest = rlock__bytes_of(url);
    struct rlock__uri_pieces pieces = {0};

    pieces.scheme = find_scheme(rlock__uri_take_until(&rest, ":"));
    if (pieces.scheme == NULL || rest.len < 3 || memcmp(rest.at, "://", 3) != 0) {
        return rlock__uri_invalid(why, "a URL begins with redis://, rediss:// or unix://");
    }
    rlock__uri_skip(&rest, 3);
    if (memchr(rest.at, '#', rest.len) != NULL) {
        return rlock__uri_invalid(why, "a # in a URL must be written as %23");
    }
    pieces.authority = rlock__uri_take_until(&rest, "/?");
    pieces.path = rlock__uri_take_until(&rest, "?");
    pieces.has_query = rest.len != 0;
    if (pieces.has_query) {
        rlock__uri_skip(&rest, 1);
        pieces.query = rest;
    }
    take_user_info(&pieces);
    *ret_pieces = pieces;
    return 0;
}
