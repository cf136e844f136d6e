/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts' names and their addresses. */
#ifndef RLOCK_NET_RESOLVE_H
#define RLOCK_NET_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

/* One question for a host's addresses, asked in a thread of its own: getaddrinfo() may block for as
 * long as name servers are silent, and nobody can end it. Owned by who asked; the thread finishes
 * alone when that one has gone. */
struct rlock__resolver;

/* Finds the addresses of a host that need no question: literal ones, and localhost. Returns 1 (a
 * name: ask a resolver), 0, or RLOCK_ERESOURCE, RLOCK_ENOMEM, RLOCK_ECONN. */
int rlock__resolve_literal(const char *host, uint16_t port, struct addrinfo **ret_addrs);

/* Asks. Returns RLOCK_ERESOURCE or RLOCK_ENOMEM. */
int rlock__resolver_new(const char *host, uint16_t port, struct rlock__resolver **ret_resolver);
/* Readable when the answer is there; the resolver's own. */
int rlock__resolver_fd(const struct rlock__resolver *resolver);
bool rlock__resolver_is_done(const struct rlock__resolver *resolver);
/* Takes over the addresses, in the order in which to try them, of one that is done; else returns as
 * rlock__resolve_literal(). */
int rlock__resolver_take(struct rlock__resolver *resolver, struct addrinfo **ret_addrs);
/* Forgets it, answered or not. Returns NULL; NULL is ok. */
struct rlock__resolver *rlock__resolver_free(struct rlock__resolver *resolver);
/* Closes what a child of fork inherited of it; its memory is not freed. NULL is ok. */
struct rlock__resolver *rlock__resolver_abandon(struct rlock__resolver *resolver);

#endif
