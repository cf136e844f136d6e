/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/bell.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "drive/client.h"

void rlock__bells_init(struct rlock__bells *bells)
{
    bells->n = 0;
    for (size_t i = 0; i < RLOCK__BELLS; i++) {
        bells->fds[i] = -1;
    }
}

void rlock__bells_close(struct rlock__bells *bells)
{
    for (size_t i = 0; i < RLOCK__BELLS; i++) {
        if (bells->fds[i] >= 0) {
            (void)close(bells->fds[i]);
        }
    }
    rlock__bells_init(bells);
}

int rlock__bell_take(struct rlock_client *home)
{
    struct rlock__bells *bells = &home->bells;
    int fd = -1;

    rlock__home_mutex_lock(&home->home_mutex);
    if (bells->n > 0) {
        fd = bells->fds[--bells->n];
        bells->fds[bells->n] = -1;
    }
    rlock__home_mutex_unlock(&home->home_mutex);
    return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void rlock__bell_give(struct rlock_client *home, int fd)
{
    struct rlock__bells *bells = &home->bells;
    bool keeps;

    rlock__home_mutex_lock(&home->home_mutex);
    keeps = bells->n < RLOCK__BELLS;
    if (keeps) {
        bells->fds[bells->n++] = fd;
    }
    rlock__home_mutex_unlock(&home->home_mutex);
    if (!keeps) {
        (void)close(fd);
    }
}
