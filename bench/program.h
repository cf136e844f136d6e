/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A variant that is another program: a peer, in whatever language. bench/peers/README.md says what
 * it is told, and what it answers. Each process of the run is one such program.
 */
#ifndef RLOCK_BENCH_PROGRAM_H
#define RLOCK_BENCH_PROGRAM_H

#include "bench.h"

#include <sys/types.h>

/* Whether it was built: it is in the directory that RLOCK_BENCH_PEERS names. */
bool bench_program_is_there(const char *program);

/* Starts run->process, on the core of the clients. */
pid_t bench_program_start(const struct bench_run *run, const struct bench_options *options);
void bench_programs_wait_ready(const struct bench_run *run);
void bench_programs_tell(const struct bench_run *run, const char *line);
/* What all workers noted, and after that the end of all output. */
void bench_programs_collect(const struct bench_run *run, struct bench_worker *workers);

/* What a program said of itself: versions, pools, delays. "" if it never ran. */
const char *bench_program_note(const char *program);

#endif
