/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a multi-lock or RedLock, in the order in which all clients take them. */
#include "multi/group.h"

#include <stdlib.h>

/* All clients use the same order. So clients that hold a member and wait for the next one never
 * wait in a circle. */
static int compare(const void *left, const void *right)
{
    const struct rlock__spec *a = *(struct rlock__spec *const *)left;
    const struct rlock__spec *b = *(struct rlock__spec *const *)right;
    size_t len = a->key.len < b->key.len ? a->key.len : b->key.len;
    int order = memcmp(a->key.at, b->key.at, len);

    if (order == 0 && a->key.len != b->key.len) {
        order = a->key.len < b->key.len ? -1 : 1;
    }
    if (order == 0) {
        order = strcmp(a->core->opts.address, b->core->opts.address);
    }
    return order != 0 ? order
                      : (a->core->opts.serial > b->core->opts.serial) -
                            (a->core->opts.serial < b->core->opts.serial);
}

static void write_name(struct rlock__group_spec *spec, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < spec->n; i++) {
        const struct rlock__bytes name = spec->members[i]->name;

        if (i > 0 && spec->ops->counts_alone &&
            rlock__bytes_equal(name, spec->members[i - 1]->name)) {
            continue; /* one name on every server */
        }
        if (len > 0) {
            out[len++] = ',';
        }
        memcpy(out + len, name.at, name.len);
        len += name.len;
    }
    out[len] = '\0';
    spec->name = rlock__bytes(out, len);
}

struct rlock__group_spec *rlock__group_spec_new(const struct rlock__group_ops *ops,
                                                struct rlock__spec *const *members, size_t n)
{
    size_t size = sizeof(struct rlock__group_spec) + n * sizeof(struct rlock__spec *), names = n;
    struct rlock__group_spec *spec;

    for (size_t i = 0; i < n; i++) {
        names += members[i]->name.len;
    }
    spec = calloc(1, size + names);
    if (spec == NULL) {
        return NULL;
    }
    spec->ops = ops;
    spec->n = n;
    spec->quorum = (ops->caps & RLOCK__CAP_QUORUM) != 0 ? n / 2 + 1 : n;
    spec->first = members[0];
    atomic_init(&spec->refs, 1);
    spec->together = (ops->caps & RLOCK__CAP_QUORUM) == 0 && n > 1;
    for (size_t i = 0; i < n; i++) {
        spec->members[i] = rlock__spec_ref(members[i]);
        spec->hash += members[i]->hash;
        spec->together = spec->together && members[i]->core == members[0]->core &&
                         members[i]->slot == members[0]->slot &&
                         (members[i]->ops->caps & RLOCK__CAP_TOGETHER) != 0;
    }
    qsort(spec->members, n, sizeof(struct rlock__spec *), compare);
    write_name(spec, (char *)spec + size);
    return spec;
}

struct rlock__group_spec *rlock__group_spec_ref(struct rlock__group_spec *spec)
{
    (void)atomic_fetch_add(&spec->refs, 1);
    return spec;
}

struct rlock__group_spec *rlock__group_spec_unref(struct rlock__group_spec *spec)
{
    if (spec != NULL && atomic_fetch_sub(&spec->refs, 1) == 1) {
        for (size_t i = 0; i < spec->n; i++) {
            (void)rlock__spec_unref(spec->members[i]);
        }
        free(spec);
    }
    return NULL;
}

bool rlock__group_spec_equal(const struct rlock__group_spec *a, const struct rlock__group_spec *b)
{
    bool equal = a->hash == b->hash && a->ops == b->ops && a->n == b->n;

    for (size_t i = 0; equal && i < a->n; i++) {
        equal = rlock__spec_equal(a->members[i], b->members[i]);
    }
    return equal;
}
