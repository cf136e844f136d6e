/*
 * What is in Redis, as text that can be compared: owners' names are made equal (the holder's are
 * H:n, the waiter's W:n), and so is the lock's.
 */
#ifndef RLOCK_INTEROP_LOOK_H
#define RLOCK_INTEROP_LOOK_H

#include "interop.h"

#include <stdio.h>

enum { LOOK_KEYS = 16 };

/* What there is after a step. */
struct moment {
    char *text; /* answer, keys with their values, messages; NULL: the step was left out */
    int64_t ttl_ms[LOOK_KEYS];
    bool is_score[LOOK_KEYS];
    size_t n_keys;
};

/* Who listens to everything that is said on a server. */
struct ear {
    struct test_server *server;
    int fd;
    char heard[16384];
    size_t n_heard;
};

void ear_open(struct ear *ear, struct test_server *server);
void ear_close(struct ear *ear);

/* With all names made equal; frees the text that it gets. */
char *look_normalise(const struct pair *pair, char *text);

/* All keys that have to do with the lock, with their values; the moment gets their times. Without
 * Redisson's latches, by which it remembers for a while that an unlock was carried out: no peer
 * looks at them. */
void look_at_keys(FILE *out, const struct pair *pair, struct test_server *server,
                  struct moment *moment);
/* What was said on the lock's channels since the last time; `counts`: else it is only taken note
 * of. */
void look_at_messages(const struct pair *pair, struct ear *ear, FILE *out, bool counts);
void look_at_listeners(FILE *out, const struct pair *pair, struct test_server *server);

#endif
