/* SPDX-License-Identifier: Apache-2.0 */
#include <rlock/rlock.h>

#include "net/uri.h"
#include "support/test.h"

/* The secret of every URL here: no text may ever hold it. */
#define SECRET "s3cr"

static const struct good {
    const char *url;
    struct {
        bool tls;
        const char *host;
        uint16_t port;
        const char *path;
        int db;
        const char *user, *password;
    } uri;
    const char *redacted;
} good[] = {
    {"redis://localhost",
     {false, "localhost", 6379, NULL, 0, NULL, NULL},
     "redis://localhost:6379/0"},
    {"redis://localhost/",
     {false, "localhost", 6379, NULL, 0, NULL, NULL},
     "redis://localhost:6379/0"},
    {"REDIS://Host_1.x:1/15",
     {false, "Host_1.x", 1, NULL, 15, NULL, NULL},
     "redis://Host_1.x:1/15"},
    {"rediss://h:65535/0", {true, "h", 65535, NULL, 0, NULL, NULL}, "rediss://h:65535/0"},
    {"redis://:s3cr@h", {false, "h", 6379, NULL, 0, NULL, "s3cr"}, "redis://:***@h:6379/0"},
    {"redis://u:s3cr@h", {false, "h", 6379, NULL, 0, "u", "s3cr"}, "redis://u:***@h:6379/0"},
    {"redis://u@h", {false, "h", 6379, NULL, 0, "u", NULL}, "redis://u@h:6379/0"},
    {"redis://u:@h", {false, "h", 6379, NULL, 0, "u", NULL}, "redis://u@h:6379/0"},
    {"redis://:@h", {false, "h", 6379, NULL, 0, NULL, NULL}, "redis://h:6379/0"},
    {"redis://u:s3cr:x@h", {false, "h", 6379, NULL, 0, "u", "s3cr:x"}, "redis://u:***@h:6379/0"},
    {"redis://u:s3cr@x@h", {false, "h", 6379, NULL, 0, "u", "s3cr@x"}, "redis://u:***@h:6379/0"},
    {"redis://%75%3a:s3cr%2F%40%25%C3%A9@h",
     {false, "h", 6379, NULL, 0, "u:", "s3cr/@%\xc3\xa9"},
     "redis://u::***@h:6379/0"},
    {"redis://a%0Ab:s3cr@h",
     {false, "h", 6379, NULL, 0, "a\nb", "s3cr"},
     "redis://a\\x0ab:***@h:6379/0"},
    {"redis://[::1]", {false, "::1", 6379, NULL, 0, NULL, NULL}, "redis://[::1]:6379/0"},
    {"rediss://u:s3cr@[fe80::1%25eth0]:7/3",
     {true, "fe80::1%eth0", 7, NULL, 3, "u", "s3cr"},
     "rediss://u:***@[fe80::1%eth0]:7/3"},
    {"unix:///run/r.sock", {false, NULL, 6379, "/run/r.sock", 0, NULL, NULL}, "unix:///run/r.sock"},
    {"unix:///a%20b/@?db=3", {false, NULL, 6379, "/a b/@", 3, NULL, NULL}, "unix:///a b/@?db=3"},
    {"unix://u:s3cr@/r", {false, NULL, 6379, "/r", 0, "u", "s3cr"}, "unix://u:***@/r"},
    {"unix://:s3cr@/r?db=1", {false, NULL, 6379, "/r", 1, NULL, "s3cr"}, "unix://:***@/r?db=1"},
};

