/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates for a lock: elections, the ends of terms, and the events that a program receives. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rlock/leader.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/clients.h"
#include "support/user.h"

#define REST_MS 100 /* the candidates' */

/* What a candidate was told. */
struct terms {
    pthread_mutex_t mutex;
    unsigned elected, ended;
    struct rlock_term last, end;            /* the last event, and the last end of a term */
    atomic_bool *may_return;                /* NULL: the callback returns at once */
    struct rlock_leader **resigns, **frees; /* in the callback, once it is elected */
};

#define TERMS                                                                                      \
    {                                                                                              \
        .mutex = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static void on_term(const struct rlock_term *term, void *payload)
{
    struct terms *terms = payload;
    const bool elects = term->event == RLOCK_TERM_ELECTED;

    TEST_CHECK(pthread_mutex_lock(&terms->mutex) == 0);
    TEST_CHECK(terms->elected == terms->ended + !elects); /* in turn */
    *(elects ? &terms->elected : &terms->ended) += 1;
    TEST_CHECK(term->number == terms->elected && term->owner != 0);
    terms->last = *term;
    terms->end = elects ? terms->end : *term;
    TEST_CHECK(pthread_mutex_unlock(&terms->mutex) == 0);
    while (terms->may_return != NULL && !atomic_load(terms->may_return)) {
        (void)usleep(1000);
    }
    if (elects && terms->resigns != NULL) {
        TEST_CHECK(rlock_leader_resign(*terms->resigns) == 0);
    }
    if (elects && terms->frees != NULL) {
        *terms->frees = rlock_leader_free(*terms->frees);
    }
}

static unsigned told(struct terms *terms, bool elected)
{
    unsigned n;

    TEST_CHECK(pthread_mutex_lock(&terms->mutex) == 0);
    n = elected ? terms->elected : terms->ended;
    TEST_CHECK(pthread_mutex_unlock(&terms->mutex) == 0);
    return n;
}

static void await_elected(struct terms *terms, unsigned n)
{
    assert_true(TEST_EVENTUALLY(told(terms, true) >= n, 10000));
}

static void await_ended(struct terms *terms, unsigned n, int event, int reason)
{
    assert_true(TEST_EVENTUALLY(told(terms, false) >= n, 10000));
    TEST_CHECK(pthread_mutex_lock(&terms->mutex) == 0);
    assert_int_equal(terms->end.event, event);
    assert_true(reason < 0 || terms->end.reason == reason);
    TEST_CHECK(pthread_mutex_unlock(&terms->mutex) == 0);
}

static struct rlock_leader *leader_new(struct rlock_handle *lock, struct terms *terms,
                                       int64_t margin_ms)
{
    struct rlock_leader *leader = NULL;

    assert_code(rlock_leader_new(lock,
                                 RLOCK_LEADER_OPTS(.rest_ms = REST_MS, .margin_ms = margin_ms,
                                                   .on_term = on_term, .payload = terms),
                                 &leader),
                0);
    return leader;
}

/* ---- Elections ---- */

LOCK_TEST(a_candidate_alone_is_elected_and_leads_until_it_is_freed, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);

    await_elected(&terms, 1);
    assert_true(rlock_leader_is_leading(leader));
    assert_int_equal(terms.last.number, 1);
    assert_true(rlock_is_valid_as(lock, terms.last.owner));
    leader = rlock_leader_free(leader);
    assert_null(leader);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 5000));
    assert_int_equal(terms.ended, 0); /* the call that frees it sends no event */
}

