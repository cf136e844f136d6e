/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket on which a keeper is asked to release its lock. Its name is in the abstract namespace
 * of unix sockets: no file stays behind, and a text names it. The name is random, and everybody on
 * the machine can list it. The keeper therefore obeys its own user and root only.
 */
#ifndef RLOCK_CLI_MAILBOX_H
#define RLOCK_CLI_MAILBOX_H

#include <stdbool.h>
#include <stddef.h>

#define CLI_MAILBOX_TEXT 40     /* "keeper:" and 128 bits in hexadecimal */
#define CLI_MAILBOX_ANSWER 1500 /* room for an answer */

/* One more connection closes the oldest one, so a silent client does not keep others out. */
#define CLI_MAILBOX_CLIENTS 16

struct cli_mailbox {
    const char *name; /* of the lock, as a request must name it */
    char *buffer;     /* for one request */
    int fd;           /* an epoll: readable when cli_mailbox_take() has work; -1: not open */
    int listener;
    int clients[CLI_MAILBOX_CLIENTS]; /* that have asked nothing yet; the oldest first */
    int n_clients;
};

/* Whether the text is one of a keeper. */
bool cli_mailbox_is_text(const char *text);

/* Opens the socket, and writes its text. Returns 0, or an errno. Close it in either case. */
int cli_mailbox_open(struct cli_mailbox *box, const char *name,
                     char ret_text[static CLI_MAILBOX_TEXT]);

/* Accepts clients and reads their requests, without waiting. Returns a client that asks for the
 * release, or -1. The caller must answer it. */
int cli_mailbox_take(struct cli_mailbox *box);

/* Answers a client and hangs up. reason: one line, "" for none. */
void cli_mailbox_answer(int client, int status, const char *reason);

void cli_mailbox_close(struct cli_mailbox *box);

/*
 * Asks the keeper of the text to release the lock `name`, and waits for its answer. Returns 0, or
 * an errno: ECONNREFUSED (no such keeper here), EPERM (another user's), ETIMEDOUT (no answer).
 * After 0, *ret_status is the exit status, and ret_reason says why if it is not 0.
 */
int cli_mailbox_ask(const char *text, const char *name, int *ret_status,
                    char ret_reason[static CLI_MAILBOX_ANSWER]);

#endif
