/* SPDX-License-Identifier: Apache-2.0 */
/* What a server's error means for a lock, and the text for it. */
#include "lock/server/classify.h"

#include <assert.h>
#include <stdio.h>

#include "lock/server/server.h"

struct rlock__class rlock__core_classify(const struct rlock__core *core,
                                         const struct rlock__reply *reply)
{
    struct rlock__class class = rlock__classify(reply);

    assert(rlock__reply_is_error(reply));
    if (core->driver.redirect != NULL && (class.is & RLOCK__REDIRECTED) != 0) {
        class = (struct rlock__class){RLOCK_EREFUSED, RLOCK__RETRY, RLOCK__MOVING, RLOCK__MOVES};
    }
    return class;
}

static void write_lacking(const struct rlock__reply *error, const char *command, char *out,
                          size_t size)
{
    char name[32];

    rlock__lacking(error, name, sizeof(name));
    if (name[0] == '\0' && command != NULL) {
        (void)snprintf(name, sizeof(name), "%s", command);
    }
    (void)snprintf(out, size, "the server does not support %s%s",
                   name[0] != '\0' ? name : "a command that a lock's script needs",
                   strcmp(name, "WAIT") == 0 ? "; set acks = RLOCK_ACKS_OFF" : "");
}

const char *rlock__refusal(const struct rlock__spec *spec, const struct rlock__server *server,
                           const struct rlock__reply *error, const char *command,
                           char out[static RLOCK__REFUSAL_SIZE])
{
    struct rlock__class class = rlock__core_classify(spec->core, error);
    char text[160], plain[120];
    bool known = (class.is & RLOCK__UNEXPLAINED) == 0;

    assert(spec->core == server->core);
    (void)rlock__text(rlock__reply_str(error, 0), text, sizeof(text));
    if ((class.is & RLOCK__MOVING) != 0 && spec->core->driver.slot != NULL) {
        (void)snprintf(plain, sizeof(plain), "slot %u is being moved", spec->slot);
    } else if ((class.is & RLOCK__LACKING) != 0) {
        write_lacking(error, command, plain, sizeof(plain));
    } else {
        (void)snprintf(plain, sizeof(plain), "%s%s%s", command != NULL ? command : "",
                       command != NULL ? ": " : "", class.hint);
    }
    /* Behind " said", the command `rlock` cuts off the server's words: the plain words are
     * enough. */
    (void)snprintf(out, RLOCK__REFUSAL_SIZE, "%s (server %s%s: %s)", plain, server->address,
                   known ? " said" : "", text);
    return out;
}
