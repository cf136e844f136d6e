/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, one line each on standard error, and exit statuses. */
#ifndef RLOCK_CLI_SAY_H
#define RLOCK_CLI_SAY_H

#include "options.h"

/* What the command exits with when it is not the child's own status. */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_USAGE = 64,
    CLI_EXIT_REFUSED = 65,
    CLI_EXIT_UNREACHABLE = 69,
    CLI_EXIT_LOST = 122,
    CLI_EXIT_BUSY = 123,
    CLI_EXIT_TIMED_OUT = 124,
    CLI_EXIT_OWN = 125,
    CLI_EXIT_NOT_EXECUTABLE = 126,
    CLI_EXIT_NOT_FOUND = 127,
    CLI_EXIT_SIGNAL = 128 /* and the signal's number */
};

/* Returns the exit status for a library's code. */
int cli_exit_of(int code);

/*
 * Says "rlock: NAME: text"; name may be NULL. Control characters are escaped and passwords hidden,
 * wherever the text came from. Silent with --quiet.
 */
void cli_say(const struct cli_options *opts, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Says why the library's last call on `name` (may be NULL) failed, and returns the exit status for
 * its code. */
int cli_fail(const struct cli_options *opts, const char *name, int code);

/* Returns why the library's last call on `name` (may be NULL) failed. The server's own words are
 * left out unless --verbose. Valid until the thread's next call of this. */
const char *cli_reason(const struct cli_options *opts, const char *name, int code);

/* Writes the reason as cli_fail() says it, with the server. */
void cli_reason_with_server(const struct cli_options *opts, const char *name, int code,
                            char *ret_text, size_t size);

/* Has a text of the library's call options by their names here. */
void cli_speak(char *text, size_t size);

/* Says what is wrong with the command line, also with --quiet; returns 64. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
