/* SPDX-License-Identifier: Apache-2.0 */
/* rlock acquire --keep when something ends or fails: the hold, the server, or a process. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Losing the lock ---- */

COMMAND_TEST(a_killed_keeper_frees_the_lock_within_a_lease)
{
    const pid_t process = start_process();
    struct command command;
    char text[COMMAND_TEXT];
    int64_t start_us;
    pid_t keeper;

    keeper = keep_a_shortly(process, text);
    (void)kill(keeper, SIGKILL);
    start_us = test_now_us();
    assert_true(is_gone_soon(keeper));
    assert_true(is_held("a"));
    command = COMMAND("release", "a", text);
    assert_int_equal(command_status(command), 122);
    assert_contains(file_text(command.err), "rlock: a: no keeper of this text on this machine");
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "true"), 0);
    assert_in_time(start_us, (SHORT_LEASE_MS + 500) * 1000 * (int64_t)test_slack());
    (void)end_process(process);
}

COMMAND_TEST(a_process_is_told_to_stop_when_its_lock_is_lost)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a_shortly(process, text);
    (void)kill(process, SIGSTOP); /* it is continued, so that it can end */
    assert_int_equal(test_server_int(fixture.server, "DEL a"), 1);
    assert_int_equal(end_of(process), SIGTERM);
    assert_true(is_gone_soon(keeper));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 122);
}

COMMAND_TEST(a_stopped_keeper_stops_its_process_when_it_goes_on_too_late)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a_shortly(process, text);
    test_freeze(keeper);
    assert_true(TEST_EVENTUALLY(!is_held("a"), 10000));
    assert_true(process_lives(process));
    (void)kill(keeper, SIGCONT);
    assert_int_equal(end_of(process), SIGTERM);
    assert_true(is_gone_soon(keeper));
}

COMMAND_TEST(a_silent_server_stops_the_process_before_the_lease_ends)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];
    int64_t start_us;

    (void)keep_a_shortly(process, text);
    start_us = test_now_us();
    test_server_freeze(fixture.server);
    assert_int_equal(end_of(process), SIGTERM);
    assert_in_time(start_us, SHORT_LEASE_MS * 1000 * (int64_t)test_slack());
    test_server_thaw(fixture.server);
    assert_true(is_free_soon("a"));
}

COMMAND_TEST(a_hold_longer_than_its_maximum_stops_the_process)
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT];

    command_text(COMMAND("acquire", "--renewed-lease", "600ms", "--max-hold", "1s", "--keep",
                         number(process), "a"),
                 text);
    assert_int_equal(end_of(process), SIGTERM);
    assert_true(is_free_soon("a"));
}

COMMAND_TEST(a_release_says_that_the_lock_was_lost)
{
    const pid_t process = start_process();
    struct command command;
    char text[COMMAND_TEXT];

    (void)keep_a(process, text);
    assert_int_equal(test_server_int(fixture.server, "DEL a"), 1);
    command = COMMAND("release", "a", text); /* before the next renewal */
    assert_int_equal(command_status(command), 122);
    assert_contains(file_text(command.err), "rlock: a: ");
    assert_true(process_lives(process));
    (void)end_process(process);
}

COMMAND_TEST(a_release_is_in_doubt_while_the_server_is_silent)
{
    const pid_t process = start_process();
    struct command command;
    char text[COMMAND_TEXT];
    pid_t keeper;

    keeper = keep_a(process, text);
    test_server_freeze(fixture.server);
    command = COMMAND("release", "a", text);
    assert_int_equal(command_wait(&command, 10000), 69);
    assert_contains(file_text(command.err), "rlock: a: ");
    test_server_thaw(fixture.server);
    assert_true(is_free_soon("a")); /* the keeper goes on */
    assert_true(is_gone_soon(keeper));
    (void)end_process(process);
}

/* ---- Nothing is left ---- */

