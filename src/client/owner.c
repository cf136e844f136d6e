/* SPDX-License-Identifier: Apache-2.0 */
/* Owners with ids: for tasks, pools, and objects that hold a lock. */
#include "base/clock.h"
#include "client/client.h"
#include "drive/group_op.h"

/* Unique in the process, because the owner of a multi-lock has holds at several clients. */
uint64_t rlock_owner_new(struct rlock_client *client)
{
    static atomic_ullong given;

    return client != NULL ? atomic_fetch_add(&given, 1) + (UINT64_C(1) << 62) : 0;
}

int rlock_owner_end(struct rlock_client *client, uint64_t owner)
{
    RLOCK__WHOLE;
    int code;

    rlock__detail_clear();
    if (client == NULL || owner == 0) {
        return rlock__fail(RLOCK_EINVAL, "client is NULL, or the owner has no id");
    }
    code = rlock__client_check(client);
    if (code != 0) {
        return code;
    }
    rlock__groups_owner_end(client, owner);
    rlock__enter(client);
    rlock__core_owner_end(&client->core, owner, rlock__now_us());
    rlock__leave_and_drive(client);
    return 0;
}
