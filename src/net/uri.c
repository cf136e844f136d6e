/* SPDX-License-Identifier: Apache-2.0 */
#include "net/uri.h"

#include <rlock/rlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "net/uri_pieces.h"

#define HOST_MAX 253 /* of a name in the DNS */
#define DB_MAX 1000000

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;

    return at != NULL ? (int)(at - digits) : -1;
}

/* Writes the decoded text, its NUL included; returns false where a % is not followed by the two
 * digits of a byte. */
static bool decode_into(struct rlock__bytes text, char *out)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] != '%') {
            *out++ = text.at[i];
            continue;
        }
        if (text.len - i < 3 || hex(text.at[i + 1]) < 0 || hex(text.at[i + 2]) < 0) {
            return false;
        }
        *out = (char)(hex(text.at[i + 1]) * 16 + hex(text.at[i + 2]));
        if (*out++ == '\0') {
            return false; /* would end the text early */
        }
        i += 2;
    }
    *out = '\0';
    return true;
}

static int decode(struct rlock__bytes text, char **ret_text, const struct rlock__uri_why *why)
{
    char *out = malloc(text.len + 1);

    if (out == NULL) {
        return rlock__uri_fail(why, RLOCK_ENOMEM, "no memory");
    }
    if (!decode_into(text, out)) {
        explicit_bzero(out, text.len + 1);
        free(out);
        return rlock__uri_invalid(
            why, "a % in a URL must be followed by two hexadecimal digits, not 00");
    }
    *ret_text = out;
    return 0;
}

/* A number of digits alone, at most max. */
static bool number(struct rlock__bytes text, long max, long *ret_num)
{
    long num = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9') {
            return false;
        }
        num = num * 10 + (text.at[i] - '0');
        if (num > max) {
            return false;
        }
    }
    *ret_num = num;
    return text.len != 0;
}

static int take_db(struct rlock__bytes text, struct rlock__uri *uri,
                   const struct rlock__uri_why *why)
{
    long db = 0;

    if (!number(text, DB_MAX, &db)) {
        return rlock__uri_invalid(why, "the database must be a number");
    }
    uri->db = (int)db;
    return 0;
}

static int take_login(const struct rlock__uri_pieces *pieces, struct rlock__uri *uri,
                      const struct rlock__uri_why *why)
{
    int r = 0;

    if (pieces->user.len != 0) {
        r = decode(pieces->user, &uri->user, why);
    }
    if (r == 0 && pieces->password.len != 0) {
        r = decode(pieces->password, &uri->password, why);
    }
    return r;
}

static int check_host(const char *host, const struct rlock__uri_why *why)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:%";
    size_t len = strlen(host);

    if (len == 0) {
        return rlock__uri_invalid(why, "the host is missing");
    }
    return len <= HOST_MAX && strspn(host, legal) == len
               ? 0
               : rlock__uri_invalid(why, "the host is no host name");
}

/* Takes "host" or "[address]" off the authority. */
static int take_host(struct rlock__bytes *authority, struct rlock__bytes *ret_host,
                     const struct rlock__uri_why *why)
{
    if (authority->len != 0 && authority->at[0] == '[') {
        rlock__uri_skip(authority, 1);
        *ret_host = rlock__uri_take_until(authority, "]");
        if (authority->len == 0 || memchr(ret_host->at, ':', ret_host->len) == NULL) {
            return rlock__uri_invalid(why, "in brackets there must be an IPv6 address");
        }
        rlock__uri_skip(authority, 1);
        return 0;
    }
    *ret_host = rlock__uri_take_until(authority, ":");
    if (authority->len != 0 && memchr(authority->at + 1, ':', authority->len - 1) != NULL) {
        return rlock__uri_invalid(
            why, "an IPv6 address must stand in brackets; a : in a password as %3A");
    }
    return 0;
}

static int take_port(struct rlock__bytes text, struct rlock__uri *uri,
                     const struct rlock__uri_why *why)
{
    long port = RLOCK__URI_PORT;

    if (text.len != 0 &&
        (text.at[0] != ':' || !number(rlock__bytes(text.at + 1, text.len - 1), 65535, &port) ||
         port == 0)) {
        return rlock__uri_invalid(
            why, "the port must be a number from 1 to 65535; in a user or password, "
                 "/ must be written as %2F, ? as %3F");
    }
    uri->port = (uint16_t)port;
    return 0;
}

