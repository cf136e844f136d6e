/* SPDX-License-Identifier: Apache-2.0 */
#include "support/diary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/run.h"

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    struct diary *diary = payload;

    (void)pthread_mutex_lock(&diary->mutex);
    if (diary->n_told < DIARY_LOSSES) {
        struct told *told = &diary->told[diary->n_told];

        *told = (struct told){.loss = *loss, .at_us = test_now_us()};
        (void)snprintf(told->name, sizeof(told->name), "%s", loss->name);
        (void)snprintf(told->server, sizeof(told->server), "%s", loss->server);
        (void)snprintf(told->holder, sizeof(told->holder), "%s", loss->holder);
        told->loss.name = told->name;
        told->loss.server = told->server;
        told->loss.holder = told->holder;
    }
    diary->n_told++;
    (void)pthread_mutex_unlock(&diary->mutex);
    if (loss->reason == RLOCK_LOST_EXPIRED) {
        (void)test_expired(diary->lease_us);
    }
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    struct diary *diary = payload;
    size_t len = strlen(line->text);

    (void)pthread_mutex_lock(&diary->mutex);
    if (diary->shows) {
        printf("log: %s\n", line->text);
    }
    diary->log = realloc(diary->log, diary->log_len + len + 2);
    TEST_CHECK(diary->log != NULL);
    memcpy(diary->log + diary->log_len, line->text, len);
    memcpy(diary->log + diary->log_len + len, "\n", 2);
    diary->log_len += len + 1;
    (void)pthread_mutex_unlock(&diary->mutex);
}

void diary_init(struct diary *diary)
{
    memset(diary, 0, sizeof(*diary));
    (void)pthread_mutex_init(&diary->mutex, NULL);
    diary->shows = getenv("RLOCK_TEST_LOG") != NULL;
}

void diary_fini(struct diary *diary)
{
    (void)pthread_mutex_destroy(&diary->mutex);
    free(diary->log);
}

void diary_listen(struct diary *diary, struct rlock_client_opts *opts)
{
    (void)pthread_mutex_lock(&diary->mutex);
    diary->lease_us = (opts->renewed_lease_ms != 0 ? opts->renewed_lease_ms : 30000) * 1000;
    (void)pthread_mutex_unlock(&diary->mutex);
    opts->on_lost = on_lost;
    opts->on_log_line = on_log;
    opts->payload = diary;
}

size_t diary_losses(struct diary *diary)
{
    size_t n;

    (void)pthread_mutex_lock(&diary->mutex);
    n = diary->n_told;
    (void)pthread_mutex_unlock(&diary->mutex);
    return n;
}

size_t diary_logged(struct diary *diary, const char *text)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&diary->mutex);
    for (const char *at = diary->log; at != NULL && (at = strstr(at, text)) != NULL; n++) {
        at = strchr(at, '\n');
    }
    (void)pthread_mutex_unlock(&diary->mutex);
    return n;
}

void diary_forget_log(struct diary *diary)
{
    (void)pthread_mutex_lock(&diary->mutex);
    free(diary->log);
    diary->log = NULL;
    diary->log_len = 0;
    (void)pthread_mutex_unlock(&diary->mutex);
}
