/* SPDX-License-Identifier: Apache-2.0 */
/* rlock doctor, ls, info and break in a cluster and behind Sentinels. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "support/cluster.h"
#include "support/sentinel.h"
#include "topology/slot.h"

enum { PRIMARIES = 3, WAIT_MS = 20000 };

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

static void use_url(const char *url)
{
    assert_int_equal(setenv("RLOCK_URL", url, 1), 0);
}

static void begin_cluster(const char *const *conf, size_t n)
{
    const struct fixture_opts opts = {.servers = n,
                                      .server = {.transport = TEST_TCP, .conf = conf}};
    char url[200];

    command_open(&opts);
    cluster_form(fixture.servers, PRIMARIES, n);
    cluster_url(fixture.servers, PRIMARIES, url, sizeof(url));
    use_url(url);
}

/* A test in a cluster of three primaries. */
#define CLUSTER_TEST(name) CLUSTER_OF_TEST(name, failing_conf, PRIMARIES)
#define CLUSTER_OF_TEST(name, conf, n)                                                             \
    static void name(void);                                                                        \
    TEST_LIST(name, NULL, NULL)                                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        begin_cluster(conf, n);                                                                    \
        name();                                                                                    \
        fixture_drop(&fixture);                                                                    \
    }                                                                                              \
    static void name(void)

static unsigned int slot_of(const char *name)
{
    return rlock__slot(rlock__bytes_of(name));
}

static struct test_server *home_of(const char *name)
{
    return cluster_primary_of(fixture.servers, PRIMARIES, slot_of(name));
}

/* Starts a command that holds a lock, and waits until the server has it. */
static struct command hold(const char *name, struct test_server *server)
{
    const struct command holder =
        COMMAND("run", "--renewed-lease", "3s", "--kind", "read", name, "--", "sleep", "60");

    assert_true(TEST_EVENTUALLY(test_server_int(server, "EXISTS %s", name) == 1, WAIT_MS));
    return holder;
}

static const char *output_of(struct command command, int status)
{
    const int ended = command_wait(&command, WAIT_MS);
    const char *text = file_text(command.out);

    if (ended != status) {
        print_error("exit %d, not %d: %s\n", ended, status, text);
    }
    assert_int_equal(ended, status);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        n++;
    }
    return n;
}

static long long keys_left(void)
{
    long long n = 0;

    for (size_t i = 0; i < PRIMARIES; i++) {
        n += test_server_int(fixture.servers[i], "DBSIZE");
    }
    return n;
}

/* ---- ls, info and break in a cluster ---- */

