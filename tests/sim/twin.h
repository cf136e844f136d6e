/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real server and the simulated one, which get the same commands and must say the same. The
 * simulated one's clock follows the machine's.
 */
#ifndef RLOCK_TESTS_SIM_TWIN_H
#define RLOCK_TESTS_SIM_TWIN_H

#include "server.h"

#define TWIN_CONNS 3

enum {
    TWIN_UNORDERED = 1, /* arrays may be in another order */
    TWIN_TTL = 2,       /* numbers that can be times to live may differ a little */
};

struct twin;

/* NULL if there is no real server. */
struct twin *twin_new(void);
/* The same of one node of a cluster: TWIN_SELF has the slots below TWIN_OTHERS, TWIN_OTHER, which
   does not run, those from there on. */
#define TWIN_SELF "1111111111111111111111111111111111111111"
#define TWIN_OTHER "2222222222222222222222222222222222222222"
#define TWIN_OTHERS 8192
struct twin *twin_new_node(void);
struct twin *twin_free(struct twin *twin);

struct sim_server *twin_sim(struct twin *twin);
const char *twin_version(const struct twin *twin);

/* Whether it is redis 7.0, which the simulated server imitates. Valkey 8.0 is comparable: there
   texts of errors count by their first word, and scores by their value. */
bool twin_is_exact(const struct twin *twin);
bool twin_is_comparable(const struct twin *twin);

/* Both servers execute the command; all frames that either sends, to any connection, are compared.
   Returns false if they differ, and prints in what. */
bool twin_command(struct twin *twin, size_t conn, const struct sim_words *words, unsigned rules);

/* The same with words that have no blanks in them; then one more for those that do, or NULL. */
bool twin_line(struct twin *twin, size_t conn, unsigned rules, const char *line, const char *last);

void twin_print_command(const struct sim_words *words);

#endif
