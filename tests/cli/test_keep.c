/* SPDX-License-Identifier: Apache-2.0 */
/* rlock acquire --keep and rlock release: which locks a keeper holds, and which callers may release
 * them. */
#include "keeper.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* ---- Keeping and releasing ---- */

COMMAND_TEST(a_keeper_holds_a_lock_until_its_release)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    (void)keep_a(process, text);
    assert_int_equal(strncmp(text, "keeper:", 7), 0);
    assert_int_equal(strlen(text), 7 + 32);
    keeper = holder_of("a");
    assert_true(process_lives(keeper));
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "a", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    assert_false(is_held("a"));
    assert_true(is_gone_soon(keeper));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 122);
    assert_true(process_lives(process));
    assert_int_equal(end_process(process), SIGKILL);
}

COMMAND_TEST(a_keeper_renews_the_lock)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];

    (void)keep_a_shortly(process, text);
    assert_true(fixture_wait_renewed(&fixture, SHORT_LEASE_MS));
    assert_true(fixture_wait_renewed(&fixture, SHORT_LEASE_MS));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}

COMMAND_TEST(a_keeper_gives_the_lock_back_when_its_process_ends)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a(process, text);
    (void)kill(process, SIGKILL); /* a zombie has ended too */
    assert_true(is_free_soon("a"));
    (void)end_of(process);
    assert_true(is_gone_soon(keeper));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 122);
}

/* A script that takes "a". Its handler of SIGTERM works until the file "done" exists. */
static struct command start_script_with_handler(void)
{
    (void)unlink(in_dir("ready"));
    (void)unlink(in_dir("ending"));
    (void)unlink(in_dir("done"));
    return script_start("\"$RLOCK\" acquire --renewed-lease " SHORT_LEASE
                        " --keep $$ a >\"$DIR/text\" || exit\n"
                        "finish() {\n"
                        "    : >\"$DIR/ending\"\n"
                        "    until [ -e \"$DIR/done\" ]; do sleep 0.02; done\n"
                        "    exit 3\n"
                        "}\n"
                        "trap finish TERM\n"
                        ": >\"$DIR/ready\"\n"
                        "while :; do sleep 0.02; done");
}

static bool exists(const char *name)
{
    return access(in_dir(name), F_OK) == 0;
}

COMMAND_TEST(a_signal_to_the_keeper_ends_the_process_before_the_lock)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        const struct command script = start_script_with_handler();
        pid_t keeper;

        assert_true(TEST_EVENTUALLY(exists("ready"), 10000));
        keeper = holder_of("a");
        (void)kill(keeper, signals[i]);
        assert_true(TEST_EVENTUALLY(exists("ending"), 10000));
        assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "a", "--", "true"), 123);
        assert_true(process_lives(keeper));
        write_file(in_dir("done"), "", 0600);
        assert_int_equal(command_status(script), 3);
        assert_true(is_free_soon("a"));
        assert_true(is_gone_soon(keeper));
    }
}

COMMAND_TEST(a_signal_to_the_keeper_continues_a_stopped_process)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a(process, text);
    (void)kill(process, SIGSTOP);
    (void)kill(keeper, SIGTERM);
    assert_int_equal(end_of(process), SIGTERM);
    assert_true(is_free_soon("a"));
    assert_true(is_gone_soon(keeper));
}

COMMAND_TEST(a_keeper_ignores_other_signals)
{
    static const int signals[] = {SIGQUIT, SIGUSR1, SIGUSR2};
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a_shortly(process, text);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)kill(keeper, signals[i]);
        assert_true(fixture_wait_renewed(&fixture, SHORT_LEASE_MS));
    }
    assert_true(process_lives(process));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}

COMMAND_TEST(a_process_that_ignores_the_signal_keeps_its_lock)
{
    const struct command script = start_script_with_handler();
    char text[COMMAND_TEXT];
    pid_t keeper;

    assert_true(TEST_EVENTUALLY(exists("ready"), 10000));
    keeper = holder_of("a");
    (void)kill(keeper, SIGTERM);
    assert_true(TEST_EVENTUALLY(exists("ending"), 10000));
    assert_true(fixture_wait_renewed(&fixture, SHORT_LEASE_MS));
    test_text(text, sizeof(text), "%s", file_text(in_dir("text")));
    *strchrnul(text, '\n') = '\0';
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    assert_false(is_held("a"));
    assert_true(is_gone_soon(keeper));
    write_file(in_dir("done"), "", 0600);
    assert_int_equal(command_status(script), 3);
}