LOCK_TEST(the_next_candidate_is_elected_within_a_second_of_a_resignation, f)
{
    struct rlock_handle *one = lock_new(f, client_open(f)), *two = lock_new(f, client_open(f));
    struct terms terms = TERMS, others = TERMS;
    struct rlock_leader *leader = leader_new(one, &terms, 0), *other;
    int64_t since_us;

    await_elected(&terms, 1);
    other = leader_new(two, &others, 0);
    assert_false(rlock_leader_is_leading(other));
    assert_code(rlock_leader_resign(other), RLOCK_ENOTOWNER);
    since_us = test_now_us();
    assert_code(rlock_leader_resign(leader), 0);
    assert_false(rlock_leader_is_leading(leader));
    await_elected(&others, 1);
    assert_within(since_us, 1000);
    await_ended(&terms, 1, RLOCK_TERM_RESIGNED, 0);
    assert_true(rlock_leader_is_leading(other));
    assert_code(rlock_leader_resign(other), 0); /* the first one is a candidate again */
    await_elected(&terms, 2);
    leader = rlock_leader_free(leader);
    other = rlock_leader_free(other);
}

LOCK_TEST(a_candidate_may_resign_in_its_callback, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_leader *leader = NULL;
    struct terms terms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .resigns = &leader};

    assert_code(rlock_leader_new(
                    lock,
                    RLOCK_LEADER_OPTS(.rest_ms = REST_MS, .on_term = on_term, .payload = &terms),
                    &leader),
                0);
    await_ended(&terms, 2, RLOCK_TERM_RESIGNED, 0);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(a_candidate_may_be_freed_in_its_callback, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_leader *leader = NULL;
    struct terms terms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .frees = &leader};

    assert_code(
        rlock_leader_new(lock, RLOCK_LEADER_OPTS(.on_term = on_term, .payload = &terms), &leader),
        0);
    await_elected(&terms, 1);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 5000));
    assert_int_equal(told(&terms, true), 1);
}

LOCK_TEST(a_candidate_that_is_freed_waits_no_more, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *one = lock_new(f, client_open(f)), *two = lock_new(f, client);
    struct terms terms = TERMS;
    struct rlock_leader *leader;

    assert_code(rlock_lock(one), 0);
    leader = leader_new(two, &terms, 0);
    await_waiting(client, 1);
    leader = rlock_leader_free(leader);
    await_waiting(client, 0);
    assert_code(rlock_unlock(one), 0);
    assert_false(is_locked(one));
    assert_int_equal(terms.elected, 0);
}

static void *free_it(void *leader)
{
    return rlock_leader_free(leader);
}

LOCK_TEST(free_waits_for_a_callback_that_runs, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    atomic_bool may_return = false;
    struct terms terms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .may_return = &may_return};
    struct rlock_leader *leader = leader_new(lock, &terms, 0);
    pthread_t thread;
    void *result;

    if (!MAY_START_THREADS) {
        skip();
    }
    await_elected(&terms, 1);
    assert_int_equal(pthread_create(&thread, NULL, free_it, leader), 0);
    assert_true(TEST_EVENTUALLY(!is_locked(lock), 5000)); /* it gives the lock back meanwhile */
    assert_int_equal(pthread_tryjoin_np(thread, &result), EBUSY);
    atomic_store(&may_return, true);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_null(result);
}

/* ---- The end of a term ---- */

LOCK_TEST(a_deposed_leader_has_the_lock_until_its_callback_returns, f)
{
    const int64_t lease_ms = test_ms(4000), margin_ms = lease_ms * 2 / 5;
    struct rlock_handle *other = lock_new(f, client_open(f));
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    atomic_bool may_return = true;
    struct terms terms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .may_return = &may_return};
    struct rlock_leader *leader = leader_new(lock, &terms, margin_ms);

    await_elected(&terms, 1);
    atomic_store(&may_return, false);
    test_server_freeze(f->server);
    await_ended(&terms, 1, RLOCK_TERM_DEPOSED, RLOCK_LOST_EXPIRED);
    test_server_thaw(f->server);
    assert_true(is_locked(other));
    assert_false(rlock_leader_is_leading(leader));
    atomic_store(&may_return, true);
    await_elected(&terms, 2);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(a_lost_hold_deposes_the_leader_at_once, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);
    bool was_locked;
    int64_t since_us;

    await_elected(&terms, 1);
    since_us = test_now_us();
    assert_code(rlock_force_unlock(lock, &was_locked), 0);
    assert_true(was_locked);
    assert_false(rlock_leader_is_leading(leader));
    await_ended(&terms, 1, RLOCK_TERM_DEPOSED, RLOCK_LOST_FORCED);
    assert_within(since_us, 50);
    (void)expect_loss(f, RLOCK_LOST_FORCED);
    await_elected(&terms, 2); /* it is a candidate again */
    leader = rlock_leader_free(leader);
}

