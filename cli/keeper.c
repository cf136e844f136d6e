/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"

#include "handover.h"
#include "mailbox.h"
#include "say.h"
#include "signals.h"
#include "team.h"
#include "watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define TRIES 5 /* to release, while the outcome is unknown */

struct keeper {
    struct cli_options *opts;
    char *name; /* as rlock release must name it */
    struct cli_process process;
    int command_fd; /* -1 once the command has printed the text */
    struct cli_sink sink;
    struct cli_signals signals;
    struct rlock_cancel *cancel;
    struct cli_team team;
    struct cli_mailbox mailbox;
    char text[CLI_MAILBOX_TEXT];
    int64_t report_ms; /* validity that is left when the coming loss is reported to the process */
    bool reported;     /* … and it has been reported since the last renewal */
    bool must_end;     /* a signal has asked the keeper to end … */
    bool passed_on;    /* … and the keeper has passed it on to the process */
    int timer_fd;
};

static int fail_own(const struct keeper *keeper, const char *what, int error)
{
    cli_say(keeper->opts, keeper->name, "%s: %s", what, strerror(error));
    return CLI_EXIT_OWN;
}

/* ---- Getting ready ---- */

/* A reader may wait for the end of a pipe that the keeper has inherited. */
static void close_inherited(const struct keeper *keeper)
{
    DIR *fds = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (fds != NULL && (entry = readdir(fds)) != NULL) {
        const int fd = (int)strtol(entry->d_name, NULL, 10);

        if (fd > STDERR_FILENO && fd != keeper->command_fd && fd != keeper->process.fd &&
            fd != dirfd(fds)) {
            (void)close(fd);
        }
    }
    if (fds != NULL) {
        (void)closedir(fds);
    }
}

static void replace_by_null(int fd)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)dup2(null, fd);
    if (null != fd) {
        (void)close(null);
    }
}

/*
 * Leaves the process group of the command, so that no signal of a terminal reaches the keeper. The
 * keeper stays in the session: Linux may group tasks by session, and lets a group with one task
 * wait for seconds beside busy ones (CONTRIBUTING.md). A terminal with tostop must not stop the
 * keeper when it writes a message. If the command ends before it has the text, SIGTERM ends the
 * wait.
 */
static int settle_down(struct keeper *keeper, pid_t command)
{
    (void)signal(SIGTTOU, SIG_IGN);
    (void)setpgid(0, 0);
    (void)signal(SIGTERM, SIG_DFL); /* even if it was ignored */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &keeper->signals.inherited_mask, NULL);
    replace_by_null(STDIN_FILENO);
    replace_by_null(STDOUT_FILENO);
    close_inherited(keeper);
    return chdir("/") == 0 && getppid() == command ? CLI_EXIT_OK : CLI_EXIT_OWN;
}

/* The name, or the names in the order of the command line. */
static char *join_names(const struct cli_options *opts)
{
    char *joined = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&joined, &size);

    if (out == NULL) {
        return NULL;
    }
    (void)fputs(opts->n_operands > 0 ? opts->operands[0] : opts->names[0], out);
    for (int i = 1; i < opts->n_names; i++) {
        (void)fprintf(out, ",%s", opts->names[i]);
    }
    return fclose(out) == 0 ? joined : NULL;
}

static int prepare(struct keeper *keeper)
{
    int error;

    keeper->name = join_names(keeper->opts);
    keeper->sink.lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    keeper->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (keeper->name == NULL || keeper->sink.lost_fd < 0 || keeper->timer_fd < 0 ||
        rlock_cancel_new(&keeper->cancel) != 0) {
        return fail_own(keeper, "the keeper cannot start", errno);
    }
    error = cli_mailbox_open(&keeper->mailbox, keeper->name, keeper->text);
    if (error != 0) {
        return fail_own(keeper, "the keeper cannot listen", error);
    }
    cli_signals_catch(&keeper->signals, keeper->cancel);
    if (cli_signals_caught() != 0) {
        rlock_cancel_fire(keeper->cancel);
    }
    return cli_team_open(&keeper->team, keeper->opts, &keeper->sink);
}

/* ---- Taking the lock ---- */

/* Why the lock is not kept, although it may have been granted. */
static int fail_to_take(const struct keeper *keeper, int code, int no_signals)
{
    if (code != 0 && code != RLOCK_ECANCELED) {
        return cli_fail_take(keeper->opts, keeper->name, code);
    }
    if (no_signals != 0) {
        return fail_own(keeper, "signalfd", no_signals);
    }
    if (cli_signals_caught() != 0) {
        return CLI_EXIT_SIGNAL + cli_signals_caught();
    }
    cli_say(keeper->opts, keeper->name, "the hold ended before the keeper had it");
    return CLI_EXIT_LOST;
}

static int take(struct keeper *keeper)
{
    const struct rlock_take *how = RLOCK_TAKE(.cancel = keeper->cancel);
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    const int code = rlock_lock_for(keeper->team.lock, keeper->opts->wait_ms, how, &grant);
    int no_signals;

    (void)prctl(PR_SET_PDEATHSIG, 0); /* from here on the end of command_fd says it */
    no_signals = cli_signals_block(&keeper->signals);
    if (code == 0 && no_signals == 0 && cli_signals_caught() == 0 &&
        rlock_is_valid(keeper->team.lock)) {
        keeper->report_ms = cli_report_ms(grant.lease_ms);
        return CLI_EXIT_OK;
    }
    if (code == 0) {
        (void)rlock_unlock(keeper->team.lock);
    }
    return fail_to_take(keeper, code, no_signals);
}

