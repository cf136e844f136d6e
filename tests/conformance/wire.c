/* SPDX-License-Identifier: Apache-2.0 */
/* What a Redisson peer sees of a lock that is one hash: every key, field, value and message. */
#include "cases.h"

#include <ctype.h>
#include <unistd.h>

#include "support/raw.h"

/* Whether the text is a UUID as Java prints it, of version 8: fair locks know ours by that. */
static bool is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-8xxx-yxxx-xxxxxxxxxxxx";

    for (size_t i = 0; i < strlen(form); i++) {
        const bool is_hex = isdigit((unsigned char)text[i]) || (text[i] >= 'a' && text[i] <= 'f');

        if ((form[i] == 'x' && !is_hex) || (form[i] == 'y' && strchr("89ab", text[i]) == NULL) ||
            (strchr("-8", form[i]) != NULL && text[i] != form[i])) {
            return false;
        }
    }
    return true;
}

/* The hash under the lock's name has one field, uuid:number, and this value. Returns the number. */
static long long owner_with(struct fixture *f, const struct rlock_client *client, const char *count)
{
    char *field = test_server_cmd(f->server, "HKEYS " NAME);
    const char *uuid = rlock_client_uuid(client);
    char *end = NULL;
    long long number;

    assert_int_equal(fixture_keys(f), 1);
    assert_true(test_server_says(f->server, "hash", "TYPE " NAME));
    assert_int_equal(test_server_int(f->server, "HLEN " NAME), 1);
    assert_true(is_uuid(uuid));
    assert_memory_equal(field, uuid, 36);
    assert_int_equal(field[36], ':');
    number = strtoll(field + 37, &end, 10);
    assert_true(number > 0 && *end == '\0');
    assert_true(isdigit((unsigned char)field[37]) && field[37] != '0');
    assert_true(test_server_says(f->server, count, "HGET " NAME " %s", field));
    free(field);
    return number;
}

static void ttl_lies_within(struct fixture *f, int64_t least_ms, int64_t most_ms)
{
    assert_in_range(test_server_int(f->server, "PTTL " NAME), least_ms - 1000 * test_slack(),
                    most_ms);
}

/* Somebody of another language listens. */
static int listen_to(struct fixture *f, const char *channel)
{
    const int fd = raw_dial(test_server_unix_url(f->server));
    char text[256];

    assert_true(fd >= 0);
    test_text(text, sizeof(text), "SUBSCRIBE %s\r\n", channel);
    raw_say(fd, text);
    test_text(text, sizeof(text), "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n", strlen(channel),
              channel);
    assert_true(raw_hears(fd, text));
    return fd;
}

static bool hears_release(int fd, const char *channel)
{
    char text[256];

    test_text(text, sizeof(text), "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$1\r\n0\r\n",
              strlen(channel), channel);
    return raw_hears(fd, text);
}

static bool hears_nothing(int fd)
{
    return raw_hear_within(fd, 20)[0] == '\0';
}

static const char channel[] = "redisson_lock__channel:{" NAME "}";

void the_wire_is_redissons_step_by_step(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const int fd = listen_to(f, channel);
    long long number;

    assert_code(TAKE(lock, 0, .lease_ms = 20000), 0);
    number = owner_with(f, client, "1");
    ttl_lies_within(f, 20000, 20000);
    assert_code(rlock_unlock(lock), 0);
    assert_false(fixture_has_key(f, NAME));
    assert_true(hears_release(fd, channel));

    assert_code(rlock_lock(lock), 0);
    assert_true(owner_with(f, client, "1") != number); /* a fresh one for every acquisition */
    ttl_lies_within(f, 30000, 30000);
    assert_code(rlock_unlock(lock), 0);
    assert_true(hears_release(fd, channel));
    assert_true(hears_nothing(fd));
    (void)close(fd);
}

void the_wire_counts_levels_as_redisson_does(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    const int fd = listen_to(f, channel);
    long long number;

    assert_code(TAKE(lock, 0, .lease_ms = 20000), 0);
    number = owner_with(f, client, "1");
    assert_code(TAKE(lock, 0, .lease_ms = 10000), 0);
    assert_int_equal(owner_with(f, client, "2"), number);
    ttl_lies_within(f, 20000, 20000);
    assert_code(TAKE(lock, 0, .lease_ms = 50000), 0);
    assert_int_equal(owner_with(f, client, "3"), number);
    ttl_lies_within(f, 50000, 50000);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(owner_with(f, client, "2"), number);
    assert_code(rlock_unlock(lock), 0);
    assert_int_equal(owner_with(f, client, "1"), number);
    ttl_lies_within(f, 50000, 50000);
    assert_true(hears_nothing(fd)); /* only the last one is announced */
    assert_code(rlock_unlock(lock), 0);
    assert_false(fixture_has_key(f, NAME));
    assert_true(hears_release(fd, channel));
    (void)close(fd);
}