/* With a server that stands still nothing is renewed. */
LOCK_TEST(a_leader_is_deposed_by_its_margin_before_the_validity_ends, f)
{
    const int64_t lease_ms = test_ms(1500), margin_ms = lease_ms / 3;
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    atomic_bool may_return = true;
    struct terms terms = {.mutex = PTHREAD_MUTEX_INITIALIZER, .may_return = &may_return};
    struct rlock_leader *leader = leader_new(lock, &terms, margin_ms);
    int64_t left_ms, since_us;

    await_elected(&terms, 1);
    test_server_freeze(f->server);
    atomic_store(&may_return, false); /* it has the lock until then */
    since_us = test_now_us();
    assert_true(TEST_EVENTUALLY(!rlock_leader_is_leading(leader), 5000));
    left_ms = rlock_valid_ms_as(lock, terms.last.owner);
    assert_in_range(left_ms, 0, margin_ms);
    assert_true(left_ms > 0 || test_missed(since_us, margin_ms * 500));
    atomic_store(&may_return, true);
    await_ended(&terms, 1, RLOCK_TERM_DEPOSED, RLOCK_LOST_EXPIRED);
    test_server_thaw(f->server);
    await_elected(&terms, 2);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(a_renewed_hold_keeps_the_leader, f)
{
    const int64_t lease_ms = test_ms(300);
    struct rlock_handle *lock = lock_new(f, client_open_renewing(f, lease_ms));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, lease_ms / 4);
    const int64_t since_us = test_now_us();

    await_elected(&terms, 1);
    while (test_elapsed_us(since_us) < 5000 * lease_ms) {
        assert_true(rlock_leader_is_leading(leader) ||
                    test_missed(since_us, test_elapsed_us(since_us) / 10));
        (void)usleep(1000);
    }
    leader = rlock_leader_free(leader);
}

/* A release grants the lock for 2 s, and the candidate does not lead before it has more. */
LOCK_TEST(a_candidate_that_a_release_granted_the_lock_leads_with_its_margin, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *one = lock_new(f, client_open(f)), *two = lock_new(f, client);
    struct terms terms = TERMS;
    struct rlock_leader *leader;

    assert_code(rlock_lock(one), 0);
    leader = leader_new(two, &terms, 10000);
    await_waiting(client, 1);
    assert_code(rlock_unlock(one), 0);
    await_elected(&terms, 1);
    assert_true(rlock_leader_is_leading(leader));
    assert_true(rlock_valid_ms_as(two, terms.last.owner) > 10000);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(closing_the_client_deposes_the_leader, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = lock_new(f, client);
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);

    await_elected(&terms, 1);
    client_close(f, client);
    assert_int_equal(terms.ended, 1);
    assert_int_equal(terms.last.event, RLOCK_TERM_DEPOSED);
    assert_int_equal(terms.last.reason, RLOCK_LOST_CLOSED);
    (void)expect_loss(f, RLOCK_LOST_CLOSED);
    assert_false(rlock_leader_is_leading(leader));
    assert_code(rlock_leader_resign(leader), RLOCK_ECLOSED);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(a_candidate_in_a_closed_client_waits_no_more, f)
{
    struct rlock_handle *one = lock_new(f, client_open(f));
    struct rlock_client *client = client_open(f);
    struct terms terms = TERMS;
    struct rlock_leader *leader;

    assert_code(rlock_lock(one), 0);
    leader = leader_new(lock_new(f, client), &terms, 0);
    client_close(f, client);
    assert_int_equal(terms.elected, 0);
    leader = rlock_leader_free(leader);
    assert_code(rlock_unlock(one), 0);
}

LOCK_TEST(a_child_of_fork_does_not_lead, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);
    pid_t pid;

    await_elected(&terms, 1);
    pid = test_must(fork(), "fork");
    if (pid == 0) {
        _exit(rlock_leader_is_leading(leader) || rlock_leader_resign(leader) != RLOCK_EFORKED ||
              rlock_leader_free(leader) != NULL);
    }
    assert_int_equal(test_reap(pid), 0);
    assert_true(rlock_leader_is_leading(leader));
    leader = rlock_leader_free(leader);
}

