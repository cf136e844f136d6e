/* SPDX-License-Identifier: Apache-2.0 */
/* A frame of the simulated server as the core takes it, nested arrays made flat. */
#ifndef RLOCK_TESTS_SIM_REPLY_H
#define RLOCK_TESTS_SIM_REPLY_H

#include "resp.h"
#include "wire/reply.h"

static inline size_t sim_flatten(const struct sim_resp *node, struct rlock__value *values, size_t n)
{
    static const enum rlock__reply_type types[] = {
        [SIM_RESP_STATUS] = RLOCK__REPLY_STATUS, [SIM_RESP_ERROR] = RLOCK__REPLY_ERROR,
        [SIM_RESP_INTEGER] = RLOCK__REPLY_INT,   [SIM_RESP_BULK] = RLOCK__REPLY_STR,
        [SIM_RESP_NIL] = RLOCK__REPLY_NIL,
    };

    if (node->type == SIM_RESP_ARRAY) {
        for (size_t i = 0; i < node->n_items; i++) {
            n = sim_flatten(&node->items[i], values, n);
        }
        return n;
    }
    values[n] =
        (struct rlock__value){types[node->type], node->integer, node->text.data, node->text.len};
    return n + 1;
}

static inline bool sim_is_nested(const struct sim_resp *tree)
{
    for (size_t i = 0; tree->type == SIM_RESP_ARRAY && i < tree->n_items; i++) {
        if (tree->items[i].type == SIM_RESP_ARRAY) {
            return true;
        }
    }
    return false;
}

/* values: with room for all; they and the tree must outlive the reply. */
static inline struct rlock__reply sim_reply_of(const struct sim_resp *tree,
                                               struct rlock__value *values)
{
    return (struct rlock__reply){.v = values,
                                 .n = sim_flatten(tree, values, 0),
                                 .is_array = tree->type == SIM_RESP_ARRAY,
                                 .is_nested = sim_is_nested(tree)};
}

#endif