/* These are at three different primaries. */
static const char *const names[] = {"a", "b", "c"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void hold_each(struct command holders[static NAMES])
{
    assert_true(home_of("a") != home_of("b") && home_of("b") != home_of("c") &&
                home_of("c") != home_of("a"));
    for (size_t i = 0; i < NAMES; i++) {
        holders[i] = hold(names[i], home_of(names[i]));
    }
}

CLUSTER_TEST(locks_of_all_primaries_are_listed_shown_and_broken)
{
    struct command holders[NAMES];
    const char *text;

    hold_each(holders);
    text = output_of(COMMAND("ls", "--json"), 0);
    assert_true(is_json_lines(text));
    for (size_t i = 0; i < NAMES; i++) {
        char line[64];

        test_text(line, sizeof(line), "{\"key\":\"%s\",\"locked\":true,", names[i]);
        assert_int_equal(count(text, line), 1);
    }
    for (size_t i = 0; i < NAMES; i++) {
        char line[64];

        test_text(line, sizeof(line), "\n%s  ", names[i]);
        assert_contains(output_of(COMMAND("ls"), 0), line);
        assert_contains(output_of(COMMAND("info", names[i]), 0), ": held by ");
        assert_contains(output_of(COMMAND("break", names[i]), 0), ": broken");
    }
    for (size_t i = 0; i < NAMES; i++) {
        (void)command_wait(&holders[i], WAIT_MS);
    }
    assert_contains(output_of(COMMAND("info", "a"), 0), "a: free");
}

CLUSTER_TEST(a_primary_that_is_not_reached_leaves_the_list_short_which_is_told)
{
    struct command holders[NAMES], ls;
    char address[64];

    hold_each(holders);
    test_server_kill(home_of("a"));
    test_text(address, sizeof(address), "127.0.0.1:%d", test_server_port(home_of("a")));
    ls = COMMAND("ls", "--json");
    assert_int_equal(command_wait(&ls, WAIT_MS), 69);
    assert_true(is_json_lines(file_text(ls.out)));
    assert_contains(file_text(ls.out), "\"key\":\"b\"");
    assert_contains(file_text(ls.out), "\"key\":\"c\"");
    assert_null(strstr(file_text(ls.out), "\"key\":\"a\""));
    assert_contains(file_text(ls.err), "the list is not whole: ");
    assert_contains(file_text(ls.err), address);
    ls = COMMAND("ls", "--metrics");
    assert_int_equal(command_wait(&ls, WAIT_MS), 69);
    assert_contains(file_text(ls.out), "\nrlock_scan_complete{");
    assert_contains(file_text(ls.out), ",pattern=\"*\"} 0\n");
    assert_contains(file_text(ls.out), ",mode=\"read\"} 2\n");
    for (size_t i = 1; i < NAMES; i++) {
        end_command(&holders[i]);
    }
}

static struct test_server *other_than(struct test_server *server)
{
    return fixture.servers[fixture.servers[0] == server ? 1 : 0];
}

CLUSTER_TEST(a_lock_that_is_being_moved_is_listed_once)
{
    struct test_server *from = home_of("a"), *to = other_than(from);
    const char *key = "a";

    test_server_do(from, "HSET %s 01234567-89ab-cdef-0123-456789abcdef:1 1", key);
    test_server_do(from, "PEXPIRE %s 60000", key);
    cluster_open_slot(from, to, slot_of(key));
    assert_int_equal(count(output_of(COMMAND("ls", "--json"), 0), "\"key\":\"a\""), 1);
    /* it is on both while it is moved */
    assert_true(test_server_says(from, "OK", "MIGRATE 127.0.0.1 %d %s 0 5000 COPY",
                                 test_server_port(to), key));
    assert_int_equal(test_server_int(from, "EXISTS %s", key), 1);
    assert_int_equal(count(output_of(COMMAND("ls", "--json"), 0), "\"key\":\"a\""), 1);
    test_server_do(from, "DEL %s", key);
    assert_int_equal(count(output_of(COMMAND("ls", "--json"), 0), "\"key\":\"a\""), 1);
}

/* ---- doctor in a cluster ---- */

CLUSTER_TEST(doctor_tries_locks_on_every_primary_and_leaves_nothing)
{
    const char *text = output_of(COMMAND("doctor", "--json"), 0);

    assert_true(is_json_lines(text));
    assert_null(strstr(text, "will not work"));
    assert_null(strstr(text, "is not permitted"));
    assert_int_equal(count(text, "\"subject\":\"server\""), PRIMARIES);
    assert_int_equal(count(text, "\"subject\":\"locks\",\"text\":\"work\""), 1);
    for (size_t i = 0; i < PRIMARIES; i++) {
        assert_true(test_server_info(fixture.servers[i], "commandstats", "cmdstat_hset:calls") > 0);
    }
    assert_int_equal(keys_left(), 0);
}

CLUSTER_TEST(doctor_says_which_primary_forbids_scripts)
{
    char line[128];

    test_server_do(fixture.servers[1], "ACL SETUSER default -eval -evalsha");
    test_text(line, sizeof(line),
              "error    rights: 127.0.0.1:%d: +evalsha is not permitted: locks will not work",
              test_server_port(fixture.servers[1]));
    assert_contains(output_of(COMMAND("doctor"), 65), line);
}

CLUSTER_TEST(doctor_names_the_rights_that_clusters_need)
{
    static const char *const rights[] = {"+cluster|nodes", "+asking", "+spublish", "+sunsubscribe",
                                         "+ssubscribe"};
    const char *text;

    test_server_do(
        fixture.servers[1],
        "ACL SETUSER default -cluster|nodes -asking -spublish -sunsubscribe -ssubscribe");
    text = output_of(COMMAND("doctor"), 0);
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        char line[128];

        test_text(line, sizeof(line), "warning  rights: 127.0.0.1:%d: %s is not permitted",
                  test_server_port(fixture.servers[1]), rights[i]);
        assert_contains(text, line);
    }
}

