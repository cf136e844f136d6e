/* SPDX-License-Identifier: Apache-2.0 */
/* Lines for the log, and how many there may be in a second. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#include "lock/common.h"

/* Lines of each level in a second. Calls that find their locks free may use half of them, so that
 * many such calls leave room for lines about the others. */
#define LINES 200
#define ROUTINE_LINES (LINES / 2)

#define ABOUT_LOG rlock__about("log", NULL, 0)

void rlock__note(struct rlock__core *core, int level, struct rlock__about about, const char *format,
                 ...)
{
    struct rlock__note *note;
    va_list args;

    assert(level >= RLOCK_LOG_ERROR && level <= RLOCK_LOG_DEBUG);
    if (level > core->opts.log_level) {
        return;
    }
    note = calloc(1, sizeof(*note));
    if (note == NULL) {
        return; /* a log line is not worth failing for */
    }
    note->level = level;
    note->code = about.code;
    note->subject = about.subject;
    (void)snprintf(note->server, sizeof(note->server), "%s",
                   about.server != NULL ? about.server : "");
    va_start(args, format);
    (void)vsnprintf(note->text, sizeof(note->text), format, args);
    va_end(args);
    DL_APPEND(core->notes, note);
}

void rlock__log_left_out(struct rlock__core *core)
{
    for (int level = RLOCK_LOG_ERROR; level <= RLOCK_LOG_DEBUG; level++) {
        struct rlock__log_quota *quota = &core->log_quotas[level];

        if (quota->left_out > 0) {
            rlock__note(core, level, ABOUT_LOG,
                        "%u lines of this level were left out within a second", quota->left_out);
        }
        *quota = (struct rlock__log_quota){0};
    }
}

static void on_second(struct rlock__timer *timer, int64_t now)
{
    (void)now;
    rlock__log_left_out(RLOCK__OF(struct rlock__core, log_second, timer));
}

bool rlock__log_may(struct rlock__core *core, int level, bool routine, int64_t now)
{
    struct rlock__log_quota *quota = &core->log_quotas[level];

    assert(level >= RLOCK_LOG_ERROR && level <= RLOCK_LOG_DEBUG);
    assert(quota->lines <= LINES);
    if (core->opts.logs_all) {
        return true;
    }
    if (!core->log_second.set) {
        core->log_second.fire = on_second;
        rlock__timer_set(&core->timers, &core->log_second, now + RLOCK__SECOND);
    } else if (now >= core->log_second.at) { /* no event has fired the timer yet */
        rlock__log_left_out(core);
        rlock__timer_set(&core->timers, &core->log_second, now + RLOCK__SECOND);
    }
    assert(core->log_second.set); /* the lines that are left out are reported then */
    if (quota->lines >= (routine ? ROUTINE_LINES : LINES)) {
        quota->left_out++;
        return false;
    }
    quota->lines++;
    return true;
}

void rlock__log_event(struct rlock__core *core, int level, struct rlock__about about, int64_t now,
                      const char *format, ...)
{
    char text[RLOCK__DETAIL_SIZE];
    va_list args;

    if (level <= core->opts.log_level && rlock__log_may(core, level, false, now)) {
        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        rlock__note(core, level, about, "%s", text);
    }
}
