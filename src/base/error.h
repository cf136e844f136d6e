/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's detail of its last failure: one line for logs. */
#ifndef RLOCK_BASE_ERROR_H
#define RLOCK_BASE_ERROR_H

#include <rlock/rlock.h>

#define RLOCK__DETAIL_SIZE 320

/* Keeps the detail for rlock_detail() and returns code: `return rlock__fail(RLOCK_EINVAL, "…")`. */
int rlock__fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Forgets the detail: at the start of each call. */
void rlock__detail_clear(void);

#endif
