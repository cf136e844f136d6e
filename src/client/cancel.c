/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "client/client.h"

struct rlock_cancel {
    uintptr_t id; /* never reused: an event that comes late names nobody else's signal */
    int fd;
    atomic_bool fired;
};

int rlock_cancel_new(struct rlock_cancel **ret_cancel)
{
    static atomic_uintptr_t last_id;
    struct rlock_cancel *cancel;

    rlock__detail_clear();
    if (ret_cancel == NULL) {
        return rlock__fail(RLOCK_EINVAL, "ret_cancel is NULL");
    }
    cancel = calloc(1, sizeof(*cancel));
    if (cancel == NULL) {
        return rlock__fail(RLOCK_ENOMEM, "no memory");
    }
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd < 0) {
        free(cancel);
        return rlock__fail(RLOCK_ERESOURCE, "eventfd: %s", strerror(errno));
    }
    cancel->id = atomic_fetch_add(&last_id, 1) + 1;
    *ret_cancel = cancel;
    return 0;
}

struct rlock_cancel *rlock_cancel_free(struct rlock_cancel *cancel)
{
    if (cancel != NULL) {
        (void)close(cancel->fd); /* leaves every epoll */
        free(cancel);
    }
    return NULL;
}

void rlock_cancel_fire(struct rlock_cancel *cancel)
{
    const uint64_t one = 1;
    int saved = errno;

    atomic_store(&cancel->fired, true);
    (void)!write(cancel->fd, &one, sizeof(one));
    errno = saved;
}

const void *rlock__cancel_id(const struct rlock_cancel *cancel)
{
    return cancel != NULL ? (const void *)cancel->id : NULL;
}

int rlock__cancel_fd(const struct rlock_cancel *cancel)
{
    return cancel->fd;
}

bool rlock__cancel_is_fired(const struct rlock_cancel *cancel)
{
    return atomic_load(&cancel->fired);
}

int rlock__cancel_watch(struct rlock_client *client, const struct rlock_cancel *cancel)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = cancel->id};

    if (epoll_ctl(client->cancel_fd, EPOLL_CTL_ADD, cancel->fd, &event) != 0 && errno != EEXIST) {
        return rlock__fail(RLOCK_ERESOURCE, "cannot watch the cancel signal: %s", strerror(errno));
    }
    return 0;
}
