/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char detail[RLOCK__DETAIL_SIZE];

void rlock__detail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);
}

void rlock__detail_clear(void)
{
    detail[0] = '\0';
}

const char *rlock_detail(void)
{
    return detail;
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

const char *rlock_reason_text(enum rlock_reason reason)
{
    switch (reason) {
    case RLOCK_LOST_EXPIRED:
        return "expired";
    case RLOCK_LOST_TAKEN:
        return "taken";
    case RLOCK_LOST_DELETED:
        return "deleted";
    case RLOCK_LOST_NOT_REPLICATED:
        return "not replicated";
    case RLOCK_LOST_CLOCK_STEPPED:
        return "clock stepped";
    case RLOCK_LOST_FORKED:
        return "forked";
    case RLOCK_LOST_CLOSED:
        return "closed";
    case RLOCK_LOST_THREAD_EXITED:
        return "thread exited";
    case RLOCK_LOST_FORCED:
        return "forced";
    case RLOCK_LOST_RESTARTED:
        return "server restarted";
    default:
        return "unknown";
    }
}

const char *rlock_version(void)
{
    return RLOCK_VERSION;
}
