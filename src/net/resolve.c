/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "net/sock.h"

struct rlock__resolver {
    atomic_uint refs; /* the one who asked, and the thread */
    atomic_bool done; /* what follows is the answer */
    int code;
    struct addrinfo *addrs;
    char why[96];
    int fd; /* an eventfd */
    uint16_t port;
    char host[];
};

/* The system's answer as a code of ours; 1 no such literal. */
static int look_up(const char *host, uint16_t port, int flags, struct addrinfo **ret_addrs)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICSERV | flags,
    };
    char service[8];
    int r, error;

    (void)snprintf(service, sizeof(service), "%u", (unsigned)port);
    r = getaddrinfo(host, service, &hints, ret_addrs);
    error = errno;
    if (r == 0) {
        return 0;
    }
    if (r == EAI_NONAME && (flags & AI_NUMERICHOST) != 0) {
        return 1;
    }
    if (r == EAI_SYSTEM) {
        return rlock__fail(rlock__sock_code(error), "%s", strerror(error));
    }
    return rlock__fail(r == EAI_MEMORY ? RLOCK_ENOMEM : RLOCK_ECONN, "%s", gai_strerror(r));
}

int rlock__resolve_literal(const char *host, uint16_t port, struct addrinfo **ret_addrs)
{
    /* localhost is always here (RFC 6761), also where no file says so. */
    return strcasecmp(host, "localhost") == 0 ? look_up(NULL, port, 0, ret_addrs)
                                              : look_up(host, port, AI_NUMERICHOST, ret_addrs);
}

struct rlock__resolver *rlock__resolver_free(struct rlock__resolver *resolver)
{
    if (resolver != NULL && atomic_fetch_sub(&resolver->refs, 1) == 1) {
        if (resolver->addrs != NULL) {
            freeaddrinfo(resolver->addrs);
        }
        (void)rlock__sock_close(resolver->fd);
        free(resolver);
    }
    return NULL;
}

static void *run(void *payload)
{
    struct rlock__resolver *resolver = payload;

    resolver->code = look_up(resolver->host, resolver->port, 0, &resolver->addrs);
    (void)snprintf(resolver->why, sizeof(resolver->why), "%s", rlock_detail());
    atomic_store(&resolver->done, true);
    (void)eventfd_write(resolver->fd, 1);
    (void)rlock__resolver_free(resolver);
    return NULL;
}

/* With all signals blocked: they are the program's. */
static int start(struct rlock__resolver *resolver)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attr, run, resolver);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

int rlock__resolver_new(const char *host, uint16_t port, struct rlock__resolver **ret_resolver)
{
    size_t len = strlen(host);
    struct rlock__resolver *resolver = calloc(1, sizeof(*resolver) + len + 1);

    if (resolver == NULL) {
        return RLOCK_ENOMEM;
    }
    atomic_init(&resolver->refs, 2);
    atomic_init(&resolver->done, false);
    resolver->port = port;
    memcpy(resolver->host, host, len);
    resolver->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolver->fd < 0) {
        free(resolver);
        return RLOCK_ERESOURCE;
    }
    if (start(resolver) != 0) {
        atomic_store(&resolver->refs, 1);
        (void)rlock__resolver_free(resolver);
        return RLOCK_ERESOURCE;
    }
    *ret_resolver = resolver;
    return 0;
}

int rlock__resolver_fd(const struct rlock__resolver *resolver)
{
    return resolver->fd;
}

bool rlock__resolver_is_done(const struct rlock__resolver *resolver)
{
    return atomic_load(&resolver->done);
}

int rlock__resolver_take(struct rlock__resolver *resolver, struct addrinfo **ret_addrs)
{
    *ret_addrs = resolver->addrs;
    resolver->addrs = NULL;
    return resolver->code == 0 ? 0 : rlock__fail(resolver->code, "%s", resolver->why);
}

struct rlock__resolver *rlock__resolver_abandon(struct rlock__resolver *resolver)
{
    if (resolver != NULL) {
        (void)rlock__sock_close(resolver->fd);
    }
    return NULL;
}
