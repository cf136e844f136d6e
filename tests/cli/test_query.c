/* SPDX-License-Identifier: Apache-2.0 */
/* The rlock command apart from run: its usage, its secrets, and what it tells of locks. */
#include "command.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rlock/version.h>

/* ---- usage and failures ---- */

COMMAND_TEST(wrong_usage_is_64)
{
    assert_int_equal(COMMAND_STATUS("run", "--wait", "soon", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--no-such-option", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--kind", "odd", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--max-lease", "9s", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--fair-slot", "9s", "a", "--", "true"), 64);
    assert_int_equal(
        COMMAND_STATUS("run", "--lease", "9s", "--renewed-lease", "9s", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--lease", "9s", "--max-hold", "9s", "a", "--", "true"),
                     64);
    assert_int_equal(COMMAND_STATUS("run", "a", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("run", "--url", "nonsense", "a", "--", "true"), 64);
    assert_int_equal(COMMAND_STATUS("info"), 64);
    assert_int_equal(COMMAND_STATUS("info", "--wait", "1", "a"), 64);
    assert_int_equal(COMMAND_STATUS("ls", "--cert", "cert.pem"), 64);
    assert_int_equal(COMMAND_STATUS("walk"), 64);
}

COMMAND_TEST(options_may_be_shortened_as_far_as_they_are_clear)
{
    struct command command;

    assert_int_equal(COMMAND_STATUS("run", "--wai", "0", "a", "--", "true"), 0);
    assert_int_equal(COMMAND_STATUS("run", "--wai=0", "a", "--", "true"), 0);
    assert_int_equal(COMMAND_STATUS("run", "--lease", "9s", "a", "--", "true"), 0);
    command = COMMAND("run", "--max", "9s", "a", "--", "true"); /* -hold or -lease */
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "unknown or ambiguous option --max\n");
    command = COMMAND("run", "a", "--wait");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--wait needs a value\n");
    command = COMMAND("run", "--nonblock=1", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "--nonblock takes no value\n");
    command = COMMAND("run", "-nq", "a", "--", "true");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_contains(file_text(command.err), "unknown option -q\n");
}

COMMAND_TEST(the_order_of_words_is_free_whatever_the_environment_says)
{
    (void)setenv("POSIXLY_CORRECT", "1", 1);
    assert_int_equal(COMMAND_STATUS("run", "a", "--wait", "0", "--", "true", "--wait"), 0);
    (void)unsetenv("POSIXLY_CORRECT");
}

/* As flock(1) has them. */
COMMAND_TEST(short_options_do_what_those_of_flock_do)
{
    struct command holder, reader;

    holder = hold_a("30s");
    assert_int_equal(COMMAND_STATUS("run", "-n", "a", "--", "true"), 123);
    assert_int_equal(COMMAND_STATUS("run", "-w", "0.2", "a", "--", "true"), 124);
    assert_int_equal(COMMAND_STATUS("run", "-nE", "7", "a", "--", "true"), 7);
    assert_int_equal(COMMAND_STATUS("run", "-w0.2", "-E7", "a", "--", "true"), 7);
    assert_int_equal(COMMAND_STATUS("run", "-nE", "256", "a", "--", "true"), 64);
    end_command(&holder);
    reader = COMMAND("run", "-s", "b", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("b"), 10000));
    assert_int_equal(COMMAND_STATUS("run", "-s", "-n", "b", "--", "true"), 0);
    assert_int_equal(COMMAND_STATUS("run", "-x", "-n", "b", "--", "true"), 123);
    end_command(&reader);
}

COMMAND_TEST(info_may_tell_by_its_status_whether_a_lock_is_held)
{
    struct command holder;

    assert_int_equal(COMMAND_STATUS("info", "--check", "a"), 0);
    holder = hold_a("30s");
    assert_int_equal(COMMAND_STATUS("info", "a"), 0);
    assert_int_equal(COMMAND_STATUS("info", "--check", "a"), 123);
    assert_int_equal(COMMAND_STATUS("info", "--check", "b", "a"), 123);
    assert_int_equal(COMMAND_STATUS("info", "--check", "b"), 0);
    end_command(&holder);
}

