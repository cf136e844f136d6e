/* SPDX-License-Identifier: Apache-2.0 */
/* The controlling terminal, lent to the command's process group while that runs. SIGTTOU must be
 * blocked. */
#ifndef RLOCK_CLI_TERMINAL_H
#define RLOCK_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct cli_terminal {
    int fd; /* -1: there is none */
    bool has_modes;
    struct termios modes; /* as they were before the command */
};

#define CLI_TERMINAL_NULL                                                                          \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* Opens /dev/tty, if there is one. */
void cli_terminal_open(struct cli_terminal *terminal);

/* Whether our process group has the terminal, and so may lend it. */
bool cli_terminal_is_ours(const struct cli_terminal *terminal);

/* Whether `group` has it. */
bool cli_terminal_is_lent(const struct cli_terminal *terminal, pid_t group);

/* Makes `group` the foreground group. Async-signal-safe. */
void cli_terminal_lend(const struct cli_terminal *terminal, pid_t group);

/* Takes the terminal back if `group` still has it; with its old modes too if the group's end left
 * them to us. */
void cli_terminal_take_back(const struct cli_terminal *terminal, pid_t group, bool modes_too);

/* Closes it. */
void cli_terminal_close(struct cli_terminal *terminal);

#endif
