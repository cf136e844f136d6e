/* SPDX-License-Identifier: Apache-2.0 */
/* A module as another rlock might have it: nothing but its head is known. */
#include "tls/tls.h"

static const struct rlock__tls_table table = {.number = 99, .version = "99.0"};

__attribute__((visibility("default"))) const struct rlock__tls_table *const rlock_tls_module =
    &table;
