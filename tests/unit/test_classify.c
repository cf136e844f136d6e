/* SPDX-License-Identifier: Apache-2.0 */
/* What servers' errors mean, in the words of Redis 6.2 and 7.0 and Valkey 8, bare and as scripts
 * wrap them. */
#include "lock/server/classify.h"
#include "support/test.h"

#define SHA "bb738dc0b60dc41832cfb7c244643303d4b1f029"
#define ABORT "Script attempted to access a non local key in a cluster node"
/* Around an error inside of a script. */
#define IN_62(text) "ERR Error running script (call to f_" SHA "): @user_script:1: " text
#define IN_62_RAISED(text) IN_62("@user_script: 1: -" text)
#define IN_70(text) text " script: " SHA ", on @user_script:1."

struct row {
    const char *text;
    int code, way;
};

/* An error as a reply has it. */
#define ERROR(text)                                                                                \
    (&(const struct rlock__reply){                                                                 \
        .v = &(struct rlock__value){RLOCK__REPLY_ERROR, .str = (text), .len = strlen(text)},       \
        .n = 1})

static struct rlock__class classify(const char *text)
{
    return rlock__classify(ERROR(text));
}

static bool is(unsigned what, const char *text)
{
    return rlock__error_is(ERROR(text), what);
}

static void check(const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct rlock__class class = classify(rows[i].text);

        if (class.code != rows[i].code || (int)class.way != rows[i].way) {
            fail_msg("%s: %s, way %d", rows[i].text, rlock_code_name(class.code), (int)class.way);
        }
        assert_non_null(class.hint);
        assert_true(strlen(class.hint) > 0);
    }
}

#define CHECK(rows) check(rows, sizeof(rows) / sizeof((rows)[0]))

TEST(only_a_script_that_was_stopped_may_have_run)
{
    assert_true(is(RLOCK__ABORTED, IN_70("ERR " ABORT)));
    assert_true(is(RLOCK__ABORTED, IN_62("@user_script: 1: " ABORT)));
    assert_false(is(RLOCK__ABORTED, "TRYAGAIN Multiple keys request during rehashing"));
    assert_false(is(RLOCK__ABORTED, "MOVED 3999 127.0.0.1:6381"));
}

TEST(what_is_refused_for_its_keys_places_may_be_asked_for_one_by_one)
{
    assert_true(is(RLOCK__SCATTERED, "TRYAGAIN Multiple keys request during rehashing"));
    assert_true(is(RLOCK__SCATTERED, "MOVED 3999 127.0.0.1:6381"));
    assert_true(is(RLOCK__SCATTERED, "ASK 3999 127.0.0.1:6381"));
    assert_true(is(RLOCK__SCATTERED, "CROSSSLOT Keys in request don't hash to the same slot"));
    assert_false(is(RLOCK__SCATTERED, "CLUSTERDOWN Hash slot not served"));
    assert_false(is(RLOCK__SCATTERED, "OOM command not allowed"));
}

TEST(what_passes_soon_is_tried_again)
{
    static const struct row rows[] = {
        {"LOADING Redis is loading the dataset in memory", RLOCK_ECONN, RLOCK__RETRY},
        {"LOADING Valkey is loading the dataset in memory", RLOCK_ECONN, RLOCK__RETRY},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
         RLOCK_ECONN, RLOCK__RETRY},
        {"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
         RLOCK_ECONN, RLOCK__RETRY},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
         RLOCK_ECONN, RLOCK__RETRY},
        {"CLUSTERDOWN The cluster is down", RLOCK_ECONN, RLOCK__RETRY},
        {"CLUSTERDOWN Hash slot not served", RLOCK_ECONN, RLOCK__RETRY},
        {"TRYAGAIN Multiple keys request during rehashing of slot", RLOCK_EREFUSED, RLOCK__RETRY},
        {IN_70("ERR " ABORT), RLOCK_EREFUSED, RLOCK__RETRY},
        {IN_62("@user_script: 1: " ABORT), RLOCK_EREFUSED, RLOCK__RETRY},
        {"READONLY You can't write against a read only replica.", RLOCK_ECONN, RLOCK__RETRY},
        {IN_70("READONLY You can't write against a read only replica."), RLOCK_ECONN, RLOCK__RETRY},
        {IN_62_RAISED("READONLY You can't write against a read only replica."), RLOCK_ECONN,
         RLOCK__RETRY},
        {"NOSCRIPT No matching script. Please use EVAL.", RLOCK_ECONN, RLOCK__RETRY},
    };

    CHECK(rows);
}

