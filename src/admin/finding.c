/* SPDX-License-Identifier: Apache-2.0 */
/* Reports findings, in the words that the parts of a diagnosis share. */
#include "admin/diagnosis.h"

#include <stdarg.h>
#include <stdio.h>

#include "wire/errors.h"

void rlock__finding_with(struct rlock__diagnosis *d, int level, int code, const char *subject,
                         const char *format, ...)
{
    char text[RLOCK__DETAIL_SIZE + 200];
    const struct rlock_finding finding = {.size = sizeof(finding),
                                          .server = d->node != NULL ? d->node->address : "",
                                          .subject = subject,
                                          .text = text,
                                          .level = level,
                                          .code = code};
    size_t len = 0;
    va_list args;

    va_start(args, format);
    if (d->about != NULL) {
        len = (size_t)snprintf(text, sizeof(text), "%.200s: ", d->about);
    }
    (void)vsnprintf(text + len, sizeof(text) - len, format, args);
    va_end(args);
    d->fn(&finding, d->payload);
}

void rlock__prevented(struct rlock__diagnosis *d, const char *subject, int code)
{
    rlock__finding_with(d, RLOCK_LOG_ERROR, code, subject, "%s: %s", rlock_strerror(code),
                        rlock_detail());
    d->code = d->code == 0 ? code : d->code;
}

const char *rlock__refused_how(const struct rlock__reply *reply)
{
    return rlock__error_is(reply, RLOCK__LACKING) ? "is not supported by the server"
                                                  : "is not permitted";
}

int64_t rlock__setting_number(struct rlock__diagnosis *d, const char *name, int64_t none)
{
    struct rlock__reply reply;

    return rlock__asker_words(&d->asker, &reply, "CONFIG", "GET", name, NULL) == 0
               ? rlock__bytes_number(rlock__reply_str(&reply, 1), none)
               : none;
}

bool rlock__announces_sharded(const struct rlock__diagnosis *d)
{
    bool is_sharded;

    rlock__core_mutex_lock(&d->client->mutex);
    is_sharded = rlock__server_is_sharded(&d->node->server);
    rlock__core_mutex_unlock(&d->client->mutex);
    return is_sharded;
}
