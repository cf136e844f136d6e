/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which mutex a function needs, takes or drops, and what each guards. clang checks it, by
 * `scripts/check threads`; other compilers see nothing of it. In C, clang 14 cannot guard a member
 * of a struct by another one. So mutexes of one kind have one name, whichever client's they are: a
 * mutex of the wrong client is not found, but two of one kind are, which no thread may hold.
 */
#ifndef RLOCK_BASE_GUARDED_H
#define RLOCK_BASE_GUARDED_H

#if defined(__clang__)
#define RLOCK__FOR_CLANG(...) __attribute__((__VA_ARGS__))
#else
#define RLOCK__FOR_CLANG(...)
#endif

/* Behind the declaration of a function, or before its definition. */
#define RLOCK__REQUIRES(kind) RLOCK__FOR_CLANG(requires_capability(rlock__##kind##_mutex))
#define RLOCK__EXCLUDES(kind) RLOCK__FOR_CLANG(locks_excluded(rlock__##kind##_mutex))
#define RLOCK__NO_MUTEX RLOCK__EXCLUDES(send) RLOCK__EXCLUDES(core) RLOCK__EXCLUDES(groups)
#define RLOCK__LOCKS(kind) RLOCK__FOR_CLANG(acquire_capability(rlock__##kind##_mutex))
#define RLOCK__TRY_LOCKS(code, kind)                                                               \
    RLOCK__FOR_CLANG(                                                                              \
        try_acquire_capability(code, rlock__##kind##_mutex)) /* where it returns code */
#define RLOCK__UNLOCKS(kind) RLOCK__FOR_CLANG(release_capability(rlock__##kind##_mutex))
/* Before a definition, which is not checked: no other thread can reach what it touches, it is no
 * more than a call of pthread.h, or it says why. */
#define RLOCK__ALONE RLOCK__FOR_CLANG(no_thread_safety_analysis)
/* Before a member or a variable; an unnamed struct guards its members. */
#define RLOCK__GUARDED_BY(kind) RLOCK__FOR_CLANG(guarded_by(rlock__##kind##_mutex))

/* Of a client, in the order in which they are taken: its connection for commands; its core, and all
 * that is the core's; the groups that live there. Then: what a child of fork has to close, and that
 * while it changes. These are names alone: nothing defines them. */
#define RLOCK__AFTER(kind) RLOCK__FOR_CLANG(acquired_after(rlock__##kind##_mutex))
extern struct RLOCK__FOR_CLANG(capability("mutex")) rlock__mutex_kind rlock__send_mutex,
    rlock__core_mutex RLOCK__AFTER(send), rlock__groups_mutex RLOCK__AFTER(core),
    rlock__registry_mutex, rlock__sock_mutex RLOCK__AFTER(registry);

/* Defines rlock__core_mutex_lock() and so on: the checker does not know those of pthread.h. */
#define RLOCK__MUTEX(kind)                                                                         \
    RLOCK__CALL(kind, RLOCK__LOCKS, lock)                                                          \
    RLOCK__CALL(kind, RLOCK__UNLOCKS, unlock) struct rlock__mutex_kind
#define RLOCK__CALL(kind, effect, name)                                                            \
    RLOCK__ALONE effect(kind) static inline int rlock__##kind##_mutex_##name(pthread_mutex_t *it)  \
    {                                                                                              \
        return pthread_mutex_##name(it);                                                           \
    }

#endif
