/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include <string.h>
#include <uuid/uuid.h>

void rlock__uuid_write(const uint8_t random[static 16], char out[static RLOCK__UUID_LEN + 1])
{
    uuid_t uuid;

    memcpy(uuid, random, sizeof(uuid));
    uuid[6] = (unsigned char)((uuid[6] & 0x0fU) | RLOCK__UUID_VERSION << 4);
    uuid[8] = (unsigned char)((uuid[8] & 0x3fU) | 0x80U); /* the RFC's variant */
    uuid_unparse_lower(uuid, out);
}

int rlock__uuid_version(struct rlock__bytes owner)
{
    char text[RLOCK__UUID_LEN + 1];
    uuid_t uuid;

    if (owner.len <= RLOCK__UUID_LEN || owner.at[RLOCK__UUID_LEN] != ':') {
        return -1;
    }
    memcpy(text, owner.at, RLOCK__UUID_LEN);
    text[RLOCK__UUID_LEN] = '\0';
    return uuid_parse(text, uuid) == 0 ? uuid_type(uuid) : -1;
}

bool rlock__owner_is_foreign(struct rlock__bytes owner)
{
    return owner.len > 0 && rlock__uuid_version(owner) != RLOCK__UUID_VERSION;
}
