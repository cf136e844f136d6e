/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's detail of its last failure: one line for logs. */
#ifndef RLOCK_BASE_ERROR_H
#define RLOCK_BASE_ERROR_H

#include <rlock/rlock.h>

#define RLOCK__DETAIL_SIZE 320

/* Keeps the detail for rlock_detail(). */
void rlock__detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Keeps the detail and is the code: `return rlock__fail(RLOCK_EINVAL, "…")`. */
#define rlock__fail(code, ...) (rlock__detail(__VA_ARGS__), (code))
/* Forgets the detail: at the start of each call. */
void rlock__detail_clear(void);

#endif
