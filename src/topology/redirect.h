/* SPDX-License-Identifier: Apache-2.0 */
/* A redirection: a server of a cluster names the server that has the slot, and does not execute the
 * command. Pure. */
#ifndef RLOCK_TOPOLOGY_REDIRECT_H
#define RLOCK_TOPOLOGY_REDIRECT_H

#include "wire/reply.h"

/* "MOVED slot host:port", or "ASK slot host:port". */
struct rlock__redirection {
    bool ask; /* for this command alone */
    unsigned slot;
    /* A name or an address; empty: the host that was asked; "?": the server has no name for it. */
    struct rlock__bytes host;
    uint16_t port;
};

/* Reads it from a reply, from which host is borrowed. False: that is none, or makes no sense. */
bool rlock__redirection_read(const struct rlock__reply *reply,
                             struct rlock__redirection *ret_redirection);
/* Splits "host:port" at the last colon: an IPv6 address has others. False: there is no port. */
bool rlock__split_port(struct rlock__bytes text, struct rlock__bytes *ret_host, uint16_t *ret_port);

#endif
