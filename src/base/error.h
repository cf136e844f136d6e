/* SPDX-License-Identifier: Apache-2.0 */
/* The calling thread's last failure: its detail, one line for logs, and what a program may need. */
#ifndef RLOCK_BASE_ERROR_H
#define RLOCK_BASE_ERROR_H

#include <rlock/rlock.h>

#define RLOCK__DETAIL_SIZE 320
#define RLOCK__FACT_SIZE 128

/* What a failure says besides its code and its detail. All zero: nothing. */
struct rlock__facts {
    int reason;      /* ELOST: why, RLOCK_LOST_… */
    int64_t free_at; /* when the lock is free at the latest; 0: unknown */
    char holder[RLOCK__FACT_SIZE];
    char server[RLOCK__FACT_SIZE];
};

/* Keeps the detail for rlock_detail(). */
void rlock__detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Keeps the detail and the code, and is the code: `return rlock__fail(RLOCK_EINVAL, "…")`. */
#define rlock__fail(code, ...) (rlock__detail(__VA_ARGS__), (void)rlock__failed(code, NULL), (code))
/* Keeps the code and the facts (NULL: none). Returns the code. */
int rlock__failed(int code, const struct rlock__facts *facts);
/* Forgets the failure: at the start of each call. */
void rlock__detail_clear(void);
/* The last failure's code, 0 if the call did not fail; and its facts. */
int rlock__last_code(void);
const struct rlock__facts *rlock__last_facts(void);

#endif
