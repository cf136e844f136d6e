/* SPDX-License-Identifier: Apache-2.0 */
#include "net/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/bytes.h"
#include "base/error.h"

#define HOST_MAX 253 /* of a name in the DNS */
#define DB_MAX 1000000

static int wrong(const char *why)
{
    return rlock__fail(RLOCK_EINVAL, "%s", why);
}

/* ---- A URL in pieces; each is followed by the rest of the URL, and its NUL ---- */

struct scheme {
    const char *name;
    enum { TCP, UNIX, CLUSTER, SENTINEL } kind;
    bool tls;
};

static const struct scheme schemes[] = {
    {"redis", TCP, false},
    {"rediss", TCP, true},
    {"unix", UNIX, false},
    {"redis+sentinel", SENTINEL, false},
    {"rediss+sentinel", SENTINEL, true},
    {"redis+cluster", CLUSTER, false},
    {"rediss+cluster", CLUSTER, true},
};

/* Still encoded, and borrowed from the URL. */
struct pieces {
    const struct scheme *scheme;
    bool has_query;
    struct rlock__bytes user, password, authority, path, query;
};

/* Takes what stands before the first of some bytes off text; all of it where there is none. */
static struct rlock__bytes take_until(struct rlock__bytes *text, const char *stops)
{
    size_t len = strcspn(text->at, stops);
    struct rlock__bytes head = rlock__bytes(text->at, len < text->len ? len : text->len);

    text->at += head.len;
    text->len -= head.len;
    return head;
}

static struct rlock__bytes behind(struct rlock__bytes text, size_t n)
{
    return rlock__bytes(text.at + n, text.len - n);
}

/* Takes the scheme off the URL; NULL where it is none that is known. */
static const struct scheme *take_scheme(struct rlock__bytes *url)
{
    const struct rlock__bytes name = take_until(url, ":");

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strlen(schemes[i].name) == name.len &&
            strncasecmp(schemes[i].name, name.at, name.len) == 0) {
            return &schemes[i];
        }
    }
    return NULL;
}

/* Splits "user:password@" off; at the last @, since a host has none. */
static void take_user_info(struct pieces *pieces)
{
    const char *at = memrchr(pieces->authority.at, '@', pieces->authority.len);
    struct rlock__bytes info = pieces->authority;

    if (at == NULL) {
        return;
    }
    info.len = (size_t)(at - info.at);
    pieces->authority = behind(pieces->authority, info.len + 1);
    pieces->user = take_until(&info, ":");
    if (info.len != 0) {
        pieces->password = behind(info, 1);
    }
}

static int split(struct rlock__bytes rest, struct pieces *pieces)
{
    pieces->scheme = take_scheme(&rest);
    if (pieces->scheme == NULL || rest.len < 3 || memcmp(rest.at, "://", 3) != 0) {
        return wrong("a URL begins with redis://, rediss://, unix://, redis+cluster:// or "
                     "redis+sentinel://");
    }
    rest = behind(rest, 3);
    if (memchr(rest.at, '#', rest.len) != NULL) {
        return wrong("a # in a URL must be written as %23");
    }
    pieces->authority = take_until(&rest, "/?");
    pieces->path = take_until(&rest, "?");
    pieces->has_query = rest.len != 0;
    if (pieces->has_query) {
        pieces->query = behind(rest, 1);
    }
    take_user_info(pieces);
    return 0;
}

/* ---- The pieces decoded ---- */

/* Writes the decoded text, its NUL included; returns false where a % is not followed by the two
 * digits of a byte, or where that would end the text early. */
static bool decode_into(struct rlock__bytes text, char *out)
{
    for (size_t i = 0; i < text.len; i++) {
        char digits[3] = "";

        *out = text.at[i];
        if (*out == '%') {
            if (strspn(&text.at[i + 1], "0123456789abcdefABCDEF") < 2) {
                return false;
            }
            memcpy(digits, &text.at[i + 1], 2);
            *out = (char)strtol(digits, NULL, 16);
            i += 2;
        }
        if (*out++ == '\0') {
            return false;
        }
    }
    *out = '\0';
    return true;
}

