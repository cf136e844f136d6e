/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are stopped past the end of their lease, and processes that are killed. The first
 * thing that a stopped one learns when it goes on is that its hold is lost, and it renews nothing.
 *
 * RLOCK_TEST_TRIALS says how often a process is stopped.
 */
#include "fault/scene.h"
#include "fault/verbs.h"
#include "support/test.h"
#include "support/waiting.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEASE_MS scene_ms(40)

/* What parent and children share. */
struct page {
    struct scene *scene; /* at the same address in both */
    char url[256];
    int64_t lease_ms;
    _Atomic bool resumed; /* the child was stopped, and goes on */
    _Atomic bool in_step; /* the child may be between asking whether it holds, and its step */
    _Atomic bool stop;
    _Atomic uint64_t id; /* the child's name for the witness */
    _Atomic size_t rounds;
};

static struct page *page_new(struct scene *scene)
{
    struct page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TEST_CHECK(page != MAP_FAILED);
    page->scene = scene;
    page->lease_ms = LEASE_MS;
    return page;
}

static void page_set_url(struct page *page)
{
    const struct scene *scene = page->scene;

    test_text(page->url, sizeof(page->url), "%s",
              scene->proxy != NULL ? proxy_url(scene->proxy) : test_server_unix_url(scene->server));
}

static void page_free(struct page *page)
{
    test_must(munmap(page, sizeof(*page)), "munmap");
}

static size_t trials(size_t usual)
{
    const char *given = getenv("RLOCK_TEST_TRIALS");

    return given != NULL ? strtoul(given, NULL, 10) : usual / (test_slack() > 1 ? 4 : 1);
}

/* The random instant of a trial: somewhere in the middle of a lease. */
static void pause_at_random(int64_t most_us)
{
    int64_t until_us = test_now_us() + random() % most_us;

    while (test_now_us() < until_us) {
    }
}

/* ---- The child ---- */

static void child_open(struct actor *actor, struct page *page, struct test_peer *peer)
{
    TEST_CHECK(test_peer_recv(peer, 10000) == 0); /* now there is an URL */
    actor_open(actor, page->scene,
               RLOCK_CLIENT_OPTS(.url = page->url, .renewed_lease_ms = page->lease_ms,
                                 .op_timeout_ms = 1000 * test_slack(),
                                 .connect_timeout_ms = 5000 * test_slack()));
    atomic_store(&page->id, actor_id());
}

static void child_step(const struct actor *actor, struct page *page)
{
    atomic_store(&page->in_step, true);
    (void)actor_step(actor);
    atomic_store(&page->in_step, false);
}

enum first_call { DONE, IS_VALID, UNLOCK, NESTED, VALID_MS, N_FIRST_CALLS };

/* What the child does first when it goes on: it must learn of its loss by that. */
static void learn(const struct actor *actor, enum first_call first)
{
    if (first == IS_VALID) {
        TEST_CHECK(!rlock_is_valid(actor->lock));
    } else if (first == NESTED) {
        TEST_CHECK(rlock_try_lock(actor->lock) == RLOCK_ELOST);
    } else if (first == VALID_MS) {
        TEST_CHECK(rlock_valid_ms(actor->lock) == 0);
    }
    TEST_CHECK(rlock_unlock(actor->lock) == RLOCK_ELOST);
    TEST_CHECK(!rlock_is_valid(actor->lock));
    TEST_CHECK(rlock_unlock(actor->lock) == RLOCK_ENOTOWNER);
}

static int sleeper_main(struct test_peer *peer, void *payload)
{
    struct page *page = payload;
    struct actor actor;
    enum first_call first;
    size_t losses = 0;

    child_open(&actor, page, peer);
    while ((first = (enum first_call)test_peer_recv(peer, 60000)) != DONE) {
        TEST_CHECK(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 60000), NULL) == 0);
        test_peer_send(peer, 1);
        while (!atomic_load(&page->resumed)) {
            child_step(&actor, page);
            (void)usleep(50);
        }
        learn(&actor, first);
        losses++;
        test_peer_send(peer, 2);
    }
    TEST_CHECK(TEST_EVENTUALLY(actor_losses(&actor) == losses, 2000)); /* each was told once */
    actor_close(&actor);
    return 0;
}

