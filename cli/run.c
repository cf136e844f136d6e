/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock run: takes the lock, runs the command, releases. rlock elect: the same, and again if the
 * lock was lost. The order of things matters: signals cancel the wait until the lock is taken, are
 * blocked before the command starts, and belong to the command from then on.
 */
#include "child.h"
#include "duration.h"
#include "handover.h"
#include "say.h"
#include "signals.h"
#include "slots.h"
#include "team.h"
#include "verbs.h"
#include "waiting.h"
#include "watch.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIRST_MS 1000
#define LEASE_MIN_MS 10 /* the library's */
#define ASK_MS 200      /* what a single try waits to learn who holds the lock */
#define REST_MS 1000    /* between two terms of a leader */
#define NAP_MS 10

struct run {
    struct cli_options *opts;
    const char *name;
    struct cli_sink sink;
    struct cli_signals signals;
    struct rlock_cancel *cancel;
    struct cli_waiting waiting;
    struct cli_team team;
    struct rlock_handle *lock; /* the team's */
    struct rlock_grant grant;
    int64_t taken_ms; /* CLOCK_BOOTTIME: when the lock was taken */
    struct cli_child child;
    bool was_lost;   /* the lock was lost, or could not be kept */
    bool is_settled; /* the server said that the lock is free again: nothing is under way */
};

#define RUN_NULL(options)                                                                          \
    {                                                                                              \
        .opts = (options),                                                                         \
        .name = (options)->n_operands > 0 ? (options)->operands[0] : (options)->names[0],          \
        .sink = {.opts = (options), .lost_fd = -1}, .signals = {.fd = -1},                         \
        .grant = RLOCK_GRANT_INIT, .child = CLI_CHILD_NULL                                         \
    }

static int fail_own(const struct run *run, const char *what, int error)
{
    cli_say(run->opts, run->name, "%s: %s", what, strerror(error));
    return CLI_EXIT_OWN;
}

static int prepare(struct run *run)
{
    int status;

    run->sink.lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->sink.lost_fd < 0) {
        return fail_own(run, "eventfd", errno);
    }
    if (rlock_cancel_new(&run->cancel) != 0) {
        return fail_own(run, "cancel", errno);
    }
    cli_waiting_init(&run->waiting, run->opts);
    run->sink.waiting = &run->waiting;
    cli_signals_catch(&run->signals, run->cancel);
    status = cli_team_open(&run->team, run->opts, &run->sink);
    run->lock = run->team.lock;
    run->name = run->team.name != NULL ? run->team.name : run->name;
    return status;
}

static void begin_waiting(struct run *run)
{
    cli_waiting_begin(&run->waiting, run->opts->is_redlock ? NULL : run->team.clients[0], run->lock,
                      run->name);
}

/* What a RedLock waits for, only its own call knows: hence a first one of a second. */
static int take_within(struct run *run)
{
    const int64_t wait_ms = run->opts->wait_ms;
    const bool long_wait = run->opts->is_redlock && (wait_ms < 0 || wait_ms > FIRST_MS);
    const struct rlock_take *how =
        RLOCK_TAKE(.lease_ms = run->opts->lease_ms, .cancel = run->cancel);
    int code;

    if (run->opts->adopt != NULL) {
        return cli_adopt(run->lock, run->opts->adopt, how, &run->grant);
    }
    code = rlock_lock_for(run->lock, long_wait ? FIRST_MS : wait_ms, how, &run->grant);

    if (long_wait && (code == RLOCK_ETIMEDOUT || code == RLOCK_ENOQUORUM ||
                      code == RLOCK_ENOTREPLICATED || code == RLOCK_EINDOUBT)) {
        cli_say(run->opts, run->name, "waiting: %s", cli_reason(run->opts, run->name, code));
        const int64_t rest_ms = wait_ms < 0 ? wait_ms : wait_ms - FIRST_MS;

        code = rlock_lock_for(run->lock, rest_ms, how, &run->grant);
    }
    return code;
}

/* Says that somebody else has the lock, and where the holder lives, which the failed call did not
 * ask. A wait asked while it lasted, so that it ends in time; a single try asks now. */
