/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of nodes that stand in what they are of. Who looks compares the keys:
 *
 *     for (node = rlock__table_first(table, hash); node != NULL; node = rlock__table_next(node))
 *
 * Adding cannot fail: without memory to grow, the chains get longer. The chains stay when the table
 * gets empty. Zero is an empty table.
 */
#ifndef RLOCK_BASE_TABLE_H
#define RLOCK_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#define RLOCK__TABLE_FIRST 8 /* chains there are without asking for memory; a power of two */

struct rlock__table_node {
    struct rlock__table_node *next; /* in its chain */
    unsigned hash;
};

struct rlock__table {
    struct rlock__table_node *first[RLOCK__TABLE_FIRST];
    struct rlock__table_node **more; /* in place of them; NULL there are no others */
    size_t n_more, n;
};

void rlock__table_add(struct rlock__table *table, struct rlock__table_node *node, unsigned hash);
/* Of a node that is in it. */
void rlock__table_remove(struct rlock__table *table, struct rlock__table_node *node);
/* The nodes with this hash; NULL there are no more. */
struct rlock__table_node *rlock__table_first(const struct rlock__table *table, unsigned hash);
struct rlock__table_node *rlock__table_next(const struct rlock__table_node *node);
/* All nodes, one after the other; node: NULL the first. */
struct rlock__table_node *rlock__table_after(const struct rlock__table *table,
                                             const struct rlock__table_node *node);
/* Takes out a node. inout_chain: 0 at first, then left alone until this returns NULL: the table is
 * empty, and freed. */
struct rlock__table_node *rlock__table_take(struct rlock__table *table, size_t *inout_chain);
/* Drops nodes: those whose function is rid of them, and says so. The table is as large as the rest
 * needs then. */
void rlock__table_sweep(struct rlock__table *table, bool (*drop)(struct rlock__table_node *node));
/* Of a table that is empty. */
void rlock__table_fini(struct rlock__table *table);

#endif
