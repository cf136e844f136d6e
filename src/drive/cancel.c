/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "drive/client.h"

int rlock_cancel_new(struct rlock_cancel **ret_cancel)
{
    RLOCK__WHOLE;
    static atomic_uintptr_t last_id;
    struct rlock_cancel *cancel;
    int fd;

    rlock__detail_clear();
    if (ret_cancel == NULL) {
        return rlock__fail(RLOCK_EINVAL, "ret_cancel is NULL");
    }
    cancel = calloc(1, sizeof(*cancel));
    if (cancel == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        free(cancel);
        return rlock__fail(RLOCK_ERESOURCE, "eventfd: %s", strerror(errno));
    }
    atomic_init(&cancel->fd, fd);
    atomic_init(&cancel->process, getpid());
    cancel->id = atomic_fetch_add(&last_id, 1) + 1;
    *ret_cancel = cancel;
    return 0;
}

struct rlock_cancel *rlock_cancel_free(struct rlock_cancel *cancel)
{
    RLOCK__WHOLE;
    if (cancel != NULL) {
        (void)close(atomic_load(&cancel->fd)); /* leaves every epoll */
        free(cancel);
    }
    return NULL;
}

void rlock_cancel_fire(struct rlock_cancel *cancel)
{
    RLOCK__WHOLE;
    const uint64_t one = 1;
    int saved = errno;

    atomic_store(&cancel->fired, true);
    if (atomic_load(&cancel->process) == getpid()) { /* else nobody waits here yet */
        (void)!write(atomic_load(&cancel->fd), &one, sizeof(one));
    }
    errno = saved;
}

const void *rlock__cancel_id(const struct rlock_cancel *cancel)
{
    return cancel != NULL ? (const void *)cancel->id : NULL;
}

/* In a child of fork: a descriptor of its own, so that neither cancels the other's calls. */
static bool adopt(struct rlock_cancel *cancel)
{
    int shared = atomic_load(&cancel->fd), own;

    if (atomic_load(&cancel->process) == getpid()) {
        return true;
    }
    own = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (own < 0) {
        return false;
    }
    /* another thread of the child may have been faster; the shared one is closed once */
    (void)close(atomic_compare_exchange_strong(&cancel->fd, &shared, own) ? shared : own);
    atomic_store(&cancel->process, getpid());
    return true;
}

int rlock__cancel_watch(struct rlock_client *client, struct rlock_cancel *cancel)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = cancel->id};

    if (!adopt(cancel) || (epoll_ctl(client->threads.cancel_fd, EPOLL_CTL_ADD,
                                     atomic_load(&cancel->fd), &event) != 0 &&
                           errno != EEXIST)) {
        return rlock__fail(RLOCK_ERESOURCE, "cannot watch the cancel signal: %s", strerror(errno));
    }
    return 0;
}