COMMAND_TEST(help_and_version_are_there)
{
    struct command command;

    command = COMMAND("--help");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "Examples:");
    command = COMMAND("run", "--help");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "--lease TIME");
    command = COMMAND("run", "-h");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "--lease TIME");
    command = COMMAND("help", "run");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "--lease TIME");
    command = COMMAND("--version");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "rlock " RLOCK_VERSION "\n");
}

/* Whether the help on a command has this row under "Exit status:". */
static bool has_exit(const char *verb, const char *row)
{
    const struct command command = COMMAND(verb, "--help");
    const char *exits;

    assert_int_equal(command_wait(&command, 10000), 0);
    exits = strstr(file_text(command.out), "\nExit status:\n");
    assert_non_null(exits);
    return strstr(exits, row) != NULL;
}

COMMAND_TEST(help_on_a_command_lists_the_exit_statuses_of_that_command_alone)
{
    static const char *const others[] = {"info", "ls", "break", "doctor"};
    static const char *const only_run[] = {"  122  ", "  124  ", "  126  ", "  127  ", "128+N"};

    for (size_t i = 0; i < sizeof(only_run) / sizeof(only_run[0]); i++) {
        assert_true(has_exit("run", only_run[i]));
        for (size_t j = 0; j < sizeof(others) / sizeof(others[0]); j++) {
            assert_false(has_exit(others[j], only_run[i]));
        }
    }
    assert_true(has_exit("run", "  123  another owner"));
    assert_true(has_exit("info", "  123  one of the locks is held"));
    assert_true(has_exit("break", "  123  the holder changed"));
    assert_false(has_exit("ls", "  123  "));
    assert_false(has_exit("doctor", "  123  "));
    assert_true(has_exit("doctor", "   69  the server cannot be reached"));
    assert_true(has_exit("acquire", "   69  the server cannot be reached, no quorum"));
    assert_false(has_exit("extend", "no quorum"));
    assert_true(has_exit("release", "the keeper belongs to another user"));
    assert_false(has_exit("acquire", "the keeper belongs to another user"));
}

/* What the shell completes while this lock is held; the script fails if that is wrong. */
COMMAND_TEST(the_shells_complete_names_of_locks)
{
    const struct command holder =
        COMMAND("run", "--prefix", "p-", "--multi", "order:7,order:12", "--", "sh", "-c",
                "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));
    char text[400];

    (void)pid_in_file(in_dir("pid"));
    test_text(text, sizeof(text), "%s names", SHELL_COMPLETES);
    assert_int_equal(system(text), 0); /* NOLINT(cert-env33-c): a script of these tests */
    test_server_freeze(fixture.server);
    test_text(text, sizeof(text), "%s nothing", SHELL_COMPLETES);
    assert_int_equal(system(text), 0); /* NOLINT(cert-env33-c) */
    test_server_thaw(fixture.server);
    end_command(&holder);
}

COMMAND_TEST(a_key_of_another_type_is_refused)
{
    assert_true(test_server_says(fixture.server, "OK", "SET a text"));
    assert_int_equal(COMMAND_STATUS("run", "a", "--", "true"), 65);
    assert_int_equal(COMMAND_STATUS("info", "a"), 65);
}

COMMAND_TEST(a_server_that_is_not_there_is_69)
{
    test_server_kill(fixture.server);
    assert_int_equal(COMMAND_STATUS("run", "--wait", "200ms", "a", "--", "true"), 69);
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "a", "--", "true"), 69);
    assert_int_equal(COMMAND_STATUS("info", "a"), 69);
    assert_int_equal(COMMAND_STATUS("doctor"), 69);
}

/* ---- secrets ---- */

static const char *const with_password[] = {"user default on >s3cret ~* &* +@all", NULL};

