/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the user's callbacks, one after the other, with no mutex held. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

#include "drive/alarm.h"

static _Thread_local pid_t dispatches_in; /* the process that it runs callbacks in; 0 none */

bool rlock__is_dispatcher(void)
{
    return dispatches_in != 0 && dispatches_in == getpid();
}

static void tell_lost(struct rlock_client *client, struct rlock__loss *loss)
{
    struct rlock__bytes name = rlock__loss_name(loss);
    char holder[RLOCK__OWNER_SIZE] = "";
    struct rlock_loss told = {.size = sizeof(told),
                              .name = name.at,
                              .name_len = name.len,
                              .kind = loss->kind != NULL ? loss->kind : loss->spec->ops->kind,
                              .server = loss->server != NULL ? loss->server : "",
                              .holder = holder,
                              .owner = loss->given ? loss->owner_id : 0,
                              .reason = (int)loss->reason,
                              .levels = loss->own};

    if (loss->number != 0) {
        (void)snprintf(holder, sizeof(holder), "%s:%llu", client->core.opts.uuid,
                       (unsigned long long)loss->number);
    }

    if (rlock__groups_lost(loss) && client->opts.on_lost != NULL) {
        client->opts.on_lost(&told, client->opts.payload);
    }
    if (told.owner != 0) {
        rlock__enter(client);
        rlock__alarms_lost(client, told.owner, told.reason);
        rlock__leave(client);
    }
    (void)rlock__loss_free(loss);
}

static void tell_line(const struct rlock_client *client, const struct rlock__note *note)
{
    const struct rlock_log_line line = {.size = sizeof(line),
                                        .text = note->text,
                                        .subject = note->subject,
                                        .server = note->server,
                                        .level = note->level,
                                        .code = note->code};

    if (client->opts.on_log_line != NULL) {
        client->opts.on_log_line(&line, client->opts.payload);
    }
}

static void tell(struct rlock_client *client, struct rlock__op *finished, struct rlock__loss *lost,
                 struct rlock__note *notes)
{
    struct rlock__op *op, *op_after;
    struct rlock__loss *loss, *loss_after;
    struct rlock__note *note, *note_after;

    DL_FOREACH_SAFE(finished, op, op_after) {
        op->finish(op);
    }
    DL_FOREACH_SAFE(notes, note, note_after) {
        tell_line(client, note);
        free(note);
    }
    DL_FOREACH_SAFE(lost, loss, loss_after) {
        tell_lost(client, loss);
    }
}

bool rlock__is_to_dispatch(const struct rlock_client *client)
{
    return client->finished != NULL || client->core.lost != NULL || client->core.notes != NULL;
}

bool rlock__dispatch(struct rlock_client *client)
{
    struct rlock__core *core = &client->core;
    struct rlock__op *finished;
    struct rlock__loss *lost;
    struct rlock__note *notes;

    rlock__core_mutex_lock(&client->mutex);
    finished = client->finished;
    lost = core->lost;
    notes = core->notes;
    client->finished = NULL;
    core->lost = NULL;
    core->notes = NULL;
    rlock__core_mutex_unlock(&client->mutex);
    if (finished == NULL && lost == NULL && notes == NULL) {
        return false;
    }
    dispatches_in = getpid();
    tell(client, finished, lost, notes);
    dispatches_in = 0;
    return true;
}

/* Sleeps until there is something to tell. Returns false when there is not, and never will be. */
static bool await(struct rlock_client *client)
{
    bool stop;

    rlock__core_mutex_lock(&client->mutex);
    while (!rlock__is_to_dispatch(client) && !client->stop_dispatcher) {
        (void)pthread_cond_wait(&client->news, &client->mutex);
    }
    stop = !rlock__is_to_dispatch(client);
    rlock__core_mutex_unlock(&client->mutex);
    return !stop;
}

void *rlock__dispatcher_main(void *arg)
{
    struct rlock_client *client = arg;

    while (rlock__dispatch(client) || await(client)) {
    }
    return NULL;
}
