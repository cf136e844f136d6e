/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/redirect.h"

#include "topology/slot.h"

bool rlock__split_port(struct rlock__bytes text, struct rlock__bytes *ret_host, uint16_t *ret_port)
{
    const char *colon = text.len != 0 ? memrchr(text.at, ':', text.len) : NULL;
    size_t len = colon != NULL ? (size_t)(colon - text.at) : 0;
    int64_t port =
        colon != NULL ? rlock__bytes_number(rlock__bytes(colon + 1, text.len - len - 1), -1) : -1;

    *ret_host = rlock__bytes(text.at, len);
    *ret_port = (uint16_t)port;
    return port >= 1 && port <= 65535;
}

bool rlock__redirection_read(const struct rlock__reply *reply,
                             struct rlock__redirection *ret_redirection)
{
    struct rlock__bytes text, word;
    int64_t slot;

    if (!rlock__reply_is_error(reply)) {
        return false;
    }
    text = rlock__reply_str(reply, 0);
    word = rlock__take_word(&text, ' ');
    ret_redirection->ask = rlock__bytes_equal(word, rlock__bytes_of("ASK"));
    if (!ret_redirection->ask && !rlock__bytes_equal(word, rlock__bytes_of("MOVED"))) {
        return false;
    }
    slot = rlock__bytes_number(rlock__take_word(&text, ' '), -1);
    ret_redirection->slot = (unsigned)slot;
    return slot >= 0 && slot < RLOCK__SLOTS &&
           rlock__split_port(text, &ret_redirection->host, &ret_redirection->port);
}