COMMAND_WITH_TEST(a_password_on_the_command_line_is_out_of_sight,
                  .server = {.transport = TEST_UNIX, .conf = with_password})
{
    struct command command;
    char path[64];

    command = COMMAND("run", "--verbose", "--url", url_with("default:s3cret"), "a", "--", "sh",
                      "-c", "echo $$ >\"$0\"; exec sleep 60", in_dir("pid"));
    (void)pid_in_file(in_dir("pid"));
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)command.pid);
    assert_null(memmem(file_text(path), 4096, "s3cret", 6));
    end_command(&command);
    assert_null(strstr(file_text(command.err), "s3cret"));
}

COMMAND_WITH_TEST(a_wrong_password_is_refused_and_not_repeated,
                  .server = {.transport = TEST_UNIX, .conf = with_password})
{
    struct command command;

    command = COMMAND("info", "--verbose", "--url", url_with("default:wr0ng"), "a");
    assert_int_equal(command_wait(&command, 10000), 65);
    assert_null(strstr(file_text(command.err), "wr0ng"));
    assert_int_equal(COMMAND_STATUS("info", "a"), 65); /* none at all */
}

COMMAND_TEST(a_mistyped_option_does_not_repeat_its_secret)
{
    struct command command;

    command = COMMAND("info", "--ulr=redis://:s3cret@localhost", "a");
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_null(strstr(file_text(command.err), "s3cret"));
}

COMMAND_WITH_TEST(a_password_file_must_be_its_owners_alone,
                  .server = {.transport = TEST_UNIX, .conf = with_password})
{
    write_file(in_dir("password"), "s3cret\n", 0600);
    assert_int_equal(COMMAND_STATUS("info", "--password-file", in_dir("password"), "a"), 0);
    assert_int_equal(chmod(in_dir("password"), 0640), 0);
    assert_int_equal(COMMAND_STATUS("info", "--password-file", in_dir("password"), "a"), 64);
}

/* It holds the lock while the password changes and its connection breaks, and gives it back. */
COMMAND_WITH_TEST(a_password_file_is_read_again_at_each_connection,
                  .server = {.transport = TEST_UNIX, .conf = with_password})
{
    struct command command;

    write_file(in_dir("password"), "s3cret\n", 0600);
    write_file(in_dir("end"), "", 0600);
    command = COMMAND("run", "--password-file", in_dir("password"), "a", "--", "sh", "-c",
                      "while test -e \"$1\"; do sleep 0.02; done", "sh", in_dir("end"));
    assert_true(TEST_EVENTUALLY(test_server_int(fixture.server, "EXISTS a") == 1, 10000));
    write_file(in_dir("password"), "changed\n", 0600);
    test_server_do(fixture.server, "CONFIG SET requirepass changed");
    test_server_do(fixture.server, "CLIENT KILL TYPE normal");
    assert_int_equal(unlink(in_dir("end")), 0);
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_int_equal(test_server_int(fixture.server, "EXISTS a"), 0);
    test_server_do(fixture.server, "CONFIG SET requirepass s3cret");
}

COMMAND_WITH_TEST(tls_takes_its_files_from_options,
                  .server = {.transport = TEST_TLS, .tls_auth_clients = true})
{
    assert_int_equal(COMMAND_STATUS("info", "--cacert", test_server_cacert(fixture.server),
                                    "--cert", test_server_cert(fixture.server), "--key",
                                    test_server_key(fixture.server), "a"),
                     0);
    assert_int_equal(COMMAND_STATUS("info", "a"), 65); /* nobody vouches for the server */
    assert_int_equal(COMMAND_STATUS("info", "--cacert", in_dir("none"), "a"), 65);
}

/* ---- info, ls, break ---- */

COMMAND_TEST(info_tells_who_holds)
{
    struct command holder, info;

    holder = hold_a("30s");
    info = COMMAND("info", "a", "b");
    assert_int_equal(command_wait(&info, 10000), 0);
    assert_contains(file_text(info.out), "a: held by ");
    assert_contains(file_text(info.out), "b: free\n");
    info = COMMAND("info", "--json", "a", "b");
    assert_int_equal(command_wait(&info, 10000), 0);
    assert_true(is_json_lines(file_text(info.out)));
    assert_contains(file_text(info.out), "{\"name\":\"a\",\"locked\":true,\"holder\":\"");
    assert_contains(file_text(info.out), "{\"name\":\"b\",\"locked\":false,\"holder\":null");
    end_command(&holder);
}

