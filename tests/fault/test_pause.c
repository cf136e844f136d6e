/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are stopped past the end of their lease, and processes that are killed. The first
 * thing that a stopped one learns when it goes on is that its hold is lost, and it renews nothing.
 *
 * RLOCK_TEST_TRIALS says how often a process is stopped.
 */
#include "fault/verbs.h"
#include "support/waiter.h"
#include "support/waiting.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEASE_MS test_ms(40)

/* What parent and children share. */
struct page {
    struct fixture *f; /* at the same address in both */
    char url[256];
    int64_t lease_ms;
    _Atomic bool resumed; /* the child was stopped, and goes on */
    _Atomic bool in_step; /* the child may be between asking whether it holds, and its step */
    _Atomic bool stop;
    _Atomic uint64_t id; /* the child's name for the witness */
    _Atomic size_t rounds;
};

static struct page *page_new(struct fixture *f)
{
    struct page *page =
        mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    TEST_CHECK(page != MAP_FAILED);
    page->f = f;
    page->lease_ms = LEASE_MS;
    return page;
}

static void page_set_url(struct page *page)
{
    const struct fixture *f = page->f;

    test_text(page->url, sizeof(page->url), "%s",
              f->proxy != NULL ? proxy_url(f->proxy) : test_server_unix_url(f->server));
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

static struct user *child_open(struct page *page, struct test_peer *peer)
{
    struct user *user;

    TEST_CHECK(test_peer_recv(peer, 10000) == 0); /* now there is an URL */
    user =
        user_open(page->f, *RLOCK_CLIENT_OPTS(.url = page->url, .renewed_lease_ms = page->lease_ms,
                                              .op_timeout_ms = 1000 * test_slack(),
                                              .connect_timeout_ms = 5000 * test_slack()));
    atomic_store(&page->id, user_id());
    return user;
}

static void child_step(const struct user *user, struct page *page)
{
    atomic_store(&page->in_step, true);
    (void)user_step(user);
    atomic_store(&page->in_step, false);
}

enum first_call { DONE, IS_VALID, UNLOCK, NESTED, VALID_MS, N_FIRST_CALLS };

/* What the child does first when it goes on: it must learn of its loss by that. */
static void learn(const struct user *user, enum first_call first)
{
    if (first == IS_VALID) {
        TEST_CHECK(!rlock_is_valid(user->lock));
    } else if (first == NESTED) {
        TEST_CHECK(rlock_try_lock(user->lock) == RLOCK_ELOST);
    } else if (first == VALID_MS) {
        TEST_CHECK(rlock_valid_ms(user->lock) == 0);
    }
    TEST_CHECK(rlock_unlock(user->lock) == RLOCK_ELOST);
    TEST_CHECK(!rlock_is_valid(user->lock));
    TEST_CHECK(rlock_unlock(user->lock) == RLOCK_ENOTOWNER);
}

static int sleeper_main(struct test_peer *peer, void *payload)
{
    struct page *page = payload;
    struct user *user = child_open(page, peer);
    enum first_call first;
    size_t losses = 0;

    while ((first = (enum first_call)test_peer_recv(peer, 60000)) != DONE) {
        TEST_CHECK(rlock_lock_for(user->lock, 60000, NULL, NULL) == 0);
        test_peer_send(peer, 1);
        while (!atomic_load(&page->resumed)) {
            child_step(user, page);
            (void)usleep(50);
        }
        learn(user, first);
        losses++;
        test_peer_send(peer, 2);
    }
    TEST_CHECK(TEST_EVENTUALLY(user_losses(user) == losses, 2000)); /* each was told once */
    user_close(user);
    return 0;
}

/* ---- Stopped ---- */

/*
 * One child stopped while it holds the lock; meanwhile the rival takes it. Returns how many
 * renewals came after that: one is possible, where the child was stopped between the decision to
 * send it and the sending. It finds another owner and does nothing.
 */
static unsigned int stop_once(struct page *page, struct test_child *child, const struct user *rival,
                              int renewals)
{
    const struct fixture *f = page->f;
    enum first_call first = IS_VALID + (unsigned int)random() % (N_FIRST_CALLS - IS_VALID);
    unsigned int renewed;
    bool in_step;

    atomic_store(&page->resumed, false);
    test_child_send(child, first);
    TEST_CHECK(test_child_recv(child, 20000) == 1);
    pause_at_random(page->lease_ms * 500);
    test_freeze(test_child_pid(child));
    in_step = atomic_load(&page->in_step);
    assert_true(fixture_wait_held(f, false));
    renewed = proxy_fired(f->proxy, renewals);
    assert_code(rlock_lock_for(rival->lock, 0, RLOCK_TAKE(.lease_ms = 60000), NULL), 0);
    if (!in_step) {
        witness_enter(f->witness, 0, user_id());
    }
    atomic_store(&page->resumed, true);
    test_thaw(test_child_pid(child));
    TEST_CHECK(test_child_recv(child, 20000) == 2);
    witness_leave(f->witness, 0, user_id());
    renewed = proxy_fired(f->proxy, renewals) - renewed;
    assert_true(renewed <= 1);
    assert_int_equal(fixture_count(f), 1);
    assert_code(rlock_unlock(rival->lock), 0);
    return renewed;
}

FIXTURE_TEST(a_process_stopped_past_its_lease_learns_of_its_loss_first, f)
{
    struct page *page;
    struct test_child *child;
    struct user *rival;
    struct proxy_rule rule = {.act = PROXY_PASS, .contains = script_digest("renew")};
    const size_t n = trials(200);
    size_t late = 0;
    int renewals;

    page = page_new(f);
    child = test_child_spawn(sleeper_main, page);
    fixture_start_proxy(f);
    page_set_url(page);
    rival = user_open_direct(f);
    renewals = proxy_add(f->proxy, &rule);
    test_child_send(child, 0);
    for (size_t i = 0; i < n; i++) {
        late += stop_once(page, child, rival, renewals);
    }
    assert_true(late <= 1 + n / 50);
    assert_true(proxy_fired(f->proxy, renewals) > 0);
    test_child_send(child, DONE);
    assert_int_equal(test_child_wait(child, 10000), 0);
    user_close(rival);
    page_free(page);
}

static int busy_main(struct test_peer *peer, void *payload)
{
    struct page *page = payload;
    struct user *user = child_open(page, peer);

    while (!atomic_load(&page->stop)) {
        int code = rlock_lock_for(user->lock, 60000, NULL, NULL);

        TEST_CHECK(code == 0 || code == RLOCK_EINDOUBT);
        for (int i = 0; code == 0 && i < 3; i++) {
            child_step(user, page);
        }
        if (code == 0) {
            code = rlock_unlock(user->lock);
            TEST_CHECK(code == 0 || code == RLOCK_ELOST || code == RLOCK_EINDOUBT);
        }
        atomic_fetch_add(&page->rounds, 1);
    }
    user_close(user);
    return 0;
}

FIXTURE_TEST(a_process_stopped_at_any_instant_breaks_no_promise, f)
{
    struct page *page;
    struct test_child *child;
    struct user *rival;

    page = page_new(f);
    child = test_child_spawn(busy_main, page);
    page_set_url(page);
    rival = user_open_direct(f);
    test_child_send(child, 0);
    for (size_t i = trials(100); i > 0; i--) {
        size_t rounds = atomic_load(&page->rounds);
        bool inside;

        assert_true(TEST_EVENTUALLY(atomic_load(&page->rounds) > rounds, 20000));
        pause_at_random(500);
        test_freeze(test_child_pid(child));
        inside = !atomic_load(&page->in_step);
        /* at once where the child did not hold it, else when its lease ends */
        assert_code(rlock_lock_for(rival->lock, 5000, RLOCK_TAKE(.lease_ms = 5000), NULL), 0);
        if (inside) {
            witness_enter(f->witness, 0, user_id());
        }
        test_thaw(test_child_pid(child));
        witness_leave(f->witness, 0, user_id());
        assert_code(rlock_unlock(rival->lock), 0);
    }
    atomic_store(&page->stop, true);
    assert_int_equal(test_child_wait(child, 10000), 0);
    user_close(rival);
    page_free(page);
}

/* ---- Stopped while its answers come ---- */

enum { ASKERS = 330, FREE = 30 };

struct asking {
    pthread_t thread;
    struct rlock_handle *lock;
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
    struct user *user;

    TEST_CHECK(test_peer_recv(peer, 10000) == 0);
    user = user_open(page->f,
                     *RLOCK_CLIENT_OPTS(.url = page->url, .op_timeout_ms = asker_timeout_ms()));
    TEST_CHECK(user_visit(user, 10000, NULL) == 0);
    test_peer_send(peer, 1);
    TEST_CHECK(test_peer_recv(peer, 10000) == 1);
    for (int i = 0; i < ASKERS; i++) {
        char name[16];

        test_text(name, sizeof(name), "n%d", i);
        asking[i].is_free = i % (ASKERS / FREE) == 0;
        asking[i].lock = user_lock(user, asking[i].is_free ? name : "b");
        TEST_CHECK(pthread_create(&asking[i].thread, NULL, ask_once, &asking[i]) == 0);
    }
    TEST_CHECK(TEST_EVENTUALLY(test_asked(user->client) == ASKERS, 5000));
    test_peer_send(peer, 2);
    for (int i = 0; i < ASKERS; i++) {
        TEST_CHECK(pthread_join(asking[i].thread, NULL) == 0);
        TEST_CHECK(asking[i].code == (asking[i].is_free ? 0 : RLOCK_EBUSY));
    }
    user_close(user);
    return 0;
}

/* Its clock says that they are overdue; in its socket they lie, and were there in time. */
TEST(a_process_that_was_stopped_hears_its_answers_first)
{
    struct test_child *child;
    struct fixture f;
    struct page *page;

    /* A unix socket holds no more than 167 requests that are sent one by one, so TCP. There must be
     * more refusals than the client takes in one read. */
    fixture_open(&f, &(struct fixture_opts){.server.transport = TEST_TCP});
    test_server_do(f.server, "HSET b %0120d:1 1", 0);
    page = page_new(&f);
    child = test_child_spawn(asker_main, page);
    test_text(page->url, sizeof(page->url), "%s", test_server_url(f.server));
    test_child_send(child, 0);
    TEST_CHECK(test_child_recv(child, 20000) == 1);
    test_server_freeze(f.server);
    test_child_send(child, 1);
    TEST_CHECK(test_child_recv(child, 20000) == 2);
    test_freeze(test_child_pid(child));
    test_server_thaw(f.server);
    assert_true(TEST_EVENTUALLY(test_server_int(f.server, "DBSIZE") == 1 + FREE, 5000));
    (void)usleep((useconds_t)(asker_timeout_ms() + 500) * 1000);
    test_thaw(test_child_pid(child));
    assert_int_equal(test_child_wait(child, 20000), 0);
    test_server_do(f.server, "DEL b");
    page_free(page);
    fixture_close(&f);
}

/* ---- Killed ---- */

#define VICTIMS 12

static int holder_main(struct test_peer *peer, void *payload)
{
    struct user *user = child_open(payload, peer);

    TEST_CHECK(rlock_lock_for(user->lock, 60000, NULL, NULL) == 0);
    test_peer_send(peer, 1);
    (void)test_peer_recv(peer, 60000);
    return 1;
}

static void kill_child(struct test_child *child)
{
    test_child_kill(child, SIGKILL);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGKILL);
}