COMMAND_TEST(scripts_exclude_each_other_by_keepers)
{
    static const char script[] =
        "text=$(\"$RLOCK\" acquire --keep $$ a) && mkdir \"$DIR/inside\" && sleep 0.02 && "
        "rmdir \"$DIR/inside\" && \"$RLOCK\" release a \"$text\"";
    struct command scripts[6];

    for (size_t i = 0; i < 6; i++) {
        scripts[i] = script_start(script);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(command_wait(&scripts[i], 20000), 0);
    }
    test_server_assert_clean(fixture.server);
}

/* The shell reads each of these pipes until no process has it open any more. */
COMMAND_TEST(a_keeper_keeps_no_pipe_open)
{
    struct command script =
        script_start("text=$(\"$RLOCK\" acquire --keep $$ a 3>&1 2>&1) && echo \"$text\"");
    char text[COMMAND_TEXT];

    command_text(script, text);
    assert_int_equal(strncmp(text, "keeper:", 7), 0);
    assert_true(is_free_soon("a")); /* the script has ended */
}

COMMAND_TEST(a_keeper_needs_no_descriptor)
{
    const pid_t process = start_process();
    char script[200], text[COMMAND_TEXT];

    test_text(script, sizeof(script), "exec \"$RLOCK\" acquire --keep %d a <&- 2>&-", (int)process);
    command_text(script_start(script), text);
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    test_text(script, sizeof(script), "exec \"$RLOCK\" acquire --keep %d a >&-", (int)process);
    assert_int_equal(command_status(script_start(script)), 125); /* the text is lost */
    assert_false(is_held("a"));
    (void)end_process(process);
}

COMMAND_TEST(a_keeper_holds_every_kind)
{
    static const char *const kinds[] = {"reentrant", "non-reentrant", "spin",  "fenced",
                                        "fair",      "read",          "write", "setnx"};
    const pid_t process = start_process();
    char text[COMMAND_TEXT];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const char *rival = strcmp(kinds[i], "read") == 0 ? "write" : kinds[i];

        command_text(COMMAND("acquire", "--kind", kinds[i], "--keep", number(process), "a"), text);
        assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--kind", rival, "a", "--", "true"),
                         123);
        assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
        assert_false(is_held("a"));
    }
    (void)end_process(process);
}

COMMAND_TEST(a_keeper_holds_several_locks)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];

    command_text(COMMAND("acquire", "--multi", "b,a", "--name", "c,d", "--keep", number(process)),
                 text);
    assert_true(is_held("a") && is_held("b") && is_held("c,d"));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 64);
    assert_int_equal(COMMAND_STATUS("release", "b,a,c,d", text), 0);
    test_server_assert_clean(fixture.server);
    (void)end_process(process);
}

COMMAND_WITH_TEST(a_keeper_holds_a_redlock, .servers = 3)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT], urls[512];

    test_text(urls, sizeof(urls), "%s,%s,%s", test_server_unix_url(fixture.servers[0]),
              test_server_unix_url(fixture.servers[1]), test_server_unix_url(fixture.servers[2]));
    command_text(
        COMMAND("acquire", "--redlock", urls, "--max-lease", "0", "--keep", number(process), "a"),
        text);
    assert_true(fixture_holding(&fixture, "a") >= 2);
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    assert_true(TEST_EVENTUALLY(fixture_holding(&fixture, "a") == 0, 2000));
    (void)end_process(process);
}

/* ---- Releases by other users ---- */

COMMAND_TEST(a_keeper_releases_no_other_name)
{
    const pid_t process = start_process();
    struct command command;
    char text[COMMAND_TEXT];

    (void)keep_a(process, text);
    command = COMMAND("release", "b", text);
    assert_int_equal(command_status(command), 64);
    assert_contains(file_text(command.err), "rlock: b: this is the text of another lock\n");
    assert_int_equal(COMMAND_STATUS("release", "aa", text), 64);
    assert_int_equal(COMMAND_STATUS("release", "", text), 64);
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}

COMMAND_TEST(one_of_two_releases_succeeds)
{
    const pid_t process = start_process();

    for (int i = 0; i < 10; i++) {
        struct command releases[2];
        char text[COMMAND_TEXT];
        int first, second;

        (void)keep_a(process, text);
        releases[0] = COMMAND("release", "a", text);
        releases[1] = COMMAND("release", "a", text);
        first = command_wait(&releases[0], 10000);
        second = command_wait(&releases[1], 10000);
        assert_true((first == 0 && second == 122) || (first == 122 && second == 0));
        assert_false(is_held("a"));
    }
    (void)end_process(process);
}

