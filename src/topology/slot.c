/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/slot.h"

#include <stdint.h>
#include <string.h>

/* CRC-16/XMODEM: polynomial 0x1021, from 0, highest bit first. */
static unsigned crc16(struct rlock__bytes bytes)
{
    unsigned crc = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        crc ^= (unsigned)(unsigned char)bytes.at[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ 0x1021U : crc << 1;
        }
        crc &= 0xFFFFU;
    }
    return crc;
}

/* What the slot depends on. */
static struct rlock__bytes tag_of(struct rlock__bytes key)
{
    const char *open = memchr(key.at, '{', key.len), *end = key.at + key.len;
    const char *close = open != NULL ? memchr(open, '}', (size_t)(end - open)) : NULL;

    return close == NULL || close == open + 1 ? key
                                              : rlock__bytes(open + 1, (size_t)(close - open - 1));
}

unsigned rlock__slot(struct rlock__bytes key)
{
    return crc16(tag_of(key)) % RLOCK__SLOTS;
}
