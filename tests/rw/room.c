/* SPDX-License-Identifier: Apache-2.0 */
#include "rw/room.h"

#include <stdatomic.h>
#include <unistd.h>

#include "rw/peer.h"
#include "support/raw.h"

static const struct kind rw = {"read", rlock_read_new, rlock_write_new, 0};
static struct witness *witness; /* the fixture's */
static _Atomic uint64_t last_id;
static _Atomic size_t readers, expected, visits[2];
static _Atomic bool stop;

void room_open(struct fixture *f)
{
    fixture_open(f, &(struct fixture_opts){.kind = &rw});
    witness = f->witness;
    atomic_store(&readers, 0);
    atomic_store(&visits[0], 0);
    atomic_store(&visits[1], 0);
    atomic_store(&stop, false);
}

/* ---- Taking part ---- */

struct inside room_enter(const struct rlock_handle *lock)
{
    struct inside inside = {.id = atomic_fetch_add(&last_id, 1) + 1,
                            .writes = strcmp(rlock_kind(lock), "write") == 0};

    atomic_fetch_add(&visits[inside.writes], 1);
    if (inside.writes) {
        witness_enter(witness, 0, inside.id);
    } else {
        witness_enter_shared(witness, 0, inside.id);
        atomic_fetch_add(&readers, 1);
    }
    return inside;
}

void room_leave(struct inside inside)
{
    if (inside.writes) {
        witness_leave(witness, 0, inside.id);
    } else {
        atomic_fetch_sub(&readers, 1);
        witness_leave_shared(witness, 0, inside.id);
    }
}

size_t room_readers(void)
{
    return atomic_load(&readers);
}

void room_expect_readers(size_t n)
{
    atomic_store(&expected, n);
}

size_t room_visits(bool writers)
{
    return atomic_load(&visits[writers]);
}

void room_stop_visits(void)
{
    atomic_store(&stop, true);
}

int act_visit(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = rlock_lock_for(lock, wait_ms, take, NULL);
    struct inside inside;

    if (code != 0) {
        return code;
    }
    inside = room_enter(lock);
    TEST_CHECK(rlock_is_valid(lock));
    room_leave(inside);
    return rlock_unlock(lock);
}

/* Nobody leaves before all have seen all. */
int act_visit_with_all(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = rlock_lock_for(lock, wait_ms, take, NULL);
    struct inside inside;

    if (code != 0) {
        return code;
    }
    inside = room_enter(lock);
    TEST_CHECK(TEST_EVENTUALLY(room_readers() >= atomic_load(&expected), 10000));
    atomic_store(&expected, 0);
    room_leave(inside);
    return rlock_unlock(lock);
}

int act_keep_visiting(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    int code = 0;

    while (!atomic_load(&stop) && (code == 0 || code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT)) {
        code = act_visit(lock, wait_ms, take);
    }
    return code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT ? 0 : code;
}

/* ---- What the server has ---- */

const char *room_hash(struct fixture *f)
{
    static char text[4096];
    char *all = test_server_cmd(f->server, "HGETALL " NAME);

    for (char *at = all; *at != '\0'; at++) {
        *at = (char)(*at == '\n' ? ' ' : *at);
    }
    test_text(text, sizeof(text), "%s", all);
    free(all);
    for (size_t len = strlen(text); len > 0 && text[len - 1] == ' '; len--) {
        text[len - 1] = '\0';
    }
    return text;
}

void room_assert_hash(struct fixture *f, const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (strcmp(room_hash(f), text) != 0) {
        print_error("the hash is: %s\n expected: %s\n", room_hash(f), text);
        _fail(file, line);
    }
}

long long room_level(struct fixture *f, const char *owner, int level)
{
    return test_server_int(f->server, "PTTL {" NAME "}:%s:rwlock_timeout:%d", owner, level);
}

long long room_levels(struct fixture *f)
{
    return test_server_int(f->server, "EVAL \"return #redis.call('keys', ARGV[1])\" 0 "
                                      "{" NAME "}:*:rwlock_timeout:*");
}

const char *room_owner(const struct rlock_client *client, int n)
{
    static char texts[8][80];
    static size_t next;
    char *text = texts[next++ % 8];

    test_text(text, sizeof(texts[0]), "%s:%d", rlock_client_uuid(client), n);
    return text;
}

long long room_ttl(struct fixture *f)
{
    return test_server_int(f->server, "PTTL " NAME);
}

int room_listen(struct fixture *f)
{
    int fd = raw_dial(test_server_unix_url(f->server));

    assert_true(fd >= 0);
    raw_say(fd, "SUBSCRIBE " CHANNEL "\r\n");
    assert_true(raw_hears(fd, "*3\r\n$9\r\nsubscribe\r\n$22\r\n" CHANNEL "\r\n:1\r\n"));
    return fd;
}

void room_hears(int fd, const char *payload)
{
    char frame[128];

    test_text(frame, sizeof(frame), "*3\r\n$7\r\nmessage\r\n$22\r\n" CHANNEL "\r\n$1\r\n%s\r\n",
              payload);
    assert_true(raw_hears(fd, frame));
}

void room_hears_nothing(int fd)
{
    assert_string_equal(raw_hear_within(fd, 30), "");
}

/* ---- Peers ---- */

char *peer_run(struct fixture *f, const char *script, const char *owner, long long lease_ms)
{
    char lease[24];
    const char *argv[] = {"EVAL", script, "3", NAME, "{" NAME "}:", CHANNEL, owner, lease, NULL};

    test_text(lease, sizeof(lease), "%lld", lease_ms);
    return test_server_argv(f->server, argv);
}

void room_assert_peer(struct fixture *f, const char *reply, const char *script, const char *owner,
                      long long lease_ms, const char *file, int line)
{
    char *said = peer_run(f, script, owner, lease_ms);

    if (strcmp(said, reply) != 0) {
        print_error("a peer is told '%s', expected '%s'\n", said, reply);
        _fail(file, line);
    }
    free(said);
}
