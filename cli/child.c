/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What the child's side needs between vfork and exec, where only async-signal-safe calls are
 * allowed, and nothing of ours may be changed: the memory is the parent's. */
struct start {
    char **argv;
    const struct cli_signals *signals;
    const struct cli_terminal *terminal;
    bool lend_terminal;
    pid_t parent;
    int exec_fd;
};

_Noreturn static void become(const struct start *start)
{
    int error;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != start->parent) { /* it ended before the line above */
        _exit(EXIT_FAILURE);
    }
    if (start->lend_terminal) { /* here and not in the parent, so that it is done before exec */
        cli_terminal_lend(start->terminal, getpid());
    }
    cli_signals_restore(start->signals);
    (void)execvp(start->argv[0], start->argv);
    error = errno;
    (void)!write(start->exec_fd, &error, sizeof(error));
    _exit(EXIT_FAILURE);
}

/* A copy of the memory would only be thrown away. Nothing that posix_spawn() can do lends the
 * terminal and asks for a signal at our end. */
static pid_t start_child(const struct start *start)
{
    const pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

    if (pid == 0) {
        become(start); /* NOLINT(clang-analyzer-unix.Vfork): it does what fork's child may do */
    }
    return pid;
}

int cli_child_start(struct cli_child *child, char **argv, const struct cli_signals *signals)
{
    struct start start = {.argv = argv, .signals = signals, .terminal = &child->terminal};
    int pipe_fds[2];
    int error = 0;

    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) {
        return errno;
    }
    cli_terminal_open(&child->terminal);
    start.lend_terminal = cli_terminal_is_ours(&child->terminal);
    start.parent = getpid();
    start.exec_fd = pipe_fds[1];
    child->pid = start_child(&start);
    if (child->pid < 0) {
        error = errno;
    } else {
        (void)setpgid(child->pid, child->pid); /* the child does so too: whoever comes first */
    }
    (void)close(pipe_fds[1]);
    child->exec_fd = pipe_fds[0];
    return error;
}

void cli_child_signal(const struct cli_child *child, int signo)
{
    (void)kill(-child->pid, signo);
}

bool cli_child_group_lives(const struct cli_child *child)
{
    return kill(-child->pid, 0) == 0 || errno != ESRCH;
}

/* SIGSTOP does not count: who sends that means the command alone, whose lock stays held. */
static bool is_terminal_stop(const struct cli_child *child, int status)
{
    return WSTOPSIG(status) != SIGSTOP && child->terminal.fd >= 0;
}

bool cli_child_reap(struct cli_child *child)
{
    int status;

    child->stopped_by_terminal = false;
    while (waitpid(child->pid, &status, WNOHANG | WUNTRACED) == child->pid) {
        if (!WIFSTOPPED(status)) {
            child->status = status;
            return true;
        }
        child->stopped_by_terminal = is_terminal_stop(child, status);
    }
    return false;
}

int cli_child_finish(struct cli_child *child)
{
    int error = 0;

    if (read(child->exec_fd, &error, sizeof(error)) != (ssize_t)sizeof(error)) {
        error = 0;
    }
    (void)close(child->exec_fd);
    child->exec_fd = -1;
    cli_terminal_take_back(&child->terminal, child->pid, WIFSIGNALED(child->status));
    cli_terminal_close(&child->terminal);
    return error;
}
