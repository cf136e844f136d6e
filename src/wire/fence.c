/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fence.h"

#include <assert.h>

static bool is_nameless(const struct rlock__fence *fence, uint64_t gen)
{
    for (unsigned i = 0; i < fence->n; i++) {
        if (fence->nameless[i] == gen) {
            return true;
        }
    }
    return false;
}

void rlock__fence_raise(struct rlock__fence *fence, uint64_t below)
{
    assert(below >= fence->below);
    fence->below = fence->is_final ? fence->below : below;
}

void rlock__fence_add_nameless(struct rlock__fence *fence, uint64_t gen)
{
    assert(gen != 0);
    if (gen < fence->below || is_nameless(fence, gen)) {
        return;
    }
    if (fence->n == RLOCK__NAMELESS_MAX) {
        fence->is_final = true;
    } else {
        assert(fence->n == 0 || fence->nameless[fence->n - 1] < gen);
        fence->nameless[fence->n++] = gen;
    }
}

void rlock__fence_replaced(struct rlock__fence *fence, uint64_t gen)
{
    assert(gen + 1 >= fence->below);
    fence->below = gen + 1;
    fence->n = 0;
}

bool rlock__fence_has(const struct rlock__fence *fence, uint64_t gen)
{
    return gen < fence->below && !is_nameless(fence, gen);
}

bool rlock__fence_can(const struct rlock__fence *fence, uint64_t gen)
{
    return rlock__fence_has(fence, gen) || (!fence->is_final && !is_nameless(fence, gen));
}

uint64_t rlock__fence_last(const struct rlock__fence *fence, uint64_t a, uint64_t b)
{
    const uint64_t later = a > b ? a : b;
    const uint64_t earlier = a > b ? b : a;

    return is_nameless(fence, earlier) ? earlier : later;
}