static int decode(struct rlock__bytes text, char **ret_text)
{
    char *out = malloc(text.len + 1);

    if (out == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    if (!decode_into(text, out)) {
        explicit_bzero(out, text.len + 1);
        free(out);
        return wrong("a % in a URL must be followed by two hexadecimal digits, not 00");
    }
    *ret_text = out;
    return 0;
}

/* A number of digits alone; -1 where it is none. */
static int64_t number(struct rlock__bytes text)
{
    return strspn(text.at, "0123456789") < text.len ? -1 : rlock__bytes_number(text, -1);
}

static int take_db(struct rlock__bytes text, struct rlock__uri *uri)
{
    int64_t db = number(text);

    if (db < 0 || db > DB_MAX) {
        return wrong("the database must be a number");
    }
    uri->db = (int)db;
    return 0;
}

static int take_login(const struct pieces *pieces, struct rlock__uri *uri)
{
    int code = pieces->user.len != 0 ? decode(pieces->user, &uri->user) : 0;

    return code == 0 && pieces->password.len != 0 ? decode(pieces->password, &uri->password) : code;
}

static int check_host(const char *host)
{
    static const char legal[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:%";
    size_t len = strlen(host);

    if (len == 0) {
        return wrong("the host is missing");
    }
    return len <= HOST_MAX && strspn(host, legal) == len ? 0 : wrong("the host is no host name");
}

/* Takes "host" or "[address]" off the authority. */
static int take_host(struct rlock__bytes *authority, struct rlock__bytes *ret_host)
{
    if (authority->len != 0 && authority->at[0] == '[') {
        *authority = behind(*authority, 1);
        *ret_host = take_until(authority, "]");
        if (authority->len == 0 || memchr(ret_host->at, ':', ret_host->len) == NULL) {
            return wrong("in brackets there must be an IPv6 address");
        }
        *authority = behind(*authority, 1);
        return 0;
    }
    *ret_host = take_until(authority, ":");
    if (authority->len != 0 && memchr(authority->at + 1, ':', authority->len - 1) != NULL) {
        return wrong("an IPv6 address must stand in brackets; a : in a password as %3A");
    }
    return 0;
}

/* Without one the URI keeps its own. */
static int take_port(struct rlock__bytes text, struct rlock__uri *uri)
{
    int64_t port = text.len == 0 ? uri->port : text.at[0] == ':' ? number(behind(text, 1)) : -1;

    if (port < 1 || port > 65535) {
        return wrong("the port must be a number from 1 to 65535; in a user or password, "
                     "/ must be written as %2F, ? as %3F");
    }
    uri->port = (uint16_t)port;
    return 0;
}

/* Takes "host[:port]". */
static int take_place(struct rlock__bytes place, struct rlock__uri *uri)
{
    struct rlock__bytes host = rlock__bytes("", 0);
    int code = take_host(&place, &host);

    code = code == 0 ? take_port(place, uri) : code;
    code = code == 0 ? decode(host, &uri->host) : code;
    return code == 0 ? check_host(uri->host) : code;
}

/* Takes "host[:port],host[:port]". */
static int take_places(struct rlock__bytes rest, uint16_t port, struct rlock__uri *uri)
{
    size_t most = 1;
    int code = 0;

    for (size_t i = 0; i < rest.len; i++) {
        most += rest.at[i] == ',';
    }
    uri->places = calloc(most, sizeof(*uri->places));
    if (uri->places == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    while (code == 0 && uri->n_places < most) {
        struct rlock__uri *place = &uri->places[uri->n_places++];

        *place = (struct rlock__uri){.tls = uri->tls, .port = port};
        code = take_place(rlock__take_word(&rest, ','), place);
    }
    return code;
}

static int take_cluster(const struct pieces *pieces, struct rlock__uri *uri)
{
    if (pieces->has_query || pieces->path.len > 1) {
        return wrong("a cluster has one database, and its URL takes no parameters");
    }
    uri->cluster = true;
    return take_places(pieces->authority, RLOCK__URI_PORT, uri);
}

static int take_sentinel(const struct pieces *pieces, struct rlock__uri *uri)
{
    struct rlock__bytes path = pieces->path, name;
    int code;

    (void)rlock__take_word(&path, '/');
    name = rlock__take_word(&path, '/');
    if (pieces->has_query || name.len == 0) {
        return wrong("behind the Sentinels stands the name of their primary, and nothing behind ?: "
                     "redis+sentinel://host:26379,host:26379/mymaster");
    }
    code = decode(name, &uri->primary);
    code = code == 0 && path.len != 0 ? take_db(path, uri) : code;
    return code == 0 ? take_places(pieces->authority, RLOCK__URI_SENTINEL_PORT, uri) : code;
}

static int take_tcp(const struct pieces *pieces, struct rlock__uri *uri)
{
    int code = take_place(pieces->authority, uri);

    if (code == 0 && pieces->has_query) {
        return wrong("a redis:// or rediss:// URL takes no parameters after ?");
    }
    return code == 0 && pieces->path.len > 1 ? take_db(behind(pieces->path, 1), uri) : code;
}

static int take_unix(const struct pieces *pieces, struct rlock__uri *uri)
{
    struct rlock__bytes query = pieces->query;
    int code;

    if (pieces->authority.len != 0 || pieces->path.len < 2) {
        return wrong("a unix:// URL needs the absolute path of a socket: unix:///run/redis.sock");
    }
    code = decode(pieces->path, &uri->path);
    if (code == 0 && strlen(uri->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        return wrong("the socket's path is too long");
    }
    if (code != 0 || !pieces->has_query) {
        return code;
    }
    if (query.len < 3 || memcmp(query.at, "db=", 3) != 0) {
        return wrong("the only parameter of a unix:// URL is db=number");
    }
    return take_db(behind(query, 3), uri);
}

static int parse(const char *url, struct rlock__uri *uri)
{
    static int (*const take[])(const struct pieces *pieces, struct rlock__uri *uri) = {
        [TCP] = take_tcp, [UNIX] = take_unix, [CLUSTER] = take_cluster, [SENTINEL] = take_sentinel};
    struct pieces pieces = {0};
    int code = split(rlock__bytes_of(url), &pieces);

    code = code == 0 ? take_login(&pieces, uri) : code;
    if (code != 0) {
        return code;
    }
    uri->tls = pieces.scheme->tls;
    return take[pieces.scheme->kind](&pieces, uri);
}

int rlock__uri_parse(const char *url, struct rlock__uri *ret_uri)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    int code = parse(url, &uri);

    if (code == 0) {
        *ret_uri = uri;
    } else {
        rlock__uri_fini(&uri);
    }
    return code;
}

const char *rlock__uri_scheme(const char *url)
{
    struct rlock__bytes rest = rlock__bytes_of(url);
    const struct scheme *scheme = take_scheme(&rest);

    return scheme != NULL ? scheme->name : NULL;
}

bool rlock__uri_place(const struct rlock__uri *uri, struct rlock__uri *ret_uri)
{
    *ret_uri = (struct rlock__uri){.tls = uri->tls, .port = uri->port, .db = uri->db};
    ret_uri->host = uri->host != NULL ? strdup(uri->host) : NULL;
    ret_uri->path = uri->path != NULL ? strdup(uri->path) : NULL;
    if ((ret_uri->host == NULL) != (uri->host == NULL) ||
        (ret_uri->path == NULL) != (uri->path == NULL)) {
        rlock__uri_fini(ret_uri);
        return false;
    }
    return true;
}

void rlock__uri_fini(struct rlock__uri *uri)
{
    if (uri->password != NULL) {
        explicit_bzero(uri->password, strlen(uri->password));
    }
    for (size_t i = 0; i < uri->n_places; i++) {
        free(uri->places[i].host);
    }
    free(uri->places);
    free(uri->primary);
    free(uri->host);
    free(uri->path);
    free(uri->user);
    free(uri->password);
    *uri = RLOCK__URI_NULL;
}