static const struct bad {
    const char *url;
    const char *why; /* a part of the reason */
    const char *redacted;
} bad[] = {
    {"", "begins with", "?://***"},
    {"s3cr", "begins with", "?://***"},
    {":s3cr@h", "begins with", "?://***"},
    {"redis", "begins with", "redis://***"},
    {"redis:", "begins with", "redis://***"},
    {"redis:/s3cr", "begins with", "redis://***"},
    {"http://u:s3cr@h", "begins with", "?://***"},
    {"redis ://h", "begins with", "?://***"},
    {"redis://", "host is missing", "redis://***"},
    {"redis:///1", "host is missing", "redis://***"},
    {"redis://:s3cr@", "host is missing", "redis://***"},
    {"redis://:s3cr@:6379", "host is missing", "redis://***"},
    {"redis://:s3cr", "port must be", "redis://***"},
    {"redis://h:", "port must be", "redis://***"},
    {"redis://h:0", "port must be", "redis://***"},
    {"redis://h:65536", "port must be", "redis://***"},
    {"redis://h:99999999999999999999", "port must be", "redis://***"},
    {"redis://h:+1", "port must be", "redis://***"},
    {"redis://h: 1", "port must be", "redis://***"},
    {"redis://u:s3cr/x@h", "port must be", "redis://***"},
    {"redis://u:s3cr?x@h", "port must be", "redis://***"},
    {"redis://u:s3cr#x@h", "%23", "redis://***"},
    {"redis://h/x", "database", "redis://***"},
    {"redis://h/-1", "database", "redis://***"},
    {"redis://h/1/", "database", "redis://***"},
    {"redis://h/9999999999999", "database", "redis://***"},
    {"redis://h/1#f", "%23", "redis://***"},
    {"redis://h?db=1", "no parameters", "redis://***"},
    {"redis://h/1?", "no parameters", "redis://***"},
    {"redis://::1", "in brackets", "redis://***"},
    {"redis://[::1", "in brackets", "redis://***"},
    {"redis://[h]", "in brackets", "redis://***"},
    {"redis://[]", "in brackets", "redis://***"},
    {"redis://[::1]6379", "port must be", "redis://***"},
    {"redis://h%", "%", "redis://***"},
    {"redis://h%2", "%", "redis://***"},
    {"redis://h%zz", "%", "redis://***"},
    {"redis://u:s3cr%00@h", "not 00", "redis://***"},
    {"redis://u:s3cr%@h", "not 00", "redis://***"},
    {"redis://h o", "no host name", "redis://***"},
    {"redis://h\n", "no host name", "redis://***"},
    {"redis://h%0a", "no host name", "redis://***"},
    {"redis://h,g", "no host name", "redis://***"},
    {"unix://", "absolute path", "unix://***"},
    {"unix:///", "absolute path", "unix://***"},
    {"unix://run/r.sock", "absolute path", "unix://***"},
    {"unix://u:s3cr/x@/r", "absolute path", "unix://***"},
    {"unix://u:s3cr@h/r", "absolute path", "unix://***"},
    {"unix:///r?", "only parameter", "unix://***"},
    {"unix:///r?x=1", "only parameter", "unix://***"},
    {"unix:///r?db=", "database", "unix://***"},
    {"unix:///r?db=1&x=2", "database", "unix://***"},
};

static void assert_text(const char *text, const char *expected)
{
    if (expected == NULL) {
        assert_null(text);
    } else {
        assert_non_null(text);
        assert_string_equal(text, expected);
    }
}

TEST(each_part_of_a_url_is_found)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct rlock__uri uri = RLOCK__URI_NULL;

        print_message("%s\n", good[i].url);
        assert_int_equal(rlock__uri_parse(good[i].url, &uri), 0);
        assert_string_equal(rlock_detail(), "");
        assert_int_equal(uri.tls, good[i].uri.tls);
        assert_text(uri.host, good[i].uri.host);
        assert_int_equal(uri.port, good[i].uri.port);
        assert_text(uri.path, good[i].uri.path);
        assert_int_equal(uri.db, good[i].uri.db);
        assert_text(uri.user, good[i].uri.user);
        assert_text(uri.password, good[i].uri.password);
        rlock__uri_fini(&uri);
        assert_null(uri.password);
    }
}

TEST(a_wrong_url_is_refused_with_a_reason)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rlock__uri uri = {.db = 77};

        print_message("%s\n", bad[i].url);
        assert_int_equal(rlock__uri_parse(bad[i].url, &uri), RLOCK_EINVAL);
        assert_non_null(strstr(rlock_detail(), bad[i].why));
        assert_null(strstr(rlock_detail(), SECRET));
        assert_int_equal(uri.db, 77);
    }
}

