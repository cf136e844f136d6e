/* SPDX-License-Identifier: Apache-2.0 */
/* The table of nodes: what was added is found, whatever else is in it. */
#include "base/table.h"
#include "support/test.h"

enum { MANY = 10000 };

static struct rlock__table_node nodes[MANY];

static bool finds(const struct rlock__table *table, const struct rlock__table_node *node,
                  unsigned hash)
{
    struct rlock__table_node *at = rlock__table_first(table, hash);

    while (at != NULL && at != node) {
        at = rlock__table_next(at);
    }
    return at == node;
}

static void empty(struct rlock__table *table)
{
    size_t from = 0;

    while (rlock__table_take(table, &from) != NULL) {
    }
    assert_int_equal(table->n, 0);
}

TEST(each_node_is_found_by_its_hash)
{
    struct rlock__table table = {0};

    for (unsigned i = 0; i < MANY; i++) {
        rlock__table_add(&table, &nodes[i], i * 7);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_true(finds(&table, &nodes[i], i * 7));
        assert_null(rlock__table_first(&table, i * 7 + 1));
    }
    empty(&table);
}

TEST(nodes_with_one_hash_are_all_found)
{
    struct rlock__table table = {0};

    for (unsigned i = 0; i < 100; i++) {
        rlock__table_add(&table, &nodes[i], i % 2);
    }
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(finds(&table, &nodes[i], 0), i % 2 == 0);
    }
    empty(&table);
}

static size_t n_after_one_another(const struct rlock__table *table)
{
    struct rlock__table_node *node = NULL;
    size_t n = 0;

    while ((node = rlock__table_after(table, node)) != NULL) {
        n++;
    }
    return n;
}

TEST(all_nodes_come_one_after_the_other)
{
    struct rlock__table table = {0};

    assert_int_equal(n_after_one_another(&table), 0);
    for (unsigned i = 0; i < MANY; i++) {
        rlock__table_add(&table, &nodes[i], i / 2 * 5); /* two with each hash */
        if (i < 10 || i % 1000 == 0) {
            assert_int_equal(n_after_one_another(&table), i + 1);
        }
    }
    empty(&table);
}

TEST(what_was_removed_is_not_found)
{
    struct rlock__table table = {0};

    for (unsigned i = 0; i < MANY; i++) {
        rlock__table_add(&table, &nodes[i], i);
    }
    for (unsigned i = 0; i < MANY; i += 2) {
        rlock__table_remove(&table, &nodes[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(finds(&table, &nodes[i], i), i % 2 != 0);
    }
    empty(&table);
}
