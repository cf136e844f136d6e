/* SPDX-License-Identifier: Apache-2.0 */
/* URLs: whatever stands around a password, no text shows it. */
#include <string.h>

#include <rlock/rlock.h>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "net/uri.h"

#define SECRET "S3cr3tS3cr3t"

static void show(const char *url)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    char text[512];

    rlock__detail_clear();
    if (rlock__uri_parse(url, &uri) == 0) {
        text[0] = '\0';
        if (uri.host != NULL) {
            rlock__uri_address(&uri, text, sizeof(text));
        }
        FUZZ_CHECK(uri.password == NULL || strstr(uri.password, SECRET) == NULL ||
                   strstr(text, SECRET) == NULL);
    } else {
        FUZZ_CHECK(rlock_detail()[0] != '\0' && strstr(rlock_detail(), SECRET) == NULL);
    }
    rlock__uri_fini(&uri);
    (void)rlock__uri_scheme(url);
}

/* The redacted text of a URL whose password is the secret. */
static void redact(const char *url)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    bool secret_elsewhere, good = rlock__uri_parse(url, &uri) == 0;
    char text[512];

    secret_elsewhere = good && (uri.password == NULL || strstr(uri.password, SECRET) == NULL);
    FUZZ_CHECK(rlock__uri_redacted(url, text, sizeof(text)) == text);
    FUZZ_CHECK(secret_elsewhere || strstr(text, SECRET) == NULL);
    rlock__uri_fini(&uri);
}

/* The first byte says where in the rest the secret is put. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[1024];
    size_t at;

    /* The secret stands where it is put, and nowhere else. */
    if (size < 1 || size > 900 || memmem(data, size, SECRET, sizeof(SECRET) - 1) != NULL) {
        return 0;
    }
    at = data[0] % size;
    (void)snprintf(url, sizeof(url), "%.*s" SECRET "%.*s", (int)at, (const char *)data + 1,
                   (int)(size - 1 - at), (const char *)data + 1 + at);
    show(url);
    redact(url);
    (void)snprintf(url, sizeof(url), "redis://user:" SECRET "@%.*s", (int)(size - 1),
                   (const char *)data + 1);
    show(url);
    redact(url);
    return 0;
}
