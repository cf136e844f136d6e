/* SPDX-License-Identifier: Apache-2.0 */
/* URLs as texts show them: without their secrets. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "net/uri.h"

void rlock__uri_address(const struct rlock__uri *place, char *out, size_t size)
{
    const bool bare = strchr(place->host, ':') == NULL;

    (void)snprintf(out, size, "%s%s%s:%d", bare ? "" : "[", place->host, bare ? "" : "]",
                   place->port);
}

static void write_where(const struct rlock__uri *uri, char *out, size_t size)
{
    char text[256], db[16];

    (void)snprintf(db, sizeof(db), "%d", uri->db);
    if (uri->path != NULL) {
        (void)snprintf(out, size, "%s%s%s",
                       rlock__text(rlock__bytes_of(uri->path), text, sizeof(text)),
                       uri->db != 0 ? "?db=" : "", uri->db != 0 ? db : "");
    } else if (uri->n_places != 0) {
        rlock__uri_address(&uri->places[0], out, size);
        (void)strncat(out, uri->n_places > 1 ? ",..." : "", size - strlen(out) - 1);
    } else {
        rlock__uri_address(uri, out, size);
    }
    if (uri->primary != NULL) {
        (void)rlock__text(rlock__bytes_of(uri->primary), text, sizeof(text));
        (void)snprintf(out + strlen(out), size - strlen(out), "/%s", text);
    }
    if (uri->path == NULL && !uri->cluster) {
        (void)snprintf(out + strlen(out), size - strlen(out), "/%s", db);
    }
}

static void write_redacted(const char *scheme, const struct rlock__uri *uri, char *out, size_t size)
{
    char user[64] = "", where[600] = "";

    if (uri->user != NULL) {
        (void)rlock__text(rlock__bytes_of(uri->user), user, sizeof(user));
    }
    write_where(uri, where, sizeof(where));
    (void)snprintf(out, size, "%s://%s%s%s%s", scheme, user, uri->password != NULL ? ":***" : "",
                   uri->user != NULL || uri->password != NULL ? "@" : "", where);
}

const char *rlock__uri_redacted(const char *url, char *out, size_t size)
{
    const char *scheme = rlock__uri_scheme(url);
    struct rlock__uri uri = RLOCK__URI_NULL;

    if (scheme != NULL && rlock__uri_parse(url, &uri) == 0) {
        write_redacted(scheme, &uri, out, size);
    } else {
        (void)snprintf(out, size, "%s://***", scheme != NULL ? scheme : "?");
    }
    rlock__uri_fini(&uri);
    return out;
}
