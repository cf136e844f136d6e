/* SPDX-License-Identifier: Apache-2.0 */
/* Commands by chance: of every sort, on few keys of all types, with good and bad words. */
#ifndef RLOCK_TESTS_SIM_RANDOM_COMMANDS_H
#define RLOCK_TESTS_SIM_RANDOM_COMMANDS_H

#include "twin.h"

struct random_command {
    uint64_t state; /* the seed, to begin with */
    struct sim_words words;
    unsigned rules;      /* for the comparison */
    struct sim_buf text; /* that of a script */
    char numbers[64][24];
    size_t n_numbers;
};

/* Makes the next command; the words live until the one after it. */
void random_command_next(struct random_command *command);
void random_command_fini(struct random_command *command);

#endif
