/* SPDX-License-Identifier: Apache-2.0 */
/* Names are any bytes: how they are shown to people and to programs. */
#ifndef RLOCK_CLI_TEXT_H
#define RLOCK_CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes the bytes for people: UTF-8 as it is, control characters and other bytes as \xNN. Returns
 * the columns. */
size_t cli_put_text(FILE *out, const char *bytes, size_t len);

/* Writes the bytes as a JSON string: UTF-8 as it is, a byte that is not as \u00NN. */
void cli_put_json(FILE *out, const char *bytes, size_t len);

/* Writes a time for people: "12.3 s", "4.0 min". */
void cli_put_ms(FILE *out, int64_t ms);

#endif