static int take_tcp(const struct rlock__uri_pieces *pieces, struct rlock__uri *uri,
                    const struct rlock__uri_why *why)
{
    struct rlock__bytes authority = pieces->authority, host = rlock__bytes("", 0);
    int r = take_host(&authority, &host, why);

    if (r == 0) {
        r = take_port(authority, uri, why);
    }
    if (r == 0) {
        r = decode(host, &uri->host, why);
    }
    if (r == 0) {
        r = check_host(uri->host, why);
    }
    if (r == 0 && pieces->has_query) {
        r = rlock__uri_invalid(why, "a redis:// or rediss:// URL takes no parameters after ?");
    }
    if (r == 0 && pieces->path.len > 1) {
        r = take_db(rlock__bytes(pieces->path.at + 1, pieces->path.len - 1), uri, why);
    }
    return r;
}

static int take_unix(const struct rlock__uri_pieces *pieces, struct rlock__uri *uri,
                     const struct rlock__uri_why *why)
{
    struct rlock__bytes query = pieces->query;
    int r;

    if (pieces->authority.len != 0 || pieces->path.len < 2) {
        return rlock__uri_invalid(
            why, "a unix:// URL needs the absolute path of a socket: unix:///run/redis.sock");
    }
    r = decode(pieces->path, &uri->path, why);
    if (r == 0 && strlen(uri->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        r = rlock__uri_invalid(why, "the socket's path is too long");
    }
    if (r != 0 || !pieces->has_query) {
        return r;
    }
    if (query.len < 3 || memcmp(query.at, "db=", 3) != 0) {
        return rlock__uri_invalid(why, "the only parameter of a unix:// URL is db=number");
    }
    return take_db(rlock__bytes(query.at + 3, query.len - 3), uri, why);
}

static int parse(const char *url, struct rlock__uri *uri, const struct rlock__uri_why *why)
{
    struct rlock__uri_pieces pieces = {0};
    int r = rlock__uri_split(url, &pieces, why);

    if (r == 0 && pieces.scheme->kind == RLOCK__URI_LATER) {
        return rlock__uri_fail(why, RLOCK_ENOTSUP, "Sentinel and cluster are not supported yet");
    }
    if (r == 0) {
        uri->tls = pieces.scheme->tls;
        r = take_login(&pieces, uri, why);
    }
    if (r != 0) {
        return r;
    }
    return pieces.scheme->kind == RLOCK__URI_UNIX ? take_unix(&pieces, uri, why)
                                                  : take_tcp(&pieces, uri, why);
}

int rlock__uri_parse(const char *url, struct rlock__uri *ret_uri, char *err, size_t err_size)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    int r = parse(url, &uri, &(struct rlock__uri_why){err, err_size});

    if (r != 0) {
        rlock__uri_fini(&uri);
        return r;
    }
    *ret_uri = uri;
    return 0;
}

/* ---- For texts ---- */

/* Writes "user:***@", or less. */
static void write_login(const struct rlock__uri *uri, char *out, size_t size)
{
    char user[64] = "";

    if (uri->user != NULL) {
        (void)rlock__text(rlock__bytes_of(uri->user), user, sizeof(user));
    }
    (void)snprintf(out, size, "%s%s%s", user, uri->password != NULL ? ":***" : "",
                   uri->user != NULL || uri->password != NULL ? "@" : "");
}

static void write_redacted(const char *scheme, const struct rlock__uri *uri, char *out, size_t size)
{
    char login[80], path[256];

    write_login(uri, login, sizeof(login));
    if (uri->path != NULL) {
        (void)rlock__text(rlock__bytes_of(uri->path), path, sizeof(path));
        int n = snprintf(out, size, "%s://%s%s", scheme, login, path);

        if (uri->db != 0 && n > 0 && (size_t)n < size) {
            (void)snprintf(out + n, size - (size_t)n, "?db=%d", uri->db);
        }
    } else if (strchr(uri->host, ':') != NULL) {
        (void)snprintf(out, size, "%s://%s[%s]:%d/%d", scheme, login, uri->host, uri->port,
                       uri->db);
    } else {
        (void)snprintf(out, size, "%s://%s%s:%d/%d", scheme, login, uri->host, uri->port, uri->db);
    }
}

const char *rlock__uri_redacted(const char *url, char *out, size_t size)
{
    const struct rlock__uri_scheme *scheme = rlock__uri_scheme(url);
    struct rlock__uri uri = RLOCK__URI_NULL;
    char why[8];

    if (scheme != NULL && rlock__uri_parse(url, &uri, why, sizeof(why)) == 0) {
        write_redacted(scheme->name, &uri, out, size);
        rlock__uri_fini(&uri);
    } else {
        (void)snprintf(out, size, "%s://***", scheme != NULL ? scheme->name : "?");
    }
    return out;
}

void rlock__uri_fini(struct rlock__uri *uri)
{
    if (uri->password != NULL) {
        explicit_bzero(uri->password, strlen(uri->password));
    }
    free(uri->host);
    free(uri->path);
    free(uri->user);
    free(uri->password);
    *uri = RLOCK__URI_NULL;
}
