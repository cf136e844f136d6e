/* SPDX-License-Identifier: Apache-2.0 */
/* Names are any bytes: how they are shown to people and to programs. */
#ifndef RLOCK_CLI_TEXT_H
#define RLOCK_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the bytes for people: UTF-8 as it is, other bytes and what acts on a terminal as \xNN.
 * Returns the columns. */
size_t cli_put_text(FILE *out, const char *bytes, size_t len);

/* The same for a name, of which no more than the beginning is shown. */
size_t cli_put_name(FILE *out, const char *bytes, size_t len);

/* Writes the bytes as a JSON string: UTF-8 as it is, what acts on a terminal as \uNNNN, a byte that
 * is not UTF-8 as \udcNN. */
void cli_put_json(FILE *out, const char *bytes, size_t len);

/* Writes a time for people: "12.3 s", "4.0 min". */
void cli_put_ms(FILE *out, int64_t ms);

#endif
