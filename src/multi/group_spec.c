/* SPDX-License-Identifier: Apache-2.0 */
/* What a composite is made of: its members, in the order that everybody takes them in. */
#include "multi/group.h"

#include <stdlib.h>

/* The same order for everybody, so that who holds one and waits for the next never waits in a
 * circle. */
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
        order = strcmp(a->core->server.address, b->core->server.address);
    }
    return order != 0 ? order : (a->client > b->client) - (a->client < b->client);
}

static void write_name(struct rlock__composite *composite, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < composite->n; i++) {
        const struct rlock__bytes name = composite->members[i]->name;

        if (i > 0 && composite->ops->counts_alone &&
            rlock__bytes_equal(name, composite->members[i - 1]->name)) {
            continue; /* one name on every server */
        }
        if (len > 0) {
            out[len++] = ',';
        }
        memcpy(out + len, name.at, name.len);
        len += name.len;
    }
    out[len] = '\0';
    composite->name = rlock__bytes(out, len);
}

struct rlock__composite *rlock__composite_new(const struct rlock__composite_ops *ops,
                                              struct rlock__spec *const *members, size_t n)
{
    size_t size = sizeof(struct rlock__composite) + n * sizeof(struct rlock__spec *), names = n;
    struct rlock__composite *composite;

    for (size_t i = 0; i < n; i++) {
        names += members[i]->name.len;
    }
    composite = calloc(1, size + names);
    if (composite == NULL) {
        return NULL;
    }
    composite->ops = ops;
    composite->n = n;
    composite->quorum = n / 2 + 1;
    composite->first = members[0];
    atomic_init(&composite->refs, 1);
    for (size_t i = 0; i < n; i++) {
        composite->members[i] = rlock__spec_ref(members[i]);
    }
    composite->together = (ops->caps & RLOCK__CAP_QUORUM) == 0 && n > 1;
    for (size_t i = 0; i < n; i++) {
        composite->together = composite->together && members[i]->core == members[0]->core &&
                              (members[i]->ops->caps & RLOCK__CAP_TOGETHER) != 0;
    }
    qsort(composite->members, n, sizeof(struct rlock__spec *), compare);
    write_name(composite, (char *)composite + size);
    return composite;
}

struct rlock__composite *rlock__composite_ref(struct rlock__composite *composite)
{
    (void)atomic_fetch_add(&composite->refs, 1);
    return composite;
}

struct rlock__composite *rlock__composite_unref(struct rlock__composite *composite)
{
    if (composite != NULL && atomic_fetch_sub(&composite->refs, 1) == 1) {
        for (size_t i = 0; i < composite->n; i++) {
            (void)rlock__spec_unref(composite->members[i]);
        }
        free(composite);
    }
    return NULL;
}

bool rlock__composite_equal(const struct rlock__composite *a, const struct rlock__composite *b)
{
    bool equal = a->ops == b->ops && a->n == b->n;

    for (size_t i = 0; equal && i < a->n; i++) {
        equal = rlock__spec_equal(a->members[i], b->members[i]);
    }
    return equal;
}