static int fail_held(struct run *run, int code)
{
    char *reason = strdup(cli_reason(run->opts, run->name, code));
    char holder[CLI_WAITING_TEXT];

    if (run->opts->wait_ms == 0) {
        begin_waiting(run);
        cli_waiting_hear(&run->waiting, ASK_MS);
        cli_waiting_end(&run->waiting);
    }
    cli_waiting_holder(&run->waiting, holder, sizeof(holder));
    if (holder[0] == '\0') {
        (void)snprintf(holder, sizeof(holder), "%s",
                       reason != NULL ? reason : rlock_strerror(code));
    }
    cli_say(run->opts, run->name, "%s", holder);
    free(reason);
    return run->opts->conflict_status >= 0 ? run->opts->conflict_status : cli_exit_of(code);
}

/* Says why the lock was not taken. Returns the status to exit with, which may be 0. */
static int fail_take(struct run *run, int code, int no_signals)
{
    if (code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT) {
        return fail_held(run, code);
    }
    if (no_signals != 0 && (code == 0 || code == RLOCK_ECANCELED)) {
        return fail_own(run, "signalfd", no_signals);
    }
    if (cli_signals_caught() != 0 && (code == 0 || code == RLOCK_ECANCELED)) {
        return CLI_EXIT_SIGNAL + cli_signals_caught();
    }
    return run->opts->adopt != NULL ? cli_fail_adopt(run->opts, run->name, code)
                                    : cli_fail(run->opts, run->name, code);
}

/*
 * Takes the lock and blocks the signals. A signal that came until then counts, even if the lock was
 * granted. Returns whether the lock is held; if not, *ret_status is the status to exit with.
 */
static bool take(struct run *run, int *ret_status)
{
    int code, no_signals;

    if (run->opts->wait_ms != 0 && run->opts->adopt == NULL) {
        begin_waiting(run);
    }
    code = take_within(run);
    run->taken_ms = cli_now_ms(CLOCK_BOOTTIME);
    cli_waiting_end(&run->waiting);
    no_signals = cli_signals_block(&run->signals);
    if (code == 0 && no_signals == 0 && cli_signals_caught() == 0) {
        return true;
    }
    if (code == 0) {
        (void)rlock_unlock(run->lock);
    }
    *ret_status = fail_take(run, code, no_signals);
    return false;
}

/* Tells the command which lock it runs under. Returns 0 or an errno. */
static int export_lock(const struct run *run)
{
    char token[32];

    if (setenv("RLOCK_NAME", run->name, 1) != 0 || unsetenv("RLOCK_TOKEN") != 0) {
        return errno;
    }
    if (run->grant.token == 0) {
        return 0;
    }
    (void)snprintf(token, sizeof(token), "%" PRIu64, run->grant.token);
    return setenv("RLOCK_TOKEN", token, 1) == 0 ? 0 : errno;
}