TEST(a_socket_path_that_the_system_cannot_take_is_refused)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    char url[7 + 108 + 1] = "unix:///";

    memset(url + 8, 'x', 107);
    assert_int_equal(rlock__uri_parse(url, &uri), RLOCK_EINVAL);
    assert_non_null(strstr(rlock_detail(), "too long"));
    url[sizeof(url) - 2] = '\0';
    assert_int_equal(rlock__uri_parse(url, &uri), 0);
    rlock__uri_fini(&uri);
}

TEST(sentinels_have_hosts_and_a_primary_by_its_name)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    char text[64];

    assert_int_equal(rlock__uri_parse("rediss+sentinel://u:s3cr@h1,[::1]:2/my%2Fname/3", &uri), 0);
    assert_true(uri.tls && !uri.cluster);
    assert_string_equal(uri.primary, "my/name");
    assert_int_equal(uri.db, 3);
    assert_int_equal(uri.n_places, 2);
    assert_string_equal(uri.places[0].host, "h1");
    assert_int_equal(uri.places[0].port, RLOCK__URI_SENTINEL_PORT);
    assert_string_equal(uri.places[1].host, "::1");
    assert_int_equal(uri.places[1].port, 2);
    rlock__uri_fini(&uri);
    assert_string_equal(
        rlock__uri_redacted("redis+sentinel://u:s3cr@[::1],h2/name", text, sizeof(text)),
        "redis+sentinel://u:***@[::1]:26379,.../name/0");
}

TEST(sentinels_without_a_primary_are_refused)
{
    static const char *const urls[] = {
        "redis+sentinel://h1",        "redis+sentinel://h1/",
        "redis+sentinel:///name",     "redis+sentinel://h1,/name",
        "redis+sentinel://h1/name/x", "redis+sentinel://h1/name?db=1",
        "redis+sentinel://h1//1",     "redis+sentinel://h1:s3cr/name"};

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct rlock__uri uri = RLOCK__URI_NULL;

        assert_int_equal(rlock__uri_parse(urls[i], &uri), RLOCK_EINVAL);
        assert_null(strstr(rlock_detail(), SECRET));
    }
}

TEST(a_cluster_has_several_hosts)
{
    struct rlock__uri uri = RLOCK__URI_NULL;
    char text[64];

    assert_int_equal(rlock__uri_parse("rediss+cluster://u:s3cr@h1:1,[::1]:2,h3", &uri), 0);
    assert_true(uri.cluster && uri.tls);
    assert_int_equal(uri.n_places, 3);
    assert_string_equal(uri.places[0].host, "h1");
    assert_int_equal(uri.places[0].port, 1);
    assert_string_equal(uri.places[1].host, "::1");
    assert_int_equal(uri.places[1].port, 2);
    assert_string_equal(uri.places[2].host, "h3");
    assert_int_equal(uri.places[2].port, RLOCK__URI_PORT);
    assert_string_equal(rlock__uri_redacted("rediss+cluster://u:s3cr@h1:1,h2", text, sizeof(text)),
                        "rediss+cluster://u:***@h1:1,...");
    rlock__uri_fini(&uri);
}

TEST(a_cluster_has_one_database_and_hosts_that_make_sense)
{
    static const char *const urls[] = {"redis+cluster://h1/1",    "redis+cluster://h1?db=1",
                                       "redis+cluster://",        "redis+cluster://h1,,h2",
                                       "redis+cluster://h1,",     "redis+cluster://h1,h2:0",
                                       "redis+cluster://h1,:s3cr"};

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct rlock__uri uri = RLOCK__URI_NULL;

        assert_int_equal(rlock__uri_parse(urls[i], &uri), RLOCK_EINVAL);
        assert_null(strstr(rlock_detail(), SECRET));
    }
}

TEST(no_text_shows_a_password)
{
    char text[128];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_string_equal(rlock__uri_redacted(good[i].url, text, sizeof(text)), good[i].redacted);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_string_equal(rlock__uri_redacted(bad[i].url, text, sizeof(text)), bad[i].redacted);
    }
}

TEST(a_short_buffer_cuts_the_text)
{
    char text[128];

    for (size_t size = 1; size < sizeof(text); size++) {
        memset(text, 'x', sizeof(text));
        (void)rlock__uri_redacted("redis://user:s3cr@host:1234/5", text, size);
        assert_true(strlen(text) < size);
        assert_null(strstr(text, SECRET));
    }
}
