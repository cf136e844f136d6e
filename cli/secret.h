/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords: where they come from, and how they stay out of sight. */
#ifndef RLOCK_CLI_SECRET_H
#define RLOCK_CLI_SECRET_H

#include <stdbool.h>

/* Overwrites every byte of the URL's password in place. Rather hides too much than too little. */
void cli_url_hide_password(char *url);

/* Shortens the URL's password in place to ***, for messages. */
void cli_url_redact(char *url);

/* Does so for every URL in a text. */
void cli_text_redact(char *text);

/*
 * Reads the first line of a file that only its owner can read. Returns NULL and the password, which
 * is the caller's (cli_secret_free), or what is wrong with the file.
 */
const char *cli_password_read(const char *path, char **ret_password);

/* Whether the password can be read again: from a file, and not from a pipe. */
bool cli_password_is_in_file(const char *path);

/* Erases and frees; NULL is ok. */
void cli_secret_free(char *secret);

#endif
