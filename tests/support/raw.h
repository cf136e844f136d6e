/* A client that is nothing but a blocking socket, for tests that say and hear the protocol itself.
 * Threads: one. */
#ifndef RLOCK_TEST_RAW_H
#define RLOCK_TEST_RAW_H

#include <stdbool.h>

/* A connection to a test server's or a proxy's URL, to be closed by close(); -1 when it is refused.
 * Not for TLS. */
int raw_dial(const char *url);

/* Sends the text as it is: one command or several, inline or not. */
void raw_say(int fd, const char *commands);

/* What one read gives: bytes, or "END", or "RESET", or "" when nothing comes in 5 s. The next call
 * overwrites it. */
const char *raw_hear(int fd);
/* The same for a time that is not stretched: to find that nothing comes. */
const char *raw_hear_within(int fd, int timeout_ms);

/* Reads until `expected` is complete, however many pieces it takes; whether exactly that came. */
bool raw_hears(int fd, const char *expected);

#endif
