/* SPDX-License-Identifier: Apache-2.0 */
/* Sentinels that do not agree: one of another deployment, and those that lost their memory. */
#include <string.h>

#include "support/clients.h"
#include "support/sentinel.h"

enum { REPLICATED = 3, FOREIGN = REPLICATED, SERVERS };

/* A primary, two replicas, three Sentinels; and a server of another deployment, which has the same
 * name for its primary. */
struct scene {
    struct fixture f;
    struct sentinels sentinels;
    struct test_server *foreign; /* a Sentinel of the other deployment; NULL none */
};

static const struct test_server_opts plain = {.transport = TEST_TCP};

static void begin(struct scene *s)
{
    fixture_open(&s->f, &(struct fixture_opts){
                            .kind = &kind_reentrant, .servers = SERVERS, .server = plain});
    sentinels_start(&s->sentinels, s->f.servers, REPLICATED, &plain, NULL);
    s->foreign = NULL;
}

static void end(struct scene *s)
{
    s->foreign = test_server_stop(s->foreign);
    sentinels_stop(&s->sentinels);
    fixture_close(&s->f);
}

#define DISCORD_TEST(name, s) TEST_AROUND(name, struct scene, s, begin(s), end(s))

static struct rlock_client *open_at(struct scene *s, const char *url)
{
    return client_open_with(&s->f, &RLOCK_CLIENT_OPTS(.url = url));
}

/* Enters and leaves a cell of the witness, again and again. */
static struct witness *seen;
static int act_work(struct rlock_handle *lock, const struct rlock_take *take)
{
    const uint64_t id = (uint64_t)(uintptr_t)lock;
    int code = 0;

    for (int i = 0; code == 0 && i < 150; i++) {
        code = rlock_lock_with(lock, take, NULL);
        if (code == 0) {
            witness_enter(seen, 0, id);
            witness_leave(seen, 0, id);
            code = rlock_unlock(lock);
        }
    }
    return code;
}

/* ---- One of another deployment ---- */

/* It has seen more failovers. */
static void start_foreign(struct scene *s)
{
    char monitor[80];
    const char *const conf[] = {monitor, "sentinel config-epoch primary 9", NULL};

    test_text(monitor, sizeof(monitor), "sentinel monitor primary 127.0.0.1 %d 1",
              test_server_port(s->f.servers[FOREIGN]));
    s->foreign = test_server_start(
        &(struct test_server_opts){.transport = TEST_TCP, .sentinel = true, .conf = conf});
}

static void write_url(const struct scene *s, const struct test_server *third, char *out,
                      size_t size)
{
    test_text(out, size, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/primary",
              test_server_port(third), test_server_port(s->sentinels.each[0]),
              test_server_port(s->sentinels.each[1]));
}

static bool is_unused(struct test_server *server)
{
    return test_server_info(server, "commandstats", "cmdstat_evalsha:calls") <= 0;
}

DISCORD_TEST(a_sentinel_of_another_deployment_moves_no_client, s)
{
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = 20000};
    struct actor *right = actor_open(&s->f), *wrong = actor_open(&s->f);
    struct rlock_handle *lock;
    char url[200], wrong_url[200];

    seen = s->f.witness;
    start_foreign(s);
    write_url(s, s->sentinels.each[2], url, sizeof(url));
    write_url(s, s->foreign, wrong_url, sizeof(wrong_url));
    lock = lock_named(&s->f, open_at(s, wrong_url), "lock");
    assert_code(rlock_lock_with(lock, &take, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    actor_begin(right, act_work, lock_named(&s->f, open_at(s, url), "lock"), &take);
    actor_begin(wrong, act_work, lock, &take);
    assert_code(actor_end(right), 0);
    assert_code(actor_end(wrong), 0);
    assert_true(witness_is_clean(s->f.witness, stderr));
    assert_true(is_unused(s->f.servers[FOREIGN]));

    assert_true(TEST_EVENTUALLY(diary_logged(&s->f.diary, "most name 127.0.0.1:") > 0, 10000));
    assert_true(STAYS(diary_logged(&s->f.diary, "most name 127.0.0.1:") == 1, 2000));

    test_server_kill(s->f.servers[0]); /* a failover is followed nevertheless */
    assert_code(rlock_lock_with(lock, RLOCK_TAKE(.wait_ms = 20000), NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(is_unused(s->f.servers[FOREIGN]));
    sentinels_stop(&s->sentinels);
    test_server_restart(s->f.servers[0], false);
}
