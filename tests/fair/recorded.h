/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Redisson's own scripts, where there are any: RLOCK_REDISSON_SCRIPTS is a directory that
 * scripts/interop has filled with what a Redisson said to a server (tests/interop/record.c). A file
 * for each of peer_verbs: a line of peer_script's words, and the body; and `version`, a line.
 */
#ifndef RLOCK_TEST_FAIR_RECORDED_H
#define RLOCK_TEST_FAIR_RECORDED_H

#include "fair/peer.h"

/* By verb; NULL: there are none. Dies when they cannot be read. */
const struct peer_script *recorded_scripts(void);
/* What their reference is. */
enum peer_age recorded_age(void);

#endif
