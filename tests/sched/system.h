/* SPDX-License-Identifier: Apache-2.0 */
/* What the interposed calls share: the system's own, and the system's chance. */
#ifndef RLOCK_TEST_SCHED_SYSTEM_H
#define RLOCK_TEST_SCHED_SYSTEM_H

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <time.h>

#include "drive/send_lock.h"
#include "sched.h"

/* Whether something happens that the system may do at any time: a call that is interrupted, a
 * waking for nothing. */
bool sched_system_chance(int64_t per_mille);
void sched_system_begin(uint64_t seed);
/* A time of CLOCK_MONOTONIC, or of CLOCK_BOOTTIME, as sched_now() has it. */
int64_t sched_monotonic_us(const struct timespec *ts);
int64_t sched_boottime_us(const struct timespec *ts);

/* The linker's names for what is interposed, and for what that hides. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);
int __real_pthread_join(pthread_t thread, void **ret_value);
void __real_rlock__send_lock_take(struct rlock__send_lock *lock);
bool __real_rlock__send_lock_try(struct rlock__send_lock *lock);
bool __real_rlock__send_lock_wish(struct rlock__send_lock *lock);
bool __real_rlock__send_lock_give(struct rlock__send_lock *lock);
ssize_t __real_write(int fd, const void *bytes, size_t len);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t thread, void **ret_value);
long __wrap_syscall(long number, ...);
void __wrap_rlock__send_lock_take(struct rlock__send_lock *lock);
bool __wrap_rlock__send_lock_try(struct rlock__send_lock *lock);
bool __wrap_rlock__send_lock_wish(struct rlock__send_lock *lock);
bool __wrap_rlock__send_lock_give(struct rlock__send_lock *lock);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_ts);
pid_t __wrap_getpid(void);
int __wrap_gethostname(char *name, size_t len);
ssize_t __wrap_getrandom(void *bytes, size_t len, unsigned flags);

int __wrap_eventfd(unsigned count, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old);
int __wrap_close(int fd);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t len);
ssize_t __wrap___read_chk(int fd, void *bytes, size_t len, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);

int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t len);
int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *len);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t len, int flags);
ssize_t __wrap___recv_chk(int fd, void *bytes, size_t len, size_t size, int flags);

#endif