TEST(what_may_pass_is_for_those_who_wait)
{
    static const struct row rows[] = {
        {"OOM command not allowed when used memory > 'maxmemory'.", RLOCK_EREFUSED, RLOCK__WAIT},
        {IN_70("OOM command not allowed when used memory > 'maxmemory'."), RLOCK_EREFUSED,
         RLOCK__WAIT},
        {IN_62_RAISED("OOM command not allowed when used memory > 'maxmemory'."), RLOCK_EREFUSED,
         RLOCK__WAIT},
        {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist "
         "to disk.",
         RLOCK_EREFUSED, RLOCK__WAIT},
        {IN_70("MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to "
               "persist to disk."),
         RLOCK_EREFUSED, RLOCK__WAIT},
        {"NOREPLICAS Not enough good replicas to write.", RLOCK_EREFUSED, RLOCK__WAIT},
        {IN_62_RAISED("NOREPLICAS Not enough good replicas to write."), RLOCK_EREFUSED,
         RLOCK__WAIT},
    };

    CHECK(rows);
}

TEST(what_does_not_pass_is_given_up)
{
    static const struct row rows[] = {
        {"WRONGTYPE Operation against a key holding the wrong kind of value", RLOCK_EWRONGTYPE,
         RLOCK__GIVE_UP},
        {IN_70("WRONGTYPE Operation against a key holding the wrong kind of value"),
         RLOCK_EWRONGTYPE, RLOCK__GIVE_UP},
        {IN_62("WRONGTYPE Operation against a key holding the wrong kind of value"),
         RLOCK_EWRONGTYPE, RLOCK__GIVE_UP},
        {"NOAUTH Authentication required.", RLOCK_EAUTH, RLOCK__GIVE_UP},
        {"MOVED 3999 127.0.0.1:6381", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"MOVED 3999 :6381", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ASK 3999 127.0.0.1:6381", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"CROSSSLOT Keys in request don't hash to the same slot", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR value is not an integer or out of range", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"", RLOCK_EREFUSED, RLOCK__GIVE_UP},
    };

    CHECK(rows);
}

/* Inside a script a missing permission is an ERR, in words of each server's own. */
TEST(a_missing_permission_is_known_in_all_its_words)
{
    static const struct row rows[] = {
        {"NOPERM this user has no permissions to run the 'evalsha' command", RLOCK_EPERM,
         RLOCK__GIVE_UP},
        {"NOPERM this user has no permissions to access one of the keys used as arguments",
         RLOCK_EPERM, RLOCK__GIVE_UP},
        {"NOPERM User locker has no permissions to run the 'publish' command", RLOCK_EPERM,
         RLOCK__GIVE_UP},
        {IN_70("ERR The user executing the script can't run this command or subcommand"),
         RLOCK_EPERM, RLOCK__GIVE_UP},
        {IN_62("@user_script: 1: The user executing the script can't run this command or "
               "subcommand"),
         RLOCK_EPERM, RLOCK__GIVE_UP},
        {IN_62("@user_script: 1: The user executing the script can't access at least one of the "
               "keys mentioned in the command arguments"),
         RLOCK_EPERM, RLOCK__GIVE_UP},
        {IN_70("ERR ACL failure in script: User default has no permissions to run the 'hset' "
               "command"),
         RLOCK_EPERM, RLOCK__GIVE_UP},
        {IN_70("ERR ACL failure in script: No permissions to access a key"), RLOCK_EPERM,
         RLOCK__GIVE_UP},
    };

    CHECK(rows);
}

TEST(what_a_proxy_says_while_its_servers_are_away_passes)
{
    static const struct row rows[] = {
        {"ERR max number of clients reached", RLOCK_ECONN, RLOCK__RETRY},
        {"upstream failure", RLOCK_ECONN, RLOCK__RETRY},
        {"no upstream host", RLOCK_ECONN, RLOCK__RETRY},
    };

    CHECK(rows);
}

TEST(an_unknown_command_is_refused)
{
    static const struct row rows[] = {
        {"ERR unknown command 'EVALSHA', with args beginning with: 'LOADING' 'BUSY' ",
         RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR unknown command `SPUBLISH`, with args beginning with: ", RLOCK_EREFUSED,
         RLOCK__GIVE_UP},
        {IN_62("@user_script: 1: Unknown Redis command called from Lua script"), RLOCK_EREFUSED,
         RLOCK__GIVE_UP},
        {IN_70("ERR Unknown Redis command called from script"), RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR Command is not available: 'WAIT'. See the documentation.", RLOCK_EREFUSED,
         RLOCK__GIVE_UP},
        {"ERR unknown subcommand 'NUMSUB'. Try PUBSUB HELP.", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {IN_70("ERR Unknown command called from script"), RLOCK_EREFUSED, RLOCK__GIVE_UP},
    };

    CHECK(rows);
}

TEST(part_of_a_word_is_not_the_word)
{
    static const struct row rows[] = {
        {"BUSYKEY Target key name already exists.", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"BUSYGROUP Consumer Group name already exists", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR UNLOADING", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR MASKED", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR loading", RLOCK_EREFUSED, RLOCK__GIVE_UP},
        {"ERR the end is LOADING", RLOCK_ECONN, RLOCK__RETRY},
        {"ERR -OOM", RLOCK_EREFUSED, RLOCK__WAIT},
    };

    CHECK(rows);
}
