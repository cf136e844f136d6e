/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS 100
#define START_FIELD 20 /* of /proc/PID/stat, counted from the state on: proc(5) */

/* glibc has these calls since 2.36 only. */
static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static int pidfd_signal(int fd, int signo)
{
    return (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
}

/* Reads what follows the program's name, which may contain anything. False: no such process, or no
 * /proc. */
static bool read_stat(pid_t pid, char *ret_state, uint64_t *ret_started)
{
    char path[64], text[1024];
    const char *at;
    ssize_t len;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[len > 0 ? len : 0] = '\0';
    at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ') {
        return false;
    }
    at += 2;
    *ret_state = *at;
    for (int i = 1; i < START_FIELD && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    *ret_started = at != NULL ? strtoull(at, NULL, 10) : 0;
    return true;
}

static bool ended_by_proc(const struct cli_process *process)
{
    uint64_t started = 0;
    char state = 'R';

    if (kill(process->pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    return read_stat(process->pid, &state, &started) &&
           (state == 'Z' || state == 'X' || started != process->started);
}

bool cli_process_ended(const struct cli_process *process)
{
    struct pollfd end = {.fd = process->fd, .events = POLLIN};

    return process->fd >= 0 ? poll(&end, 1, 0) == 1 : ended_by_proc(process);
}

const char *cli_process_open(struct cli_process *process, pid_t pid)
{
    char state;

    if (pid == getpid()) {
        return "is rlock itself";
    }
    *process = (struct cli_process){.pid = pid, .fd = pidfd_of(pid)};
    if (process->fd < 0 && errno != ESRCH) { /* a thread is EINVAL: /proc has it as well */
        (void)read_stat(pid, &state, &process->started);
    }
    if (kill(pid, 0) != 0) { /* behind the pidfd, so that it is the same process */
        return errno == EPERM ? "belongs to another user, so it cannot be stopped after a loss"
                              : "does not exist";
    }
    return cli_process_ended(process) ? "has ended" : NULL;
}

int cli_process_pause_ms(const struct cli_process *process)
{
    return process->fd >= 0 ? -1 : LOOK_MS;
}

void cli_process_signal(const struct cli_process *process, int signo)
{
    if (process->fd >= 0) {
        (void)pidfd_signal(process->fd, signo);
    } else if (!cli_process_ended(process)) {
        (void)kill(process->pid, signo);
    }
}
