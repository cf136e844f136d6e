/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that refuses: a table says what it does with which command. It is a proxy before a real
 * server, which gets every command that the table does not have.
 */
#ifndef RLOCK_TEST_REFUSAL_H
#define RLOCK_TEST_REFUSAL_H

#include "support/proxy.h"

/* The first row that matches a command counts. */
struct refusal {
    const char *command;  /* its first word, in any case; NULL: every command */
    const char *contains; /* anywhere in it; NULL: anything */
    enum { REFUSAL_ANSWERS, REFUSAL_HANGS_UP, REFUSAL_IS_SILENT } does;
    const char *answer; /* of one that answers: bytes, which need not be the protocol's */
    unsigned int times; /* then it is an ordinary server; 0: always */
};

/* From now on the server does what the rows say, up to the first row without any member; in place
 * of what it was told before. */
void refuse(struct proxy *proxy, const struct refusal *rows);

/* "-ERR unknown command …", in the words of Redis 7. */
#define UNKNOWN(command) "-ERR unknown command '" command "', with args beginning with: '2' \r\n"

#endif
