/* SPDX-License-Identifier: Apache-2.0 */
/* rlock doctor, and the rights that docs/server.md asks for. */
#include "command.h"
#include "support/refusal.h"

static const char *const kinds[] = {"reentrant", "non-reentrant", "spin",  "fenced",
                                    "fair",      "read",          "write", "setnx"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- The rights ---- */

/* The user that docs/server.md gives: the line for a server's configuration. */
static const char *user_of_the_page(void)
{
    static char line[2048];
    char path[512], text[512];
    FILE *page;

    test_text(path, sizeof(path), "%s/docs/server.md", test_root());
    page = fopen(path, "r");
    assert_non_null(page);
    test_text(line, sizeof(line), "user locker on >s3cret");
    while (fgets(text, sizeof(text), page) != NULL && strstr(text, "ACL SETUSER") == NULL) {
    }
    assert_non_null(strstr(text, " resetchannels"));
    memmove(text, strstr(text, " resetchannels"), strlen(strstr(text, " resetchannels")) + 1);
    do {
        text[strcspn(text, "\n")] = '\0';
        assert_true(strlen(line) + strlen(text) < sizeof(line));
        (void)strcat(line, text);
    } while (fgets(text, sizeof(text), page) != NULL && text[0] == ' ');
    (void)fclose(page);
    return line;
}

static void end_without_refusal(struct command *command)
{
    assert_int_equal(command_wait(command, 10000), 0);
    assert_null(strstr(file_text(command->err), "NOPERM"));
    assert_null(strstr(file_text(command->err), "warning: "));
}

COMMAND_TEST(the_rights_of_the_page_suffice_for_every_kind)
{
    const char *const conf[] = {user_of_the_page(), NULL};
    struct command doctor;
    char url[512];

    command_restart(conf);
    test_text(url, sizeof(url), "%s", url_with("locker:s3cret"));
    for (size_t i = 0; i < KINDS; i++) {
        const char *rival = strcmp(kinds[i], "read") == 0 ? "write" : kinds[i];
        struct command holder = COMMAND("run", "--verbose", "--url", url, "--renewed-lease",
                                        "2100ms", "--kind", kinds[i], "app:a", "--", "sleep", "1");
        struct command waiter;

        assert_true(TEST_EVENTUALLY(is_held("app:a"), 10000));
        waiter = COMMAND("run", "--verbose", "--url", url, "--kind", rival, "app:a", "--", "true");
        assert_int_equal(COMMAND_STATUS("info", "--url", url, "--kind", kinds[i], "app:a"), 0);
        assert_int_equal(COMMAND_STATUS("info", "--url", url, "app:a"),
                         strcmp(kinds[i], "setnx") == 0 ? 65 : 0);
        end_without_refusal(&holder);
        end_without_refusal(&waiter);
    }
    assert_int_equal(COMMAND_STATUS("run", "--url", url, "other", "--", "true"), 65);
    doctor = COMMAND("doctor", "--url", url, "--prefix", "app:");
    assert_int_equal(command_wait(&doctor, 10000), 0);
    assert_null(strstr(file_text(doctor.out), "will not work"));
    assert_null(strstr(file_text(doctor.out), "subscribe"));
    assert_null(strstr(file_text(doctor.out), "is not permitted: "));
}

COMMAND_TEST(the_rights_of_the_page_suffice_for_permits)
{
    const char *const conf[] = {user_of_the_page(), NULL};
    struct command holder, waiter;
    char url[512];

    command_restart(conf);
    test_text(url, sizeof(url), "%s", url_with("locker:s3cret"));
    holder = COMMAND("run", "--verbose", "--url", url, "--renewed-lease", "2100ms", "--slots", "1",
                     "app:a", "--", "sleep", "1");
    assert_true(TEST_EVENTUALLY(is_held("{app:a}:timeout"), 10000));
    waiter = COMMAND("run", "--verbose", "--url", url, "--slots", "1", "app:a", "--", "true");
    assert_int_equal(COMMAND_STATUS("info", "--check", "--url", url, "app:a"), 123);
    end_without_refusal(&holder);
    end_without_refusal(&waiter);
    free(test_server_cmd(fixture.server, "DEL app:a"));
}

COMMAND_TEST(the_user_of_the_page_may_list_locks)
{
    const char *const conf[] = {user_of_the_page(), NULL};
    struct command holder, ls;
    char url[512];

    command_restart(conf);
    test_text(url, sizeof(url), "%s", url_with("locker:s3cret"));
    holder = COMMAND("run", "--url", url, "--kind", "read", "app:a", "--", "sleep", "60");
    assert_true(TEST_EVENTUALLY(is_held("app:a"), 10000));
    ls = COMMAND("ls", "--url", url, "--prefix", "app:");
    assert_int_equal(command_wait(&ls, 10000), 0);
    assert_contains(file_text(ls.out), "app:a ");
    end_command(&holder);
}

enum { MOST_RIGHTS = 80, AT_A_TIME = 6 };

/* The rights of the page: its words that an ACL adds up. */
static int rights_of_the_page(const char *rights[static MOST_RIGHTS])
{
    static char line[2048];
    char *rest = line;
    int n = 0;

    test_text(line, sizeof(line), "%s", user_of_the_page());
    for (const char *word; (word = strsep(&rest, " ")) != NULL;) {
        bool known = word[0] == '\0' || strchr("+~&", word[0]) == NULL;

        for (int i = 0; i < n && !known; i++) {
            known = strcmp(rights[i], word) == 0;
        }
        if (!known) {
            assert_true(n < MOST_RIGHTS);
            rights[n++] = word;
        }
    }
    return n;
}

/* Starts doctor as a user who has all rights but one. */
static struct command doctor_without(const char *const *rights, int n, int without)
{
    char rule[2048], user[64], url[512];

    test_text(user, sizeof(user), "locker%d", without);
    test_text(rule, sizeof(rule), "ACL SETUSER %s on >s3cret resetchannels -@all", user);
    for (int i = 0; i < n; i++) {
        assert_true(strlen(rule) + strlen(rights[i]) + 2 < sizeof(rule));
        if (i != without) {
            (void)strcat(strcat(rule, " "), rights[i]);
        }
    }
    assert_true(test_server_says(fixture.server, "OK", "%s", rule));
    test_text(user, sizeof(user), "locker%d:s3cret", without);
    test_text(url, sizeof(url), "%s", url_with(user));
    return COMMAND("doctor", "--url", url, "--prefix", "app:");
}

COMMAND_TEST(doctor_names_each_right_of_the_page_that_is_missing)
{
    const char *rights[MOST_RIGHTS];
    struct command doctors[AT_A_TIME];
    const int n = rights_of_the_page(rights);

    assert_true(n > 30);
    for (int first = 0; first < n; first += AT_A_TIME) {
        const int last = first + AT_A_TIME < n ? first + AT_A_TIME : n;

        for (int i = first; i < last; i++) {
            doctors[i - first] = doctor_without(rights, n, i);
        }
        for (int i = first; i < last; i++) {
            char missing[256];

            (void)command_wait(&doctors[i - first], 20000);
            test_text(missing, sizeof(missing), "%s is not permitted", rights[i]);
            assert_contains(file_text(doctors[i - first].out), missing);
        }
    }
    test_server_assert_clean(fixture.server);
}

static const char *const no_config[] = {"user default on nopass ~* &* +@all -config", NULL};

COMMAND_WITH_TEST(doctor_does_not_call_unknown_settings_good,
                  .server = {.transport = TEST_UNIX, .conf = no_config})
{
    struct command doctor;

    doctor = COMMAND("doctor");
    assert_int_equal(command_wait(&doctor, 10000), 0);
    assert_contains(file_text(doctor.out), "warning  maxmemory-policy: not known");
    assert_contains(file_text(doctor.out), "warning  appendonly: not known");
}

COMMAND_TEST(doctor_names_the_server_and_its_own_version)
{
    const char *name = getenv("RLOCK_TEST_SERVER");
    const bool is_valkey = name != NULL && strcmp(name, "valkey") == 0;
    char *info = test_server_cmd(fixture.server, "INFO server");
    const char *field = is_valkey ? "valkey_version:" : "redis_version:";
    const char *at = strstr(info, field);
    struct command doctor;
    char version[64];

    assert_non_null(at);
    test_text(version, sizeof(version), "%s %.*s,", is_valkey ? "Valkey" : "Redis",
              (int)strcspn(at + strlen(field), "\r\n"), at + strlen(field));
    free(info);
    doctor = COMMAND("doctor");
    assert_int_equal(command_wait(&doctor, 10000), 0);
    assert_contains(file_text(doctor.out), version);
}

/* ---- The server ---- */

COMMAND_TEST(doctor_finds_a_good_server_good)
{
    struct command command;

    command = COMMAND("doctor", "--json");
    assert_int_equal(command_wait(&command, 10000), 0);
    assert_true(is_json_lines(file_text(command.out)));
    assert_contains(file_text(command.out), "\"level\":");
    assert_null(strstr(file_text(command.out), "will not work"));
    test_server_assert_clean(fixture.server);
}

COMMAND_TEST(doctor_says_when_a_server_counts_for_redlocks)
{
    const struct command command = COMMAND("doctor");

    assert_int_equal(command_wait(&command, 10000), 0);
    assert_contains(file_text(command.out), "it counts for new RedLocks in ");
}

static const char *const no_scripts[] = {"user default on nopass ~* &* +@all -evalsha -eval", NULL};

COMMAND_WITH_TEST(doctor_finds_what_is_forbidden,
                  .server = {.transport = TEST_UNIX, .conf = no_scripts})
{
    assert_int_equal(COMMAND_STATUS("doctor"), 65);
}

static const char *const no_time[] = {"user default on nopass ~* &* +@all -time", NULL};

COMMAND_WITH_TEST(doctor_finds_that_renewals_are_forbidden,
                  .server = {.transport = TEST_UNIX, .conf = no_time})
{
    struct command command;

    command = COMMAND("doctor");
    assert_int_equal(command_wait(&command, 10000), 65);
    assert_contains(file_text(command.out), "renewals fail, and holds are lost");
    test_server_assert_clean(fixture.server);
}

/* Who does not use a kind need not be allowed what it needs. */
COMMAND_TEST(doctor_finds_which_kinds_are_forbidden)
{
    static const struct {
        const char *conf, *subject;
    } cases[] = {
        {"user default on nopass ~* &* +@all -zadd", "fair"},
        {"user default on nopass resetkeys ~rlock* &* +@all", "fenced"},
        {"user default on nopass ~* &* +@all -hgetall", "read/write"},
        {"user default on nopass ~* &* +@all -incrby", "permits"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const conf[] = {cases[i].conf, NULL};
        struct command command;
        char line[64];

        command_restart(conf);
        command = COMMAND("doctor");
        assert_int_equal(command_wait(&command, 10000), 0);
        test_text(line, sizeof(line), "warning  %s: such locks will not work", cases[i].subject);
        assert_contains(file_text(command.out), line);
        assert_contains(file_text(command.out), "locks: work");
    }
}

/* ---- A server that closes the connection at a command that it does not support ---- */

/* As Twemproxy does: scripts run, what is asked for without a key does not. */
static const struct refusal twemproxy[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP},
                                           {.command = "CLIENT", .does = REFUSAL_HANGS_UP},
                                           {.command = "INFO", .does = REFUSAL_HANGS_UP},
                                           {.command = "CONFIG", .does = REFUSAL_HANGS_UP},
                                           {.command = "PUBLISH", .does = REFUSAL_HANGS_UP},
                                           {.command = "SUBSCRIBE", .does = REFUSAL_HANGS_UP},
                                           {.command = "UNSUBSCRIBE", .does = REFUSAL_HANGS_UP},
                                           {.command = "PUBSUB", .does = REFUSAL_HANGS_UP},
                                           {.command = "SCAN", .does = REFUSAL_HANGS_UP},
                                           {0}};
static const struct refusal no_scripts_at_all[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP},
                                                   {.command = "EVAL", .does = REFUSAL_HANGS_UP},
                                                   {.command = "EVALSHA", .does = REFUSAL_HANGS_UP},
                                                   {0}};

