/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's bytes taken apart into replies. hiredis' reader does the parsing; its replies are
 * not built as trees of allocated objects but written flat into two arrays that are used again for
 * the next reply. Threads: one caller at a time.
 */
#ifndef RLOCK_NET_RESP_H
#define RLOCK_NET_RESP_H

#include "wire/reply.h"

struct rlock__resp;

/* Makes a reader for one connection. NULL without memory. */
struct rlock__resp *rlock__resp_new(size_t cap);
/* Returns NULL; NULL is ok. */
struct rlock__resp *rlock__resp_free(struct rlock__resp *resp);
/* From now on replies may be of version 3 of the protocol: pushes, maps and verbatim strings. */
void rlock__resp_take_pushes(struct rlock__resp *resp);
/* Sets how many bytes a reply may have; longer ones are refused before they are whole. */
void rlock__resp_set_cap(struct rlock__resp *resp, size_t cap);
/* Adds bytes of the server. Returns RLOCK_ENOMEM. */
int rlock__resp_feed(struct rlock__resp *resp, const char *bytes, size_t len);
/* Takes the next whole reply. Returns 1 with a reply that is borrowed until the next call, 0 when
 * none is complete, RLOCK_ECONN when this is not the Redis protocol or the reply is longer than the
 * cap, or RLOCK_ENOMEM; an error is final. */
int rlock__resp_next(struct rlock__resp *resp, struct rlock__reply *ret_reply);
/* Whether nothing is there of a reply that is not whole yet. */
bool rlock__resp_is_empty(const struct rlock__resp *resp);
/* Why it failed; "" if it did not. */
const char *rlock__resp_error(const struct rlock__resp *resp);

#endif