COMMAND_TEST(clients_that_say_nothing_do_not_hang_a_keeper)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    int fds[40];

    (void)keep_a(process, text);
    for (size_t i = 0; i < 40; i++) { /* more than the keeper listens to */
        fds[i] = connect_to(text);
    }
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    assert_false(is_held("a"));
    for (size_t i = 0; i < 40; i++) {
        (void)close(fds[i]);
    }
    (void)end_process(process);
}

#define MAY_NOT_RUN 99 /* the other user has no right to run the command */

/* In a child: becomes another user, and then the command. */
_Noreturn static void become_nobody(const char *verb, const char *option, const char *name,
                                    const char *text)
{
    (void)test_must(setgid(NOBODY), "setgid");
    (void)test_must(setuid(NOBODY), "setuid");
    if (text != NULL) { /* first past the command */
        const int fd = connect_to(text);
        char answer;

        if (send(fd, name, strlen(name), MSG_NOSIGNAL) > 0 && recv(fd, &answer, 1, 0) > 0) {
            _exit(EXIT_FAILURE);
        }
    }
    (void)execl(command_binary(), "rlock", verb, option, name, text, (char *)NULL);
    _exit(MAY_NOT_RUN);
}

/* Returns the exit status of the command that another user runs. */
static int status_as_nobody(const char *verb, const char *option, const char *name,
                            const char *text)
{
    const pid_t pid = test_must(fork(), "fork");
    int status = 0;

    if (pid == 0) {
        become_nobody(verb, option, name, text);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

COMMAND_TEST(a_keeper_does_not_obey_another_user)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    int status;

    if (geteuid() != 0) {
        (void)end_process(process);
        skip(); /* only root can be another user */
    }
    (void)keep_a(process, text);
    status = status_as_nobody("release", "--quiet", "a", text);
    assert_true(status == 65 || status == MAY_NOT_RUN);
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}

/* The keeper could not stop it. */
COMMAND_TEST(a_process_of_another_user_is_wrong_usage)
{
    char option[32];
    int status;

    if (geteuid() != 0) {
        skip(); /* only root can be another user */
    }
    test_text(option, sizeof(option), "--keep=%d", (int)getpid());
    status = status_as_nobody("acquire", option, "a", NULL);
    assert_true(status == 64 || status == MAY_NOT_RUN);
    assert_false(is_held("a"));
}

/* ---- Usage ---- */

COMMAND_TEST(a_process_that_does_not_live_is_wrong_usage)
{
    const pid_t process = start_process();
    struct command command;
    char expected[80];

    (void)kill(process, SIGKILL);
    assert_true(TEST_EVENTUALLY(!process_lives(process), 5000));
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", number(process), "a"), 64); /* a zombie */
    (void)end_of(process);
    command = COMMAND("acquire", "--keep", number(process), "a");
    assert_int_equal(command_status(command), 64);
    test_text(expected, sizeof(expected), "rlock: --keep: process %d does not exist\n",
              (int)process);
    assert_contains(file_text(command.err), expected);
    command = script_start("exec \"$RLOCK\" acquire --keep $$ a");
    assert_int_equal(command_status(command), 64);
    assert_contains(file_text(command.err), "is rlock itself");
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", "0", "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep=-1", "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", "init", "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", "99999999999", "a"), 64);
    assert_false(is_held("a"));
}

COMMAND_TEST(options_of_keepers_require_a_keeper)
{
    const char *self = number(getpid());

    assert_int_equal(COMMAND_STATUS("acquire", "--keep", self, "--lease", "1m", "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "1m", "--renewed-lease", "1m", "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--lease", "1m", "--multi", "a,b"), 64);
    assert_int_equal(
        COMMAND_STATUS("acquire", "--lease", "1m", "--redlock", getenv("RLOCK_URL"), "a"), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", self), 64);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", self, "--multi", "a,b", "c"), 64);
    assert_false(is_held("a"));
}

COMMAND_TEST(a_keepers_text_is_for_release_alone)
{
    const pid_t process = start_process();
    struct command command;
    char text[COMMAND_TEXT];

    (void)keep_a(process, text);
    command = COMMAND("extend", "--lease", "1m", "a", text);
    assert_int_equal(command_status(command), 64);
    assert_contains(file_text(command.err), "a keeper renews the hold of this text");
    command = COMMAND("run", "--adopt", text, "a", "--", "touch", in_dir("ran"));
    assert_int_equal(command_status(command), 64);
    assert_contains(file_text(command.err), "a keeper renews the hold of this text");
    assert_int_equal(COMMAND_STATUS("release", "a", "keeper:12"), 64);
    assert_int_equal(COMMAND_STATUS("release", "a", "keeper:00000000000000000000000000000000"),
                     122);
    assert_true(is_held("a"));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}
