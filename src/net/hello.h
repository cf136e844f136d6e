/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is said when a connection begins: who we are, our password, our name; the kill of earlier
 * connections of ours; the database. HELLO does most of it. If the server refuses HELLO, then AUTH,
 * CLIENT SETNAME and CLIENT ID do. A subscriber connection that is to track keys asks for version 3
 * of the protocol. If the server refuses that, the connection has version 2, and tracks none. A
 * server that closes the connection in place of an answer is asked once more without HELLO, and
 * then for AUTH alone. Commands come out as bytes, replies go in one by one. This module knows no
 * socket and no clock. Threads: one caller at a time.
 */
#ifndef RLOCK_NET_HELLO_H
#define RLOCK_NET_HELLO_H

#include "net/conn.h"
#include "net/login.h"

struct rlock__hello;

/* Takes the reply to one command. Returns 0, or a negative code where it is the end. */
typedef int rlock__hello_fn(struct rlock__hello *hello, const struct rlock__reply *reply);

/* How much is said, for servers that close a connection instead of refusing a command. */
enum rlock__hello_manner {
    RLOCK__HELLO_PUSHES,   /* version 3 of the protocol, and CLIENT TRACKING */
    RLOCK__HELLO_FIRST,    /* HELLO; where that is refused, its parts */
    RLOCK__HELLO_IN_PARTS, /* AUTH, CLIENT SETNAME, CLIENT ID */
    RLOCK__HELLO_BARE      /* AUTH and PING, and the database */
};

/* All zero is a valid one that has not begun. */
struct rlock__hello {
    const struct rlock__conn_opts *opts;
    struct rlock_login login;
    struct rlock__buf out;     /* all bytes to send; they hold the password: rlock__hello_fini() */
    uint64_t *unfenced;        /* connections that may still be there */
    size_t n_unfenced, looked; /* looked: how many of them were looked up */
    rlock__hello_fn **takes; /* of each command that was said, its reply, from at on; NULL: none */
    size_t n_takes, at;
    enum { RLOCK__HELLO_WHO, RLOCK__HELLO_LOOK, RLOCK__HELLO_REST } phase;
    enum rlock__hello_manner manner;
    bool named;              /* the server knows our name */
    char refused_hello[160]; /* the server's words; "": it did not refuse HELLO */
    struct rlock__greeting got;
};

/* Asks the program for the login, and puts the first commands into hello->out. Returns 0,
 * RLOCK_EAUTH or RLOCK_ENOMEM. */
int rlock__hello_begin(struct rlock__hello *hello, const struct rlock__conn_opts *opts,
                       enum rlock__hello_manner manner, const uint64_t *unfenced, size_t n);
/* Takes the next reply. Returns 1 when the connection is up, 0 when it goes on, or a negative code.
 * When it goes on, there may be more in hello->out, behind what was there. */
int rlock__hello_reply(struct rlock__hello *hello, const struct rlock__reply *reply);
/* Wipes and frees what need not live on; what was learnt stays. */
void rlock__hello_fini(struct rlock__hello *hello);

#endif