FIXTURE_TEST(a_killed_holder_blocks_others_for_a_lease_at_most, f)
{
    struct page *page;
    struct test_child *children[3];
    struct user *rival;
    struct waiter waiter;

    page = page_new(f);
    page->lease_ms = test_ms(300);
    for (size_t i = 0; i < 3; i++) {
        children[i] = test_child_spawn(holder_main, page);
    }
    page_set_url(page);
    rival = user_open_direct(f);
    for (size_t i = 0; i < 3; i++) {
        int64_t killed_us;

        test_child_send(children[i], 0);
        TEST_CHECK(test_child_recv(children[i], 10000) == 1);
        waiter_start(&waiter, rival, 60000, NULL);
        assert_true(fixture_wait_waiters(f, 1));
        killed_us = test_now_us();
        kill_child(children[i]);
        assert_int_equal(waiter_join(&waiter), 0);
        assert_within(killed_us, page->lease_ms);
    }
    user_close(rival);
    page_free(page);
}

static int waiter_main(struct test_peer *peer, void *payload)
{
    struct user *user = child_open(payload, peer);

    return rlock_lock(user->lock) == 0 ? 1 : 2;
}

FIXTURE_TEST(a_killed_waiter_leaves_nothing, f)
{
    struct page *page;
    struct test_child *children[3];
    struct user *rival;

    page = page_new(f);
    for (size_t i = 0; i < 3; i++) {
        children[i] = test_child_spawn(waiter_main, page);
    }
    page_set_url(page);
    rival = user_open_direct(f);
    assert_code(rlock_try_lock(rival->lock), 0);
    for (size_t i = 0; i < 3; i++) {
        test_child_send(children[i], 0);
    }
    assert_true(fixture_wait_waiters(f, 3));
    for (size_t i = 0; i < 3; i++) {
        kill_child(children[i]);
    }
    assert_true(fixture_wait_waiters(f, 0));
    assert_true(user_step(rival));
    assert_code(rlock_unlock(rival->lock), 0);
    assert_code(user_visit(rival, 0, NULL), 0);
    user_close(rival);
    page_free(page);
}

FIXTURE_TEST(processes_killed_at_any_instant_break_no_promise, f)
{
    struct page *pages[VICTIMS];
    struct test_child *children[VICTIMS];
    struct user *rival;
    const int64_t wait_ms = 60000;
    struct crew crew = {.wait_ms = wait_ms};

    for (size_t i = 0; i < VICTIMS; i++) {
        pages[i] = page_new(f);
        page_set_url(pages[i]);
        children[i] = test_child_spawn(busy_main, pages[i]);
    }
    rival = user_open_direct(f);
    crew_start(&crew, rival, 2);
    for (size_t i = 0; i < VICTIMS; i++) {
        size_t visits;

        test_child_send(children[i], 0);
        assert_true(TEST_EVENTUALLY(atomic_load(&pages[i]->rounds) > 5, 20000));
        pause_at_random(2000);
        kill_child(children[i]);
        witness_evict(f->witness, 0, atomic_load(&pages[i]->id));
        visits = atomic_load(&crew.visits);
        assert_true(TEST_EVENTUALLY(atomic_load(&crew.visits) > visits, 20000));
        page_free(pages[i]);
    }
    crew_stop(&crew);
    assert_int_equal(user_losses(rival), 0);
}