/* ---- Stopped ---- */

/*
 * One child stopped while it holds the lock; meanwhile the rival takes it. Returns how many
 * renewals came after that: one is possible, where the child was stopped between the decision to
 * send it and the sending. It finds another owner and does nothing.
 */
static unsigned int stop_once(struct page *page, struct test_child *child,
                              const struct actor *rival, int renewals)
{
    const struct scene *scene = page->scene;
    enum first_call first = IS_VALID + (unsigned int)random() % (N_FIRST_CALLS - IS_VALID);
    unsigned int renewed;
    bool in_step;

    atomic_store(&page->resumed, false);
    test_child_send(child, first);
    TEST_CHECK(test_child_recv(child, 20000) == 1);
    pause_at_random(page->lease_ms * 500);
    test_freeze(test_child_pid(child));
    in_step = atomic_load(&page->in_step);
    assert_true(scene_wait_held(scene, false));
    renewed = proxy_fired(scene->proxy, renewals);
    assert_code(rlock_lock_with(rival->lock, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
    if (!in_step) {
        witness_enter(scene->witness, 0, actor_id());
    }
    atomic_store(&page->resumed, true);
    test_thaw(test_child_pid(child));
    TEST_CHECK(test_child_recv(child, 20000) == 2);
    witness_leave(scene->witness, 0, actor_id());
    renewed = proxy_fired(scene->proxy, renewals) - renewed;
    assert_true(renewed <= 1);
    assert_int_equal(scene_count(scene), 1);
    assert_code(rlock_unlock(rival->lock), 0);
    return renewed;
}

TEST(a_process_stopped_past_its_lease_learns_of_its_loss_first)
{
    struct scene scene;
    struct page *page;
    struct test_child *child;
    struct actor rival;
    struct proxy_rule rule = {.act = PROXY_PASS, .contains = script_digest("renew")};
    const size_t n = trials(200);
    size_t late = 0;
    int renewals;

    scene_open(&scene, NULL);
    page = page_new(&scene);
    child = test_child_spawn(sleeper_main, page);
    scene_start_proxy(&scene);
    page_set_url(page);
    actor_open_direct(&rival, &scene);
    renewals = proxy_add(scene.proxy, &rule);
    test_child_send(child, 0);
    for (size_t i = 0; i < n; i++) {
        late += stop_once(page, child, &rival, renewals);
    }
    assert_true(late <= 1 + n / 50);
    assert_true(proxy_fired(scene.proxy, renewals) > 0);
    test_child_send(child, DONE);
    assert_int_equal(test_child_wait(child, 10000), 0);
    actor_close(&rival);
    page_free(page);
    scene_close(&scene);
}

static int busy_main(struct test_peer *peer, void *payload)
{
    struct page *page = payload;
    struct actor actor;

    child_open(&actor, page, peer);
    while (!atomic_load(&page->stop)) {
        int code = rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 60000), NULL);

        TEST_CHECK(code == 0 || code == RLOCK_EINDOUBT);
        for (int i = 0; code == 0 && i < 3; i++) {
            child_step(&actor, page);
        }
        if (code == 0) {
            code = rlock_unlock(actor.lock);
            TEST_CHECK(code == 0 || code == RLOCK_ELOST || code == RLOCK_EINDOUBT);
        }
        atomic_fetch_add(&page->rounds, 1);
    }
    actor_close(&actor);
    return 0;
}

TEST(a_process_stopped_at_any_instant_breaks_no_promise)
{
    struct scene scene;
    struct page *page;
    struct test_child *child;
    struct actor rival;

    scene_open(&scene, NULL);
    page = page_new(&scene);
    child = test_child_spawn(busy_main, page);
    page_set_url(page);
    actor_open_direct(&rival, &scene);
    test_child_send(child, 0);
    for (size_t i = trials(100); i > 0; i--) {
        size_t rounds = atomic_load(&page->rounds);
        bool inside;

        assert_true(TEST_EVENTUALLY(atomic_load(&page->rounds) > rounds, 20000));
        pause_at_random(500);
        test_freeze(test_child_pid(child));
        inside = !atomic_load(&page->in_step);
        /* at once where the child did not hold it, else when its lease ends */
        assert_code(
            rlock_lock_with(rival.lock, RLOCK_TAKE(.wait_ms = 5000, .lease_ms = 5000), NULL), 0);
        if (inside) {
            witness_enter(scene.witness, 0, actor_id());
        }
        test_thaw(test_child_pid(child));
        witness_leave(scene.witness, 0, actor_id());
        assert_code(rlock_unlock(rival.lock), 0);
    }
    atomic_store(&page->stop, true);
    assert_int_equal(test_child_wait(child, 10000), 0);
    actor_close(&rival);
    page_free(page);
    scene_close(&scene);
}

