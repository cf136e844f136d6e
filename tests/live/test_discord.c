/* SPDX-License-Identifier: Apache-2.0 */
/* Sentinels that do not agree: one of another deployment, and those that lost their memory. */
#include <string.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "support/sentinel.h"
#include "topology/slot.h"

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
    return client_open_with(&s->f, RLOCK_CLIENT_OPTS(.url = url));
}

/* Enters and leaves a cell of the witness, again and again. */
static struct witness *seen;
static int act_work(struct rlock_handle *lock, int64_t wait_ms, const struct rlock_take *take)
{
    const uint64_t id = (uint64_t)(uintptr_t)lock;
    int code = 0;

    for (int i = 0; code == 0 && i < 150; i++) {
        code = rlock_lock_for(lock, wait_ms, take, NULL);
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
    const int64_t wait_ms = 20000;
    struct actor *right = actor_open(&s->f), *wrong = actor_open(&s->f);
    struct rlock_handle *lock;
    char url[200], wrong_url[200];

    seen = s->f.witness;
    start_foreign(s);
    write_url(s, s->sentinels.each[2], url, sizeof(url));
    write_url(s, s->foreign, wrong_url, sizeof(wrong_url));
    lock = lock_named(&s->f, open_at(s, wrong_url), "lock");
    assert_code(rlock_lock_for(lock, wait_ms, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    actor_begin(right, act_work, lock_named(&s->f, open_at(s, url), "lock"), wait_ms, NULL);
    actor_begin(wrong, act_work, lock, wait_ms, NULL);
    assert_code(actor_end(right), 0);
    assert_code(actor_end(wrong), 0);
    assert_true(witness_is_clean(s->f.witness, stderr));
    assert_true(is_unused(s->f.servers[FOREIGN]));

    assert_true(TEST_EVENTUALLY(diary_logged(&s->f.diary, "most name 127.0.0.1:") > 0, 10000));
    assert_true(STAYS(diary_logged(&s->f.diary, "most name 127.0.0.1:") == 1, 2000));

    test_server_kill(s->f.servers[0]); /* a failover is followed nevertheless */
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(is_unused(s->f.servers[FOREIGN]));
    sentinels_stop(&s->sentinels);
    test_server_restart(s->f.servers[0], false);
}

/* ---- Those that lost their memory ---- */

static void write_own_url(const struct scene *s, char *out, size_t size)
{
    write_url(s, s->sentinels.each[2], out, size);
}

/* They count epochs from 0 again. The failover after that one names an epoch that is lower than the
 * known one. */
DISCORD_TEST(clients_follow_the_failover_of_sentinels_that_lost_their_memory, s)
{
    struct rlock_handle *held, *lock;
    struct rlock_client *client;
    char url[200];

    write_own_url(s, url, sizeof(url));
    sentinels_raise_epoch(&s->sentinels, s->f.servers[0], 7);
    client = open_at(s, url);
    lock = lock_named(&s->f, client, "lock");
    held = lock_named(&s->f, client, "held");
    assert_code(rlock_lock(held), 0);
    for (size_t i = 0; i < SENTINELS; i++) {
        test_server_forget(s->sentinels.each[i]);
    }
    sentinels_watch(&s->sentinels, s->f.servers[0], REPLICATED - 1, NULL);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    test_server_kill(s->f.servers[0]);
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(rlock_is_valid(held));
    assert_code(rlock_unlock(held), 0);
    assert_int_equal(diary_logged(&s->f.diary, "(epoch 7) was in use"), 1);
    sentinels_stop(&s->sentinels);
    test_server_restart(s->f.servers[0], false);
}

static void watch_another(struct scene *s, struct test_server *primary, size_t n_replicas)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        test_server_do(s->sentinels.each[i], "SENTINEL REMOVE primary");
    }
    sentinels_watch(&s->sentinels, primary, n_replicas, NULL);
}

/* An administrator has all Sentinels watch a server that has nothing of the old one. */
DISCORD_TEST(a_primary_that_does_not_descend_from_the_known_one_waits_for_all_leases, s)
{
    struct rlock_handle *held, *lock;
    struct rlock_client *client;
    int64_t began_us;
    char url[200];

    write_own_url(s, url, sizeof(url));
    sentinels_raise_epoch(&s->sentinels, s->f.servers[0], 7);
    client =
        client_open_with(&s->f, RLOCK_CLIENT_OPTS(.url = url, .renewed_lease_ms = test_ms(10000)));
    lock = lock_named(&s->f, client, "lock");
    held = lock_named(&s->f, client, "held");
    assert_code(rlock_lock(held), 0);
    watch_another(s, s->f.servers[FOREIGN], 0);
    began_us = test_now_us();
    assert_true(TEST_EVENTUALLY(diary_logged(&s->f.diary, "(epoch 7) was in use") == 1, 10000));
    assert_code(rlock_try_lock(lock), RLOCK_ECONN);
    assert_non_null(strstr(rlock_detail(), "most Sentinels name 127.0.0.1:"));
    assert_true(test_server_says(s->f.servers[0], "0", "EXISTS lock"));
    (void)expect_loss(&s->f, RLOCK_LOST_EXPIRED);
    assert_code(rlock_lock_for(lock, 60000, NULL, NULL), 0);
    assert_true(test_now_us() - began_us > 29000000);
    assert_true(test_server_says(s->f.servers[FOREIGN], "1", "EXISTS lock"));
    assert_int_equal(diary_logged(&s->f.diary, "(epoch 7) was in use"), 1);
    assert_code(rlock_unlock(lock), 0);
    assert_code(rlock_unlock(held), RLOCK_ELOST);
}

/* They watch the known primary again before the time is over. */
DISCORD_TEST(a_primary_that_is_named_again_in_time_is_used_again, s)
{
    struct rlock_handle *held, *lock;
    struct rlock_client *client;
    char url[200];

    write_own_url(s, url, sizeof(url));
    sentinels_raise_epoch(&s->sentinels, s->f.servers[0], 7);
    client = open_at(s, url);
    lock = lock_named(&s->f, client, "lock");
    held = lock_named(&s->f, client, "held");
    assert_code(rlock_lock(held), 0);
    watch_another(s, s->f.servers[FOREIGN], 0);
    assert_true(TEST_EVENTUALLY(diary_logged(&s->f.diary, "(epoch 7) was in use") == 1, 10000));
    assert_code(rlock_try_lock(lock), RLOCK_ECONN);
    watch_another(s, s->f.servers[0], REPLICATED - 1);
    assert_code(rlock_lock_for(lock, 5000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    assert_true(rlock_is_valid(held));
    assert_code(rlock_unlock(held), 0);
    assert_true(is_unused(s->f.servers[FOREIGN]));
}

/* ---- A cluster that was made again ---- */

static const char *const failing_conf[] = {"cluster-enabled yes", "cluster-node-timeout 1000",
                                           "cluster-require-full-coverage no", NULL};

FIXTURE_WITH_TEST(clients_follow_the_failover_of_a_cluster_that_was_made_again, f,
                  .kind = &kind_reentrant, .servers = 4,
                  .server = {.transport = TEST_TCP, .conf = failing_conf})
{
    enum { PRIMARIES = 3 };
    struct rlock_handle *lock;
    char url[200], name[32] = "lock-0";

    for (size_t i = 0; i < PRIMARIES; i++) {
        test_server_do(f->servers[i], "CLUSTER SET-CONFIG-EPOCH %zu", 50 + i);
    }
    cluster_form(f->servers, PRIMARIES, f->n);
    for (int i = 1; cluster_primary_of(f->servers, PRIMARIES, rlock__slot(rlock__bytes_of(name))) !=
                    f->servers[0];
         i++) {
        test_text(name, sizeof(name), "lock-%d", i);
    }
    cluster_url(f->servers, PRIMARIES, url, sizeof(url));
    lock = lock_named(f, client_open_with(f, RLOCK_CLIENT_OPTS(.url = url)), name);
    assert_code(act_pass_through(lock, RLOCK_FOREVER, NULL), 0);
    for (size_t i = f->n; i-- > 0;) {
        test_server_do(f->servers[i], "FLUSHALL");
        test_server_do(f->servers[i], "CLUSTER RESET HARD");
    }
    cluster_form(f->servers, PRIMARIES, f->n);
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    assert_code(rlock_unlock(lock), 0);
    test_server_kill(f->servers[0]);
    assert_code(rlock_lock_for(lock, 20000, NULL, NULL), 0);
    assert_true(test_server_says(f->servers[PRIMARIES], "1", "EXISTS %s", name));
    assert_code(rlock_unlock(lock), 0);
    test_server_restart(f->servers[0], false);
}
