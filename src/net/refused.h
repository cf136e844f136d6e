/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's refusal means in a handshake (hello.h). */
#ifndef RLOCK_NET_REFUSED_H
#define RLOCK_NET_REFUSED_H

#include "net/hello.h"

/* Returns the code for an error reply. The detail keeps the server's words, unless they repeat what
 * we said: "unknown command …, with args beginning with: …". */
int rlock__refused(const struct rlock__hello *hello, const struct rlock__reply *reply);
/* Whether the words may repeat a password. */
bool rlock__refused_secretly(const struct rlock__hello *hello, struct rlock__bytes error);
/* Whether another way to say it is of no use: a password is wrong or missing, or the server is not
 * ready. Proxies and old servers refuse HELLO itself in many words. */
bool rlock__refused_finally(const struct rlock__reply *reply);
/* Whether the connection is of no use, whatever was asked: without the password nothing works, and
 * a server that is busy or loading will answer later what it must, such as a kill. */
bool rlock__refused_all(const struct rlock__reply *reply);

#endif
