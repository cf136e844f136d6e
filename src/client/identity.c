/* SPDX-License-Identifier: Apache-2.0 */
/* What others know a client by. */
#include <limits.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/error.h"
#include "client/client.h"

/* As RFC 9562 has it, of version 8: fair locks know ours by that, Redisson's are 4. */
static void write_uuid(const uint8_t random[static 16], char out[static RLOCK__UUID_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    char *at = out;

    for (size_t i = 0; i < 16; i++) {
        const unsigned byte = i == 6   ? (random[i] & 0x0fU) | 0x80U
                              : i == 8 ? (random[i] & 0x3fU) | 0x80U /* the RFC's variant */
                                       : random[i];

        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *at++ = '-';
        }
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 0x0f];
    }
    *at = '\0';
}

int rlock__identity_init(struct rlock_client *client)
{
    static atomic_ullong serials;
    struct {
        uint64_t seed;
        uint8_t uuid[16];
    } random;
    char host[HOST_NAME_MAX + 1] = "";

    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        return rlock__fail(RLOCK_ERESOURCE, "no random numbers");
    }
    client->core.random = random.seed;
    client->home.random = random.seed | 1;
    write_uuid(random.uuid, client->core.uuid);
    client->core.serial = atomic_fetch_add(&serials, 1) + 1;
    (void)gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c != '\0'; c++) { /* connection names have no blanks, for example */
        if (*c <= ' ' || *c >= 127 || *c == ':') {
            *c = '_';
        }
    }
    (void)snprintf(client->name, sizeof(client->name), "rlock:%s:%.64s:%ld", client->core.uuid,
                   host, (long)getpid());
    return 0;
}
