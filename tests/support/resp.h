/* Just enough of the Redis protocol for a test client and a proxy: where a value ends, and what
 * stands in it. */
#ifndef RLOCK_TEST_RESP_H
#define RLOCK_TEST_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct resp_bytes {
    const char *data;
    size_t len;
};

/* The length of the first whole value (or inline command) in the buffer; 0: not whole yet; -1: not
 * the protocol. */
long resp_frame_len(struct resp_bytes buffer);

/* The i-th word of a whole command, inline or array, or of an array reply; empty when there is
 * none. */
struct resp_bytes resp_word(struct resp_bytes frame, size_t i);

/* Whether `word` is `name`, upper or lower case. */
bool resp_is(struct resp_bytes word, const char *name);

/* Prints a whole reply as redis-cli --raw does: one element per line without a last newline, nil as
 * nothing. */
void resp_print(FILE *out, struct resp_bytes frame);

#endif
