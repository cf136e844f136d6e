/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of all kinds in one slot that is being moved, with a crowd that takes them and holds that
 * are renewed. The move stands still for two leases at each of its steps, or is called off, or ends
 * in the order that misleads clients longest.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "support/clients.h"
#include "support/cluster.h"
#include "topology/slot.h"

#define TAG "{t}" /* of all names: they are in one slot */
#define LEASE_MS 900
#define NAMES 6
#define THREADS (2 * NAMES)

enum { FROM, TO, SERVERS };

#define MOVE_TEST(name, f)                                                                         \
    FIXTURE_WITH_TEST(name, f, .kind = &kind_reentrant, .servers = SERVERS,                        \
                      .server = {.transport = TEST_TCP, .conf = cluster_conf})

struct scene;

/* Takes one lock again and again. Each name has two of them, of different clients. */
struct member {
    struct scene *scene;
    size_t number;
    pthread_t thread;
    atomic_int rounds;
};

struct scene {
    struct fixture *f;
    struct test_server *from, *to;
    unsigned int slot;
    struct rlock_client *clients[2];
    struct rlock_handle *held[SINGLE_KINDS];
    struct member members[THREADS];
    atomic_bool stop;
};

/* ---- The crowd ---- */

/* Of the last name the first takes the side of readers, and the second that of writers. */
static size_t kind_of(const struct member *member)
{
    const size_t name = member->number % NAMES;

    return name < KIND_READ ? name : KIND_READ + member->number / NAMES;
}

static void *take_again_and_again(void *arg)
{
    struct member *member = arg;
    struct scene *scene = member->scene;
    struct witness *witness = scene->f->witness;
    const size_t kind = kind_of(member), cell = member->number % NAMES;
    const uint64_t id = member->number + 1;
    struct rlock_handle *lock = NULL;
    char name[32];

    test_text(name, sizeof(name), TAG "%zu", cell);
    TEST_CHECK(single_kinds[kind].make(scene->clients[member->number / NAMES], name, NULL, &lock) ==
               0);
    while (!atomic_load(&scene->stop)) {
        TEST_CHECK(rlock_lock(lock) == 0);
        (kind == KIND_READ ? witness_enter_shared : witness_enter)(witness, cell, id);
        (kind == KIND_READ ? witness_leave_shared : witness_leave)(witness, cell, id);
        TEST_CHECK(rlock_unlock(lock) == 0);
        atomic_fetch_add(&member->rounds, 1);
    }
    TEST_CHECK(rlock_free(lock) == NULL);
    return NULL;
}

/* Waits until each has had its lock so many times more. */
static void await_rounds(struct scene *scene, int n)
{
    int ends[THREADS];

    for (size_t i = 0; i < THREADS; i++) {
        ends[i] = atomic_load(&scene->members[i].rounds) + n;
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_true(TEST_EVENTUALLY(atomic_load(&scene->members[i].rounds) >= ends[i], 30000));
    }
}

/* ---- The scene ---- */

