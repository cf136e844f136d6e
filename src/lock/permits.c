/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permits: Redisson's RPermitExpirableSemaphore. One key has the number of free permits. A sorted
 * set has the permits that are out, by their expiry on the server's clock. A permit is 16 bytes,
 * which the owner makes from its UUID, its number, and a count of its permits. So a request that is
 * sent again finds the permits of its first copy.
 *
 * Semaphore: Redisson's RSemaphore. It has the same number, and Redisson records nothing else. The
 * clients of this library record their units beside it, as permits in a set of another name.
 */
#include "lock/permits.h"

#include <assert.h>
#include <string.h>

#include <lua_scripts.h>

#include "lock/core.h"
#include "lock/plain.h"

#define PERMIT_LEN RLOCK__PERMIT_LEN
#define OWNER_LEN RLOCK__PERMIT_OWNER_LEN
#define CLIENT_LEN 9 /* of a permit: what it has from its client's UUID */
#define DIGEST_LEN 40
#define BYTE 256 /* values that it has */

static void channel(struct rlock__bytes key, struct rlock__buf *ret_channel)
{
    rlock__prefixed_name("redisson_sc", key, ret_channel);
}

/* ---- Permits ---- */

static unsigned hex_digit(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : (digit | ' ') - 'a' + 10) % PERMIT_LEN;
}

/* Reads as many bytes from pairs of hexadecimal digits, and skips what stands between them. */
static void read_hex(struct rlock__bytes text, unsigned char *ret_bytes, size_t n)
{
    size_t at = 0;

    memset(ret_bytes, 0, n);
    for (size_t i = 0; i + 1 < text.len && at < n; i++) {
        if (text.at[i] != '-') {
            ret_bytes[at++] =
                (unsigned char)(hex_digit(text.at[i]) << 4 | hex_digit(text.at[i + 1]));
            i++;
        }
    }
}

/* What all permits of a client with this UUID begin with: 66 of its random bits. It has the form of
 * a UUID of version 8, as other owners of this library. */
