/* SPDX-License-Identifier: Apache-2.0 */
/* rlock slots: how many slots a semaphore has. */
#include "slots.h"

#include "client.h"
#include "say.h"
#include "verbs.h"

#include <inttypes.h>
#include <limits.h>
#include <rlock/admin.h>
#include <semaphore.h>
#include <time.h>

#define PATIENCE_S 1 /* for an answer, before the command starts */

static int set_slots(const struct cli_options *opts, struct rlock_client *client, const char *name,
                     int n)
{
    struct rlock_handle *lock = NULL;
    int status = cli_lock_make(opts, client, name, &lock);

    if (status == CLI_EXIT_OK) {
        const int code = rlock_admin_set_units(lock, n);

        status = code == 0 ? CLI_EXIT_OK : cli_fail(opts, name, code);
    }
    (void)rlock_free(lock);
    return status;
}

int cli_slots(struct cli_options *opts)
{
    struct cli_sink sink = {.opts = opts, .lost_fd = -1};
    struct rlock_client *client = NULL;
    const int n = cli_number_of(opts->operands[1], 0, INT_MAX);
    int status;

    if (n == CLI_NO_NUMBER) {
        return cli_usage("'%s' is not a number of slots", opts->operands[1]);
    }
    if (opts->kind == NULL) {
        (void)cli_kind_set(opts, (char[]){"permits"});
    } else if (!cli_has_slots(opts)) {
        return cli_usage("--kind %s has no slots: permits or semaphore", opts->kind->name);
    }
    status = cli_client_open(opts, &sink, &client);
    if (status == CLI_EXIT_OK) {
        status = set_slots(opts, client, opts->operands[0], n);
    }
    (void)rlock_client_close(client);
    return status;
}

/* The server's answer. Static, because it may come after the caller has stopped waiting. */
static struct {
    sem_t is_there;
    struct rlock_info info;
} answer = {.info = RLOCK_INFO_INIT};

static void on_answer(struct rlock_op *op, void *unused)
{
    (void)unused;
    (void)rlock_op_info(op, &answer.info);
    (void)sem_post(&answer.is_there);
}

/* Unlike rlock_inspect(), the async call does not look for the holders' machines. Nothing on the
 * server says how many units a semaphore has: Redisson clients may hold some. */
void cli_slots_compare(const struct cli_options *opts, struct rlock_handle *lock, const char *name)
{
    struct timespec until;

    if (opts->slots == 0 || cli_is_kind(opts, "semaphore") ||
        clock_gettime(CLOCK_REALTIME, &until) != 0 || sem_init(&answer.is_there, 0, 0) != 0 ||
        rlock_inspect_async(lock, on_answer, NULL, NULL) != 0) {
        return;
    }
    until.tv_sec += PATIENCE_S;
    if (sem_timedwait(&answer.is_there, &until) == 0 && answer.info.units != 0 &&
        answer.info.units != opts->slots) {
        cli_say(opts, name,
                "the server has %" PRId64 " slots, so --slots %" PRId64
                " has no effect (rlock slots changes the number)",
                answer.info.units, opts->slots);
    }
}