/* ---- Kinds ---- */

static const struct kind fenced = {.name = "fenced", .make = rlock_fenced_new};

FIXTURE_WITH_TEST(each_term_of_a_fenced_lock_has_a_larger_token, f, .kind = &fenced)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);
    uint64_t token;

    await_elected(&terms, 1);
    token = terms.last.token;
    assert_true(token > 0);
    assert_code(rlock_leader_resign(leader), 0);
    await_elected(&terms, 2);
    assert_true(terms.last.token > token);
    leader = rlock_leader_free(leader);
}

/* Whichever member's client has the group, the events come in turn. */
static void leads_by_two_clients(struct fixture *f, size_t first)
{
    struct user *user = user_open(f, USUAL);
    struct rlock_handle *lock = user_multi(user, user->members[first], user->members[1 - first]);
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 1000);
    bool was_locked;

    for (unsigned i = 1; i <= 3; i++) {
        await_elected(&terms, i);
        assert_true(rlock_leader_is_leading(leader));
        if (i < 3) {
            assert_code(rlock_force_unlock(lock, &was_locked), 0);
            await_ended(&terms, i, RLOCK_TERM_DEPOSED, RLOCK_LOST_FORCED);
        }
    }
    user->clients[0] = rlock_client_close(user->clients[0]);
    assert_true(TEST_EVENTUALLY(!rlock_leader_is_leading(leader), 5000));
    await_ended(&terms, 3, RLOCK_TERM_DEPOSED, -1);
    leader = rlock_leader_free(leader);
    user_close(user);
}

FIXTURE_WITH_TEST(a_multi_lock_of_two_clients_elects_a_leader, f, .servers = 2)
{
    leads_by_two_clients(f, 0);
    leads_by_two_clients(f, 1);
}

/* It leads on while a minority of the servers stands still, and not without a majority. */
FIXTURE_WITH_TEST(the_leader_of_a_redlock_needs_most_of_the_servers, f, .servers = 3)
{
    const int64_t lease_ms = test_ms(1200);
    struct user *user = user_open(
        f, *RLOCK_CLIENT_OPTS(.renewed_lease_ms = lease_ms, .op_timeout_ms = lease_ms / 4));
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(user->lock, &terms, lease_ms / 10);
    int64_t since_us;

    await_elected(&terms, 1);
    test_server_freeze(f->servers[0]);
    for (since_us = test_now_us(); test_elapsed_us(since_us) < 3000 * lease_ms;) {
        assert_true(rlock_leader_is_leading(leader) ||
                    test_missed(since_us, test_elapsed_us(since_us) / 10));
        (void)usleep(1000);
    }
    test_server_freeze(f->servers[1]);
    assert_true(TEST_EVENTUALLY(!rlock_leader_is_leading(leader), 10000));
    await_ended(&terms, 1, RLOCK_TERM_DEPOSED, RLOCK_LOST_EXPIRED);
    test_server_thaw(f->servers[0]);
    test_server_thaw(f->servers[1]);
    await_elected(&terms, 2);
    leader = rlock_leader_free(leader);
}