static void put_client(struct rlock__bytes uuid, unsigned char out[static PERMIT_LEN])
{
    unsigned char bytes[PERMIT_LEN];

    read_hex(uuid, bytes, sizeof(bytes));
    memcpy(out, bytes + 10, 6);
    out[6] = (unsigned char)(0x80 | (bytes[6] & 0x0f));
    out[7] = bytes[7];
    out[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
}

void rlock__permit(struct rlock__bytes owner, unsigned char out[static PERMIT_LEN])
{
    uint64_t number;

    memset(out, 0, PERMIT_LEN);
    if (owner.len <= RLOCK__UUID_LEN) {
        read_hex(owner, out, PERMIT_LEN);
        return;
    }
    put_client(owner, out);
    number = (uint64_t)rlock__bytes_number(
        rlock__bytes(owner.at + RLOCK__UUID_LEN + 1, owner.len - RLOCK__UUID_LEN - 1), 0);
    for (size_t i = OWNER_LEN; i-- > CLIENT_LEN; number /= BYTE) {
        out[i] = (unsigned char)(number % BYTE);
    }
}

/* ---- Commands ---- */

static bool is_semaphore(const struct rlock__spec *spec)
{
    return spec->ops == &rlock__semaphore_ops;
}

static void add_permits(const struct rlock__spec *spec, struct rlock__cmd *cmd)
{
    struct rlock__buf name = {0};

    rlock__suffixed_name(spec->key, is_semaphore(spec) ? "rlock-permits" : "timeout", &name);
    rlock__cmd_key(cmd, rlock__bytes(name.data, name.len));
    cmd->keys.failed |= name.failed;
    rlock__buf_fini(&name);
}

/* A command about one semaphore: its number and its permits. */
static void begin(const struct rlock__spec *spec, const struct rlock__script *script,
                  struct rlock__cmd *ret_cmd)
{
    ret_cmd->script = script;
    rlock__cmd_key(ret_cmd, spec->key);
    add_permits(spec, ret_cmd);
}

/* What the owner's permits begin with; or one permit, whole. */
static void add_owner(struct rlock__bytes owner, size_t len, struct rlock__cmd *cmd)
{
    unsigned char permit[PERMIT_LEN];

    assert(len <= PERMIT_LEN);
    rlock__permit(owner, permit);
    rlock__cmd_arg(cmd, rlock__bytes((const char *)permit, len));
}

static void acquire(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    assert(args->units > args->held_units);
    begin(spec, &rlock__script_permits_acquire, ret_cmd);
    add_owner(args->owner, OWNER_LEN, ret_cmd);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__cmd_num(ret_cmd, args->units);
    rlock__cmd_num(ret_cmd, args->held_units);
    rlock__cmd_num(ret_cmd, spec->tuning->units);
    rlock__cmd_num(ret_cmd, is_semaphore(spec) ? 0 : 1);
    rlock__announcement(spec, ret_cmd);
}

static void release(const struct rlock__spec *spec, const struct rlock__args *args,
                    struct rlock__cmd *ret_cmd)
{
    assert(args->held_units > args->units || args->held_units == 0);
    begin(spec, &rlock__script_permits_release, ret_cmd);
    add_owner(args->owner, OWNER_LEN, ret_cmd);
    rlock__cmd_num(ret_cmd, args->units);
    rlock__cmd_num(ret_cmd, args->held_units);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__announcement(spec, ret_cmd);
}

static void renew(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *batch)
{
    assert(batch->script == NULL || batch->script == &rlock__script_permits_renew);
    assert(args->units > 0);
    batch->script = &rlock__script_permits_renew;
    add_permits(spec, batch);
    add_owner(args->owner, OWNER_LEN, batch);
    rlock__cmd_num(batch, args->lease_ms);
    rlock__cmd_num(batch, args->units);
    rlock__cmd_num(batch, rlock__max(args->units, args->held_units));
}

static void rename_permit(const struct rlock__spec *spec, const struct rlock__args *args,
                          struct rlock__cmd *ret_cmd)
{
    assert(args->lease_ms > 0);
    begin(spec, &rlock__script_permits_rename, ret_cmd);
    add_owner(args->from, PERMIT_LEN, ret_cmd);
    add_owner(args->owner, PERMIT_LEN, ret_cmd);
    rlock__cmd_num(ret_cmd, args->lease_ms);
    rlock__announcement(spec, ret_cmd);
}

static void inspect(const struct rlock__spec *spec, struct rlock__cmd *ret_cmd)
{
    const struct rlock__bytes uuid = rlock__bytes_of(spec->core->opts.uuid);
    unsigned char client[PERMIT_LEN];

    put_client(uuid, client);
    begin(spec, &rlock__script_permits_inspect, ret_cmd);
    rlock__cmd_arg(ret_cmd, rlock__bytes((const char *)client, CLIENT_LEN));
    rlock__cmd_arg(ret_cmd, uuid);
}

static void force(const struct rlock__spec *spec, const struct rlock__args *args,
                  struct rlock__cmd *ret_cmd)
{
    const size_t len = args->seen.len < DIGEST_LEN ? args->seen.len : DIGEST_LEN;

    begin(spec, &rlock__script_permits_force, ret_cmd);
    rlock__cmd_arg(ret_cmd, rlock__bytes(args->seen.at, len));
    rlock__announcement(spec, ret_cmd);
}

static void resize(const struct rlock__spec *spec, int64_t units, bool adds,
                   struct rlock__cmd *ret_cmd)
{
    begin(spec, &rlock__script_permits_resize, ret_cmd);
    rlock__cmd_num(ret_cmd, units);
    rlock__cmd_arg(ret_cmd, rlock__bytes_of(adds ? "ADD" : "SET"));
    rlock__announcement(spec, ret_cmd);
}

/* ---- Replies ---- */

static struct rlock__answer read_acquire(const struct rlock__spec *spec,
                                         const struct rlock__reply *reply)
{
    struct rlock__answer answer = rlock__plain_read_acquire(spec, reply);

    answer.token = 0;
    if (answer.outcome == RLOCK__DONE) {
        answer.has_more = rlock__reply_int(reply, 1, 0) > 0;
    }
    answer.shared = answer.outcome == RLOCK__BUSY;
    return answer;
}

static void read_inspect(const struct rlock__reply *reply, struct rlock_info *ret_info,
                         struct rlock__buf *ret_seen)
{
    rlock__plain_read_inspect(reply, ret_info, NULL);
    ret_info->units_free = rlock__reply_int(reply, 5, 0);
    ret_info->units = ret_info->units_free + rlock__reply_int(reply, 1, 0);
    for (size_t i = 7; ret_seen != NULL && i < reply->n; i++) {
        const struct rlock__bytes part = rlock__reply_str(reply, i);

        (void)rlock__buf_add(ret_seen, part.at, part.len);
        (void)rlock__buf_add(ret_seen, "\n", 1);
    }
}

static bool is_of(const char *holder, struct rlock__bytes uuid)
{
    unsigned char permit[PERMIT_LEN], client[PERMIT_LEN];

    read_hex(rlock__bytes_of(holder), permit, PERMIT_LEN);
    put_client(uuid, client);
    return memcmp(permit, client, CLIENT_LEN) == 0;
}

#define PERMIT_OPS                                                                                 \
    .side = 'r', .channel = channel, .acquire = acquire, .release = release, .renew = renew,       \
    .rename = rename_permit, .inspect = inspect, .force = force, .resize = resize,                 \
    .read_acquire = read_acquire, .read_release = rlock__plain_read_release,                       \
    .read_inspect = read_inspect, .is_of = is_of

const struct rlock_ops rlock__permits_ops = {
    .kind = "permits",
    .number = RLOCK_KIND_PERMITS,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_UNITS,
    PERMIT_OPS,
};

const struct rlock_ops rlock__semaphore_ops = {
    .kind = "semaphore",
    .number = RLOCK_KIND_SEMAPHORE,
    .caps = RLOCK__CAP_REENTRANT | RLOCK__CAP_WAIT_QUEUE | RLOCK__CAP_UNITS | RLOCK__CAP_RENEWED,
    PERMIT_OPS,
};