/* ---- Keeping it ---- */

static void stop_process(const struct keeper *keeper)
{
    cli_process_signal(&keeper->process, SIGTERM);
    cli_process_signal(&keeper->process, SIGCONT); /* a stopped one could not end itself */
}

static void await_event(const struct keeper *keeper)
{
    struct pollfd fds[] = {{.fd = keeper->signals.fd, .events = POLLIN},
                           {.fd = keeper->sink.lost_fd, .events = POLLIN},
                           {.fd = keeper->timer_fd, .events = POLLIN},
                           {.fd = keeper->process.fd, .events = POLLIN},
                           {.fd = keeper->command_fd, .events = POLLIN},
                           {.fd = keeper->mailbox.fd, .events = POLLIN}};
    const int64_t valid_ms = rlock_valid_ms(keeper->team.lock);

    cli_timer_set(keeper->timer_fd, keeper->reported ? valid_ms : valid_ms - keeper->report_ms);
    (void)poll(fds, sizeof(fds) / sizeof(fds[0]), cli_process_pause_ms(&keeper->process));
    cli_drain(keeper->timer_fd);
    cli_drain(keeper->sink.lost_fd);
}

/* Whether the process may still rely on the lock. Stops it when that is about to end. */
static bool is_kept(struct keeper *keeper)
{
    const int64_t valid_ms = rlock_valid_ms(keeper->team.lock);

    if (valid_ms > keeper->report_ms) {
        keeper->reported = false;
    } else if (!keeper->reported) {
        stop_process(keeper);
        keeper->reported = true;
    }
    return valid_ms > 0;
}

/* Whether the command has ended without the text. */
static bool is_deserted(struct keeper *keeper)
{
    char printed;
    ssize_t n;

    if (keeper->command_fd < 0) {
        return false;
    }
    n = recv(keeper->command_fd, &printed, 1, MSG_DONTWAIT);
    if (n > 0) {
        (void)close(keeper->command_fd);
        keeper->command_fd = -1;
    }
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/*
 * A signal to the keeper ends the process, and the keeper holds the lock until then: the process
 * still works under it. A service manager signals both at once. While the command has not printed
 * its text the signal waits, because the command may be about to call the keeper off.
 */
static void take_signals(struct keeper *keeper)
{
    int signo;

    while ((signo = cli_signals_read(&keeper->signals)) != 0) {
        keeper->must_end |= signo == SIGTERM || signo == SIGINT || signo == SIGHUP;
    }
    if (keeper->must_end && !keeper->passed_on && keeper->command_fd < 0) {
        stop_process(keeper);
        keeper->passed_on = true;
    }
}

/* Returns the client that asks for the release, or -1: the hold is lost, or no process needs it. */
static int keep_until_asked(struct keeper *keeper)
{
    int client;

    do {
        await_event(keeper);
        if (!is_kept(keeper) || is_deserted(keeper) || cli_process_ended(&keeper->process)) {
            return -1;
        }
        take_signals(keeper);
        client = cli_mailbox_take(&keeper->mailbox);
    } while (client < 0);
    return client;
}

/* Releases the lock, and answers the client that asked, if one did. The library repeats a release
 * with an unknown outcome while the client is open. */
static void release(struct keeper *keeper, int client)
{
    int code = rlock_unlock(keeper->team.lock);

    if (client >= 0) {
        char reason[CLI_MAILBOX_ANSWER] = "";

        if (code != 0) {
            cli_reason_with_server(keeper->opts, keeper->name, code, reason, sizeof(reason));
        }
        cli_mailbox_answer(client, cli_exit_of(code), reason);
    }
    for (int i = 1; i < TRIES && code == RLOCK_EINDOUBT; i++) {
        code = rlock_unlock(keeper->team.lock);
    }
}

/* Only a command that has not printed the text yet reads the status. */
static int keep(struct keeper *keeper)
{
    bool is_lost;
    int client;

    replace_by_null(STDERR_FILENO);
    if (send(keeper->command_fd, keeper->text, strlen(keeper->text), MSG_NOSIGNAL) < 0) {
        release(keeper, -1);
        return CLI_EXIT_OWN;
    }
    client = keep_until_asked(keeper);
    is_lost = !rlock_is_valid(keeper->team.lock);
    release(keeper, client);
    if (client >= 0) {
        return CLI_EXIT_OK;
    }
    return is_lost ? CLI_EXIT_LOST : CLI_EXIT_OWN;
}

static void close_keeper(struct keeper *keeper)
{
    cli_mailbox_close(&keeper->mailbox);
    cli_team_close(&keeper->team);
    keeper->cancel = rlock_cancel_free(keeper->cancel);
    free(keeper->name);
}

int cli_keeper_run(struct cli_options *opts, const struct cli_process *process, pid_t command,
                   int command_fd)
{
    struct keeper keeper = {.opts = opts,
                            .process = *process,
                            .command_fd = command_fd,
                            .sink = {.opts = opts, .lost_fd = -1},
                            .signals = {.fd = -1},
                            .mailbox = {.fd = -1, .listener = -1},
                            .timer_fd = -1};
    int status;

    (void)sigemptyset(&keeper.signals.inherited_mask);
    status = settle_down(&keeper, command);
    status = status == CLI_EXIT_OK ? prepare(&keeper) : status;
    status = status == CLI_EXIT_OK ? take(&keeper) : status;
    status = status == CLI_EXIT_OK ? keep(&keeper) : status;
    close_keeper(&keeper);
    return status;
}
