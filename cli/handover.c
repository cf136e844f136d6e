/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock acquire, extend and release: a lock that outlives the command which took it. A text stands
 * for the hold meanwhile: rlock_detach(). With --keep a process has it instead: keeper.h.
 */
#include "handover.h"
#include "client.h"
#include "keeper.h"
#include "mailbox.h"
#include "say.h"
#include "signals.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#define RELEASE_LEASE_MS 10000 /* of the hold that is released at once */
#define TRIES 5                /* of a call with an unknown outcome */

struct desk {
    struct cli_options *opts;
    const char *name;
    struct cli_sink sink;
    struct cli_signals signals;
    struct rlock_cancel *cancel;
    struct rlock_client *client;
    struct rlock_handle *lock;
};

int cli_adopt(struct rlock_handle *lock, const char *text, const struct rlock_take *how,
              struct rlock_grant *ret_grant)
{
    int code = RLOCK_EINDOUBT;

    for (int i = 0; i < TRIES && code == RLOCK_EINDOUBT; i++) {
        code = rlock_adopt(lock, text, how, ret_grant);
    }
    return code;
}

int cli_detach(struct rlock_handle *lock, int64_t lease_ms, char text[static RLOCK_TEXT_SIZE])
{
    int code = RLOCK_EINDOUBT;

    for (int i = 0; i < TRIES && code == RLOCK_EINDOUBT; i++) {
        code = rlock_detach(lock, 0, lease_ms, text);
    }
    return code;
}

int cli_fail_take(const struct cli_options *opts, const char *name, int code)
{
    int status;

    if (code == RLOCK_ECANCELED) {
        return CLI_EXIT_SIGNAL + cli_signals_caught();
    }
    status = cli_fail(opts, name, code);
    return (code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT) && opts->conflict_status >= 0
               ? opts->conflict_status
               : status;
}

int cli_fail_adopt(const struct cli_options *opts, const char *name, int code)
{
    const int status = cli_fail(opts, name, code);

    return code == RLOCK_ENOTOWNER ? CLI_EXIT_LOST : code == RLOCK_EINVAL ? CLI_EXIT_USAGE : status;
}

static int open_desk(struct desk *desk, struct cli_options *opts)
{
    int status;

    *desk = (struct desk){.opts = opts,
                          .name = opts->operands[0],
                          .sink = {.opts = opts, .lost_fd = -1},
                          .signals = {.fd = -1}};
    if (rlock_cancel_new(&desk->cancel) != 0) {
        return cli_fail(opts, desk->name, RLOCK_ERESOURCE);
    }
    cli_signals_catch(&desk->signals, desk->cancel);
    status = cli_client_open(opts, &desk->sink, &desk->client);
    return status == CLI_EXIT_OK ? cli_lock_make(opts, desk->client, desk->name, &desk->lock)
                                 : status;
}

static int close_desk(struct desk *desk, int status)
{
    desk->lock = rlock_free(desk->lock);
    desk->client = rlock_client_close(desk->client);
    desk->cancel = rlock_cancel_free(desk->cancel);
    return status;
}

/* Gives the hold to a text, and prints it. Without that, nothing is left. */
static int give_to_text(struct desk *desk)
{
    char text[RLOCK_TEXT_SIZE];
    const int code = cli_signals_caught() == 0 ? cli_detach(desk->lock, desk->opts->lease_ms, text)
                                               : RLOCK_ECANCELED;
    int status;

    if (code == 0) {
        (void)puts(text);
        return CLI_EXIT_OK;
    }
    status = code == RLOCK_ECANCELED ? CLI_EXIT_SIGNAL + cli_signals_caught()
                                     : cli_fail(desk->opts, desk->name, code);
    (void)rlock_unlock(desk->lock);
    return status;
}

static int acquire(struct desk *desk)
{
    const struct rlock_take *how =
        RLOCK_TAKE(.lease_ms = desk->opts->lease_ms, .cancel = desk->cancel);
    const int code = rlock_lock_for(desk->lock, desk->opts->wait_ms, how, NULL);

    return code == 0 ? give_to_text(desk) : cli_fail_take(desk->opts, desk->name, code);
}

static int adopt(struct desk *desk, int64_t lease_ms)
{
    const struct rlock_take *how = RLOCK_TAKE(.lease_ms = lease_ms, .cancel = desk->cancel);
    const int code = cli_adopt(desk->lock, desk->opts->operands[1], how, NULL);

    if (code == RLOCK_ECANCELED) {
        return CLI_EXIT_SIGNAL + cli_signals_caught();
    }
    return code == 0 ? CLI_EXIT_OK : cli_fail_adopt(desk->opts, desk->name, code);
}

int cli_acquire(struct cli_options *opts)
{
    struct desk desk;
    int status;

    if (opts->keep != 0) {
        return cli_keep(opts);
    }
    status = open_desk(&desk, opts);
    return close_desk(&desk, status == CLI_EXIT_OK ? acquire(&desk) : status);
}

int cli_extend(struct cli_options *opts)
{
    struct desk desk;
    int status = open_desk(&desk, opts);

    status = status == CLI_EXIT_OK ? adopt(&desk, opts->lease_ms) : status;
    return close_desk(&desk, status == CLI_EXIT_OK ? give_to_text(&desk) : status);
}

int cli_release(struct cli_options *opts)
{
    struct desk desk;
    int status;

    if (cli_mailbox_is_text(opts->operands[1])) {
        return cli_keep_release(opts);
    }
    status = open_desk(&desk, opts);
    status = status == CLI_EXIT_OK ? adopt(&desk, RELEASE_LEASE_MS) : status;
    if (status == CLI_EXIT_OK) {
        const int code = rlock_unlock(desk.lock);

        status = code == 0 ? CLI_EXIT_OK : cli_fail(opts, desk.name, code);
    }
    return close_desk(&desk, status);
}
