/* SPDX-License-Identifier: Apache-2.0 */
#include "signals.h"

#include "duration.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

#define N_PASSED_ON (sizeof(passed_on) / sizeof(passed_on[0]))
#define N_ENDING 6 /* the first of them end a process that does not handle them */

static struct rlock_cancel *caught_cancel;
static volatile sig_atomic_t caught_signal;

static void catch_signal(int signo)
{
    const int error = errno;

    if (caught_signal == 0) {
        caught_signal = signo;
    }
    if (caught_cancel != NULL) {
        rlock_cancel_fire(caught_cancel);
    }
    errno = error;
}

static bool is_ignored(int signo)
{
    struct sigaction action;

    return sigaction(signo, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void cli_signals_catch(struct cli_signals *signals, struct rlock_cancel *cancel)
{
    const struct sigaction action = {.sa_handler = catch_signal, .sa_flags = SA_RESTART};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    caught_cancel = cancel;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &signals->inherited_mask);
    (void)sigaction(SIGPIPE, &ignore, &signals->inherited_pipe); /* a message must not end us */
    (void)signal(SIGCHLD, SIG_DFL); /* where it was ignored, the child's status would be lost */
    (void)sigemptyset(&signals->watched);
    (void)sigaddset(&signals->watched, SIGCHLD);
    for (size_t i = 0; i < N_PASSED_ON; i++) {
        if (!is_ignored(passed_on[i])) {
            (void)sigaddset(&signals->watched, passed_on[i]);
            if (i < N_ENDING) {
                (void)sigaction(passed_on[i], &action, NULL);
            }
        }
    }
}

int cli_signals_caught(void)
{
    return (int)caught_signal;
}

int cli_signals_block(struct cli_signals *signals)
{
    sigset_t blocked = signals->watched;

    (void)sigaddset(&blocked, SIGTTOU); /* so that we may change the terminal's foreground group */
    (void)pthread_sigmask(SIG_BLOCK, &blocked, NULL);
    signals->fd = signalfd(-1, &signals->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd >= 0 ? 0 : errno;
}

void cli_signals_unblock(struct cli_signals *signals)
{
    (void)close(signals->fd);
    signals->fd = -1;
    (void)pthread_sigmask(SIG_SETMASK, &signals->inherited_mask, NULL);
}

bool cli_signals_asks_to_end(int signo)
{
    return signo == SIGINT || signo == SIGTERM || signo == SIGQUIT;
}

static bool is_ending(int signo)
{
    for (size_t i = 0; i < N_ENDING; i++) {
        if (signo == passed_on[i]) {
            return true;
        }
    }
    return false;
}

int cli_signals_read(const struct cli_signals *signals)
{
    struct signalfd_siginfo info;

    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (is_ending((int)info.ssi_signo)) {
            return (int)info.ssi_signo;
        }
    }
    return 0;
}

int cli_signals_await(const struct cli_signals *signals, int64_t most_ms)
{
    const int64_t until_ms = cli_now_ms(CLOCK_BOOTTIME) + most_ms;
    struct pollfd fd = {.fd = signals->fd, .events = POLLIN};
    int64_t left_ms = most_ms;
    int signo = 0;

    while (signo == 0 && left_ms > 0) {
        (void)poll(&fd, 1, (int)left_ms);
        signo = cli_signals_read(signals);
        left_ms = until_ms - cli_now_ms(CLOCK_BOOTTIME);
    }
    return signo;
}

int cli_signals_ending(const struct cli_signals *signals)
{
    return cli_signals_caught() != 0 ? cli_signals_caught() : cli_signals_read(signals);
}

void cli_signals_restore(const struct cli_signals *signals)
{
    for (size_t i = 0; i < N_ENDING; i++) {
        if (sigismember(&signals->watched, passed_on[i]) == 1) {
            (void)signal(passed_on[i], SIG_DFL);
        }
    }
    (void)sigaction(SIGPIPE, &signals->inherited_pipe, NULL);
    (void)sigprocmask(SIG_SETMASK, &signals->inherited_mask, NULL);
}
