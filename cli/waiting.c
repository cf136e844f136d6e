/* SPDX-License-Identifier: Apache-2.0 */
#include "waiting.h"

#include "find.h"
#include "say.h"
#include "show.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_S 1
#define AGAIN_S 5

void cli_waiting_init(struct cli_waiting *waiting, const struct cli_options *opts)
{
    pthread_condattr_t attr;

    *waiting = (struct cli_waiting){.opts = opts};
    (void)pthread_mutex_init(&waiting->mutex, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&waiting->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void cli_waiting_news(struct cli_waiting *waiting, const char *text)
{
    (void)pthread_mutex_lock(&waiting->mutex);
    (void)snprintf(waiting->news, sizeof(waiting->news), "%s", text);
    (void)pthread_cond_signal(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->mutex);
}

/* With the mutex held: waits for the end, or for so long; for news too, if they are wanted. */
static void pause_for(struct cli_waiting *waiting, int seconds, bool for_news)
{
    struct timespec until;
    int error = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    while (error == 0 && !waiting->over && !(for_news && waiting->news[0] != '\0')) {
        error = pthread_cond_timedwait(&waiting->changed, &waiting->mutex, &until);
    }
}

/* Why the lock cannot be had now; "" when nothing is known to be in the way. */
static void ask(const struct cli_waiting *waiting, char *out, size_t size)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    const int code = cli_holder_ask(waiting->lock, waiting->client, waiting->name, &info);
    char *holder = code == 0 && info.locked ? cli_holder_text(&info) : NULL;

    out[0] = '\0';
    if (code != 0) {
        (void)snprintf(out, size, "%s", cli_reason(waiting->name, code));
    } else if (holder != NULL) {
        (void)snprintf(out, size, "held by %s (server %s)", holder, waiting->opts->server);
    }
    free(holder);
}

/* With the mutex held, which is given up for the question. */
static void look(struct cli_waiting *waiting, char *text, size_t size)
{
    if (waiting->news[0] != '\0') { /* a server that is away need not be asked */
        (void)snprintf(text, size, "%s", waiting->news);
        waiting->news[0] = '\0';
    } else if (waiting->client != NULL) {
        (void)pthread_mutex_unlock(&waiting->mutex);
        ask(waiting, text, size);
        (void)pthread_mutex_lock(&waiting->mutex);
    }
}

static void *watch(void *arg)
{
    struct cli_waiting *waiting = arg;

    (void)pthread_mutex_lock(&waiting->mutex);
    pause_for(waiting, FIRST_S, false);
    while (!waiting->over) {
        char text[sizeof(waiting->said)] = "";

        look(waiting, text, sizeof(text));
        if (!waiting->over && text[0] != '\0' && strcmp(text, waiting->said) != 0) {
            (void)snprintf(waiting->said, sizeof(waiting->said), "%s", text);
            cli_say(waiting->opts, waiting->name, "waiting: %s", text);
        }
        pause_for(waiting, AGAIN_S, true);
    }
    (void)pthread_mutex_unlock(&waiting->mutex);
    return NULL;
}

void cli_waiting_begin(struct cli_waiting *waiting, struct rlock_client *client,
                       struct rlock_handle *lock, const char *name)
{
    sigset_t all, before;

    waiting->client = client;
    waiting->lock = lock;
    waiting->name = name;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the thread that waits */
    waiting->begun = pthread_create(&waiting->thread, NULL, watch, waiting) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_waiting_end(struct cli_waiting *waiting)
{
    if (!waiting->begun) {
        return;
    }
    (void)pthread_mutex_lock(&waiting->mutex);
    waiting->over = true;
    (void)pthread_cond_signal(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->mutex);
    (void)pthread_join(waiting->thread, NULL);
    waiting->begun = false;
}
