/* SPDX-License-Identifier: Apache-2.0 */
/* rlock acquire --keep, and rlock release with a keeper's text. keeper.c is the keeper itself. */
#include "keeper.h"
#include "mailbox.h"
#include "say.h"
#include "signals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct keep {
    struct cli_options *opts;
    struct cli_process process;
    struct cli_signals signals;
    pid_t keeper;
    int fd; /* to the keeper */
};

static int fail_own(const struct keep *keep, const char *what, int error)
{
    cli_say(keep->opts, NULL, "%s: %s", what, strerror(error));
    return CLI_EXIT_OWN;
}

/* The keeper works in /, so that it keeps no file system busy, and it reads some files again. The
 * path keeps its links, because they may point elsewhere by then. */
static const char *make_absolute(const char **path, char room[static PATH_MAX])
{
    char here[PATH_MAX];

    if (*path == NULL || **path == '/') {
        return NULL;
    }
    if (getcwd(here, sizeof(here)) == NULL) {
        return "the working directory is gone";
    }
    if (snprintf(room, PATH_MAX, "%s/%s", here, *path) >= PATH_MAX) {
        return "the path is too long";
    }
    *path = room;
    return NULL;
}

static int make_paths_absolute(struct cli_options *opts)
{
    static char rooms[5][PATH_MAX];
    const char **paths[] = {&opts->password_file, &opts->sentinel_password_file, &opts->ca_file,
                            &opts->cert_file, &opts->key_file};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *wrong = make_absolute(paths[i], rooms[i]);

        if (wrong != NULL) {
            return cli_usage("'%s': %s", *paths[i], wrong);
        }
    }
    return CLI_EXIT_OK;
}

