/* The tests' own tools: an overlap that is not seen, or a wait that does not end, would make every
 * test green. */
#include "resp.h"
#include "run.h"
#include "support/test.h"
#include "witness.h"

#include <signal.h>
#include <unistd.h>

/* ---- run ---- */

TEST(percentiles_are_nearest_ranks)
{
    int64_t values[] = {50, 10, 40, 20, 30};

    assert_int_equal(test_median(values, 5), 30);
    assert_int_equal(test_percentile(values, 5, 0), 10);
    assert_int_equal(test_percentile(values, 5, 20), 10);
    assert_int_equal(test_percentile(values, 5, 21), 20);
    assert_int_equal(test_percentile(values, 5, 100), 50);
}

TEST(eventually_ends_at_its_deadline)
{
    const int64_t before = test_now_us();

    assert_false(TEST_EVENTUALLY(false, 20));
    assert_true(test_elapsed_us(before) >= 20000 * test_slack());
    assert_true(TEST_EVENTUALLY(true, 0));
}

static int answer_plus_one(struct test_peer *peer, void *payload)
{
    test_peer_barrier(peer, 5000);
    test_peer_send(peer, test_peer_recv(peer, 5000) + 1);
    return *(int *)payload;
}

TEST(children_exchange_words_and_report_their_status)
{
    int status = 7;
    struct test_child *children[2];

    for (size_t i = 0; i < 2; i++) {
        children[i] = test_child_spawn(answer_plus_one, &status);
    }
    test_child_barrier(children, 2, 5000);
    for (size_t i = 0; i < 2; i++) {
        test_child_send(children[i], 41);
        assert_int_equal(test_child_recv(children[i], 5000), 42);
        assert_int_equal(test_child_wait(children[i], 5000), 7);
    }
}

static int never_end(struct test_peer *peer, void *payload)
{
    (void)payload;
    test_peer_send(peer, 1);
    test_peer_recv(peer, 1000000);
    return 0;
}

TEST(a_child_past_its_deadline_is_killed)
{
    struct test_child *child = test_child_spawn(never_end, NULL);
    test_child_recv(child, 5000);
    test_freeze(test_child_pid(child));
    test_thaw(test_child_pid(child));
    assert_int_equal(test_child_wait(child, 1), -1);
    child = test_child_spawn(never_end, NULL);
    test_child_kill(child, SIGTERM);
    assert_int_equal(test_child_wait(child, 5000), 128 + SIGTERM);
}

/* ---- resp ---- */

TEST(a_port_is_given_once_though_nobody_listens_there)
{
    static bool given[65536]; /* of 400 among 11 000, seven would be given twice */

    for (int i = 0; i < 400; i++) {
        const int port = test_free_port();

        assert_false(given[port]);
        given[port] = true;
    }
}

TEST(a_frame_is_whole_with_its_last_byte)
{
    static const char *const frames[] = {
        "+OK\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "*-1\r\n",
        "*0\r\n",
        "PING\r\n",
        "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
        "*3\r\n:1\r\n*2\r\n$2\r\n\r\n\r\n_\r\n-ERR x\r\n",
        "%1\r\n+a\r\n>1\r\n#t\r\n",
        "|1\r\n+a\r\n:1\r\n,1.5\r\n",
        "=5\r\ntxt:x\r\n",
    };

    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        const size_t whole = strlen(frames[i]);
        char twice[128];
        test_text(twice, sizeof(twice), "%s%s", frames[i], frames[i]);
        for (size_t len = 0; len <= 2 * whole; len++) {
            const struct resp_bytes part = {.data = twice, .len = len};
            assert_int_equal(resp_frame_len(part), len < whole ? 0 : (long)whole);
        }
    }
    assert_int_equal(resp_frame_len((struct resp_bytes){.data = "\x16\x03", .len = 2}), -1);
    assert_int_equal(resp_frame_len((struct resp_bytes){.data = "*1\r\nx\r\n", .len = 7}), -1);
}

