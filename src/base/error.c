/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
    int code;
    char detail[RLOCK__DETAIL_SIZE];
    struct rlock__facts facts;
} last;

void rlock__detail(const char *format, ...)
{
    char text[sizeof(last.detail)]; /* which may repeat what the detail is now */
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    memcpy(last.detail, text, strlen(text) + 1);
}

int rlock__failed(int code, const struct rlock__facts *facts)
{
    last.code = code;
    if (facts != NULL) {
        last.facts = *facts;
        return code;
    }
    last.facts.reason = 0;
    last.facts.free_at = 0;
    last.facts.holder[0] = last.facts.server[0] = '\0';
    return code;
}

void rlock__detail_clear(void)
{
    last.detail[0] = '\0';
    last.code = 0;
}

int rlock__last_code(void)
{
    return last.code;
}

const struct rlock__facts *rlock__last_facts(void)
{
    return &last.facts;
}

const char *rlock_detail(void)
{
    return last.detail;
}

const char *rlock_strerror(int code)
{
    switch (code) {
#define TEXT(name, number, text)                                                                   \
    case number:                                                                                   \
        return text;
        RLOCK_CODES(TEXT)
#undef TEXT
    default:
        return "unknown code";
    }
}

const char *rlock_code_name(int code)
{
    switch (code) {
#define NAME(name, number, text)                                                                   \
    case number:                                                                                   \
        return #name;
        RLOCK_CODES(NAME)
#undef NAME
    default:
        return "unknown";
    }
}

const char *rlock_reason_text(int reason)
{
    static const char *const texts[] = {
        [RLOCK_LOST_EXPIRED] = "expired",
        [RLOCK_LOST_TAKEN] = "taken",
        [RLOCK_LOST_DELETED] = "deleted",
        [RLOCK_LOST_NOT_REPLICATED] = "not replicated",
        [RLOCK_LOST_CLOCK_STEPPED] = "clock stepped",
        [RLOCK_LOST_FORKED] = "forked",
        [RLOCK_LOST_CLOSED] = "closed",
        [RLOCK_LOST_THREAD_EXITED] = "thread exited",
        [RLOCK_LOST_FORCED] = "forced",
        [RLOCK_LOST_RESTARTED] = "server restarted",
        [RLOCK_LOST_OWNER_ENDED] = "owner ended",
    };
    const size_t i = (size_t)reason;

    return i < sizeof(texts) / sizeof(texts[0]) && texts[i] != NULL ? texts[i] : "unknown";
}

const char *rlock_version(void)
{
    return RLOCK_VERSION;
}
