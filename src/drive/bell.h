/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bell: what a thread sleeps at while it has a turn on a group, or waits for one, and is rung by.
 * It is an eventfd. To make one and to close it are two system calls for each turn, so a home keeps
 * those that its turns have had.
 *
 * Who takes a bell may be rung once by what was meant for the turn before. Whoever wakes looks, and
 * sleeps again.
 */
#ifndef RLOCK_DRIVE_BELL_H
#define RLOCK_DRIVE_BELL_H

#include <stddef.h>

#include "base/guarded.h"

#define RLOCK__BELLS 64 /* that a home keeps: more turns at once have theirs made and closed */

struct rlock_client;

struct rlock__bells {
    size_t n;
    int fds[RLOCK__BELLS]; /* -1: none. A child of fork closes what it finds, in any state */
};

void rlock__bells_init(struct rlock__bells *bells);
/* Closes what is kept. Nobody uses the home any more, or this is a child of fork. */
void rlock__bells_close(struct rlock__bells *bells);
/* Returns -1 when there is no descriptor. */
int rlock__bell_take(struct rlock_client *home) RLOCK__EXCLUDES(home);
void rlock__bell_give(struct rlock_client *home, int fd) RLOCK__EXCLUDES(home);

#endif
