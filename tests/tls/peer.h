/* SPDX-License-Identifier: Apache-2.0 */
/* A TLS server in memory, which does what it is told, and the client's side against it: no socket,
 * no thread, the same result each time. */
#ifndef RLOCK_TEST_TLS_PEER_H
#define RLOCK_TEST_TLS_PEER_H

#include <openssl/ssl.h>

#include "tls/authority.h"
#include "tls/tls.h"

#define PEER_MOST 4 /* certificates in a chain; versions in a hello */

struct peer {
    /* set by the test */
    const struct identity *shows;            /* the server's certificate */
    const struct identity *chain[PEER_MOST]; /* sent behind it; NULL ends */
    const struct identity *trusts; /* asks for a client's certificate of this authority; NULL not */
    int max_version;               /* TLS1_2_VERSION, …; 0: any */
    /* what the server saw */
    char asked_for[256];     /* the server name in the client's hello; "" none */
    int versions[PEER_MOST]; /* that the hello offers; 0 ends */
    bool has_client;         /* a client's certificate was shown and accepted */
    /* the test reads them after a dial */
    int code;      /* of the client: 0 or a negative code */
    char why[512]; /* its text */
};

/* Files of the client; NULL none. */
struct peer_files {
    const char *ca, *cert, *key;
};

/* The client opens a session for the host, shakes hands with the server and exchanges one byte each
 * way. Fills in the peer's results. */
void peer_dial(struct peer *peer, const struct peer_files *files, const char *host);

#endif
