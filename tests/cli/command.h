/* SPDX-License-Identifier: Apache-2.0 */
/* The rlock command as a child of a test, with its output in files. Threads: one at a time. */
#ifndef RLOCK_TEST_COMMAND_H
#define RLOCK_TEST_COMMAND_H

#include "support/run.h"

struct command {
    pid_t pid;
    char out[128]; /* files */
    char err[128];
};

/* Starts the command with these words, ended by NULL; $RLOCK_URL is what the test has set. */
struct command command_start(const char *const *words);

/* The words "run", "a", … */
#define COMMAND(...) command_start((const char *const[]){__VA_ARGS__, NULL})

/* Starts it as the leader of a session with a terminal of its own; the master's end goes to
 * *ret_master. */
struct command command_start_on_terminal(const char *const *words, int *ret_master);

/* Waits for its end: the exit status, 128 + signal, or -1 after killing it at the deadline. */
int command_wait(const struct command *command, int64_t timeout_ms);

/* Starts, waits up to 10 s and returns the exit status. */
#define COMMAND_STATUS(...) command_status(COMMAND(__VA_ARGS__))
int command_status(struct command command);

/* Reads a file; "" when there is none. Valid until the fourth call from now. */
const char *file_text(const char *path);

/* A path in the test's directory. Valid as above. */
const char *in_dir(const char *name);

/* Waits until the file holds a number on a line, and returns it: how a child tells its pid. */
pid_t pid_in_file(const char *path);

/* Whether there is such a process that is not a zombie. */
bool process_lives(pid_t pid);

/* Whether the text is one JSON value per line and nothing else. */
bool is_json_lines(const char *text);

#endif
