/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a module of it; the static library does without. */
#include "tls/tls.h"

__attribute__((visibility("default"))) const struct rlock__tls_table *const rlock_tls_module =
    &rlock__tls_table;
