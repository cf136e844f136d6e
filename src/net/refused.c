/* SPDX-License-Identifier: Apache-2.0 */
#include "net/refused.h"

#include "base/error.h"
#include "wire/errors.h"

static bool begins(struct rlock__bytes text, const char *with)
{
    size_t len = strlen(with);

    return text.len >= len && memcmp(text.at, with, len) == 0;
}

/* What an error reply means for the connection. Authentication has words that only a handshake
 * sees; what may pass is a matter of time. */
static int code_of(const struct rlock__reply *reply)
{
    static const struct {
        const char *begin;
        int code;
    } table[] = {
        {"WRONGPASS", RLOCK_EAUTH}, {"ERR invalid password", RLOCK_EAUTH},
        {"ERR AUTH ", RLOCK_EAUTH}, {"ERR Client sent AUTH", RLOCK_EAUTH},
        {"DENIED", RLOCK_EPERM}, /* protected mode */
    };
    struct rlock__class class = rlock__classify(reply);

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (begins(rlock__reply_str(reply, 0), table[i].begin)) {
            return table[i].code;
        }
    }
    return class.way == RLOCK__GIVE_UP ? class.code : RLOCK_ECONN;
}

bool rlock__refused_secretly(const struct rlock__hello *hello, struct rlock__bytes error)
{
    return rlock__bytes_have(error, rlock__login_password(&hello->login)) ||
           rlock__bytes_have(error, "with args");
}

int rlock__refused(const struct rlock__hello *hello, const struct rlock__reply *reply)
{
    struct rlock__bytes error = rlock__reply_str(reply, 0);
    char text[192];

    if (begins(error, "NOAUTH")) {
        return rlock__fail(RLOCK_EAUTH, "the server wants a password");
    }
    if (rlock__refused_secretly(hello, error)) {
        return rlock__fail(code_of(reply), "refused by the server");
    }
    return rlock__fail(code_of(reply), "%s", rlock__text(error, text, sizeof(text)));
}

bool rlock__refused_finally(const struct rlock__reply *reply)
{
    int code = code_of(reply);

    return code == RLOCK_EAUTH || rlock__error_is(reply, RLOCK__NOT_READY) ||
           begins(rlock__reply_str(reply, 0), "DENIED");
}

bool rlock__refused_all(const struct rlock__reply *reply)
{
    return rlock__reply_is_error(reply) && (begins(rlock__reply_str(reply, 0), "NOAUTH") ||
                                            rlock__error_is(reply, RLOCK__NOT_READY));
}
