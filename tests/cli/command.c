/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_WORDS 32
#define WAIT_MS 10000
#define UNREACHABLE 69
#define OP_TIMEOUT_US 1000000 /* the library's default, which the command uses */

const char *command_binary(void)
{
    static char path[4096];
    const char *given = getenv("RLOCK_COMMAND");
    char here[4000] = "";

    if (given != NULL) {
        return given;
    }
    (void)!readlink("/proc/self/exe", here, sizeof(here) - 1);
    for (const char *dir = dirname(here); strcmp(dir, "/") != 0; dir = dirname(here)) {
        (void)snprintf(path, sizeof(path), "%s/rlock", dir);
        if (access(path, X_OK) == 0) {
            return path;
        }
    }
    test_die("no rlock command: set RLOCK_COMMAND");
}

/* Of those that the test runner may ignore or block, the command gets what an interactive shell
 * gives. */
static void default_signals(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE};
    sigset_t none;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_DFL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static int open_output(const char *path)
{
    return test_must(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), path);
}

/* In the child, before exec. */
static void get_ready(const struct command *command, pid_t parent)
{
    test_die_with_parent(parent);
    (void)dup2(open_output(command->out), STDOUT_FILENO);
    (void)dup2(open_output(command->err), STDERR_FILENO);
    default_signals();
}

_Noreturn static void become(const struct command *command, const char *const *words, pid_t parent)
{
    char *argv[MOST_WORDS] = {strdup(command_binary())};

    for (size_t i = 0; words[i] != NULL && i < MOST_WORDS - 2; i++) {
        argv[i + 1] = strdup(words[i]);
    }
    get_ready(command, parent);
    (void)execv(argv[0], argv);
    _exit(99);
}

static struct command new_command(void)
{
    static int count;
    struct command command = {.pid = -1, .began_us = test_now_us()};

    count++;
    (void)snprintf(command.out, sizeof(command.out), "%s/out-%d", test_dir(), count);
    (void)snprintf(command.err, sizeof(command.err), "%s/err-%d", test_dir(), count);
    return command;
}

struct command command_start(const char *const *words)
{
    const pid_t parent = getpid();
    struct command command = new_command();

    command.pid = test_must(fork(), "fork");
    if (command.pid == 0) {
        become(&command, words, parent);
    }
    return command;
}

_Noreturn static void become_script(const struct command *command, const char *script, pid_t parent)
{
    get_ready(command, parent);
    (void)execl("/bin/sh", "sh", "-c", script, (char *)NULL);
    _exit(99);
}

/* Before the fork: the child inherits them. */
static void set_script_variables(void)
{
    (void)setenv("RLOCK", command_binary(), 1);
    (void)setenv("DIR", test_dir(), 1);
}

struct command script_start(const char *script)
{
    const pid_t parent = getpid();
    struct command command = new_command();

    set_script_variables();
    command.pid = test_must(fork(), "fork");
    if (command.pid == 0) {
        become_script(&command, script, parent);
    }
    return command;
}