COMMAND_TEST(a_waiting_keeper_ends_with_its_command)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGKILL};
    const pid_t process = start_process();
    struct command holder = hold_a("30s");

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        const struct command command = COMMAND("acquire", "--keep", number(process), "a");

        assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
        (void)kill(command.pid, signals[i]);
        assert_int_equal(command_status(command), 128 + signals[i]);
        assert_string_equal(file_text(command.out), "");
        assert_true(TEST_EVENTUALLY(!is_waited_for("a"), 5000));
    }
    end_command(&holder);
    test_server_assert_clean(fixture.server);
    (void)end_process(process);
}

COMMAND_TEST(a_terminal_ends_the_wait_and_no_keeper)
{
    const pid_t process = start_process();
    const char *const words[] = {"acquire", "--keep", number(process), "a", NULL};
    struct command holder = hold_a("30s"), command;
    char text[COMMAND_TEXT];
    int master;

    command = command_start_on_terminal(words, &master);
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    assert_int_equal(write(master, "\003", 1), 1);
    assert_int_equal(command_status(command), 128 + SIGINT);
    assert_true(TEST_EVENTUALLY(!is_waited_for("a"), 5000));
    (void)close(master);
    end_command(&holder);
    command_text(command_start_on_terminal(words, &master), text);
    (void)close(master); /* hangs up */
    assert_true(STAYS(is_held("a"), 200));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0);
    (void)end_process(process);
}

/* With tostop the terminal stops a background process that writes. */
COMMAND_TEST(a_keeper_may_write_to_its_terminal)
{
    char shown[300] = "";
    struct command script;
    int master;

    script =
        script_start_on_terminal("stty tostop && exec 2>/dev/tty && \"$RLOCK\" acquire --keep $$ "
                                 "--url rediss://localhost:1 --cacert /does/not/exist a",
                                 &master);
    assert_int_equal(command_status(script), 65);
    assert_true(read(master, shown, sizeof(shown) - 1) > 0);
    assert_contains(shown, "rlock: ");
    (void)close(master);
}

/* Returns the child of a process that has one. */
static pid_t child_of(pid_t parent)
{
    struct command command;
    const char *path;
    char script[100];

    test_text(script, sizeof(script), "grep -ls '^PPid:.%d$' /proc/[0-9]*/status; true",
              (int)parent);
    command = script_start(script);
    assert_int_equal(command_status(command), 0);
    path = file_text(command.out);
    assert_int_equal(strncmp(path, "/proc/", 6), 0);
    return (pid_t)strtol(path + 6, NULL, 10);
}

COMMAND_TEST(a_stopped_keeper_does_not_hold_up_the_end_of_a_wait)
{
    const pid_t process = start_process();
    struct command holder = hold_a("30s"), command;

    command = COMMAND("acquire", "--keep", number(process), "a");
    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    test_freeze(child_of(command.pid));
    (void)kill(command.pid, SIGINT);
    assert_int_equal(command_status(command), 128 + SIGINT);
    assert_true(TEST_EVENTUALLY(!is_waited_for("a"), 5000));
    end_command(&holder);
    (void)end_process(process);
}

COMMAND_TEST(a_wait_ends_with_the_process)
{
    const pid_t process = start_process();
    struct command holder = hold_a("30s");
    struct command command = COMMAND("acquire", "--keep", number(process), "a");

    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    (void)end_process(process);
    assert_int_equal(command_status(command), 122);
    assert_contains(file_text(command.err), "ended during the wait");
    assert_true(TEST_EVENTUALLY(!is_waited_for("a"), 5000));
    end_command(&holder);
    test_server_assert_clean(fixture.server);
}

/* The command stands still when its text has come, and is killed before it has printed that. */
COMMAND_TEST(a_command_that_is_killed_before_it_prints_leaves_nothing)
{
    const pid_t process = start_process();
    struct command holder = hold_a("30s");
    struct command command = COMMAND("acquire", "--keep", number(process), "a");
    pid_t keeper;

    assert_true(TEST_EVENTUALLY(is_waited_for("a"), 10000));
    test_freeze(command.pid);
    end_command(&holder);
    assert_true(TEST_EVENTUALLY(is_held("a"), 5000));
    keeper = holder_of("a");
    (void)kill(command.pid, SIGKILL);
    assert_int_equal(command_status(command), 128 + SIGKILL);
    assert_true(is_free_soon("a"));
    assert_true(is_gone_soon(keeper));
    (void)end_process(process);
}