/* Waits for the keeper's end. Returns its status, as from waitpid(). */
static int reap(const struct keep *keep)
{
    int status = 0;

    (void)close(keep->fd);
    while (waitpid(keep->keeper, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* The keeper has ended without a text, and has printed the reason. */
static int fail_without_text(const struct keep *keep)
{
    const int status = reap(keep);

    if (WIFSIGNALED(status)) {
        cli_say(keep->opts, NULL, "signal %d ended the keeper", WTERMSIG(status));
        return CLI_EXIT_OWN;
    }
    return WEXITSTATUS(status);
}

/* Ends the keeper's wait, and returns `status` when nothing is left. SIGCONT comes first: a keeper
 * that already ends may be under LeakSanitizer, which hangs if SIGCONT cancels its stop. */
static int call_off(const struct keep *keep, int signo, int status)
{
    (void)kill(keep->keeper, SIGCONT); /* a stopped one could not end itself */
    (void)kill(keep->keeper, signo);
    (void)reap(keep);
    return status;
}

/* The keeper has ended while the command printed the text. That takes as long as the reader of a
 * full pipe likes. A reader that is quick may have used the text already. */
static int fail_after_text(const struct keep *keep)
{
    const int status = reap(keep);

    if (WIFEXITED(status) && WEXITSTATUS(status) == CLI_EXIT_OK) {
        return CLI_EXIT_OK;
    }
    if (WIFSIGNALED(status)) {
        cli_say(keep->opts, NULL, "signal %d ended the keeper: the text is void", WTERMSIG(status));
    } else if (WEXITSTATUS(status) == CLI_EXIT_LOST) {
        cli_say(keep->opts, NULL, "the hold ended before the text was printed: the text is void");
    } else {
        cli_say(keep->opts, NULL, "process %d ended before the text was printed: the text is void",
                (int)keep->process.pid);
    }
    return CLI_EXIT_LOST;
}

/* Prints the text. The keeper stays only if that has worked; main() says so otherwise. */
static int print_text(const struct keep *keep, const char *text)
{
    const bool is_printed = puts(text) >= 0 && fflush(stdout) == 0;

    if (!is_printed) {
        (void)reap(keep);
        return CLI_EXIT_OWN;
    }
    if (send(keep->fd, "", 1, MSG_NOSIGNAL) != 1) {
        return fail_after_text(keep);
    }
    (void)close(keep->fd);
    return CLI_EXIT_OK;
}

static int await_text(const struct keep *keep)
{
    struct pollfd fds[] = {{.fd = keep->fd, .events = POLLIN},
                           {.fd = keep->signals.fd, .events = POLLIN},
                           {.fd = keep->process.fd, .events = POLLIN}};
    char text[CLI_MAILBOX_TEXT];
    ssize_t len;

    do {
        const int signo = cli_signals_ending(&keep->signals);

        if (signo != 0) {
            return call_off(keep, signo, CLI_EXIT_SIGNAL + signo);
        }
        if (cli_process_ended(&keep->process)) {
            cli_say(keep->opts, NULL, "process %d ended during the wait", (int)keep->process.pid);
            return call_off(keep, SIGTERM, CLI_EXIT_LOST);
        }
        (void)poll(fds, sizeof(fds) / sizeof(fds[0]), cli_process_pause_ms(&keep->process));
    } while (fds[0].revents == 0);
    len = recv(keep->fd, text, sizeof(text) - 1, MSG_DONTWAIT);
    if (len <= 0) {
        return fail_without_text(keep);
    }
    text[len] = '\0';
    return print_text(keep, text);
}

static int start(struct keep *keep)
{
    const pid_t command = getpid();
    int fds[2];
    int error;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
        return fail_own(keep, "socketpair", errno);
    }
    cli_signals_catch(&keep->signals, NULL); /* the keeper inherits a signal that was caught */
    keep->keeper = fork();
    if (keep->keeper == 0) {
        (void)close(fds[0]);
        return cli_keeper_run(keep->opts, &keep->process, command, fds[1]);
    }
    error = keep->keeper < 0 ? errno : cli_signals_block(&keep->signals);
    (void)close(fds[1]);
    keep->fd = fds[0];
    if (keep->keeper < 0) {
        (void)close(keep->fd);
        return fail_own(keep, "fork", error);
    }
    return error == 0 ? await_text(keep)
                      : call_off(keep, SIGTERM, fail_own(keep, "signalfd", error));
}

/* Descriptors that were closed at the start must not be those of the keeper's sockets. Writing to
 * these fails as before. */
static void fill_standard(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    (void)close(fd);
}

int cli_keep(struct cli_options *opts)
{
    struct keep keep = {.opts = opts};
    const char *wrong;
    int status;

    fill_standard();
    wrong = cli_process_open(&keep.process, (pid_t)opts->keep);
    if (wrong != NULL) {
        return cli_usage("--keep: process %d %s", opts->keep, wrong);
    }
    status = make_paths_absolute(opts);
    return status == CLI_EXIT_OK ? start(&keep) : status;
}

int cli_keep_release(const struct cli_options *opts)
{
    const char *name = opts->operands[0];
    char reason[CLI_MAILBOX_ANSWER];
    int status = CLI_EXIT_OWN;
    const int error = cli_mailbox_ask(opts->operands[1], name, &status, reason);

    switch (error) {
    case 0:
        if (status != CLI_EXIT_OK) {
            cli_say(opts, name, "%s", reason);
        }
        return status;
    case ECONNREFUSED:
        cli_say(
            opts, name,
            "no keeper of this text on this machine, or in this network namespace: it has ended, "
            "or runs elsewhere");
        return CLI_EXIT_LOST;
    case EPERM:
        cli_say(opts, name, "the keeper belongs to another user");
        return CLI_EXIT_REFUSED;
    case ETIMEDOUT:
        cli_say(opts, name, "the keeper does not answer");
        return CLI_EXIT_UNREACHABLE;
    default:
        cli_say(opts, name, "cannot ask the keeper: %s", strerror(error));
        return CLI_EXIT_OWN;
    }
}
