/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RLOCK_BASE_IMPLIES_H
#define RLOCK_BASE_IMPLIES_H

/* Where a is true, b is: for assertions. */
#define RLOCK__IMPLIES(a, b) (!(a) || (b))

#endif
