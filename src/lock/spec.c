/* SPDX-License-Identifier: Apache-2.0 */
/* What a lock is, and the view of a hold. Both are reference counted. */
#include <assert.h>
#include <stdlib.h>

#include "lock/core.h"

struct rlock__spec *rlock__spec_ref(struct rlock__spec *spec)
{
    assert(atomic_load(&spec->refs) > 0); /* the caller has one already */
    (void)atomic_fetch_add_explicit(&spec->refs, 1, memory_order_relaxed);
    return spec;
}

struct rlock__spec *rlock__spec_unref(struct rlock__spec *spec)
{
    assert(spec == NULL || atomic_load(&spec->refs) > 0);
    if (spec != NULL && atomic_fetch_sub_explicit(&spec->refs, 1, memory_order_acq_rel) == 1) {
        struct rlock__core *core = spec->core;

        free(spec);
        core->driver.unref(core);
    }
    return NULL;
}

static bool is_default(const struct rlock__tuning *tuning)
{
    return tuning->max_hold_us == 0 && tuning->linger_us == 0 && tuning->spin_initial_us == 0 &&
           tuning->spin_max_us == 0 && tuning->spin_multiplier == 0 && tuning->fair_slot_ms == 0 &&
           tuning->units == 0 && !tuning->prefer_writers && !tuning->no_reentry;
}

/* One allocation for everything. The name is the end of the key's text. The tuning is included only
 * if it is not the default. */
static struct rlock__spec *spec_alloc(size_t prefix_len, struct rlock__bytes key,
                                      struct rlock__bytes channel,
                                      const struct rlock__tuning *tuning)
{
    static const struct rlock__tuning defaults;
    bool tuned = tuning != NULL && !is_default(tuning);
    size_t more = tuned ? sizeof(*tuning) : 0;
    struct rlock__spec *spec = calloc(1, sizeof(*spec) + more + key.len + 1 + channel.len);
    char *at = spec != NULL ? (char *)(spec + 1) : NULL;

    if (spec == NULL) {
        return NULL;
    }
    assert(prefix_len <= key.len);
    spec->tuning = tuned ? memcpy(at, tuning, sizeof(*tuning)) : &defaults;
    spec->key = rlock__bytes(memcpy(at + more, key.at, key.len), key.len);
    spec->name = rlock__bytes(spec->key.at + prefix_len, key.len - prefix_len);
    spec->channel =
        rlock__bytes(memcpy(at + more + key.len + 1, channel.at, channel.len), channel.len);
    return spec;
}

struct rlock__spec *rlock__spec_new(struct rlock__core *core, const struct rlock_ops *ops,
                                    struct rlock__bytes name, const struct rlock__tuning *tuning)
{
    struct rlock__buf key = {0}, channel = {0};
    struct rlock__spec *spec = NULL;

    (void)rlock__buf_add(&key, core->opts.prefix.at, core->opts.prefix.len);
    (void)rlock__buf_add(&key, name.at, name.len);
    if (!key.failed) {
        ops->channel(rlock__bytes(key.data, key.len), &channel);
    }
    if (!key.failed && !channel.failed) {
        spec = spec_alloc(core->opts.prefix.len, rlock__bytes(key.data, key.len),
                          rlock__bytes(channel.data, channel.len), tuning);
    }
    if (spec != NULL) {
        spec->ops = ops;
        spec->core = core;
        spec->hash = rlock__bytes_hash(spec->key) ^ (unsigned)core->opts.serial;
        spec->slot = core->driver.slot != NULL ? core->driver.slot(spec->key) : 0;
        assert(rlock__bytes_equal(spec->name, name));
        assert(spec->channel.len > 0); /* locks without one would share a channel */
        atomic_init(&spec->refs, 1);
    }
    rlock__buf_fini(&key);
    rlock__buf_fini(&channel);
    return spec;
}

bool rlock__spec_equal(const struct rlock__spec *a, const struct rlock__spec *b)
{
    return a == b || (a->hash == b->hash && a->core == b->core && a->ops == b->ops &&
                      rlock__bytes_equal(a->key, b->key));
}

struct rlock__view *rlock__view_ref(struct rlock__view *view)
{
    assert(atomic_load(&view->refs) > 0);
    (void)atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

struct rlock__view *rlock__view_unref(struct rlock__view *view)
{
    assert(view == NULL || atomic_load(&view->refs) > 0);
    if (view != NULL && atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) == 1) {
        (void)rlock__spec_unref(view->spec);
        free(view);
    }
    return NULL;
}

struct rlock__loss *rlock__loss_free(struct rlock__loss *loss)
{
    if (loss != NULL) {
        (void)rlock__spec_unref(loss->spec);
        free(loss->server);
        free(loss);
    }
    return NULL;
}

static inline struct rlock__bytes announcement_command(const struct rlock__spec *spec)
{
    struct rlock__core *core = spec->core;
    bool is_sharded =
        core->version != 0 && rlock__server_is_sharded(core->driver.route(core, spec));
    const char *sharded = core->opts.announces_both ? "BOTH" : "SPUBLISH";

    return rlock__bytes_of(is_sharded ? sharded : "PUBLISH");
}

void rlock__announcement_command(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    rlock__cmd_arg(cmd, announcement_command(spec));
}

void rlock__announcement(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    rlock__cmd_arg(cmd, announcement_command(spec));
    rlock__cmd_arg(cmd, spec->channel);
}

static bool is_tagged(struct rlock__bytes key)
{
    return memchr(key.at, '{', key.len) != NULL; /* Redisson's test: any opening brace */
}

void rlock__prefixed_name(const char *prefix, struct rlock__bytes key, struct rlock__buf *ret_name)
{
    bool tagged = is_tagged(key);

    (void)rlock__buf_addf(ret_name, "%s:%s", prefix, tagged ? "" : "{");
    (void)rlock__buf_add(ret_name, key.at, key.len);
    (void)rlock__buf_add(ret_name, "}", tagged ? 0 : 1);
}

static void add_prefixed(const char *prefix, struct rlock__bytes key, struct rlock__cmd *cmd,
                         void (*add)(struct rlock__cmd *cmd, struct rlock__bytes word))
{
    struct rlock__buf name = {0};

    rlock__prefixed_name(prefix, key, &name);
    add(cmd, rlock__bytes(name.data, name.len));
    cmd->keys.failed |= name.failed;
    rlock__buf_fini(&name);
}

void rlock__prefixed_key(const char *prefix, struct rlock__bytes key, struct rlock__cmd *cmd)
{
    add_prefixed(prefix, key, cmd, rlock__cmd_key);
}

void rlock__prefixed_arg(const char *prefix, struct rlock__bytes key, struct rlock__cmd *cmd)
{
    add_prefixed(prefix, key, cmd, rlock__cmd_arg);
}

void rlock__suffixed_name(struct rlock__bytes key, const char *suffix, struct rlock__buf *ret_name)
{
    bool tagged = is_tagged(key);

    (void)rlock__buf_add(ret_name, "{", tagged ? 0 : 1);
    (void)rlock__buf_add(ret_name, key.at, key.len);
    (void)rlock__buf_addf(ret_name, "%s:%s", tagged ? "" : "}", suffix);
}
