/* SPDX-License-Identifier: Apache-2.0 */
#include "say.h"

#include "secret.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MOST 1000

int cli_exit_of(int code)
{
    switch (code) {
    case RLOCK_OK:
        return CLI_EXIT_OK;
    case RLOCK_EINVAL:
    case RLOCK_ENOTSUP:
        return CLI_EXIT_USAGE;
    case RLOCK_EWRONGTYPE:
    case RLOCK_EPERM:
    case RLOCK_EREFUSED:
    case RLOCK_EAUTH:
    case RLOCK_ETLS:
        return CLI_EXIT_REFUSED;
    case RLOCK_ECONN:
    case RLOCK_EINDOUBT:
    case RLOCK_ENOQUORUM:
    case RLOCK_ERESTARTED:
    case RLOCK_ENOTREPLICATED:
        return CLI_EXIT_UNREACHABLE;
    case RLOCK_ELOST:
        return CLI_EXIT_LOST;
    case RLOCK_EBUSY:
        return CLI_EXIT_BUSY;
    case RLOCK_ETIMEDOUT:
        return CLI_EXIT_TIMED_OUT;
    default:
        return CLI_EXIT_OWN;
    }
}

/* Formats a text that is fit to be shown; NULL without memory. */
__attribute__((format(printf, 1, 0))) static char *make_text(const char *format, va_list args)
{
    char *text;

    if (vasprintf(&text, format, args) < 0) {
        return NULL;
    }
    cli_text_redact(text);
    return text;
}

/* One write, so that lines of several processes do not mix. */
static void put_line(const char *name, const char *text)
{
    char *line = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&line, &len);

    if (out == NULL) {
        return;
    }
    (void)fputs("rlock: ", out);
    if (name != NULL) {
        (void)cli_put_name(out, name, strlen(name));
        (void)fputs(": ", out);
    }
    (void)cli_put_text(out, text, strnlen(text, TEXT_MOST));
    (void)fputc('\n', out);
    if (fclose(out) == 0) {
        (void)fputs(line, stderr);
    }
    free(line);
}

void cli_say(const struct cli_options *opts, const char *name, const char *format, ...)
{
    va_list args;
    char *text;

    if (opts->quiet) {
        return;
    }
    va_start(args, format);
    text = make_text(format, args);
    va_end(args);
    if (text != NULL) {
        put_line(name, text);
        free(text);
    }
}

/* Returns what follows "NAME: " in the text, which may show the name escaped and cut; NULL where it
 * does not begin so. */
static const char *behind_name(const char *text, const char *name)
{
    const char *at = text;
    char escaped[8];

    for (; *name != '\0'; name++) {
        const size_t len =
            (size_t)snprintf(escaped, sizeof(escaped),
                             *name >= ' ' && *name < 127 ? "%c" : "\\x%02x", (unsigned char)*name);

        if (strncmp(at, escaped, len) != 0) {
            break;
        }
        at += len;
    }
    if (*name != '\0' && strncmp(at, "...", 3) == 0) {
        at += 3;
    } else if (*name != '\0') {
        return NULL;
    }
    return strncmp(at, ": ", 2) == 0 ? at + 2 : NULL;
}

/* Puts `by` in place of a part of the text, if it is there. */
static void replace(char *text, size_t size, const char *part, const char *by)
{
    char *at = strstr(text, part);
    char rest[TEXT_MOST];

    if (at != NULL) {
        (void)snprintf(rest, sizeof(rest), "%s", at + strlen(part));
        (void)snprintf(at, size - (size_t)(at - text), "%s%s", by, rest);
    }
}

void cli_speak(char *text, size_t size)
{
    replace(text, size, "acks = RLOCK_ACKS_OFF", "--acks off");
}

const char *cli_reason(const struct cli_options *opts, const char *name, int code)
{
    static _Thread_local char text[TEXT_MOST];
    const char *detail = rlock_detail();
    const char *reason = NULL;
    char *said;

    if (name != NULL && strncmp(detail, "lock ", 5) == 0) { /* the name is said already */
        reason = behind_name(detail + 5, name);
    }
    reason = reason != NULL ? reason : detail;
    (void)snprintf(text, sizeof(text), "%s", reason[0] != '\0' ? reason : rlock_strerror(code));
    cli_speak(text, sizeof(text));
    said = strstr(text, " said: ");
    if (said != NULL && !opts->verbose) { /* the plain words before it are enough */
        (void)snprintf(said, sizeof(text) - (size_t)(said - text), ")");
    }
    return text;
}

void cli_reason_with_server(const struct cli_options *opts, const char *name, int code,
                            char *ret_text, size_t size)
{
    const char *reason = cli_reason(opts, name, code);

    if (strstr(reason, "server ") != NULL) {
        (void)snprintf(ret_text, size, "%s", reason);
    } else {
        (void)snprintf(ret_text, size, "%s (server %s)", reason, opts->server);
    }
}

int cli_fail(const struct cli_options *opts, const char *name, int code)
{
    char text[2 * TEXT_MOST];

    cli_reason_with_server(opts, name, code, text, sizeof(text));
    cli_say(opts, name, "%s", text);
    return cli_exit_of(code);
}

int cli_usage(const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = make_text(format, args);
    va_end(args);
    if (text != NULL) {
        put_line(NULL, text);
        free(text);
    }
    (void)fputs("Try 'rlock --help'.\n", stderr);
    return CLI_EXIT_USAGE;
}