static const char *const kinds[] = {"reentrant", "non-reentrant", "spin", "fenced",
                                    "fair",      "read",          "write"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Holds "a" as this kind, as one of several. */
static struct command hold_as(const char *kind)
{
    return COMMAND("run", "--kind", kind, "a", "--", "sleep", "60");
}

/* What info says of "a", asked without a kind and with it, as text and as JSON. */
static void assert_info(const char *kind, const char *text, const char *json)
{
    for (int i = 0; i < 4; i++) {
        const char *words[] = {"info", "a", i % 2 == 0 ? NULL : "--json", NULL, NULL, NULL};
        size_t n = i % 2 == 0 ? 2 : 3;
        struct command info;

        words[n] = i < 2 ? NULL : "--kind";
        words[n + 1] = i < 2 ? NULL : kind;
        info = command_start(words);
        assert_int_equal(command_wait(&info, 10000), 0);
        assert_true(i % 2 == 0 || is_json_lines(file_text(info.out)));
        assert_contains(file_text(info.out), i % 2 == 0 ? text : json);
    }
}

COMMAND_TEST(info_knows_every_kind_told_or_not)
{
    for (size_t i = 0; i < KINDS; i++) {
        const bool has_side = strcmp(kinds[i], "read") == 0 || strcmp(kinds[i], "write") == 0;
        struct command holder = hold_as(kinds[i]);
        char text[64], json[64];

        assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
        test_text(text, sizeof(text), has_side ? ", mode %s\n" : ", expires in ", kinds[i]);
        test_text(json, sizeof(json), has_side ? "\"mode\":\"%s\"" : "\"mode\":null", kinds[i]);
        assert_info(kinds[i], text, json);
        test_text(text, sizeof(text), "(process %d), count 1, ", (int)holder.pid);
        test_text(json, sizeof(json), "\"pid\":%d,\"holders\":1,\"count\":1,", (int)holder.pid);
        assert_info(kinds[i], text, json);
        end_command(&holder);
        assert_info(kinds[i], "a: free", "\"locked\":false,\"holder\":null");
        if (strcmp(kinds[i], "fair") != 0) { /* others' waiters leave no trace: 0 would be a lie */
            assert_info(kinds[i], "a: free", "\"waiters\":null}");
        }
        assert_true(TEST_EVENTUALLY(!is_held("a"), 10000));
    }
}

COMMAND_TEST(info_tells_a_fenced_locks_token)
{
    struct command holder;
    char text[64], json[64];
    long long token;

    holder = hold_as("fenced");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    token = test_server_int(fixture.server, "GET redisson_lock_token:{a}");
    assert_true(token > 0);
    test_text(text, sizeof(text), ", token %lld\n", token);
    test_text(json, sizeof(json), "\"token\":%lld,", token);
    assert_info("fenced", text, json);
    end_command(&holder);
}

COMMAND_TEST(info_tells_how_many_wait_for_a_fair_lock)
{
    struct command holder, waiters[2];

    holder = hold_as("fair");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    for (int i = 0; i < 2; i++) {
        waiters[i] = hold_as("fair");
    }
    assert_true(TEST_EVENTUALLY(
        test_server_int(fixture.server, "LLEN redisson_lock_queue:{a}") == 2, 10000));
    assert_info("fair", ", 2 waiting\n", "\"waiters\":2}");
    for (int i = 0; i < 2; i++) {
        end_command(&waiters[i]);
    }
    end_command(&holder);
}

/* A waiter is killed, and nobody asks for the lock again. */
COMMAND_TEST(a_queue_of_the_dead_is_seen_and_removed)
{
    struct command holder, waiter;

    holder = hold_as("fair");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    waiter = hold_as("fair");
    assert_true(TEST_EVENTUALLY(
        test_server_int(fixture.server, "LLEN redisson_lock_queue:{a}") == 1, 10000));
    assert_int_equal(kill(waiter.pid, SIGKILL), 0);
    (void)command_wait(&waiter, 10000);
    assert_true(TEST_EVENTUALLY(test_server_says(fixture.server, "", "PUBSUB CHANNELS"), 10000));
    assert_info("fair", ", 1 waiting, 1 of them dead\n", "\"dead_waiters\":1,\"waiters\":1}");
    end_command(&holder);
    assert_info("fair", "a: free, 1 waiting, all dead (rlock break removes them)\n",
                "\"dead_waiters\":1,\"waiters\":1}");
    assert_command_says("free, 1 waiting, all dead (rlock break removes them)\n", "ls");
    assert_command_says("\"locked\":false,\"holder\":null", "ls", "--json");
    assert_in_range(test_server_int(fixture.server, "PTTL redisson_lock_queue:{a}"), 1, 1000000);
    assert_command_says("a: was free, 1 dead waiter removed\n", "break", "a");
    assert_int_equal(test_server_int(fixture.server, "DBSIZE"), 0);
    assert_command_says("a: was free\n", "break", "a");
}

COMMAND_TEST(info_tells_how_many_read)
{
    struct command readers[3], info;

    for (int i = 0; i < 3; i++) {
        readers[i] = hold_as("read");
    }
    assert_true(TEST_EVENTUALLY(test_server_int(fixture.server, "HLEN a") == 4, 10000));
    assert_info("read", " and 2 more, count 1, ", "\"holders\":3,");
    info = COMMAND("info", "--kind", "write", "a"); /* nobody has that side */
    assert_int_equal(command_wait(&info, 10000), 0);
    assert_string_equal(file_text(info.out), "a: free, mode read\n");
    for (int i = 0; i < 3; i++) {
        end_command(&readers[i]);
    }
}

COMMAND_TEST(odd_names_are_escaped)
{
    struct command command;

    command = COMMAND("info", "--json", "a\"\\\n\xff\xc3\xa4");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_true(is_json_lines(file_text(command.out)));
    assert_contains(file_text(command.out), "\"a\\\"\\\\\\u000a\\udcff\xc3\xa4\"");
    command = COMMAND("info", "a\033[2J\nrlock: b");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_string_equal(file_text(command.out), "a\\x1b[2J\\x0arlock: b: free\n");
}

COMMAND_TEST(messages_show_a_long_or_odd_name_once_and_in_part)
{
    static const char *const prefixes[] = {"", "odd\n: "};
    struct command command;
    static char name[70001];

    for (size_t i = 0; i < 2; i++) {
        (void)memset(name, 'a', 60000);
        name[60000] = '\0';
        memcpy(name, prefixes[i], strlen(prefixes[i]));
        free(test_server_cmd(fixture.server, "SET %s text", i == 0 ? name : "other"));
        command = COMMAND("run", "--wait", "0", "--lease", "10ms", name, "--", "true");
        (void)command_wait(&command, 10000);
        assert_true(strlen(file_text(command.err)) < 500);
        assert_null(strstr(file_text(command.err), ": lock "));
        command = COMMAND("info", name);
        (void)command_wait(&command, 10000);
        assert_true(strlen(file_text(command.out)) < 500);
        assert_null(strstr(file_text(command.err), ": lock "));
    }
    (void)memset(name, 'a', 70000);
    command = COMMAND("info", name);
    assert_int_equal(command_wait(&command, 10000), 64);
    assert_true(strlen(file_text(command.err)) < 1500);
}

COMMAND_TEST(ls_lists_locks_and_nothing_else)
{
    struct command holder, ls;

    holder = hold_a("30s");
    assert_int_equal(test_server_int(fixture.server, "HSET other field value"), 1);
    ls = COMMAND("ls", "--json");
    assert_int_equal(command_wait(&ls, 10000), 0);
    assert_true(is_json_lines(file_text(ls.out)));
    assert_contains(file_text(ls.out), "{\"key\":\"a\",\"locked\":true,");
    assert_null(strstr(file_text(ls.out), "other"));
    ls = COMMAND("ls", "b*");
    assert_int_equal(command_wait(&ls, 10000), 0);
    assert_null(strchr(file_text(ls.out), ':'));
    end_command(&holder);
}

/* Whether somebody listens for the release of "a"; those who wait for a spin lock never do. */
static bool somebody_listens(void)
{
    char *channels = test_server_cmd(fixture.server, "PUBSUB CHANNELS *{a}*");
    const bool listens = channels[0] != '\0';

    free(channels);
    return listens;
}

COMMAND_TEST(break_opens_the_lock_and_its_holder_learns_it)
{
    struct command holder, command;

    holder = hold_a("1500ms");
    command = COMMAND("break", "a");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "a: broken, was held by ");
    assert_int_equal(command_wait(&holder, 10000), 122);
    command = COMMAND("break", "--json", "a");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_true(is_json_lines(file_text(command.out)));
    assert_contains(file_text(command.out), "\"broken\":false");
}

