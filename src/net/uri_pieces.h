/* SPDX-License-Identifier: Apache-2.0 */
/* A URL taken apart: where its parts stand, before they are decoded. */
#ifndef RLOCK_NET_URI_PIECES_H
#define RLOCK_NET_URI_PIECES_H

#include <stdbool.h>

#include "base/bytes.h"

struct rlock__uri_scheme {
    const char *name;
    enum { RLOCK__URI_TCP, RLOCK__URI_UNIX, RLOCK__URI_LATER } kind; /* later: not supported yet */
    bool tls;
};

/* A URL in pieces, still encoded; borrowed from it. */
struct rlock__uri_pieces {
    const struct rlock__uri_scheme *scheme;
    bool has_query;
    struct rlock__bytes user, password, authority, path, query;
};

/* Where the reason for a failure goes. */
struct rlock__uri_why {
    char *at;
    size_t size;
};

/* Write the reason, and return the code, or RLOCK_EINVAL. */
int rlock__uri_fail(const struct rlock__uri_why *why, int code, const char *text);
int rlock__uri_invalid(const struct rlock__uri_why *why, const char *text);
/* Takes what stands before the first of some bytes off text; all of it where there is none. */
struct rlock__bytes rlock__uri_take_until(struct rlock__bytes *text, const char *stops);
void rlock__uri_skip(struct rlock__bytes *text, size_t n);
/* NULL: the URL begins with none that is known. */
const struct rlock__uri_scheme *rlock__uri_scheme(const char *url);
/* Splits a URL. Returns RLOCK_EINVAL, with the reason, where it is none. */
int rlock__uri_split(const char *url, struct rlock__uri_pieces *ret_pieces,
                     const struct rlock__uri_why *why);

#endif