static struct command doctor_behind(const struct refusal *rows)
{
    refuse(fixture.proxy, rows);
    assert_int_equal(setenv("RLOCK_URL", proxy_url(fixture.proxy), 1), 0);
    return COMMAND("doctor");
}

COMMAND_WITH_TEST(doctor_goes_on_behind_a_server_that_hangs_up_at_what_it_does_not_support,
                  .proxy = PROXY_ON_UNIX, .server.transport = TEST_UNIX)
{
    const struct command doctor = doctor_behind(twemproxy);
    const char *out;

    assert_int_equal(command_wait(&doctor, 20000), 0);
    out = file_text(doctor.out);
    assert_contains(out, "INFO is not supported by the server");
    assert_contains(out, "CONFIG GET is not supported by the server");
    assert_contains(out, "commands: PUBLISH is not supported by the server");
    assert_contains(out, "commands: SCAN is not supported by the server");
    assert_contains(out, "warning  connection: the server closes it at a command");
    assert_contains(out, "locks: work");
    assert_null(strstr(out, "not permitted"));
}

COMMAND_WITH_TEST(doctor_says_what_is_missing_though_the_server_hangs_up, .proxy = PROXY_ON_UNIX,
                  .server.transport = TEST_UNIX)
{
    const struct command doctor = doctor_behind(no_scripts_at_all);

    assert_int_equal(command_wait(&doctor, 20000), 65);
    assert_contains(file_text(doctor.out),
                    "error    commands: EVALSHA is not supported by the server: locks will not");
    assert_contains(file_text(doctor.out), "commands: EVAL is not supported by the server");
}