COMMAND_TEST(a_setnx_lock_is_shown_and_broken_by_its_kind_alone)
{
    struct command holder, command;
    char text[64];

    holder =
        COMMAND("run", "--kind", "setnx", "--renewed-lease", "1500ms", "a", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
    assert_int_equal(COMMAND_STATUS("info", "a"), 65); /* the string may be anything */
    assert_int_equal(COMMAND_STATUS("break", "a"), 65);
    test_text(text, sizeof(text), "(process %d), count 1, expires in ", (int)holder.pid);
    command = COMMAND("info", "--kind", "setnx", "a");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), text);
    assert_int_equal(COMMAND_STATUS("break", "--kind", "setnx", "a"), 0);
    assert_false(is_held("a"));
    assert_int_equal(command_wait(&holder, 10000), 122);
}

COMMAND_TEST(the_holder_of_another_librarys_key_is_its_value)
{
    struct command command;

    free(test_server_cmd(fixture.server, "SET a Z2VoZWltbmlz PX 60000 NX"));
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--kind", "setnx", "a", "--", "true"),
                     123);
    command = COMMAND("info", "--kind", "setnx", "a");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "a: held by Z2VoZWltbmlz, count 1, expires in ");
    command = COMMAND("break", "--kind", "setnx", "a");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "a: broken, was held by Z2VoZWltbmlz");
    assert_int_equal(COMMAND_STATUS("run", "--wait", "0", "--kind", "setnx", "a", "--", "true"), 0);
}

