/* SPDX-License-Identifier: Apache-2.0 */
/* A holder as the server names it. Its connections are named rlock:<uuid>:<host>:<pid>. */
#include <stdio.h>

#include "base/clock.h"
#include "client/lock.h"
#include "drive/ask.h"
#include "lock/server/route.h"

static void parse_address(struct rlock__bytes text, struct rlock_info *info)
{
    if (rlock__bytes_have(text, ":")) {
        struct rlock__bytes host = rlock__take_word(&text, ':');

        (void)snprintf(info->host, sizeof(info->host), "%.*s",
                       (int)rlock__min((int64_t)host.len, 127), host.at);
        info->pid = rlock__bytes_number(text, 0);
    }
}

/* Where the lock is, and its holder connected. */
static struct rlock__node *node_of(const struct rlock__spec *spec)
{
    struct rlock_client *client = rlock__client_of(spec->core);
    struct rlock__server *server;

    rlock__enter(client);
    server = rlock__route(spec)->server;
    rlock__core_mutex_unlock(&client->mutex);
    return rlock__node_of(server);
}

static bool is_of(const struct rlock_ops *ops, const struct rlock_info *info,
                  struct rlock__bytes uuid)
{
    return strncmp(info->holder, uuid.at, uuid.len) == 0 ||
           (ops->is_of != NULL && ops->is_of(info->holder, uuid));
}

/* Looks for a connection of the holder in the answer to CLIENT LIST. */
static void find(const struct rlock_ops *ops, struct rlock__bytes list, struct rlock_info *info)
{
    static const char mark[] = " name=rlock:";
    const size_t len = sizeof(mark) - 1;
    const char *at;

    while ((at = memmem(list.at, list.len, mark, len)) != NULL) {
        struct rlock__bytes line;

        at += len;
        list = rlock__bytes(at, (size_t)(list.at + list.len - at));
        line = rlock__take_word(&list, '\n');
        if (line.len > RLOCK__UUID_LEN && line.at[RLOCK__UUID_LEN] == ':' &&
            is_of(ops, info, rlock__bytes(line.at, RLOCK__UUID_LEN))) {
            line.at += RLOCK__UUID_LEN + 1;
            line.len -= RLOCK__UUID_LEN + 1;
            parse_address(line, info);
            return;
        }
    }
}

void rlock__holder_find(const struct rlock__spec *spec, struct rlock_info *info, int64_t deadline)
{
    struct rlock__asker asker = {0};
    struct rlock__reply reply;

    if (rlock__asker_init(&asker, node_of(spec), deadline) == 0 &&
        rlock__asker_words(&asker, &reply, "CLIENT", "LIST", "TYPE", "normal", NULL) == 0 &&
        !rlock__reply_is_error(&reply)) {
        find(spec->ops, rlock__reply_str(&reply, 0), info);
    }
    rlock__asker_fini(&asker);
    rlock__detail_clear(); /* not knowing is no failure */
}

void rlock__holder_forced(struct rlock__core *core, struct rlock__bytes seen)
{
    const char *at;

    while (seen.len != 0 &&
           (at = memmem(seen.at, seen.len, core->opts.uuid, RLOCK__UUID_LEN)) != NULL) {
        at += RLOCK__UUID_LEN;
        seen = rlock__bytes(at, (size_t)(seen.at + seen.len - at));
        if (seen.len != 0 && *at == ':') {
            (void)rlock__take_word(&seen, ':');
            rlock__core_forced(core, (uint64_t)rlock__bytes_number(seen, 0), rlock__now_us());
        }
    }
}
