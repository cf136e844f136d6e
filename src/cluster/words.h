/* SPDX-License-Identifier: Apache-2.0 */
/* What servers write between blanks. */
#ifndef RLOCK_CLUSTER_WORDS_H
#define RLOCK_CLUSTER_WORDS_H

#include "base/bytes.h"

/* Takes what stands before the first such byte off the text, and that byte; all of it where there
 * is none. */
static inline struct rlock__bytes rlock__take_word(struct rlock__bytes *text, char stop)
{
    const char *end = text->len != 0 ? memchr(text->at, stop, text->len) : NULL;
    struct rlock__bytes word = rlock__bytes(text->at, text->len);
    size_t used = text->len;

    if (end != NULL) {
        word.len = (size_t)(end - text->at);
        used = word.len + 1;
    }
    *text = rlock__bytes(text->at + used, text->len - used);
    return word;
}

/* Splits "host:port" at the last colon: an IPv6 address has others. False: there is no port. */
bool rlock__split_port(struct rlock__bytes text, struct rlock__bytes *ret_host, uint16_t *ret_port);

#endif
