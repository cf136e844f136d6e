/* SPDX-License-Identifier: Apache-2.0 */
#include "fair/hall.h"

#include <unistd.h>

#include "fair/peer.h"
#include "support/raw.h"

static const struct conf_kind fair = {"fair", rlock_fair_new, rlock_fair_new,
                                      CAN_NEST | EXCLUDES_ITSELF | CAN_BE_ASKED};

int hall_set_up(void **state)
{
    *state = world_start(&fair);
    return 0;
}

int hall_tear_down(void **state)
{
    world_stop(*state);
    return 0;
}

/* ---- The queue ---- */

void hall_queue(struct world *w, struct hall_queue *ret_queue)
{
    char *all = test_server_cmd(conf_server(w), "LRANGE " QUEUE " 0 -1");
    char *rest = all;

    ret_queue->n = 0;
    for (char *line = strsep(&rest, "\n"); line != NULL && line[0] != '\0';
         line = strsep(&rest, "\n")) {
        assert_true(ret_queue->n < HALL_MOST);
        test_text(ret_queue->owners[ret_queue->n++], HALL_OWNER_SIZE, "%s", line);
    }
    free(all);
}

size_t hall_queued(struct world *w)
{
    return (size_t)test_server_int(conf_server(w), "LLEN " QUEUE);
}

void hall_await_queued(struct world *w, size_t n)
{
    if (!TEST_EVENTUALLY(hall_queued(w) == n, 10000)) {
        fail_msg("%zu queue, expected %zu", hall_queued(w), n);
    }
}

bool hall_gave_up(int code)
{
    return code == RLOCK_ETIMEDOUT || code == RLOCK_EINDOUBT;
}

const char *hall_holder(struct world *w)
{
    static char holder[HALL_OWNER_SIZE];
    char *field = test_server_cmd(conf_server(w), "HKEYS " NAME);

    test_text(holder, sizeof(holder), "%s", field);
    free(field);
    return holder;
}

long long hall_score(struct world *w, const char *owner)
{
    return test_server_int(conf_server(w), "ZSCORE " SCORES " %s", owner);
}

long long hall_clock(struct world *w)
{
    char *time = test_server_cmd(conf_server(w), "TIME");
    char *rest = NULL;
    long long seconds = strtoll(time, &rest, 10);
    long long us = strtoll(rest + 1, NULL, 10);

    free(time);
    return seconds * 1000 + us / 1000;
}

long long hall_listeners(struct world *w, const char *owner)
{
    char *reply = test_server_cmd(conf_server(w), "PUBSUB NUMSUB " CHANNEL ":%s", owner);
    const char *number = strchr(reply, '\n');
    long long n = number != NULL ? strtoll(number + 1, NULL, 10) : -1;

    free(reply);
    return n;
}

void hall_line_up(struct world *w, struct actor *const *actors, struct rlock *const *locks,
                  size_t n, act_fn *fn, const struct rlock_take *take)
{
    size_t before = hall_queued(w);

    for (size_t i = 0; i < n; i++) {
        actor_begin(actors[i], fn, locks[i], take);
        hall_await_queued(w, before + i + 1);
    }
}

/* ---- Peers ---- */

/* Runs a script with the server's clock. */
static char *run(struct world *w, enum peer_verb verb, const char *owner, long long lease_ms,
                 long long wait_ms)
{
    const struct peer_values values = {
        .lock = NAME, .owner = owner, .lease = lease_ms, .wait = wait_ms, .now = hall_clock(w)};
    struct peer_command command;

    peer_spell(&peer_scripts(PEER_NEW)[verb], &values, &command);
    return test_server_argv(conf_server(w), command.argv);
}

/* Runs an acquire; whether it said nil. */
static bool acquires(struct world *w, enum peer_verb verb, const char *owner, long long lease_ms,
                     long long wait_ms)
{
    char *reply = run(w, verb, owner, lease_ms, wait_ms);
    bool nil = reply[0] == '\0';

    TEST_CHECK(strstr(reply, "ERR") == NULL);
    free(reply);
    return nil;
}

bool peer_takes(struct world *w, const char *owner, long long lease_ms, long long wait_ms)
{
    return acquires(w, PEER_TRY, owner, lease_ms, wait_ms);
}

bool peer_queues(struct world *w, const char *owner, long long wait_ms)
{
    return !acquires(w, PEER_ACQUIRE, owner, 30000, wait_ms);
}

void peer_leaves(struct world *w, const char *owner, long long wait_ms)
{
    free(run(w, PEER_GIVE_UP, owner, 30000, wait_ms));
}

bool peer_releases(struct world *w, const char *owner)
{
    char *reply = run(w, PEER_RELEASE, owner, 30000, SLOT_MS);
    bool released = strcmp(reply, "1") == 0;

    free(reply);
    return released;
}

int peer_listens(struct world *w, const char *owner)
{
    int fd = raw_dial(test_server_unix_url(conf_server(w)));
    char text[256];

    TEST_CHECK(fd >= 0);
    test_text(text, sizeof(text), "SUBSCRIBE " CHANNEL ":%s\r\n", owner);
    raw_say(fd, text);
    assert_true(TEST_EVENTUALLY(hall_listeners(w, owner) == 1, 2000));
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
