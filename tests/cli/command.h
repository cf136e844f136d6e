/* SPDX-License-Identifier: Apache-2.0 */
/* The rlock command as a child of a test, with its output in files, and the server that it uses.
 * Threads: one at a time. */
#ifndef RLOCK_TEST_COMMAND_H
#define RLOCK_TEST_COMMAND_H

#include "support/fixture.h"

struct command {
    pid_t pid;
    int64_t began_us;
    char out[128]; /* files */
    char err[128];
};

/* The binary under test: $RLOCK_COMMAND, else rlock beside this executable or above it. */
const char *command_binary(void);

/* Starts the command with these words, ended by NULL; $RLOCK_URL is what the test has set. */
struct command command_start(const char *const *words);

/* The words "run", "a", … */
#define COMMAND(...) command_start((const char *const[]){__VA_ARGS__, NULL})

/* Starts a script of the shell, with the binary in $RLOCK and the test's directory in $DIR. */
struct command script_start(const char *script);

/* Starts it as the leader of a session with a terminal of its own; the master's end goes to
 * *ret_master. */
struct command command_start_on_terminal(const char *const *words, int *ret_master);

/* The same for a script. */
struct command script_start_on_terminal(const char *script, int *ret_master);

/* Waits for its end: the exit status, 128 + signal, or -1 after killing it at the deadline. A
 * server has one second for its answer: if the machine took much of that, what fails is run again.
 */
int command_wait(const struct command *command, int64_t timeout_ms);

/* Starts, waits up to 10 s and returns the exit status. */
#define COMMAND_STATUS(...) command_status(COMMAND(__VA_ARGS__))
int command_status(struct command command);

/* Waits for its end, which must be a success, and gets the one line that it has printed. */
#define COMMAND_TEXT 256
void command_text(struct command command, char out[static COMMAND_TEXT]);

/* Reads a file; "" when there is none. Valid until the fourth call from now. */
const char *file_text(const char *path);

/* A path in the test's directory. Valid as above. */
const char *in_dir(const char *name);

/* Waits until the file holds a number on a line, and returns it: how a child tells its pid. */
pid_t pid_in_file(const char *path);

/* Whether there is such a process that is not a zombie. */
bool process_lives(pid_t pid);

/* ---- the server that the commands use: $RLOCK_URL ---- */

/* That of the test which runs. */
extern struct fixture fixture;

void command_open(const struct fixture_opts *opts);
/* A test with a server on a unix socket; with other options of its fixture. */
#define COMMAND_TEST(name) COMMAND_WITH_TEST(name, .server.transport = TEST_UNIX)
#define COMMAND_WITH_TEST(name, ...)                                                               \
    static void name(void);                                                                        \
    TEST_LIST(name, NULL, NULL)                                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        command_open(&(struct fixture_opts){__VA_ARGS__});                                         \
        name();                                                                                    \
        fixture_drop(&fixture);                                                                    \
    }                                                                                              \
    static void name(void)

/* Another server instead, with these lines in its configuration. */
void command_restart(const char *const *conf);

bool is_held(const char *name);
/* Whether a client waits for the lock. */
bool is_waited_for(const char *name);

/* The server's unix URL with this userinfo. Valid until the next call. */
const char *url_with(const char *userinfo);

/* Starts a command that holds "a" until it is ended; its child's pid stands in the file "pid". */
struct command hold_a(const char *renewed_lease);

/* Ends a command whose child sleeps. */
void end_command(const struct command *command);

/* Fails unless the command with these words ends with 0, and its output has this text. */
#define assert_command_says(text, ...) assert_says((const char *const[]){__VA_ARGS__, NULL}, text)
void assert_says(const char *const *words, const char *text);

void write_file(const char *path, const char *text, mode_t mode);

/* Whether the text is one JSON value per line and nothing else. */
bool is_json_lines(const char *text);

#endif
