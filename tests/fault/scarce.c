/* SPDX-License-Identifier: Apache-2.0 */
#include "fault/scarce.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "lock/core.h"

static atomic_long made, failing; /* failing 0: none */
static atomic_bool others_spared;
static _Thread_local bool spared, is_chosen;

void scarce_from_now(long n)
{
    atomic_store(&made, 0);
    atomic_store(&failing, n);
}

bool scarce_end(void)
{
    long n = atomic_exchange(&failing, 0);

    return n != 0 && atomic_load(&made) >= n;
}

void scarce_spare_me(bool is_spared)
{
    spared = is_spared;
}

void scarce_spare_others(bool are_spared)
{
    is_chosen = are_spared;
    atomic_store(&others_spared, are_spared);
}

static bool fails(void)
{
    long n = atomic_load(&failing);

    if (spared || (atomic_load(&others_spared) && !is_chosen) || n == 0 ||
        atomic_fetch_add(&made, 1) + 1 != n) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

/* ---- What the linker puts in the place of the allocating functions ---- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* ---- Nothing is kept from one call to the next: each takes its memory anew ---- */

struct rlock__hold *__real_rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                           struct rlock__owner owner);
struct rlock__request *__real_rlock__request_new(struct rlock__pool *pool, rlock__answer_fn *answer,
                                                 void *subject);

struct rlock__hold *__wrap_rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                           struct rlock__owner owner);
struct rlock__request *__wrap_rlock__request_new(struct rlock__pool *pool, rlock__answer_fn *answer,
                                                 void *subject);

struct rlock__hold *__wrap_rlock__hold_get(struct rlock__core *core, struct rlock__spec *spec,
                                           struct rlock__owner owner)
{
    rlock__core_trim(core);
    return __real_rlock__hold_get(core, spec, owner);
}

struct rlock__request *__wrap_rlock__request_new(struct rlock__pool *pool, rlock__answer_fn *answer,
                                                 void *subject)
{
    rlock__pool_fini(pool);
    return __real_rlock__request_new(pool, answer, subject);
}
