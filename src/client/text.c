/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that stand for holds.
 *
 * A text is "rlock1:KIND:HOW:NAME:OWNER". HOW is d for a hold that was detached, and h for one that
 * its owner still had. NAME is a hash of the lock's key, which finds mistakes. OWNER is the name of
 * the hold's owner on the server: "uuid:number". For permits, 32 hexadecimal digits are a text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/lock.h"
#include "lock/common.h"
#include "lock/permits.h"

/* FNV-1a (Fowler, Noll, Vo), 32 bits. */
static uint32_t hash_of(struct rlock__bytes key)
{
    uint32_t hash = 2166136261U;

    for (size_t i = 0; i < key.len; i++) {
        hash = (hash ^ (uint8_t)key.at[i]) * 16777619U;
    }
    return hash;
}

/* What comes before the owner. Returns its length. */
static size_t write_head(const struct rlock_handle *lock, char how,
                         char out[static RLOCK_TEXT_SIZE])
{
    return (size_t)snprintf(out, RLOCK_TEXT_SIZE, "rlock1:%s:%c:%08" PRIx32 ":", rlock_kind(lock),
                            how, hash_of(lock->spec->key));
}

void rlock__text_write(const struct rlock_handle *lock, bool is_detached, struct rlock__bytes owner,
                       char out[static RLOCK_TEXT_SIZE])
{
    size_t len = write_head(lock, is_detached ? 'd' : 'h', out);

    (void)snprintf(out + len, RLOCK_TEXT_SIZE - len, "%.*s", (int)owner.len, owner.at);
}

/* Whether these bytes are "uuid:number", in the length that the core has room for. */
static bool is_owner(struct rlock__bytes owner)
{
    size_t digits = owner.len > RLOCK__UUID_LEN + 1 ? owner.len - RLOCK__UUID_LEN - 1 : 0;

    return rlock__uuid_version(owner) >= 0 && digits > 0 && owner.len < RLOCK__OWNER_SIZE &&
           strspn(owner.at + RLOCK__UUID_LEN + 1, "0123456789") == digits;
}

/* Whether it is a permit, as Redisson shows it to its users: rlock_inspect() shows permits so,
 * too. */
static bool is_permit(const struct rlock_handle *lock, const char *text)
{
    return rlock__has_units(lock->spec) && strlen(text) == RLOCK__PERMIT_DIGITS &&
           strspn(text, "0123456789abcdefABCDEF") == RLOCK__PERMIT_DIGITS;
}

int rlock__text_read(const struct rlock_handle *lock, const char *text,
                     const struct rlock_take *take, const char **ret_from)
{
    char head[RLOCK_TEXT_SIZE];
    size_t len = write_head(lock, 'd', head);
    bool is_detached;

    if (text == NULL || strnlen(text, RLOCK_TEXT_SIZE) == RLOCK_TEXT_SIZE) {
        return rlock__fail(RLOCK_EINVAL, "text is NULL or too long");
    }
    is_detached = strncmp(text, head, len) == 0;
    (void)write_head(lock, 'h', head);
    if (is_permit(lock, text)) {
        len = 0;
    } else if ((!is_detached && strncmp(text, head, len) != 0) ||
               !is_owner(rlock__bytes_of(text + len))) {
        return rlock__fail(RLOCK_EINVAL,
                           "the text does not stand for a hold of this lock: its name and kind "
                           "must be those of the handle that wrote it");
    }
    if (!is_detached && (take->flags & RLOCK_TAKE_FROM_DEAD) == 0) {
        return rlock__fail(RLOCK_EBUSY, "the text's hold was not detached: its process may still "
                                        "rely on it. RLOCK_TAKE_FROM_DEAD says that it is gone");
    }
    *ret_from = text + len;
    return 0;
}

int rlock__text_check(const struct rlock_handle *lock)
{
    int code = rlock__lock_check_open(lock);

    if (code == 0 && lock->spec == NULL) {
        code = rlock__fail(RLOCK_ENOTSUP, "a multi-lock or RedLock cannot be handed over");
    } else if (code == 0 && rlock__lock_is_renewed(lock)) {
        code = rlock__fail(RLOCK_ENOTSUP, "a %s cannot be handed over", rlock_kind(lock));
    }
    return code;
}

void rlock__text_of_detach(const struct rlock_handle *lock, const struct rlock__op *op,
                           char out[static RLOCK_TEXT_SIZE])
{
    char owner[RLOCK__OWNER_SIZE];

    rlock__text_write(lock, true, rlock__text_owner(&lock->client->core, op->call.number, owner),
                      out);
}
