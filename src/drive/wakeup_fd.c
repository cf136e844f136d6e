/* SPDX-License-Identifier: Apache-2.0 */
#include "drive/wakeup_fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "drive/client.h"

void rlock__wakeup_fds_init(struct rlock__wakeup_fds *wakeup_fds)
{
    wakeup_fds->n = 0;
    for (size_t i = 0; i < RLOCK__WAKEUP_FDS; i++) {
        wakeup_fds->fds[i] = -1;
    }
}

void rlock__wakeup_fds_close(struct rlock__wakeup_fds *wakeup_fds)
{
    for (size_t i = 0; i < RLOCK__WAKEUP_FDS; i++) {
        if (wakeup_fds->fds[i] >= 0) {
            (void)close(wakeup_fds->fds[i]);
        }
    }
    rlock__wakeup_fds_init(wakeup_fds);
}

int rlock__wakeup_fd_take(struct rlock_client *home)
{
    struct rlock__wakeup_fds *wakeup_fds = &home->wakeup_fds;
    int fd = -1;

    rlock__groups_mutex_lock(&home->groups_mutex);
    if (wakeup_fds->n > 0) {
        fd = wakeup_fds->fds[--wakeup_fds->n];
        wakeup_fds->fds[wakeup_fds->n] = -1;
    }
    rlock__groups_mutex_unlock(&home->groups_mutex);
    return fd >= 0 ? fd : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void rlock__wakeup_fd_give(struct rlock_client *home, int fd)
{
    struct rlock__wakeup_fds *wakeup_fds = &home->wakeup_fds;
    bool keeps;

    rlock__groups_mutex_lock(&home->groups_mutex);
    keeps = wakeup_fds->n < RLOCK__WAKEUP_FDS;
    if (keeps) {
        wakeup_fds->fds[wakeup_fds->n++] = fd;
    }
    rlock__groups_mutex_unlock(&home->groups_mutex);
    if (!keeps) {
        (void)close(fd);
    }
}