/* ---- Stopped while its answers come ---- */

enum { ASKERS = 330, FREE = 30 };

struct asking {
    pthread_t thread;
    struct rlock *lock;
    bool is_free; /* the lock */
    int code;
};

/* Long enough for all to have asked, and to be stopped. */
static int64_t asker_timeout_ms(void)
{
    return test_slack() > 1 ? 10000 : 3000;
}

static void *ask_once(void *arg)
{
    struct asking *asking = arg;

    asking->code = rlock_try_lock(asking->lock);
    TEST_CHECK(asking->code != 0 || rlock_unlock(asking->lock) == 0);
    return NULL;
}

static int asker_main(struct test_peer *peer, void *payload)
{
    static struct asking asking[ASKERS];
    struct page *page = payload;
    struct actor actor;

    TEST_CHECK(test_peer_recv(peer, 10000) == 0);
    actor_open(&actor, page->scene,
               RLOCK_CLIENT_OPTS(.url = page->url, .op_timeout_ms = asker_timeout_ms()));
    TEST_CHECK(actor_visit(&actor, RLOCK_TAKE(.wait_ms = 10000)) == 0);
    test_peer_send(peer, 1);
    TEST_CHECK(test_peer_recv(peer, 10000) == 1);
    for (int i = 0; i < ASKERS; i++) {
        char name[16];

        test_text(name, sizeof(name), "n%d", i);
        asking[i].is_free = i % (ASKERS / FREE) == 0;
        asking[i].lock = actor_lock(&actor, asking[i].is_free ? name : "b");
        TEST_CHECK(pthread_create(&asking[i].thread, NULL, ask_once, &asking[i]) == 0);
    }
    TEST_CHECK(TEST_EVENTUALLY(test_asked(actor.client) == ASKERS, 5000));
    test_peer_send(peer, 2);
    for (int i = 0; i < ASKERS; i++) {
        TEST_CHECK(pthread_join(asking[i].thread, NULL) == 0);
        TEST_CHECK(asking[i].code == (asking[i].is_free ? 0 : RLOCK_EBUSY));
        asking[i].lock = rlock_free(asking[i].lock);
    }
    actor_close(&actor);
    return 0;
}

/* Its clock says that they are overdue; in its socket they lie, and were there in time. */
TEST(a_process_that_was_stopped_hears_its_answers_first)
{
    struct test_child *child;
    struct scene scene;
    struct page *page;

    /* A unix socket holds no more than 167 requests that are sent one by one, so TCP. There must be
     * more refusals than the client takes in one read. */
    scene_open(&scene, &(struct scene_opts){.server.transport = TEST_TCP});
    free(test_server_cmd(scene.server, "HSET b %0120d:1 1", 0));
    page = page_new(&scene);
    child = test_child_spawn(asker_main, page);
    test_text(page->url, sizeof(page->url), "%s", test_server_url(scene.server));
    test_child_send(child, 0);
    TEST_CHECK(test_child_recv(child, 20000) == 1);
    test_server_freeze(scene.server);
    test_child_send(child, 1);
    TEST_CHECK(test_child_recv(child, 20000) == 2);
    test_freeze(test_child_pid(child));
    test_server_thaw(scene.server);
    assert_true(TEST_EVENTUALLY(test_server_int(scene.server, "DBSIZE") == 1 + FREE, 5000));
    (void)usleep((useconds_t)(asker_timeout_ms() + 500) * 1000);
    test_thaw(test_child_pid(child));
    assert_int_equal(test_child_wait(child, 20000), 0);
    free(test_server_cmd(scene.server, "DEL b"));
    page_free(page);
    scene_close(&scene);
}

