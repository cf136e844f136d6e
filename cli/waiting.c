/* SPDX-License-Identifier: Apache-2.0 */
#include "waiting.h"

#include "duration.h"
#include "find.h"
#include "say.h"
#include "show.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MS 1000
#define AGAIN_MS 5000
#define LAST_MS 250 /* before the end of a wait */
#define REPEAT_MS (300 * INT64_C(1000))
#define UUID_LEN 36

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
    (void)pthread_cond_broadcast(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->mutex);
}

/* With the mutex held: sleeps until something changes. Returns false when it is as late as that. */
static bool pause_until(struct cli_waiting *waiting, int64_t until_ms)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                                   .tv_nsec = (long)(until_ms % 1000) * 1000000};

    return pthread_cond_timedwait(&waiting->changed, &waiting->mutex, &until) == 0;
}

/* Without the mutex. Writes the holder, or why nobody can tell; "" when the lock is free, or is
 * granted to this command and does not count yet. */
static void ask(const struct cli_waiting *waiting, char *out, bool *ret_ours)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    const int code = cli_holder_ask(waiting->lock, waiting->client, waiting->name, &info);
    char *holder = code == 0 && info.locked ? cli_holder_text(&info) : NULL;

    out[0] = '\0';
    *ret_ours = code == 0 && info.locked &&
                strncmp(info.holder, rlock_client_uuid(waiting->client), UUID_LEN) == 0;
    if (code != 0) {
        (void)snprintf(out, CLI_WAITING_TEXT, "%s", cli_reason(waiting->opts, waiting->name, code));
    } else if (holder != NULL && !*ret_ours) {
        (void)snprintf(out, CLI_WAITING_TEXT, "held by %s (server %s)", holder,
                       waiting->opts->server);
    }
    free(holder);
}

/* With the mutex held, which is given up for the question. The lock of which this command has a
 * grant that does not count is not had for the reason that the library reported. */
static void ask_holder(struct cli_waiting *waiting, char *text)
{
    bool is_ours;

    waiting->holder[0] = '\0'; /* what is not answered in time is not known */
    waiting->asking = true;
    (void)pthread_mutex_unlock(&waiting->mutex);
    ask(waiting, text, &is_ours);
    (void)pthread_mutex_lock(&waiting->mutex);
    waiting->asking = false;
    if (is_ours) {
        (void)snprintf(text, CLI_WAITING_TEXT, "%s", waiting->trouble);
    } else if (strncmp(text, "held by ", 8) == 0) {
        (void)snprintf(waiting->holder, sizeof(waiting->holder), "%s", text);
    }
    waiting->answered = true;
    (void)pthread_cond_broadcast(&waiting->changed);
}

/* With the mutex held: says what is new, or was not said for long. */
static void say(struct cli_waiting *waiting, const char *text)
{
    const int64_t now = cli_now_ms(CLOCK_MONOTONIC);

    if (waiting->over || text[0] == '\0' ||
        (strcmp(text, waiting->said) == 0 && now < waiting->said_ms + REPEAT_MS)) {
        return;
    }
    (void)snprintf(waiting->said, sizeof(waiting->said), "%s", text);
    waiting->said_ms = now;
    cli_say(waiting->opts, waiting->name, "waiting: %s", text);
}

/* With the mutex held. A server that is in trouble need not be asked. Shortly before the end only
 * the failure speaks. */
static void look(struct cli_waiting *waiting)
{
    char text[CLI_WAITING_TEXT] = "";
    const bool is_last = cli_now_ms(CLOCK_MONOTONIC) >= waiting->last_ms;

    if (waiting->news[0] != '\0' && !is_last) {
        (void)snprintf(text, sizeof(text), "%s", waiting->news);
        (void)snprintf(waiting->trouble, sizeof(waiting->trouble), "%s", waiting->news);
        waiting->news[0] = '\0';
    } else if (waiting->client != NULL) {
        ask_holder(waiting, text);
    }
    if (is_last) {
        waiting->last_ms = INT64_MAX;
    } else {
        say(waiting, text);
    }
}

static void *watch(void *arg)
{
    struct cli_waiting *waiting = arg;
    const int64_t first_ms = waiting->begun_ms + FIRST_MS;
    int64_t next_ms = first_ms;

    (void)pthread_mutex_lock(&waiting->mutex);
    while (!waiting->over) {
        const bool has_news = waiting->news[0] != '\0' && cli_now_ms(CLOCK_MONOTONIC) >= first_ms;
        const int64_t due_ms = next_ms < waiting->last_ms ? next_ms : waiting->last_ms;

        if ((has_news || !pause_until(waiting, due_ms)) && !waiting->over) {
            look(waiting);
            next_ms = cli_now_ms(CLOCK_MONOTONIC) + AGAIN_MS;
        }
    }
    (void)pthread_mutex_unlock(&waiting->mutex);
    return NULL;
}

/* A wait asks once more shortly before its end: what it says then is no older than that. */
static int64_t last_of(const struct cli_waiting *waiting)
{
    const int64_t wait_ms = waiting->opts->wait_ms;

    if (wait_ms < 0) {
        return INT64_MAX;
    }
    return waiting->begun_ms + wait_ms - (wait_ms < 2 * LAST_MS ? wait_ms / 2 : LAST_MS);
}

void cli_waiting_begin(struct cli_waiting *waiting, struct rlock_client *client,
                       struct rlock_handle *lock, const char *name)
{
    sigset_t all, before;

    waiting->client = client;
    waiting->lock = lock;
    waiting->name = name;
    waiting->over = waiting->answered = false;
    waiting->begun_ms = cli_now_ms(CLOCK_MONOTONIC);
    waiting->last_ms = client != NULL ? last_of(waiting) : INT64_MAX;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are for the thread that waits */
    waiting->begun = pthread_create(&waiting->thread, NULL, watch, waiting) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void cli_waiting_hear(struct cli_waiting *waiting, int64_t most_ms)
{
    const int64_t until_ms = cli_now_ms(CLOCK_MONOTONIC) + most_ms;
    bool in_time = waiting->begun && waiting->client != NULL;

    (void)pthread_mutex_lock(&waiting->mutex);
    while (in_time && !waiting->answered) {
        in_time = pause_until(waiting, until_ms);
    }
    (void)pthread_mutex_unlock(&waiting->mutex);
}

void cli_waiting_end(struct cli_waiting *waiting)
{
    (void)pthread_mutex_lock(&waiting->mutex);
    waiting->over = true;
    (void)pthread_cond_broadcast(&waiting->changed);
    (void)pthread_mutex_unlock(&waiting->mutex);
}

void cli_waiting_holder(struct cli_waiting *waiting, char *out, size_t size)
{
    (void)pthread_mutex_lock(&waiting->mutex);
    (void)snprintf(out, size, "%s", waiting->holder);
    (void)pthread_mutex_unlock(&waiting->mutex);
}

bool cli_waiting_leave(struct cli_waiting *waiting)
{
    bool is_asking;

    cli_waiting_end(waiting);
    (void)pthread_mutex_lock(&waiting->mutex);
    is_asking = waiting->asking;
    (void)pthread_mutex_unlock(&waiting->mutex);
    if (waiting->begun && !is_asking) {
        (void)pthread_join(waiting->thread, NULL);
        waiting->begun = false;
    }
    return !is_asking;
}