TEST(words_are_found_in_arrays_and_lines)
{
    const struct resp_bytes array = {.data = "*3\r\n$3\r\nGET\r\n*1\r\n:5\r\n$1\r\nk\r\n",
                                     .len = 29};
    const struct resp_bytes line = {.data = " GET  k\r\n", .len = 9};

    assert_true(resp_is(resp_word(array, 0), "get"));
    assert_true(resp_is(resp_word(array, 2), "k"));
    assert_int_equal(resp_word(array, 3).len, 0);
    assert_true(resp_is(resp_word(line, 0), "GET"));
    assert_true(resp_is(resp_word(line, 1), "k"));
    assert_int_equal(resp_word(line, 2).len, 0);
}

/* ---- witness ---- */

static struct witness *witness;

TEST(sections_in_turn_are_clean)
{
    witness = witness_new(2);
    witness_enter(witness, 0, 1);
    witness_enter(witness, 1, 2);
    witness_leave(witness, 0, 1);
    witness_leave(witness, 1, 2);
    witness_enter_shared(witness, 0, 3);
    witness_enter_shared(witness, 0, 4);
    assert_false(witness_is_clean(witness, NULL)); /* two are inside */
    witness_leave_shared(witness, 0, 3);
    witness_leave_shared(witness, 0, 4);
    witness_enter(witness, 0, 5);
    witness_evict(witness, 0, 5);
    assert_int_equal(witness_entries(witness), 5);
    assert_true(witness_is_clean(witness, stderr));
    witness = witness_free(witness);
}

TEST(an_overlap_names_both)
{
    struct witness_overlap overlap;

    witness = witness_new(1);
    witness_enter(witness, 0, 1);
    witness_enter(witness, 0, 2);
    witness_leave(witness, 0, 1);
    witness_leave(witness, 0, 2);
    assert_int_equal(witness_overlaps(witness), 1);
    assert_int_equal(witness_read(witness, &overlap, 1), 1);
    assert_int_equal(overlap.inside, 1);
    assert_int_equal(overlap.entered, 2);
    assert_false(witness_is_clean(witness, NULL));
    witness = witness_free(witness);
}

TEST(readers_and_a_writer_overlap_either_way)
{
    struct witness_overlap overlaps[3];

    witness = witness_new(1);
    witness_enter_shared(witness, 0, 1);
    witness_enter(witness, 0, 2);
    witness_leave_shared(witness, 0, 1);
    witness_enter_shared(witness, 0, 3);
    witness_leave_shared(witness, 0, 3);
    witness_leave(witness, 0, 2);
    assert_int_equal(witness_read(witness, overlaps, 3), 2);
    assert_int_equal(overlaps[0].inside, 1);
    assert_false(overlaps[0].shared);
    assert_int_equal(overlaps[1].inside, 2);
    assert_true(overlaps[1].shared);
    witness = witness_free(witness);
}

static int enter_often(struct test_peer *peer, void *payload)
{
    const uint64_t id = (uint64_t)getpid();

    (void)payload;
    test_peer_barrier(peer, 5000);
    for (int i = 0; i < 2000; i++) {
        witness_enter(witness, 0, id);
        witness_leave(witness, 0, id);
    }
    return 0;
}

TEST(processes_without_a_lock_lose_updates)
{
    struct test_child *children[2];

    witness = witness_new(1);
    witness_set_spin_us(witness, 50);
    for (size_t i = 0; i < 2; i++) {
        children[i] = test_child_spawn(enter_often, NULL);
    }
    test_child_barrier(children, 2, 5000);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(test_child_wait(children[i], 10000), 0);
    }
    assert_int_equal(witness_entries(witness), 4000);
    assert_true(witness_overlaps(witness) > 0);
    assert_true(witness_lost_updates(witness) > 0);
    witness = witness_free(witness);
}