/* ---- Killed ---- */

#define VICTIMS 12

static int holder_main(struct test_peer *peer, void *payload)
{
    struct actor actor;

    child_open(&actor, payload, peer);
    TEST_CHECK(rlock_lock_with(actor.lock, RLOCK_TAKE(.wait_ms = 60000), NULL) == 0);
    test_peer_send(peer, 1);
    (void)test_peer_recv(peer, 60000);
    return 1;
}

static void kill_child(struct test_child *child)
{
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
}

TEST(a_killed_holder_blocks_others_for_a_lease_at_most)
{
    struct scene scene;
    struct page *page;
    struct test_child *children[3];
    struct actor rival;
    struct waiter waiter;

    scene_open(&scene, NULL);
    page = page_new(&scene);
    page->lease_ms = scene_ms(300);
    for (size_t i = 0; i < 3; i++) {
        children[i] = test_child_spawn(holder_main, page);
    }
    page_set_url(page);
    actor_open_direct(&rival, &scene);
    for (size_t i = 0; i < 3; i++) {
        int64_t killed_us;

        test_child_send(children[i], 0);
        TEST_CHECK(test_child_recv(children[i], 10000) == 1);
        waiter_start(&waiter, &rival, RLOCK_TAKE(.wait_ms = 60000));
        assert_true(scene_wait_waiters(&scene, 1));
        killed_us = test_now_us();
        kill_child(children[i]);
        assert_int_equal(waiter_join(&waiter), 0);
        assert_within(killed_us, page->lease_ms);
    }
    actor_close(&rival);
    page_free(page);
    scene_close(&scene);
}

static int waiter_main(struct test_peer *peer, void *payload)
{
    struct actor actor;

    child_open(&actor, payload, peer);
    (void)rlock_lock(actor.lock);
    return 1;
}

TEST(a_killed_waiter_leaves_nothing)
{
    struct scene scene;
    struct page *page;
    struct test_child *children[3];
    struct actor rival;

    scene_open(&scene, NULL);
    page = page_new(&scene);
    for (size_t i = 0; i < 3; i++) {
        children[i] = test_child_spawn(waiter_main, page);
    }
    page_set_url(page);
    actor_open_direct(&rival, &scene);
    assert_code(rlock_try_lock(rival.lock), 0);
    for (size_t i = 0; i < 3; i++) {
        test_child_send(children[i], 0);
    }
    assert_true(scene_wait_waiters(&scene, 3));
    for (size_t i = 0; i < 3; i++) {
        kill_child(children[i]);
    }
    assert_true(scene_wait_waiters(&scene, 0));
    assert_true(actor_step(&rival));
    assert_code(rlock_unlock(rival.lock), 0);
    assert_code(actor_visit(&rival, NULL), 0);
    actor_close(&rival);
    page_free(page);
    scene_close(&scene);
}

TEST(processes_killed_at_any_instant_break_no_promise)
{
    struct scene scene;
    struct page *pages[VICTIMS];
    struct test_child *children[VICTIMS];
    struct actor rival;
    const struct rlock_take take = {.size = sizeof(take), .wait_ms = 60000};
    struct crew crew = {.actor = &rival, .take = &take};

    scene_open(&scene, NULL);
    for (size_t i = 0; i < VICTIMS; i++) {
        pages[i] = page_new(&scene);
        page_set_url(pages[i]);
        children[i] = test_child_spawn(busy_main, pages[i]);
    }
    actor_open_direct(&rival, &scene);
    crew_start(&crew, 2);
    for (size_t i = 0; i < VICTIMS; i++) {
        size_t visits;

        test_child_send(children[i], 0);
        assert_true(TEST_EVENTUALLY(atomic_load(&pages[i]->rounds) > 5, 20000));
        pause_at_random(2000);
        kill_child(children[i]);
        witness_evict(scene.witness, 0, atomic_load(&pages[i]->id));
        visits = atomic_load(&crew.visits);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits, 20000));
        page_free(pages[i]);
    }
    crew_stop(&crew);
    assert_int_equal(actor_losses(&rival), 0);
    actor_close(&rival);
    scene_close(&scene);
}
