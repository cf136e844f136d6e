/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/hall.h"

#include <unistd.h>

#include "fair/peer.h"
#include "support/raw.h"

const struct kind kind_fair = {"fair", rlock_fair_new, rlock_fair_new, 0};

/* ---- The queue ---- */

void hall_queue(struct fixture *f, struct hall_queue *ret_queue)
{
    char *all = test_server_cmd(f->server, "LRANGE " QUEUE " 0 -1");
    char *rest = all;

    ret_queue->n = 0;
    for (char *line = strsep(&rest, "\n"); line != NULL && line[0] != '\0';
         line = strsep(&rest, "\n")) {
        assert_true(ret_queue->n < HALL_MOST);
        test_text(ret_queue->owners[ret_queue->n++], HALL_OWNER_SIZE, "%s", line);
    }
    free(all);
}

size_t hall_queued(struct fixture *f)
{
    return (size_t)test_server_int(f->server, "LLEN " QUEUE);
}

void hall_await_queued(struct fixture *f, size_t n)
{
    if (!TEST_EVENTUALLY(hall_queued(f) == n, 10000)) {
        fail_msg("%zu queue, expected %zu", hall_queued(f), n);
    }
}

bool hall_gave_up(int code)
{
    return code == RLOCK_ETIMEDOUT || code == RLOCK_EINDOUBT;
}

const char *hall_holder(struct fixture *f)
{
    static char holder[HALL_OWNER_SIZE];
    char *field = test_server_cmd(f->server, "HKEYS " NAME);

    test_text(holder, sizeof(holder), "%s", field);
    free(field);
    return holder;
}

long long hall_score(struct fixture *f, const char *owner)
{
    return test_server_int(f->server, "ZSCORE " SCORES " %s", owner);
}

long long hall_clock(struct fixture *f)
{
    char *time = test_server_cmd(f->server, "TIME");
    char *rest = NULL;
    long long seconds = strtoll(time, &rest, 10);
    long long us = strtoll(rest + 1, NULL, 10);

    free(time);
    return seconds * 1000 + us / 1000;
}

long long hall_listeners(struct fixture *f, const char *owner)
{
    char channel[sizeof(CHANNEL ":") + HALL_OWNER_SIZE];

    test_text(channel, sizeof(channel), CHANNEL ":%s", owner);
    return test_server_listeners(f->server, channel);
}

void hall_line_up(struct fixture *f, struct actor *const *actors, struct rlock_handle *const *locks,
                  size_t n, act_fn *fn, int64_t wait_ms, const struct rlock_take *take)
{
    size_t before = hall_queued(f);

    for (size_t i = 0; i < n; i++) {
        actor_begin(actors[i], fn, locks[i], wait_ms, take);
        hall_await_queued(f, before + i + 1);
    }
}

/* ---- Peers ---- */

/* Runs a script with the server's clock. */
static char *run(struct fixture *f, enum peer_verb verb, const char *owner, long long lease_ms,
                 long long wait_ms)
{
    const struct peer_values values = {
        .lock = NAME, .owner = owner, .lease = lease_ms, .wait = wait_ms, .now = hall_clock(f)};
    struct peer_command command;

    peer_spell(&peer_scripts(PEER_NEW)[verb], &values, &command);
    return test_server_argv(f->server, command.argv);
}

/* Runs an acquire; whether it said nil. */
static bool acquires(struct fixture *f, enum peer_verb verb, const char *owner, long long lease_ms,
                     long long wait_ms)
{
    char *reply = run(f, verb, owner, lease_ms, wait_ms);
    bool nil = reply[0] == '\0';

    TEST_CHECK(strstr(reply, "ERR") == NULL);
    free(reply);
    return nil;
}

bool peer_takes(struct fixture *f, const char *owner, long long lease_ms, long long wait_ms)
{
    return acquires(f, PEER_TRY, owner, lease_ms, wait_ms);
}

bool peer_queues(struct fixture *f, const char *owner, long long wait_ms)
{
    return !acquires(f, PEER_ACQUIRE, owner, 30000, wait_ms);
}

void peer_leaves(struct fixture *f, const char *owner, long long wait_ms)
{
    free(run(f, PEER_GIVE_UP, owner, 30000, wait_ms));
}

bool peer_releases(struct fixture *f, const char *owner)
{
    char *reply = run(f, PEER_RELEASE, owner, 30000, SLOT_MS);
    bool released = strcmp(reply, "1") == 0;

    free(reply);
    return released;
}

int peer_listens(struct fixture *f, const char *owner)
{
    int fd = raw_dial(test_server_unix_url(f->server));
    char text[256];

    TEST_CHECK(fd >= 0);
    test_text(text, sizeof(text), "SUBSCRIBE " CHANNEL ":%s\r\n", owner);
    raw_say(fd, text);
    assert_true(TEST_EVENTUALLY(hall_listeners(f, owner) == 1, 2000));
    (void)raw_hear(fd);
    return fd;
}

void peer_hears(int fd, const char *owner)
{
    char text[256];

    test_text(text, sizeof(text), "*3\r\n$7\r\nmessage\r\n$%zu\r\n" CHANNEL ":%s\r\n$1\r\n0\r\n",
              strlen(CHANNEL) + 1 + strlen(owner), owner);
    assert_true(raw_hears(fd, text));
}