LOCK_TEST(the_programs_loop_runs_a_candidate, f)
{
    struct rlock_client *client =
        client_open_with(f, RLOCK_CLIENT_OPTS(.flags = RLOCK_CLIENT_USER_LOOP));
    struct rlock_handle *lock = lock_new(f, client);
    struct terms terms = TERMS;
    struct rlock_leader *leader = leader_new(lock, &terms, 0);
    struct pollfd fd = {.fd = rlock_client_fd(client), .events = POLLIN};
    unsigned elected = 0;

    for (int i = 0; i < 1000 && told(&terms, true) < 2; i++) {
        (void)poll(&fd, 1, 10000);
        assert_code(rlock_client_dispatch(client), 0);
        if (told(&terms, true) == 1 && elected == 0) {
            elected = 1;
            assert_true(rlock_leader_is_leading(leader));
            assert_code(rlock_leader_resign(leader), 0);
        }
    }
    assert_int_equal(terms.elected, 2); /* the loop wakes for the end of its rest */
    leader = rlock_leader_free(leader);
}

LOCK_TEST(a_read_lock_elects_nobody, f)
{
    struct rlock_client *client = client_open(f);
    struct rlock_handle *lock = NULL, *multi = NULL;
    struct rlock_leader *leader = NULL;

    assert_code(rlock_read_new(client, NAME, NULL, &lock), 0);
    assert_code(rlock_leader_new(lock, NULL, &leader), RLOCK_ENOTSUP);
    assert_code(rlock_multi_new(&lock, 1, NULL, &multi), 0);
    assert_code(rlock_leader_new(multi, NULL, &leader), RLOCK_ENOTSUP);
    assert_null(leader);
    multi = rlock_free(multi);
    lock = rlock_free(lock);
}

FIXTURE_WITH_TEST(a_margin_leaves_room_for_the_safety_margin_and_the_longest_hold, f,
                  .kind = &kind_reentrant)
{
    struct rlock_client *client = client_open_with(
        f, RLOCK_CLIENT_OPTS(.renewed_lease_ms = 30000, .safety_margin_ms = 10000));
    struct rlock_handle *lock = lock_new(f, client);
    struct rlock_handle *brief = lock_with(f, client, "brief", RLOCK_OPTS(.max_hold_ms = 2000));
    struct rlock_leader *leader = NULL;

    assert_code(rlock_leader_new(lock, RLOCK_LEADER_OPTS(.margin_ms = 5000), &leader),
                RLOCK_EINVAL);
    assert_code(rlock_leader_new(brief, NULL, &leader), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, RLOCK_LEADER_OPTS(.margin_ms = 4000), &leader), 0);
    assert_true(TEST_EVENTUALLY(rlock_leader_is_leading(leader), 10000));
    leader = rlock_leader_free(leader);
}

LOCK_TEST(options_without_sense_are_refused, f)
{
    struct rlock_handle *lock = lock_new(f, client_open(f));
    struct rlock_leader *leader = NULL;
    struct rlock_leader_opts unsized = {.size = 0};

    assert_code(rlock_leader_new(NULL, NULL, &leader), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, NULL, NULL), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, &unsized, &leader), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, RLOCK_LEADER_OPTS(.rest_ms = -1), &leader), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, RLOCK_LEADER_OPTS(.margin_ms = -1), &leader), RLOCK_EINVAL);
    assert_code(rlock_leader_new(lock, RLOCK_LEADER_OPTS(.margin_ms = 15000), &leader),
                RLOCK_EINVAL);
    assert_code(rlock_leader_resign(NULL), RLOCK_EINVAL);
    assert_false(rlock_leader_is_leading(NULL));
    assert_null(rlock_leader_free(NULL));
    assert_null(leader);
}