static void begin(struct scene *scene, struct fixture *f)
{
    char url[128], name[32];

    *scene = (struct scene){.f = f, .from = f->servers[FROM], .to = f->servers[TO]};
    scene->slot = rlock__slot(rlock__bytes_of(TAG));
    cluster_join(f->servers, f->n);
    cluster_url(f->servers, SERVERS, url, sizeof(url));
    for (size_t i = 0; i < 2; i++) {
        const struct rlock_client_opts opts = {
            .size = sizeof(opts), .url = url, .renewed_lease_ms = test_ms(LEASE_MS)};

        scene->clients[i] = client_open_with(f, &opts);
    }
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        test_text(name, sizeof(name), TAG "held-%s", single_kinds[i].name);
        assert_code(single_kinds[i].make(scene->clients[0], name, NULL, &scene->held[i]), 0);
        assert_code(rlock_lock(scene->held[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        struct member *member = &scene->members[i];

        member->scene = scene;
        member->number = i;
        assert_int_equal(pthread_create(&member->thread, NULL, take_again_and_again, member), 0);
    }
    await_rounds(scene, 5);
}

/* A reader's hold has two keys. While they lie apart it cannot be renewed, and may be lost. */
static bool are_kept(const struct scene *scene)
{
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        if (i != KIND_READ && !rlock_is_valid(scene->held[i])) {
            print_error("%s is not valid\n", single_kinds[i].name);
            return false;
        }
    }
    return true;
}

static bool are_valid(const struct scene *scene)
{
    return are_kept(scene) && rlock_is_valid(scene->held[KIND_READ]);
}

/* All go on when the move is over, and the holds end as they should. */
static void end(struct scene *scene)
{
    struct rlock_handle *read = scene->held[KIND_READ];
    bool is_lost;

    await_rounds(scene, 5);
    atomic_store(&scene->stop, true);
    for (size_t i = 0; i < THREADS; i++) {
        (void)pthread_join(scene->members[i].thread, NULL);
    }
    assert_true(are_kept(scene));
    is_lost = !rlock_is_valid(read);
    if (is_lost) {
        (void)expect_loss(scene->f, 0);
    }
    for (size_t i = 0; i < SINGLE_KINDS; i++) {
        assert_code(rlock_unlock(scene->held[i]), is_lost && i == KIND_READ ? RLOCK_ELOST : 0);
        assert_null(rlock_free(scene->held[i]));
    }
    assert_true(witness_is_clean(scene->f->witness, stderr));
    for (size_t i = 0; i < SERVERS; i++) {
        test_server_do(scene->f->servers[i], "FLUSHALL"); /* the tokens of the fenced ones */
    }
}

/* ---- The moves ---- */

/* How many keys the target has. */
static long long keys_there(const struct scene *scene)
{
    return test_server_int(scene->to, "CLUSTER COUNTKEYSINSLOT %u", scene->slot);
}

/* Holds back what is written at the target, when all keys are where they came from. */
static void bring_back(const struct scene *scene)
{
    test_server_do(scene->to, "CLIENT PAUSE 10000 WRITE");
    while (keys_there(scene) != 0) {
        test_server_do(scene->to, "CLIENT UNPAUSE");
        cluster_move_keys(scene->to, scene->from, scene->slot);
        test_server_do(scene->to, "CLIENT PAUSE 10000 WRITE");
    }
    (void)test_pause_until(test_now_us() + 5000); /* attempts come to the target, and wait there */
}

/* Ends the move where it began. The source is told first; the target when all have had their locks
 * a few times more, and what they were granted there has been given back. */
static void call_off(struct scene *scene)
{
    bring_back(scene);
    cluster_set_slot(scene->from, scene->slot, "STABLE", NULL);
    test_server_do(scene->to, "CLIENT UNPAUSE");
    await_rounds(scene, 5);
    assert_true(TEST_EVENTUALLY(keys_there(scene) == 0, 10000));
    cluster_set_slot(scene->to, scene->slot, "STABLE", NULL);
}

MOVE_TEST(while_all_keys_are_where_they_were, f)
{
    struct scene scene;

    begin(&scene, f);
    cluster_open_slot(scene.from, scene.to, scene.slot);
    assert_true(STAYS_KEPT(are_valid(&scene), test_ms(2 * LEASE_MS), test_ms(LEASE_MS)));
    call_off(&scene);
    end(&scene);
}

/* What is released meanwhile is taken at the other server. */
MOVE_TEST(while_half_of_the_keys_have_moved, f)
{
    struct scene scene;

    begin(&scene, f);
    cluster_open_slot(scene.from, scene.to, scene.slot);
    for (size_t i = 0; i < SINGLE_KINDS; i += 2) {
        cluster_move_key(scene.from, scene.to, rlock_name(scene.held[i], NULL));
    }
    assert_true(STAYS_KEPT(are_kept(&scene), test_ms(2 * LEASE_MS), test_ms(LEASE_MS)));
    cluster_move_keys(scene.from, scene.to, scene.slot);
    cluster_set_slot(scene.to, scene.slot, "NODE", scene.to);
    cluster_set_slot(scene.from, scene.slot, "NODE", scene.to);
    end(&scene);
}

/*
 * Attempts that were sent to the target are still on their way to it when the source is told that
 * the slot stays. So the target grants what the source grants as well.
 */
MOVE_TEST(when_the_move_is_called_off_and_the_source_knows_first, f)
{
    struct scene scene;

    begin(&scene, f);
    for (size_t i = 0; i < 10; i++) {
        cluster_open_slot(scene.from, scene.to, scene.slot);
        assert_true(TEST_EVENTUALLY(keys_there(&scene) != 0, 10000));
        call_off(&scene);
    }
    assert_true(are_valid(&scene));
    end(&scene);
}

/* Then each of them says that the other one has the slot. */
MOVE_TEST(when_the_move_ends_and_the_source_knows_first, f)
{
    struct scene scene;

    begin(&scene, f);
    cluster_open_slot(scene.from, scene.to, scene.slot);
    cluster_move_keys(scene.from, scene.to, scene.slot);
    cluster_set_slot(scene.from, scene.slot, "NODE", scene.to);
    assert_true(STAYS_KEPT(are_valid(&scene), test_ms(LEASE_MS) / 3, test_ms(LEASE_MS)));
    cluster_set_slot(scene.to, scene.slot, "NODE", scene.to);
    assert_true(STAYS_KEPT(are_valid(&scene), test_ms(2 * LEASE_MS), test_ms(LEASE_MS)));
    end(&scene);
}