CLUSTER_TEST(doctor_says_what_cluster_nodes_is_needed_for)
{
    const char *text;

    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(fixture.servers[i], "ACL SETUSER default -cluster|nodes");
    }
    text = output_of(COMMAND("doctor"), 69);
    assert_contains(text, "permit +cluster|nodes, or turn acks off");
    text = output_of(COMMAND("doctor", "--acks", "off"), 0);
    assert_contains(text, "+cluster|nodes is not permitted: others have to say");
    assert_contains(text, "by CLUSTER SLOTS");
    assert_contains(text, "locks: work");
    assert_null(strstr(text, "warning  replicas")); /* nobody says how many there are */
}

CLUSTER_TEST(doctor_says_that_old_redissons_would_not_be_heard)
{
    const char *const line = "+subscribe is not permitted: Redisson before 3.22 is not heard";

    test_server_do(fixture.servers[1], "ACL SETUSER default -subscribe");
    assert_null(strstr(output_of(COMMAND("doctor"), 0), line));
    assert_contains(output_of(COMMAND("doctor", "--announce-both"), 0), line);
}

CLUSTER_TEST(doctor_says_which_primary_is_not_reached)
{
    char address[64];
    const char *text;

    test_server_kill(fixture.servers[2]);
    test_text(address, sizeof(address), "127.0.0.1:%d", test_server_port(fixture.servers[2]));
    text = output_of(COMMAND("doctor"), 69);
    assert_contains(text, "error    connection: ");
    assert_contains(text, address);
    assert_int_equal(count(text, ": Redis ") + count(text, ": Valkey "), PRIMARIES - 1);
}

CLUSTER_TEST(doctor_names_slots_that_are_being_moved)
{
    const char *text;

    cluster_open_slot(fixture.servers[0], fixture.servers[1], 5);
    text = output_of(COMMAND("doctor"), 0);
    assert_contains(text, "slot 5 is being moved away");
    assert_contains(text, "slot 5 is being moved here");
    assert_contains(text, "locks: work");
}

CLUSTER_TEST(doctor_counts_slots_that_nobody_serves)
{
    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(fixture.servers[i], "CLUSTER DELSLOTS 7");
    }
    assert_contains(output_of(COMMAND("doctor"), 0), "warning  slots: 1 have no server");
}

CLUSTER_TEST(doctor_says_what_settings_of_a_cluster_mean)
{
    const char *text;

    test_server_do(fixture.servers[0], "CONFIG SET cluster-node-timeout 300");
    test_server_do(fixture.servers[0], "CONFIG SET cluster-require-full-coverage yes");
    test_server_do(fixture.servers[1], "CONFIG SET min-replicas-to-write 1");
    test_server_do(fixture.servers[2], "ACL SETUSER default -config");
    text = output_of(COMMAND("doctor"), 65); /* there is no replica */
    assert_contains(text, ": is 300 ms: a server that pauses for so long");
    assert_contains(text, ": is 1: with fewer replicas unlocks and renewals are refused too");
    assert_contains(text, "warning  cluster-node-timeout: 127.0.0.1:");
    assert_contains(text, ": not known, CONFIG GET is not permitted: answers that take ");
    assert_contains(text, "while any slot has no server no lock works");
    assert_contains(text, "none: when it fails its locks cannot be reached");
}

