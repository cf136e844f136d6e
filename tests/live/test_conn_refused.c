/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers and proxies that refuse a part of the greeting. */
#include <string.h>

#include "live/dial.h"
#include "support/refusal.h"
#include "support/run.h"
#include "support/test.h"

/* A server with a password, behind a proxy that refuses. */
struct scene {
    struct test_server *server;
    struct proxy *proxy;
    struct dial dial;
};

static void scene_open(struct scene *scene, const struct refusal *rows)
{
    static const char *const conf[] = {"requirepass s3cret", NULL};

    scene->server =
        test_server_start(&(struct test_server_opts){.transport = TEST_UNIX, .conf = conf});
    scene->proxy = proxy_start_unix(test_server_unix_url(scene->server));
    refuse(scene->proxy, rows);
    dial_init(&scene->dial, proxy_url(scene->proxy));
    scene->dial.opts.password = "s3cret";
    scene->dial.opts.want_info = true;
}

static void scene_close(struct scene *scene)
{
    dial_fini(&scene->dial);
    scene->proxy = proxy_stop(scene->proxy);
    scene->server = test_server_stop(scene->server);
}

static bool is_listed(const struct scene *scene, const char *part)
{
    char *list = test_server_cmd(scene->server, "CLIENT LIST");
    bool is = strstr(list, part) != NULL;

    free(list);
    return is;
}

/* ---- HELLO ---- */

/* In the words of old servers, of Envoy, HAProxy's servers and clusters, and of an ACL. */
static const char *const words[] = {
    UNKNOWN("HELLO"),
    "-unsupported command\r\n",
    "-ERR invalid request\r\n",
    "-upstream failure\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "-CLUSTERDOWN Hash slot not served\r\n",
    "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
    "-NOPROTO unsupported protocol version\r\n",
    "-NOPERM this user has no permissions to run the 'hello' command\r\n",
};

TEST(hello_may_be_refused_in_any_words)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const struct refusal rows[] = {{.command = "HELLO", .answer = words[i]}, {0}};
        struct scene scene;

        scene_open(&scene, rows);
        dial_works(&scene.dial);
        assert_true(is_listed(&scene, "name=" DIAL_NAME));
        assert_true(rlock__conn_greeting(scene.dial.conn)->client_id > 0);
        dial_ping(&scene.dial);
        scene_close(&scene);
    }
}

TEST(a_server_that_hangs_up_at_hello_is_asked_once_without)
{
    static const struct refusal rows[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP}, {0}};
    struct scene scene;

    scene_open(&scene, rows);
    dial_works(&scene.dial);
    assert_true(is_listed(&scene, "name=" DIAL_NAME));
    assert_int_equal(proxy_stats(scene.proxy).accepted, 2);
    scene_close(&scene);
}

/* As Twemproxy does at each command that it does not know. */
TEST(a_server_that_hangs_up_at_all_but_auth_is_asked_for_nothing_else)
{
    static const struct refusal rows[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP},
                                          {.command = "CLIENT", .does = REFUSAL_HANGS_UP},
                                          {.command = "INFO", .does = REFUSAL_HANGS_UP},
                                          {0}};
    const uint64_t unfenced[] = {1};
    struct scene scene;

    scene_open(&scene, rows);
    dial_works(&scene.dial);
    assert_int_equal(proxy_stats(scene.proxy).accepted, 3);
    assert_true(rlock__conn_greeting(scene.dial.conn)->fenced);
    dial_ping(&scene.dial);
    assert_int_equal(dial_start_fencing(&scene.dial, unfenced, 1), 0);
    assert_false(rlock__conn_greeting(scene.dial.conn)->fenced);
    scene_close(&scene);
}

/* It was killed in the handshake, for example, by an operator or a restart. */
TEST(a_server_that_has_reported_our_id_is_asked_in_full_again)
{
    static const struct refusal none[] = {{0}};
    static const struct refusal rows[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP}, {0}};
    static const struct refusal all[] = {{.command = "HELLO", .does = REFUSAL_HANGS_UP},
                                         {.command = "CLIENT", .does = REFUSAL_HANGS_UP},
                                         {.command = "INFO", .does = REFUSAL_HANGS_UP},
                                         {0}};
    struct scene scene;

    scene_open(&scene, none);
    dial_works(&scene.dial);
    assert_int_equal(proxy_stats(scene.proxy).accepted, 1);
    refuse(scene.proxy, rows);
    dial_works(&scene.dial); /* twice with HELLO, and once without */
    assert_int_equal(proxy_stats(scene.proxy).accepted, 4);
    assert_true(rlock__conn_greeting(scene.dial.conn)->client_id > 0);
    refuse(scene.proxy, all);
    dial_works(&scene.dial);
    assert_int_equal(proxy_stats(scene.proxy).accepted, 8);
    dial_works(&scene.dial); /* it has not reported an id since */
    assert_int_equal(proxy_stats(scene.proxy).accepted, 11);
    scene_close(&scene);
}

TEST(a_server_that_only_hangs_up_is_tried_three_times)
{
    static const struct refusal rows[] = {{.contains = "\r\n", .does = REFUSAL_HANGS_UP}, {0}};
    struct scene scene;

    scene_open(&scene, rows);
    dial_fails(&scene.dial, RLOCK_ECONN, "closed by the server without a word");
    assert_int_equal(proxy_stats(scene.proxy).accepted, 3);
    scene_close(&scene);
}

/* Neither is a matter of HELLO: AUTH would be answered in the same way. */
TEST(a_server_that_is_not_ready_is_not_asked_in_another_way)
{
    static const struct {
        const char *answer;
        int code;
    } rows[] = {
        {"-LOADING Redis is loading the dataset in memory\r\n", RLOCK_ECONN},
        {"-BUSY Redis is busy running a script.\r\n", RLOCK_ECONN},
        {"-MASTERDOWN Link with MASTER is down\r\n", RLOCK_ECONN},
        {"-ERR max number of clients reached\r\n", RLOCK_ECONN},
        {"-WRONGPASS invalid username-password pair or user is disabled.\r\n", RLOCK_EAUTH},
        {"-DENIED Redis is running in protected mode\r\n", RLOCK_EPERM},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct refusal hello[] = {{.command = "HELLO", .answer = rows[i].answer}, {0}};
        char said[64];
        struct scene scene;

        test_text(said, sizeof(said), "%.*s", (int)strcspn(rows[i].answer + 1, "\r"),
                  rows[i].answer + 1);
        scene_open(&scene, hello);
        dial_fails(&scene.dial, rows[i].code, said);
        scene_close(&scene);
    }
}

/* Another version of the protocol would be read wrongly. */
TEST(only_version_two_of_the_protocol_will_do)
{
    static const struct refusal rows[] = {
        {.command = "HELLO", .answer = "*4\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n"}, {0}};
    struct scene scene;

    scene_open(&scene, rows);
    dial_fails(&scene.dial, RLOCK_ECONN, "not a Redis server");
    scene_close(&scene);
}

TEST(the_words_to_hello_are_kept_for_a_close_behind_them)
{
    static const struct refusal rows[] = {
        {.command = "HELLO", .answer = "-no healthy upstream\r\n"},
        {.command = "AUTH", .does = REFUSAL_HANGS_UP},
        {0}};
    struct scene scene;

    scene_open(&scene, rows);
    dial_fails(&scene.dial, RLOCK_ECONN, "after \"no healthy upstream\" to HELLO");
    scene_close(&scene);
}
