/* SPDX-License-Identifier: Apache-2.0 */
/* Passwords: where they come from, and how they stay out of sight. */
#ifndef RLOCK_CLI_SECRET_H
#define RLOCK_CLI_SECRET_H

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

/* Erases and frees; NULL is ok. */
void cli_secret_free(char *secret);

#endif
