/* SPDX-License-Identifier: Apache-2.0 */
/* What others know a client by. */
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "client/client.h"

int rlock__identity_init(struct rlock_client *client)
{
    static atomic_ullong serials;
    struct {
        uint64_t seed;
        uint8_t uuid[16], text_uuid[16];
    } random;
    char host[HOST_NAME_MAX + 1] = "";

    /* Not uuid_generate_random(): it falls back to the time and the pid without an error. */
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        return rlock__fail(RLOCK_ERESOURCE, "no random numbers");
    }
    client->core.random = random.seed;
    client->groups.random = random.seed | 1;
    rlock__uuid_write(random.uuid, client->core.opts.uuid);
    rlock__uuid_write(random.text_uuid, client->core.opts.text_uuid);
    client->core.opts.serial = atomic_fetch_add(&serials, 1) + 1;
    (void)gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c != '\0'; c++) { /* connection names have no blanks, for example */
        if (*c <= ' ' || *c >= 127 || *c == ':') {
            *c = '_';
        }
    }
    (void)snprintf(client->name, sizeof(client->name), "rlock:%s:%.64s:%ld", client->core.opts.uuid,
                   host, (long)getpid());
    return 0;
}