/* Without being told: those who wait for it come in, as they do after a release. */
COMMAND_TEST(break_opens_every_kind)
{
    for (size_t i = 0; i < KINDS; i++) {
        struct command holder, waiter, command;
        int64_t broken_us;

        holder =
            COMMAND("run", "--kind", kinds[i], "--renewed-lease", "4s", "a", "--", "sleep", "60");
        assert_true(TEST_EVENTUALLY(is_held("a"), 10000));
        waiter = COMMAND("run", "--kind", strcmp(kinds[i], "read") == 0 ? "write" : kinds[i],
                         "--wait", "20s", "a", "--", "touch", in_dir("ran"));
        assert_true(strcmp(kinds[i], "spin") == 0 || TEST_EVENTUALLY(somebody_listens(), 10000));
        command = COMMAND("break", "a");
        assert_int_equal(command_wait(&command, 10000), 0);
        broken_us = test_now_us(); /* the break itself is a process that asks as every kind first */
        assert_contains(file_text(command.out), "a: broken, was held by ");
        assert_int_equal(command_wait(&waiter, 10000), 0);
        assert_in_time(broken_us, 1500000 * test_slack());
        assert_int_equal(access(in_dir("ran"), F_OK), 0);
        assert_int_equal(unlink(in_dir("ran")), 0);
        assert_int_equal(command_wait(&holder, 10000), 122);
    }
}
