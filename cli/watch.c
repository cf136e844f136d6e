/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "say.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define REPORT_LEAST_MS 200
#define REPORT_MOST_MS 5000
#define KILL_MS 50
#define NAP_MS 10

struct work {
    const struct cli_watch *watch;
    enum cli_stage stage;
    int64_t report_ms; /* validity that is left when the coming loss is reported */
    int64_t kill_ms;   /* … and when the command is killed */
    int timer_fd;
};

int64_t cli_report_ms(int64_t lease_ms)
{
    int64_t report_ms = lease_ms / 5;

    report_ms = report_ms < REPORT_LEAST_MS ? REPORT_LEAST_MS : report_ms;
    report_ms = report_ms > REPORT_MOST_MS ? REPORT_MOST_MS : report_ms;
    return report_ms > lease_ms / 2 ? lease_ms / 2 : report_ms;
}

void cli_timer_set(int timer_fd, int64_t ms)
{
    const int64_t pause_ms = ms < 1 ? 1 : ms;
    const struct itimerspec spec = {
        .it_value = {.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000}};

    (void)timerfd_settime(timer_fd, 0, &spec, NULL);
}

void cli_drain(int fd)
{
    uint64_t count;

    (void)!read(fd, &count, sizeof(count));
}

/* The times to report and to kill. */
static void plan(struct work *work)
{
    const int64_t report_ms = cli_report_ms(work->watch->lease_ms);

    work->report_ms = report_ms;
    work->kill_ms = KILL_MS < report_ms / 2 ? KILL_MS : report_ms / 2;
}

static void kill_command(struct work *work)
{
    if (work->stage != CLI_KILLED) {
        cli_child_signal(work->watch->child, SIGKILL);
        work->stage = CLI_KILLED;
    }
}

static void report_to_command(struct work *work, int64_t valid_ms)
{
    const struct cli_watch *watch = work->watch;

    cli_child_signal(watch->child, SIGTERM);
    cli_child_signal(watch->child, SIGCONT); /* a stopped one could not end itself */
    work->stage = CLI_REPORTED;
    cli_say(watch->opts, watch->name,
            "valid for %lld ms more and not renewed: stopping the command", (long long)valid_ms);
}

/* What must happen by now, for a command that still runs. */
static void keep_deadlines(struct work *work)
{
    const int64_t valid_ms = rlock_valid_ms(work->watch->lock);

    if (valid_ms <= work->kill_ms) {
        kill_command(work);
    } else if (valid_ms <= work->report_ms && work->stage == CLI_RUNNING) {
        report_to_command(work, valid_ms);
    }
}

/* For a command that was killed there is nothing left to do in time. */
static void set_timer(const struct work *work)
{
    const int64_t margin_ms = work->stage == CLI_RUNNING ? work->report_ms : work->kill_ms;

    if (work->stage != CLI_KILLED) {
        cli_timer_set(work->timer_fd, rlock_valid_ms(work->watch->lock) - margin_ms);
    }
}

/*
 * The command was stopped by the terminal: stop with it, and our group too, so that the shell sees
 * it. What comes after the stop is nothing but the wake-up of cli_watch(), which looks at the
 * validity first. Our own SIGCONT is for where nobody could continue us, in an orphaned group: such
 * stops are ignored. It merges into the shell's if there is one.
 */
static void stop_too(const struct work *work)
{
    const struct cli_child *child = work->watch->child;

    cli_terminal_take_back(&child->terminal, child->pid, false);
    (void)kill(0, SIGTSTP);
    (void)kill(getpid(), SIGCONT);
}

static void pass_on(const struct work *work, const struct signalfd_siginfo *info)
{
    const struct cli_child *child = work->watch->child;

    if (info->ssi_signo == SIGCONT && cli_terminal_is_ours(&child->terminal)) {
        cli_terminal_lend(&child->terminal, child->pid);
    } else if (info->ssi_signo == SIGCONT && info->ssi_pid == (uint32_t)getpid()) {
        return; /* in the background the terminal would only stop it again */
    }
    if (cli_signals_asks_to_end((int)info->ssi_signo)) {
        work->watch->signals->ended_by = (int)info->ssi_signo;
    }
    cli_child_signal(child, (int)info->ssi_signo);
}

/* Handles the signals that have arrived. Returns whether the command has ended. */
static bool take_signals(const struct work *work)
{
    struct signalfd_siginfo info;
    bool ended = false;

    while (!ended && read(work->watch->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            pass_on(work, &info);
            continue;
        }
        ended = cli_child_reap(work->watch->child);
        if (work->watch->child->stopped_by_terminal) {
            stop_too(work);
            break;
        }
    }
    return ended;
}

static void await_event(const struct work *work)
{
    struct pollfd fds[] = {{.fd = work->watch->signals->fd, .events = POLLIN},
                           {.fd = work->watch->lost_fd, .events = POLLIN},
                           {.fd = work->timer_fd, .events = POLLIN}};

    (void)poll(fds, sizeof(fds) / sizeof(fds[0]), -1);
}

/*
 * The command got the report and has ended: what it has started may still be ending. Waits for the
 * whole group, as long as the hold allows; a group has no descriptor to wait for, hence the short
 * naps.
 */
static void await_group(struct work *work)
{
    while (work->stage == CLI_REPORTED && cli_child_group_lives(work->watch->child)) {
        (void)poll(NULL, 0, NAP_MS);
        keep_deadlines(work);
    }
}

enum cli_stage cli_watch(const struct cli_watch *watch)
{
    struct work work = {.watch = watch, .stage = CLI_RUNNING};

    plan(&work);
    work.timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (work.timer_fd < 0) { /* without a clock the command must not run */
        kill_command(&work);
    }
    do {
        keep_deadlines(&work);
        set_timer(&work);
        await_event(&work);
        if (!rlock_is_valid(watch->lock)) { /* before anything else: we may have been stopped */
            kill_command(&work);
        }
        cli_drain(watch->lost_fd);
        cli_drain(work.timer_fd);
    } while (!take_signals(&work));
    await_group(&work);
    (void)close(work.timer_fd);
    return work.stage;
}