void force_is_announced(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    const int fd = listen_to(f, channel);

    assert_code(rlock_lock(lock), 0);
    assert_code(rlock_force_unlock(lock, NULL), 0);
    assert_false(fixture_has_key(f, NAME));
    assert_true(hears_release(fd, channel));
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    assert_code(rlock_unlock(lock), RLOCK_ELOST);
    assert_code(rlock_force_unlock(lock, NULL), 0); /* nothing to force, nothing to announce */
    assert_true(hears_nothing(fd));
    (void)close(fd);
}

void a_channel_has_braces_unless_the_name_has_one(struct fixture *f)
{
    static const char *const names[][2] = {
        {"plain", "redisson_lock__channel:{plain}"}, {"a{b}c", "redisson_lock__channel:a{b}c"},
        {"{}x", "redisson_lock__channel:{}x"},       {"a{b", "redisson_lock__channel:a{b"},
        {"x}y", "redisson_lock__channel:{x}y}"},
    };
    struct rlock_client *client = client_open(f);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct rlock_handle *lock = lock_named(f, client, names[i][0]);
        const int fd = listen_to(f, names[i][1]);

        assert_code(rlock_lock(lock), 0);
        assert_true(fixture_has_key(f, names[i][0]));
        assert_code(rlock_unlock(lock), 0);
        assert_true(hears_release(fd, names[i][1]));
        (void)close(fd);
    }
}

void a_key_prefix_is_redissons_name_mapper(struct fixture *f)
{
    struct rlock_client *client = client_open_with(f, RLOCK_CLIENT_OPTS(.key_prefix = "{app}:"));
    struct rlock_handle *lock = lock_new(f, client);
    const int fd = listen_to(f, "redisson_lock__channel:{app}:" NAME);

    assert_code(rlock_lock(lock), 0);
    assert_true(fixture_has_key(f, "{app}:" NAME));
    assert_false(fixture_has_key(f, NAME));
    assert_code(rlock_unlock(lock), 0);
    assert_true(hears_release(fd, "redisson_lock__channel:{app}:" NAME));
    (void)close(fd);
}

#define JAVA "285475da-9152-4c83-822a-67ee2f116a79:52"

void a_java_holder_is_respected(struct fixture *f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct test_server *server = f->server;
    struct actor *waiter = actor_open(f);
    struct rlock_info info = RLOCK_INFO_INIT;

    assert_int_equal(test_server_int(server, "HSET " NAME " " JAVA " 2"), 1);
    assert_int_equal(test_server_int(server, "PEXPIRE " NAME " 30000"), 1);
    assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
    assert_non_null(strstr(rlock_detail(), JAVA));
    assert_code(rlock_inspect(lock, &info), 0);
    assert_string_equal(info.holder, JAVA);
    assert_int_equal(info.count, 2);
    assert_false(info.mine);
    actor_begin(waiter, act_pass_through, lock, RLOCK_FOREVER, NULL);
    await_waiting(client, 1);
    assert_true(
        TEST_EVENTUALLY(test_server_listeners(server, channel) == kind_can(f, LISTENS), 5000));
    assert_int_equal(test_server_int(server, "DEL " NAME), 1);
    assert_int_equal(test_server_int(server, "PUBLISH %s 0", channel), kind_can(f, LISTENS));
    assert_code(actor_end(waiter), 0);
}

void a_java_holder_can_be_forced(struct fixture *f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    bool was_locked = false;

    assert_int_equal(test_server_int(f->server, "HSET " NAME " " JAVA " 1"), 1);
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_true(was_locked);
    assert_false(fixture_has_key(f, NAME));
}

/* What a Redisson with another client's fields, or none of sense, might leave behind. */
void odd_hashes_are_somebody_elses(struct fixture *f)
{
    static const char *const odd[] = {
        "HSET " NAME " " JAVA " -1",      "HSET " NAME " " JAVA " 0",
        "HSET " NAME " x:1 nonsense",     "HSET " NAME " c:3 99999999999999999999",
        "HSET " NAME " x:1 \"\"",         "HSET " NAME " mode write " JAVA ":write 1",
        "HSET " NAME " \"a\\r\\nb:1\" 1",
    };
    struct rlock_handle *lock = lock_new(f, client_open(f));

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct rlock_info info = RLOCK_INFO_INIT;

        test_server_do(f->server, "%s", odd[i]);
        assert_code(rlock_try_lock(lock), RLOCK_EBUSY);
        assert_null(strpbrk(rlock_detail(), "\r\n"));
        assert_code(rlock_unlock(lock), RLOCK_ENOTOWNER);
        assert_code(rlock_inspect(lock, &info), 0);
        assert_true(info.locked && !info.mine);
        assert_int_equal(test_server_int(f->server, "DEL " NAME), 1);
    }
}