CLUSTER_OF_TEST(doctor_counts_replicas_without_a_link, failing_conf, PRIMARIES + 1)
{
    assert_contains(output_of(COMMAND("doctor"), 0), ": 1, and 1 must acknowledge a grant");
    test_server_kill(fixture.servers[PRIMARIES]);
    assert_true(TEST_EVENTUALLY(
        test_server_info(fixture.servers[0], "replication", "connected_slaves") == 0, WAIT_MS));
    assert_contains(output_of(COMMAND("doctor", "--acks", "off"), 0),
                    ": 1 of 1 have no link to it: ");
}

/* ---- Sentinels ---- */

static struct sentinels sentinels;

static void begin_sentinels(void)
{
    static const struct test_server_opts plain = {.transport = TEST_TCP};
    char url[200];

    command_open(&(struct fixture_opts){.servers = 2, .server = plain});
    sentinels_start(&sentinels, fixture.servers, fixture.n, &plain, NULL);
    sentinels_url(&sentinels, url, sizeof(url));
    use_url(url);
}

static void end_sentinels(void)
{
    sentinels_stop(&sentinels);
    fixture_drop(&fixture);
}

#define SENTINEL_TEST(name)                                                                        \
    static void name(void);                                                                        \
    TEST_LIST(name, NULL, NULL)                                                                    \
    {                                                                                              \
        (void)state;                                                                               \
        begin_sentinels();                                                                         \
        name();                                                                                    \
        end_sentinels();                                                                           \
    }                                                                                              \
    static void name(void)

SENTINEL_TEST(locks_of_the_primary_are_listed_shown_and_broken)
{
    const struct command holder = hold("a", fixture.server);
    const char *text = output_of(COMMAND("ls", "--json"), 0);

    assert_true(is_json_lines(text));
    assert_int_equal(count(text, "\"key\":\"a\""), 1);
    assert_contains(output_of(COMMAND("info", "a"), 0), "a: held by ");
    assert_contains(output_of(COMMAND("break", "a"), 0), "a: broken");
    (void)command_wait(&holder, WAIT_MS);
}

SENTINEL_TEST(doctor_shows_what_sentinels_say)
{
    const char *text = output_of(COMMAND("doctor"), 0);

    assert_int_equal(count(text, "quorum 2, with 2 others"), SENTINELS);
    assert_null(strstr(text, "warning  sentinel"));
    assert_contains(text, "down-after-milliseconds: 1000 ms at the least");
    assert_contains(text, "warning  min-replicas-to-write: ");
    assert_contains(text, ": is 0: a primary that was replaced while it stood still");
    assert_contains(text, ": 1, and 1 must acknowledge a grant");
    assert_contains(text, "locks: work");
    assert_int_equal(test_server_int(fixture.server, "DBSIZE"), 0);
}

SENTINEL_TEST(doctor_says_where_sentinels_differ)
{
    char url[100];
    const char *text;

    test_server_do(sentinels.each[0], "SENTINEL SET primary quorum 3 down-after-milliseconds 300");
    test_server_do(fixture.server, "CONFIG SET min-replicas-to-write 1");
    test_server_do(fixture.server, "ACL SETUSER default -role");
    test_text(url, sizeof(url), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/primary",
              test_server_port(sentinels.each[0]), test_server_port(sentinels.each[1]));
    use_url(url);
    text = output_of(COMMAND("doctor"), 0);
    assert_contains(text, "their quorums differ");
    assert_contains(text, "the URL names 2 of 3");
    assert_contains(text, "is 300 ms: a primary that pauses for so long");
    assert_contains(text, ": 1: with fewer replicas locks, unlocks and renewals are refused");
    assert_contains(text, ": +role is not permitted");
}

SENTINEL_TEST(doctor_says_which_sentinels_are_missing)
{
    char address[64];
    const char *text;

    for (size_t i = 1; i < SENTINELS; i++) {
        test_server_kill(sentinels.each[i]);
    }
    text = output_of(COMMAND("doctor"), 0);
    test_text(address, sizeof(address), "127.0.0.1:%d", test_server_port(sentinels.each[2]));
    assert_contains(text, address);
    assert_contains(text, "it is missing where most must agree on a failover");
    assert_contains(text, "1 of 3 answer: that is no majority");
}
