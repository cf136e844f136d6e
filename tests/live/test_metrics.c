/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics as text: how much of it fits, and how clients and their addresses get into it. */
#include <stdlib.h>
#include <string.h>

#include "drive/client.h"
#include "support/clients.h"
#include "support/counts.h"

enum { ROOM = 256 * 1024 };

static char text[ROOM];

static const char *metrics_of(const struct rlock_client *a, const struct rlock_client *b)
{
    const struct rlock_client *const clients[] = {a, b};
    const int64_t len = rlock_metrics(clients, b != NULL ? 2 : 1, text, sizeof(text));

    assert_in_range(len, 1, ROOM - 1);
    assert_int_equal(len, strlen(text));
    return text;
}

/* Whether a line begins so. */
static bool has_line(const char *begin)
{
    const char *at = strstr(text, begin);

    return at != NULL && (at == text || at[-1] == '\n');
}

LOCK_TEST(the_metrics_end_where_the_room_does, f)
{
    static const size_t sizes[] = {0, 1, 2, 100, 1000, 1001};
    struct rlock_client *opened = client_open(f);
    struct rlock_handle *lock = lock_new(f, opened);
    const struct rlock_client *client = opened;
    char *whole;
    size_t len;

    assert_code(rlock_lock(lock), 0); /* it is connected from here on, and nothing changes */
    assert_code(rlock_unlock(lock), 0);
    whole = strdup(metrics_of(client, NULL));
    len = strlen(whole);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(text, 'x', sizeof(text));
        assert_int_equal(rlock_metrics(&client, 1, sizes[i] > 0 ? text : NULL, sizes[i]), len);
        if (sizes[i] > 0) {
            assert_int_equal(strlen(text), sizes[i] - 1);
            assert_memory_equal(text, whole, sizes[i] - 1);
        }
        assert_int_equal(text[sizes[i]], 'x');
    }
    assert_int_equal(rlock_metrics(&client, 1, text, len), len);
    assert_int_equal(strlen(text), len - 1);
    assert_int_equal(rlock_metrics(&client, 1, text, len + 1), len);
    assert_string_equal(text, whole);
    free(whole);
}

FIXTURE_WITH_TEST(clients_of_one_url_are_added_up, f, .kind = &kind_reentrant, .servers = 2)
{
    struct rlock_client *one = client_open(f), *two = client_open(f);
    struct rlock_client *other =
        client_open_with(f, RLOCK_CLIENT_OPTS(.url = test_server_url(f->servers[1])));
    char line[512];
    struct rlock_handle *a = lock_named(f, one, "a"), *b = lock_named(f, two, "b");

    assert_code(rlock_lock(a), 0);
    assert_code(rlock_lock(b), 0);
    (void)metrics_of(one, two);
    test_text(line, sizeof(line), "rlock_holds{server=\"%s\"} 2\n", one->address);
    assert_true(has_line(line));
    (void)metrics_of(one, other);
    test_text(line, sizeof(line), "rlock_holds{server=\"%s\"} 1\n", one->address);
    assert_true(has_line(line));
    test_text(line, sizeof(line), "rlock_holds{server=\"%s\"} 0\n", other->address);
    assert_true(has_line(line));
    assert_code(rlock_unlock(a), 0);
    assert_code(rlock_unlock(b), 0);
}

TEST(an_address_is_escaped_and_has_no_password)
{
    struct rlock_client *client = NULL;

    assert_code(rlock_client_open(
                    RLOCK_CLIENT_OPTS(.url = "unix://somebody:secret@/nowhere/a\"b\\c"), &client),
                0);
    (void)metrics_of(client, NULL);
    assert_non_null(strstr(text, "/nowhere/a\\\"b\\\\c\""));
    assert_null(strstr(text, "secret"));
    assert_true(has_line("rlock_connections{"));
    assert_null(rlock_client_close(client));
}

TEST(metrics_of_no_client_are_names_alone)
{
    const int64_t len = rlock_metrics(NULL, 0, text, sizeof(text));

    assert_in_range(len, 1, ROOM - 1);
    assert_null(strchr(text, '{'));
    assert_string_equal(text + len - strlen("# EOF\n"), "# EOF\n");
}

LOCK_TEST(wrong_arguments_of_the_metrics_are_refused, f)
{
    const struct rlock_client *clients[2] = {client_open(f), NULL};

    assert_int_equal(rlock_metrics(NULL, 1, text, sizeof(text)), RLOCK_EINVAL);
    assert_int_equal(rlock_metrics(clients, 2, text, sizeof(text)), RLOCK_EINVAL);
    assert_int_equal(rlock_metrics(clients, 1, NULL, 1), RLOCK_EINVAL);
}
