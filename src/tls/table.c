/* SPDX-License-Identifier: Apache-2.0 */
#include <rlock/version.h>

#include "tls/internal.h"

const struct rlock__tls_table rlock__tls_table = {
    .number = RLOCK__TLS_INTERFACE,
    .version = RLOCK_VERSION,
    .open = rlock__tls_open,
    .close = rlock__tls_close,
    .begin = rlock__session_begin,
    .end = rlock__session_end,
    .handshake = rlock__session_handshake,
    .write = rlock__session_write,
    .read = rlock__session_read,
    .events = rlock__session_events,
    .why = rlock__session_why,
    .bye = rlock__session_bye,
};