/* Standard output of a command: a pipe that is full until the test reads it. */
static int open_full_pipe(void)
{
    static const char bytes[4096];
    int fd;

    (void)unlink(in_dir("pipe"));
    (void)test_must(mkfifo(in_dir("pipe"), 0600), "mkfifo");
    fd = test_must(open(in_dir("pipe"), O_RDWR | O_NONBLOCK | O_CLOEXEC), "pipe");
    while (write(fd, bytes, sizeof(bytes)) > 0) {
    }
    return fd;
}

/* Whether the process is inside write(). Skips the test if the kernel does not say. */
static bool is_writing(pid_t pid)
{
    char path[64];
    const char *text;
    long call;

    test_text(path, sizeof(path), "/proc/%d/syscall", (int)pid);
    text = file_text(path);
    if (*text == '\0') {
        skip();
    }
    call = *text == 'r' ? -1 : strtol(text, NULL, 10); /* "running" */
    return call == SYS_write || call == SYS_writev;
}

/* Starts a command that gets the lock, and waits for room to print the text. */
static struct command start_printing(pid_t process)
{
    struct command command;
    char script[300];

    test_text(script, sizeof(script),
              "exec \"$RLOCK\" acquire --renewed-lease " SHORT_LEASE " --keep %d a >\"$DIR/pipe\"",
              (int)process);
    command = script_start(script);
    assert_true(TEST_EVENTUALLY(is_writing(command.pid), 10000));
    return command;
}

/* Whether a child of a command has ended with all its threads: the last one closes its sockets. */
static bool is_zombie(pid_t pid)
{
    char path[64];
    const char *text;

    test_text(path, sizeof(path), "/proc/%d/status", (int)pid);
    text = file_text(path);
    return strstr(text, "State:\tZ") != NULL && strstr(text, "Threads:\t1\n") != NULL;
}

/* Makes room in the pipe for the text. Returns what the command says after it has failed. */
static const char *failure_after_text(const struct command *command, int pipe)
{
    static char bytes[1 << 20];
    ssize_t len;

    assert_true(read(pipe, bytes, 4096) > 0);
    assert_int_equal(command_status(*command), 122);
    len = read(pipe, bytes, sizeof(bytes));
    assert_true(len > 0);
    assert_non_null(memmem(bytes, (size_t)len, "keeper:", 7));
    (void)close(pipe);
    return file_text(command->err);
}

COMMAND_TEST(a_text_that_is_void_when_it_is_printed_is_a_failure_with_a_reason)
{
    enum { PROCESS_ENDS, HOLD_ENDS, KEEPER_ENDS };
    static const char *const reasons[] = {
        [PROCESS_ENDS] = " ended before the text was printed: the text is void\n",
        [HOLD_ENDS] = "rlock: the hold ended before the text was printed: the text is void\n",
        [KEEPER_ENDS] = "rlock: signal 9 ended the keeper: the text is void\n",
    };

    for (int what = PROCESS_ENDS; what <= KEEPER_ENDS; what++) {
        const pid_t process = start_process();
        const int pipe = open_full_pipe();
        const struct command command = start_printing(process);
        const pid_t keeper = holder_of("a");

        if (what == PROCESS_ENDS) {
            (void)kill(process, SIGKILL);
        } else if (what == HOLD_ENDS) {
            assert_int_equal(test_server_int(fixture.server, "DEL a"), 1);
        } else {
            (void)kill(keeper, SIGKILL);
        }
        assert_true(TEST_EVENTUALLY(is_zombie(keeper), 10000));
        assert_contains(failure_after_text(&command, pipe), reasons[what]);
        (void)end_process(process);
    }
}

COMMAND_TEST(a_text_that_cannot_be_printed_is_not_kept)
{
    const pid_t process = start_process();
    char script[200];
    struct command command;

    test_text(script, sizeof(script), "exec \"$RLOCK\" acquire --keep %d a >/dev/full",
              (int)process);
    command = script_start(script);
    assert_int_equal(command_status(command), 125);
    assert_contains(file_text(command.err), "cannot write");
    assert_false(is_held("a"));
    (void)end_process(process);
}

