/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include "base/error.h"
#include "net/sock.h"

static const struct rlock__tls_needs needs = {
    .detail = rlock__detail,
    .send = rlock__sock_send,
    .recv = rlock__sock_recv,
};

int rlock__tls_new(const char *ca_file, const char *cert_file, const char *key_file,
                   struct rlock__tls **ret_tls)
{
    const struct rlock__tls_table *table = NULL;
    const int code = rlock__tls_find(&table);

    return code == 0 ? table->open(&needs, ca_file, cert_file, key_file, ret_tls) : code;
}

struct rlock__tls *rlock__tls_free(struct rlock__tls *tls)
{
    if (tls != NULL) {
        tls->table->close(tls);
    }
    return NULL;
}
