/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <stdlib.h>

static size_t n_chains(const struct rlock__table *table)
{
    return table->more != NULL ? table->n_more : RLOCK__TABLE_FIRST;
}

static struct rlock__table_node **chain(struct rlock__table *table, size_t i)
{
    return table->more != NULL ? &table->more[i] : &table->first[i];
}

static void link_node(struct rlock__table *table, struct rlock__table_node *node)
{
    struct rlock__table_node **at = chain(table, node->hash & (n_chains(table) - 1));

    node->next = *at;
    *at = node;
    table->n++;
}

/* Twice as many chains, if there is memory. */
static void grow(struct rlock__table *table)
{
    struct rlock__table large = {.n_more = 2 * n_chains(table)};
    struct rlock__table_node *node;
    size_t from = 0;

    large.more =
        (struct rlock__table_node **)calloc(large.n_more, sizeof(struct rlock__table_node *));
    if (large.more == NULL) {
        return;
    }
    while ((node = rlock__table_take(table, &from)) != NULL) {
        link_node(&large, node);
    }
    *table = large;
}

void rlock__table_add(struct rlock__table *table, struct rlock__table_node *node, unsigned hash)
{
    node->hash = hash;
    if (table->n >= n_chains(table)) {
        grow(table);
    }
    link_node(table, node);
}

void rlock__table_remove(struct rlock__table *table, struct rlock__table_node *node)
{
    struct rlock__table_node **at = chain(table, node->hash & (n_chains(table) - 1));

    while (*at != node) {
        at = &(*at)->next;
    }
    *at = node->next;
    table->n--;
}

/* From this node of a chain on. */
static struct rlock__table_node *with_hash(struct rlock__table_node *node, unsigned hash)
{
    while (node != NULL && node->hash != hash) {
        node = node->next;
    }
    return node;
}

struct rlock__table_node *rlock__table_first(const struct rlock__table *table, unsigned hash)
{
    return with_hash(table->more != NULL ? table->more[hash & (table->n_more - 1)]
                                         : table->first[hash & (RLOCK__TABLE_FIRST - 1)],
                     hash);
}

struct rlock__table_node *rlock__table_next(const struct rlock__table_node *node)
{
    return with_hash(node->next, node->hash);
}

struct rlock__table_node *rlock__table_after(const struct rlock__table *table,
                                             const struct rlock__table_node *node)
{
    struct rlock__table_node *found = node != NULL ? node->next : NULL;
    size_t i = node != NULL ? (node->hash & (n_chains(table) - 1)) + 1 : 0;

    for (; found == NULL && i < n_chains(table); i++) {
        found = table->more != NULL ? table->more[i] : table->first[i];
    }
    return found;
}

struct rlock__table_node *rlock__table_take(struct rlock__table *table, size_t *inout_chain)
{
    for (; table->n > 0 && *inout_chain < n_chains(table); (*inout_chain)++) {
        struct rlock__table_node **at = chain(table, *inout_chain), *node = *at;

        if (node != NULL) {
            *at = node->next;
            table->n--;
            return node;
        }
    }
    rlock__table_fini(table);
    return NULL;
}

void rlock__table_sweep(struct rlock__table *table, bool (*drop)(struct rlock__table_node *node))
{
    struct rlock__table kept = {0};
    struct rlock__table_node *node;
    size_t from = 0;

    while ((node = rlock__table_take(table, &from)) != NULL) {
        if (!drop(node)) {
            rlock__table_add(&kept, node, node->hash);
        }
    }
    *table = kept;
}

void rlock__table_fini(struct rlock__table *table)
{
    free(table->more);
    *table = (struct rlock__table){0};
}
