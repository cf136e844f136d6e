/* SPDX-License-Identifier: Apache-2.0 */
/* Where TLS comes from: a module that is loaded when the first client asks for it, or this program
 * itself. Threads: any. */
#ifndef RLOCK_NET_TLS_H
#define RLOCK_NET_TLS_H

#include "tls/tls.h"

/* Finds TLS, checks the files and keeps their names; see struct rlock__tls_table. Returns
 * RLOCK_ETLS (no TLS here, or a file), RLOCK_EINVAL or RLOCK_ENOMEM. */
int rlock__tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                   struct rlock__tls **ret_tls);
/* Returns NULL; NULL is ok. */
struct rlock__tls *rlock__tls_free(struct rlock__tls *tls);

/* Finds the functions. Returns RLOCK_ETLS when they are not there. tls_load.c has it for the shared
 * library and the command, tls_built_in.c for the static library. */
int rlock__tls_find(const struct rlock__tls_table **ret_table);

#endif
