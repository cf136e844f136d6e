/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A countdown for memory: one allocation of this program fails, that of the library or of hiredis
 * inside it. What shared libraries allocate for themselves always succeeds. The program is linked
 * with --wrap for each of the allocating functions.
 */
#ifndef RLOCK_TEST_FAULT_SCARCE_H
#define RLOCK_TEST_FAULT_SCARCE_H

#include <stdbool.h>

/* The n-th allocation from now on fails, in whichever thread it is made; from 1. */
void scarce_from_now(long n);
/* None fails from here on. Returns whether one has since scarce_from_now(). */
bool scarce_end(void);
/* What the calling thread allocates does not count: it is not what is tested. */
void scarce_spare_me(bool spared);
/* Until it is undone, only what the calling thread allocates counts. */
void scarce_spare_others(bool spared);

#endif
