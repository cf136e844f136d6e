/* SPDX-License-Identifier: Apache-2.0 */
#include "terminal.h"

#include <fcntl.h>
#include <unistd.h>

void cli_terminal_open(struct cli_terminal *terminal)
{
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal->has_modes = terminal->fd >= 0 && tcgetattr(terminal->fd, &terminal->modes) == 0;
}

bool cli_terminal_is_ours(const struct cli_terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

bool cli_terminal_is_lent(const struct cli_terminal *terminal, pid_t group)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == group;
}

void cli_terminal_lend(const struct cli_terminal *terminal, pid_t group)
{
    (void)tcsetpgrp(terminal->fd, group);
}

void cli_terminal_take_back(const struct cli_terminal *terminal, pid_t group, bool modes_too)
{
    if (!cli_terminal_is_lent(terminal, group)) {
        return;
    }
    (void)tcsetpgrp(terminal->fd, getpgrp());
    if (modes_too && terminal->has_modes) {
        (void)tcsetattr(terminal->fd, TCSADRAIN, &terminal->modes);
    }
}

void cli_terminal_close(struct cli_terminal *terminal)
{
    if (terminal->fd >= 0) {
        (void)close(terminal->fd);
        terminal->fd = -1;
    }
}
