/* SPDX-License-Identifier: Apache-2.0 */
/* A seed that does not end, or in which an assertion fails, says so and ends the simulator. */
#ifndef RLOCK_TEST_SIM_OVERRUN_H
#define RLOCK_TEST_SIM_OVERRUN_H

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIM_OVERRUN_S = 30 }; /* of the processor's time; a seed takes a hundredth of a second */

static char sim_overrun_text[96], sim_abort_text[96];

static inline void sim_overrun(int number)
{
    const char *text = number == SIGABRT ? sim_abort_text : sim_overrun_text;
    size_t len = 0;

    while (text[len] != '\0') {
        len++;
    }
    (void)!write(STDOUT_FILENO, text, len);
    _exit(EXIT_FAILURE);
}

/* This seed begins now. */
static inline void sim_overrun_watch(uint64_t seed)
{
    const struct itimerval limit = {.it_value = {.tv_sec = SIM_OVERRUN_S}};

    (void)fflush(stdout);
    (void)snprintf(sim_overrun_text, sizeof(sim_overrun_text),
                   "seed %" PRIu64 " fails after 0 steps: does not end\n", seed);
    (void)snprintf(sim_abort_text, sizeof(sim_abort_text),
                   "seed %" PRIu64 " fails after 0 steps: an assertion\n", seed);
    (void)signal(SIGVTALRM, sim_overrun);
    (void)signal(SIGABRT, sim_overrun);
    (void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
}

#endif
