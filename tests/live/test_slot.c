/* SPDX-License-Identifier: Apache-2.0 */
/* Hash slots, against a server's own CLUSTER KEYSLOT. */
#include "support/server.h"
#include "support/test.h"
#include "topology/slot.h"

#define KEYS 500

static int set_up(void **state)
{
    static const char *const conf[] = {"cluster-enabled yes", NULL};

    *state = test_server_start(&(struct test_server_opts){.transport = TEST_TCP, .conf = conf});
    return 0;
}

static int tear_down(void **state)
{
    *state = test_server_stop(*state);
    return 0;
}

#define SLOT_TEST(name, server) TEST_WITH(set_up, tear_down, name, struct test_server *server)

static void assert_slot(struct test_server *server, struct rlock__bytes key)
{
    char *const expected =
        test_server_argv(server, (const char *const[]){"CLUSTER", "KEYSLOT", key.at, NULL});

    assert_int_equal(rlock__slot(key), atoi(expected));
    free(expected);
}

SLOT_TEST(a_key_has_the_slot_that_the_server_says, server)
{
    static const char *const keys[] = {"123456789", "orders", "redisson_lock__channel:{orders}",
                                       "\xff\x01\xc3\xa9"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_slot(server, rlock__bytes_of(keys[i]));
    }
}

SLOT_TEST(only_a_tag_that_is_closed_and_not_empty_counts, server)
{
    static const char *const keys[] = {"{tag}a", "a{tag}",  "a{tag}b", "{}a",    "a{}{tag}", "{a",
                                       "}a{",    "a}b{c}d", "{{a}}",   "{a}{b}", "{}",       "{"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_slot(server, rlock__bytes_of(keys[i]));
    }
}

/* Few letters, so that braces stand in every order. */
SLOT_TEST(random_keys_have_the_slots_that_the_server_says, server)
{
    char key[12];

    srand(1);
    for (int i = 0; i < KEYS; i++) {
        size_t len = 1 + (size_t)(rand() % 10);

        for (size_t k = 0; k < len; k++) {
            key[k] = "ab{}{}"[rand() % 6];
        }
        key[len] = '\0';
        assert_slot(server, rlock__bytes(key, len));
    }
}