static int open_terminal(void)
{
    const int master = test_must(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");

    (void)test_must(grantpt(master), "grantpt");
    (void)test_must(unlockpt(master), "unlockpt");
    return master;
}

/* In the child: begins a session. Standard input is its terminal. */
static void lead_session(int master)
{
    (void)setsid();
    (void)dup2(test_must(open(ptsname(master), O_RDWR), "pts"), STDIN_FILENO);
    (void)test_must(ioctl(STDIN_FILENO, TIOCSCTTY, 0), "TIOCSCTTY");
}

struct command command_start_on_terminal(const char *const *words, int *ret_master)
{
    const int master = open_terminal();
    const pid_t parent = getpid();
    struct command command = new_command();

    command.pid = test_must(fork(), "fork");
    if (command.pid == 0) {
        lead_session(master);
        become(&command, words, parent);
    }
    *ret_master = master;
    return command;
}

struct command script_start_on_terminal(const char *script, int *ret_master)
{
    const int master = open_terminal();
    const pid_t parent = getpid();
    struct command command = new_command();

    set_script_variables();
    command.pid = test_must(fork(), "fork");
    if (command.pid == 0) {
        lead_session(master);
        become_script(&command, script, parent);
    }
    *ret_master = master;
    return command;
}

static void note_late(const struct command *command)
{
    const int64_t took_us = test_elapsed_us(command->began_us);

    if (took_us >= OP_TIMEOUT_US && test_stalls_us(command->began_us) >= took_us / 10) {
        (void)test_missed(command->began_us, took_us / 10);
    }
}

int command_wait(const struct command *command, int64_t timeout_ms)
{
    int status = 0;

    if (!TEST_EVENTUALLY(waitpid(command->pid, &status, WNOHANG) != 0, timeout_ms)) {
        (void)kill(command->pid, SIGKILL);
        (void)waitpid(command->pid, &status, 0);
        return -1;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == UNREACHABLE) {
        note_late(command);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int command_status(struct command command)
{
    return command_wait(&command, WAIT_MS);
}

void command_text(struct command command, char out[static COMMAND_TEXT])
{
    assert_int_equal(command_status(command), 0);
    test_text(out, COMMAND_TEXT, "%s", file_text(command.out));
    assert_non_null(strchr(out, '\n'));
    assert_string_equal(strchr(out, '\n'), "\n"); /* one line */
    *strchr(out, '\n') = '\0';
}

const char *file_text(const char *path)
{
    static char texts[4][65536];
    static unsigned next;
    char *text = texts[next++ % 4];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t len = fd >= 0 ? read(fd, text, sizeof(texts[0]) - 1) : 0;

    text[len > 0 ? len : 0] = '\0';
    if (fd >= 0) {
        (void)close(fd);
    }
    return text;
}

const char *in_dir(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", test_dir(), name);
    return path;
}

pid_t pid_in_file(const char *path)
{
    TEST_CHECK(TEST_EVENTUALLY(strchr(file_text(path), '\n') != NULL, WAIT_MS));
    return (pid_t)strtol(file_text(path), NULL, 10);
}

bool process_lives(pid_t pid)
{
    char path[64];
    const char *text;
    const char *name_end;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    text = file_text(path);
    name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* ---- The server ---- */

struct fixture fixture;

static void use_server(void)
{
    assert_int_equal(setenv("RLOCK_URL", test_server_url(fixture.server), 1), 0);
}

void command_open(const struct fixture_opts *opts)
{
    (void)unlink(in_dir("pid"));
    (void)unlink(in_dir("ran"));
    (void)rmdir(in_dir("inside"));
    fixture_open(&fixture, opts);
    use_server();
}

void command_restart(const char *const *conf)
{
    fixture.server = test_server_stop(fixture.server);
    fixture.server =
        test_server_start(&(struct test_server_opts){.transport = TEST_UNIX, .conf = conf});
    use_server();
}

bool is_held(const char *name)
{
    return test_server_int(fixture.server, "EXISTS %s", name) == 1;
}

bool is_waited_for(const char *name)
{
    char channel[64];

    test_text(channel, sizeof(channel), "redisson_lock__channel:{%s}", name);
    return test_server_waiters(fixture.server, channel) > 0;
}

const char *url_with(const char *userinfo)
{
    static char url[512];

    (void)snprintf(url, sizeof(url), "unix://%s@%s", userinfo,
                   test_server_unix_url(fixture.server) + strlen("unix://"));
    return url;
}

struct command hold_a(const char *renewed_lease)
{
    const struct command holder = COMMAND("run", "--renewed-lease", renewed_lease, "a", "--", "sh",
                                          "-c", "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));

    (void)pid_in_file(in_dir("pid"));
    assert_true(is_held("a"));
    return holder;
}

void end_command(const struct command *command)
{
    (void)kill(command->pid, SIGTERM);
    assert_int_equal(command_wait(command, 10000), 128 + SIGTERM);
}

void write_file(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* ---- JSON, RFC 8259 without limits on what numbers mean ---- */

static bool skip_value(const char **at);

static bool skip_string(const char **at)
{
    if (*(*at)++ != '"') {
        return false;
    }
    while (**at != '"') {
        if ((unsigned char)**at < 0x20) {
            return false;
        }
        if (*(*at)++ == '\\') {
            if (**at == '\0' || strchr("\"\\/bfnrtu", **at) == NULL) {
                return false;
            }
            *at += **at == 'u' ? 5 : 1;
        }
    }
    (*at)++;
    return true;
}

static bool skip_object(const char **at)
{
    for (bool first = true; **at != '}' || first; first = false) {
        if (*(*at)++ != (first ? '{' : ',') || !skip_string(at) || *(*at)++ != ':' ||
            !skip_value(at)) {
            return false;
        }
    }
    (*at)++;
    return true;
}

static bool skip_word(const char **at)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < 3; i++) {
        if (strncmp(*at, words[i], strlen(words[i])) == 0) {
            *at += strlen(words[i]);
            return true;
        }
    }
    return false;
}

static bool skip_value(const char **at)
{
    if (**at == '{') {
        return skip_object(at);
    }
    if (**at == '"') {
        return skip_string(at);
    }
    if (**at == '-' || (**at >= '0' && **at <= '9')) {
        char *end;

        (void)strtod(*at, &end);
        *at = end;
        return true;
    }
    return skip_word(at);
}

bool is_json_lines(const char *text)
{
    while (*text != '\0') {
        if (!skip_value(&text) || *text++ != '\n') {
            return false;
        }
    }
    return true;
}

void assert_says(const char *const *words, const char *text)
{
    struct command command = command_start(words);

    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), text);
}