static int status_of_child(const struct run *run, int exec_error)
{
    const int status = run->child.status;

    if (exec_error != 0) {
        cli_say(run->opts, run->name, "cannot run %s: %s", run->opts->command[0],
                strerror(exec_error));
        return exec_error == ENOENT ? CLI_EXIT_NOT_FOUND : CLI_EXIT_NOT_EXECUTABLE;
    }
    return WIFSIGNALED(status) ? CLI_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Says that the hold was lost, why if the library has told yet, and what became of the command. */
static void say_lost(const struct run *run, enum cli_stage stage)
{
    static const char *const fates[] = {
        [CLI_RUNNING] = "before the command had ended",
        [CLI_REPORTED] = "while the command was told to stop",
        [CLI_KILLED] = "while the command ran, which was killed",
    };
    const int reason = atomic_load(&run->sink.reason);

    cli_say(run->opts, run->name, "lost%s%s%s %s (server %s)", reason != 0 ? " (" : "",
            reason != 0 ? rlock_reason_text(reason) : "", reason != 0 ? ")" : "", fates[stage],
            run->opts->server);
}

/* Gives the lock up, or leaves it taken for the rest of the least time. */
static int leave(const struct run *run)
{
    const int64_t rest_ms = run->taken_ms + run->opts->at_least_ms - cli_now_ms(CLOCK_BOOTTIME);
    char text[RLOCK_TEXT_SIZE];
    int code = RLOCK_EINVAL;

    if (run->opts->at_least_ms != 0 && rest_ms >= LEASE_MIN_MS) {
        code = cli_detach(run->lock, rest_ms, text);
    }
    return code == 0 || code == RLOCK_ELOST ? code : rlock_unlock(run->lock);
}

/* Releases the lock; the command's own status stands unless it ran without the lock, or was
 * stopped. */
static int release(struct run *run, enum cli_stage stage, int status)
{
    const int code = leave(run);
    const bool lost = code == RLOCK_ELOST || code == RLOCK_ENOTOWNER;

    run->is_settled = code == 0 && !run->opts->is_redlock;
    if (lost) {
        say_lost(run, stage);
    } else if (code != 0) {
        (void)cli_fail(run->opts, run->name, code);
    } else if (stage != CLI_RUNNING) {
        cli_say(run->opts, run->name, "could not be kept: the command was stopped (server %s)",
                run->opts->server);
    }
    run->was_lost = lost || stage != CLI_RUNNING;
    return run->was_lost ? CLI_EXIT_LOST : status;
}

static int hold(struct run *run)
{
    const struct cli_watch watch = {.opts = run->opts,
                                    .lock = run->lock,
                                    .name = run->name,
                                    .lease_ms = run->grant.lease_ms,
                                    .child = &run->child,
                                    .signals = &run->signals,
                                    .lost_fd = run->sink.lost_fd};
    enum cli_stage stage = CLI_RUNNING;
    int error = export_lock(run);
    int status;

    if (!rlock_is_valid(run->lock)) { /* a lease that is shorter than a few round trips */
        cli_say(run->opts, run->name, "the hold ended before the command could start");
        return release(run, CLI_KILLED, CLI_EXIT_LOST);
    }
    if (error == 0) {
        error = cli_child_start(&run->child, run->opts->command, &run->signals);
    }
    if (error != 0) {
        status = fail_own(run, "cannot start the command", error);
    } else {
        stage = cli_watch(&watch);
        status = status_of_child(run, cli_child_finish(&run->child));
    }
    return release(run, stage, status);
}

/* What is settled needs no end but the process's, which closes the connection at once: threads
 * would have to be woken and waited for. Neither does a server that does not even answer who holds
 * the lock. Servers of a RedLock may still owe an answer. */
static void finish(struct run *run, int status)
{
    if (run->is_settled || !cli_waiting_leave(&run->waiting)) {
        exit(status);
    }
    cli_team_close(&run->team);
    (void)rlock_cancel_free(run->cancel);
    (void)close(run->sink.lost_fd);
}

/* Makes ready for the next candidature. */
static void forget_term(struct run *run)
{
    const struct rlock_grant none = RLOCK_GRANT_INIT;

    cli_drain(run->sink.lost_fd);
    atomic_store(&run->sink.reason, 0);
    run->grant = none;
    run->child = (struct cli_child)CLI_CHILD_NULL;
    run->was_lost = run->is_settled = false;
}

/* The term of a leader has ended, or there was none since the server was out of reach. It stays
 * away for a moment, in which others may be elected. Returns whether it is a candidate again; if
 * not, *inout_status is the status to exit with. */
static bool stands_again(struct run *run, bool has_led, int *inout_status)
{
    const bool may = run->was_lost || (has_led && *inout_status == CLI_EXIT_UNREACHABLE);
    int signo = run->signals.ended_by;

    if (!may || signo != 0) {
        return false;
    }
    signo = cli_signals_await(&run->signals, REST_MS);
    cli_signals_unblock(&run->signals);
    while (!cli_waiting_leave(&run->waiting) && cli_signals_caught() == 0) {
        (void)poll(NULL, 0, NAP_MS); /* its question ends with op_timeout_ms */
    }
    signo = signo != 0 ? signo : cli_signals_caught();
    forget_term(run);
    *inout_status = signo != 0 ? CLI_EXIT_SIGNAL + signo : CLI_EXIT_OK;
    if (signo == 0) {
        cli_say(run->opts, run->name, "is a candidate again");
    }
    return signo == 0;
}

int cli_elect(struct cli_options *opts)
{
    struct run run = RUN_NULL(opts);
    bool has_led = false;
    int status;

    if (cli_is_kind(opts, "read")) {
        return cli_usage("--kind read: a read lock has many holders, and elects no leader");
    }
    status = prepare(&run);
    do {
        if (status == CLI_EXIT_OK && take(&run, &status)) {
            status = hold(&run);
            has_led = true;
        }
    } while (stands_again(&run, has_led, &status));
    finish(&run, status);
    return status;
}

int cli_run(struct cli_options *opts)
{
    struct run run = RUN_NULL(opts);
    int status = prepare(&run);

    if (status == CLI_EXIT_OK && take(&run, &status)) {
        cli_slots_compare(opts, run.lock, run.name);
        status = hold(&run);
    }
    finish(&run, status);
    return status;
}
