/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of servers:
 *
 *     redis://[user:password@]host[:port][/db]       rediss:// the same, with TLS
 *     unix://[user:password@]/path[?db=n]
 *     redis+cluster://[user:password@]host[:port],host[:port]    rediss+cluster:// with TLS
 *
 *     redis+sentinel://[user:password@]host[:port],host[:port]/primary[/db]    rediss+sentinel://
 *
 * The hosts of a cluster are those that are asked first which others there are. Those of Sentinel
 * are Sentinels, asked for the primary of that name, whose server the login is for.
 *
 * User, password, host and path may be percent-encoded, an IPv6 address stands in brackets. The
 * user may be empty (the default user), and so may the password (an option of the client may supply
 * it).
 */
#ifndef RLOCK_NET_URI_H
#define RLOCK_NET_URI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RLOCK__URI_PORT 6379
#define RLOCK__URI_SENTINEL_PORT 26379

struct rlock__uri {
    bool tls;
    bool cluster;
    char *host; /* without brackets; NULL for a unix socket, and where there are places */
    uint16_t port;
    char *path; /* unix socket; NULL for TCP */
    int db;
    struct rlock__uri *places; /* host and port: of a cluster, or of Sentinels */
    size_t n_places;
    char *primary;  /* what Sentinels call it; NULL: these are none */
    char *user;     /* NULL: none, or the default user */
    char *password; /* NULL: none */
};

/* A parsed URL of nothing: may be ended. */
#define RLOCK__URI_NULL ((struct rlock__uri){.port = RLOCK__URI_PORT})

/* Parses a URL. Returns RLOCK_EINVAL or RLOCK_ENOMEM. The detail repeats nothing of the URL: in a
 * URL that is wrong, anything may be the password. */
int rlock__uri_parse(const char *url, struct rlock__uri *ret_uri);
/* The scheme of a URL, right or wrong: static. NULL: none that is known. */
const char *rlock__uri_scheme(const char *url);
/* Writes a URL for texts: "redis://user:***@host:6379/0"; of a wrong one only the scheme. Cut where
 * longer. Returns out. */
const char *rlock__uri_redacted(const char *url, char *out, size_t size);
/* Writes host and port for texts, an IPv6 address in brackets. Cut where longer. */
void rlock__uri_address(const struct rlock__uri *place, char *out, size_t size);
/* Copies where the server is, and its database; not the login. Returns false without memory. */
bool rlock__uri_place(const struct rlock__uri *uri, struct rlock__uri *ret_uri);
/* Frees what it holds, and wipes the password; it is RLOCK__URI_NULL then. */
void rlock__uri_fini(struct rlock__uri *uri);

#endif