COMMAND_TEST(a_keeper_that_does_not_get_the_lock_says_why)
{
    const pid_t process = start_process();
    struct command holder = hold_a("30s");
    struct command command;

    command = COMMAND("acquire", "--wait", "0", "--keep", number(process), "a");
    assert_int_equal(command_status(command), 123);
    assert_contains(file_text(command.err), "rlock: a: ");
    assert_int_equal(COMMAND_STATUS("acquire", "--wait", "100ms", "--keep", number(process), "a"),
                     124);
    assert_int_equal(
        COMMAND_STATUS("acquire", "--wait", "0", "-E", "7", "--keep", number(process), "a"), 7);
    end_command(&holder);
    test_server_kill(fixture.server);
    assert_int_equal(COMMAND_STATUS("acquire", "--wait", "0", "--keep", number(process), "a"), 69);
    assert_int_equal(COMMAND_STATUS("acquire", "--keep", number(process), ""), 64);
    (void)end_process(process);
}

/* ---- What a keeper has of its command ---- */

static const char *const with_password[] = {"user default on >s3cret ~* &* +@all", NULL};

COMMAND_WITH_TEST(a_keeper_hides_its_password_and_reads_it_again,
                  .server = {.transport = TEST_UNIX, .conf = with_password})
{
    const pid_t process = start_process();
    char text[COMMAND_TEXT], path[64], script[300];
    pid_t keeper;

    test_text(script, sizeof(script),
              "cd \"$DIR\" && exec \"$RLOCK\" acquire --url '%s' --password-file password "
              "--renewed-lease " SHORT_LEASE " --keep %d a",
              url_with("default:wr0ng"), (int)process);
    write_file(in_dir("password"), "s3cret\n", 0600);
    command_text(script_start(script), text); /* the path is relative, and the keeper is in / */
    keeper = keeper_of(text);
    assert_true(keeper > 0);
    test_text(path, sizeof(path), "/proc/%d/cmdline", (int)keeper);
    assert_null(memmem(file_text(path), 4096, "wr0ng", 5));
    write_file(in_dir("password"), "changed\n", 0600);
    test_server_do(fixture.server, "CONFIG SET requirepass changed");
    test_server_do(fixture.server, "CLIENT KILL TYPE normal");
    assert_true(fixture_wait_renewed(&fixture, SHORT_LEASE_MS));
    assert_int_equal(COMMAND_STATUS("release", "a", text), 0); /* it needs no password */
    assert_false(is_held("a"));
    test_server_do(fixture.server, "CONFIG SET requirepass s3cret");
    (void)end_process(process);
}

/* ---- A kernel without pidfds ---- */

/* From here on pidfd_open() fails, in this process and its children. */
static void forbid_pidfds(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = 4, .filter = rules};

    (void)test_must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
    (void)test_must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "seccomp");
}

/* In a child, so that the filter ends with it. Returns what rlock acquire exits with. */
static int acquire_without_pidfds(pid_t process, const char *name, const char *lease)
{
    const pid_t pid = test_must(fork(), "fork");
    int status = 0;

    if (pid == 0) {
        forbid_pidfds();
        (void)execl(command_binary(), "rlock", "acquire", "--quiet", "--renewed-lease", lease,
                    "--keep", number(process), name, (char *)NULL);
        _exit(99);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

COMMAND_TEST(a_kernel_without_pidfds_will_do)
{
    pid_t process = start_process();

    assert_int_equal(acquire_without_pidfds(process, "a", "30s"), 0);
    assert_true(is_held("a"));
    (void)kill(process, SIGKILL);
    assert_true(is_free_soon("a"));
    assert_int_equal(acquire_without_pidfds(process, "a", "30s"), 64); /* a zombie */
    (void)end_of(process);
    assert_int_equal(acquire_without_pidfds(process, "a", "30s"), 64);
    process = start_process();
    assert_int_equal(acquire_without_pidfds(process, "a", SHORT_LEASE), 0);
    assert_int_equal(test_server_int(fixture.server, "DEL a"), 1);
    assert_int_equal(end_of(process), SIGTERM);
}
