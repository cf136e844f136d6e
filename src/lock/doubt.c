/* SPDX-License-Identifier: Apache-2.0 */
#include "lock/doubt.h"

#include <assert.h>
#include <stdlib.h>

/* Stands for a doubt that there is no memory for. It is never closed. */
static struct rlock__doubt unknown = {.refs = 2};

static struct rlock__doubt *make(void)
{
    struct rlock__doubt *doubt = calloc(1, sizeof(*doubt));

    if (doubt == NULL) {
        return &unknown;
    }
    atomic_init(&doubt->refs, 1);
    return doubt;
}

struct rlock__doubt *rlock__doubt_open(struct rlock__doubt **doubt, int64_t free_by)
{
    *doubt = *doubt != NULL ? *doubt : make();
    if (*doubt != &unknown) {
        (void)atomic_fetch_add(&(*doubt)->refs, 1);
        if (free_by > atomic_load(&(*doubt)->free_by)) {
            atomic_store(&(*doubt)->free_by, free_by);
        }
    }
    assert(rlock__doubt_is_open(*doubt));
    return *doubt;
}

struct rlock__doubt *rlock__doubt_unref(struct rlock__doubt *doubt)
{
    assert(atomic_load(&doubt->refs) > 0);
    if (doubt != &unknown && atomic_fetch_sub(&doubt->refs, 1) == 1) {
        free(doubt);
    }
    return NULL;
}

bool rlock__doubt_is_open(const struct rlock__doubt *doubt)
{
    return doubt != NULL && atomic_load(&doubt->refs) > 1;
}

int64_t rlock__doubt_free_by(const struct rlock__doubt *doubt)
{
    return doubt != NULL ? atomic_load(&doubt->free_by) : 0;
}
