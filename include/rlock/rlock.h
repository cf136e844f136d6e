/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock: distributed locks on Redis and Valkey, byte-compatible with Redisson (a Java client).
 *
 * A client is this process's handle on one deployment.
 * A lock is a handle for one name and one kind of lock: reentrant, fair, read/write, …
 * A hold is what an owner has between a successful lock call and its unlock. Each hold has a lease:
 *   the time for which the server keeps it, unless the client renews it. This process may rely on
 *   the hold until its validity ends, which is always earlier.
 * An owner is the calling thread, or an id that the caller passes. If tasks move between threads
 *   (Go without LockOSThread, coroutines, pools), use ids and the functions that end in _as.
 *
 * Calling sequence:
 *
 *     rlock_client_open(RLOCK_CLIENT_OPTS(.url = "redis://localhost"), &client);
 *     rlock_reentrant_new(client, "orders", NULL, &lock);
 *     if (rlock_lock(lock) == 0) {
 *         ... while (rlock_is_valid(lock)) ...
 *         rlock_unlock(lock);
 *     }
 *     rlock_free(lock);
 *     rlock_client_close(client);
 *
 * Functions return 0 or a negative enum rlock_code, unless their comments say otherwise. They write
 * outputs only on success. Times are in milliseconds. In an option, zero always selects the
 * documented default. Structs that begin with their size may grow in later versions (docs/abi.md).
 * In a member named flags, each bit that is set changes the default. A bit has a meaning in one
 * struct only; in another one it is RLOCK_EINVAL. Codes, reasons and levels are of type int in
 * structs and callbacks, because later versions may add values.
 * C sets the size with macros; C++ and other languages call rlock_init() instead.
 *
 * C++ has <rlock/rlock.hpp>. Some FFI parsers accept only declarations. For them, preprocess this
 * file with RLOCK_PLAIN defined (cc -E -P -DRLOCK_PLAIN). The output has no attributes, no inline
 * functions and nothing from other headers. The parser must know bool, size_t and the types of
 * stdint.h.
 *
 * Threads: any thread may call any function at any time, unless its comment says otherwise. If a
 * thread is stopped inside a call, it delays the calls of other threads by at most 50 ms. There is
 * one exception: a call holds a mutex of the library for some microseconds at a time. If its thread
 * is stopped just then, the whole client stops until that thread continues. No call is a
 * cancellation point.
 * Fork: in a child of fork(2), every call on an inherited client or lock returns RLOCK_EFORKED. No
 * hold is valid there, and the library sends nothing. The parent is not affected. Open a new
 * client in the child.
 */
#ifndef RLOCK_RLOCK_H
#define RLOCK_RLOCK_H

#ifndef RLOCK_PLAIN
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#endif

#include <rlock/version.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef RLOCK_PLAIN
/* Empty: plain declarations have no attributes. */
#define RLOCK_API
/* Empty. */
#define RLOCK_CHECK_RESULT
/* Empty. */
#define RLOCK_FILLS(n)
#endif

#ifndef RLOCK_API
/* Marks a function as part of the library's interface. Define it before you include this header to
 * override it. */
#define RLOCK_API __attribute__((visibility("default")))
#endif

#ifndef RLOCK_CHECK_RESULT
/* Marks a function whose result the caller must check, because only the result says whether the
 * call took the lock. The compiler warns if a program ignores it; gcc warns even after a cast to
 * void. Define it before you include this header to override it. */
#define RLOCK_CHECK_RESULT __attribute__((warn_unused_result))
#endif

#if !defined(RLOCK_FILLS) && defined(__has_attribute)
#if __has_attribute(access)
/* Marks the n-th argument as a struct. The caller sets its size before the call; gcc warns if
 * nothing has set it. Define it before you include this header to override it. */
#define RLOCK_FILLS(n) __attribute__((access(read_write, n)))
#endif
#endif
#ifndef RLOCK_FILLS
/* Empty: this compiler does not know the attribute. */
#define RLOCK_FILLS(n)
#endif

/*
 * How long a call waits is an argument, wait_ms. No option changes what it means:
 *   - 0: the call tries once;
 *   - RLOCK_FOREVER, or a time above RLOCK_TIME_MAX_MS: the wait has no end;
 *   - a time below RLOCK_FOREVER: the call returns RLOCK_EINVAL.
 */
#define RLOCK_FOREVER (-1)

/* The longest time: a hundred years. The library shortens longer times to it, except a wait. */
#define RLOCK_TIME_MAX_MS INT64_C(3162240000000)

/* The size of a text that stands for a hold, with the NUL byte: see rlock_detach(). */
#define RLOCK_TEXT_SIZE 256

#if defined(__cplusplus) || defined(RLOCK_PLAIN)
/* The size of a parameter that gets a text. */
#define RLOCK_TEXT_ROOM RLOCK_TEXT_SIZE
#else
/* The size of a parameter that gets a text. A C compiler warns if the argument is smaller. */
#define RLOCK_TEXT_ROOM static RLOCK_TEXT_SIZE
#endif

/* A call returns at most this many ms after its deadline or its cancellation. */
#define RLOCK_LATE_MS 50

/* ---- Codes ---- */

/*
 * Every code with its number and text. Two failures have different codes only if a caller should
 * react differently. rlock_detail() describes the failure of one particular call.
 */
#define RLOCK_CODES(X)                                                                             \
    X(OK, 0, "success")                                                                            \
    X(EBUSY, -1, "held by another owner")                                                          \
    X(ETIMEDOUT, -2, "not acquired within the wait")                                               \
    X(ENOTOWNER, -3, "not held by this owner")                                                     \
    X(ELOST, -4, "the hold was lost before its unlock")                                            \
    X(EINDOUBT, -5, "the outcome is not known")                                                    \
    X(ECONN, -6, "no connection to the server")                                                    \
    X(ETLS, -7, "TLS failed")                                                                      \
    X(EAUTH, -8, "authentication failed")                                                          \
    X(EPERM, -9, "no permission on the server")                                                    \
    X(EREFUSED, -10, "refused by the server")                                                      \
    X(EWRONGTYPE, -11, "the key holds something that is not a lock")                               \
    X(ENOQUORUM, -12, "no quorum")                                                                 \
    X(ENOTREPLICATED, -13, "too few replicas confirmed")                                           \
    X(EDEADLOCK, -14, "waiting here would deadlock")                                               \
    X(EREACQUIRE, -15, "already held by this owner, and not reentrant")                            \
    X(ECANCELED, -16, "canceled")                                                                  \
    X(ECLOSED, -17, "the client is closed")                                                        \
    X(EFORKED, -18, "the client belongs to the parent process")                                    \
    X(EINVAL, -19, "invalid argument")                                                             \
    X(ENOTSUP, -20, "not supported")                                                               \
    X(ENOMEM, -21, "no memory")                                                                    \
    X(ERESOURCE, -22, "no resources")                                                              \
    X(ERESTARTED, -23, "the server restarted too recently to count")

/* The result of a call: RLOCK_OK is 0, all other codes are negative. See RLOCK_CODES. */
enum rlock_code {
#define RLOCK_CODE_ENTRY(name, number, text) RLOCK_##name = (number),
    RLOCK_CODES(RLOCK_CODE_ENTRY)
#undef RLOCK_CODE_ENTRY
};

/* Returns the text of a code: static, never NULL, even for a number that is not a code. */
RLOCK_API const char *rlock_strerror(int code);

/* Returns the name of a code, for example "EBUSY": static, never NULL. */
RLOCK_API const char *rlock_code_name(int code);

/*
 * Returns one line about the last call that failed in this thread. It names the lock, the server
 * and, if known, the holder. It is for logs; base decisions on the code. Never NULL. Valid until
 * this thread's next call.
 */
RLOCK_API const char *rlock_detail(void);

/* A failure as data. Later versions may add members. */
struct rlock_failure {
    size_t size;
    const char *detail; /* one line for logs, like rlock_detail(); borrowed in the same way */
    int code;           /* the code that the call returned; 0: the call did not fail */
    int reason;         /* RLOCK_ELOST: why the hold was lost, RLOCK_LOST_…; otherwise 0 */
    int64_t free_ms;    /* RLOCK_EBUSY, ETIMEDOUT: the rest of the holder's lease.
                           RLOCK_EINDOUBT, ECANCELED: if a request of the call still takes effect,
                           the lock is free after this time. From now on; -1: unknown */
    char holder[128];   /* the holder of the lock, as "uuid:number", possibly cut; "": unknown */
    char server[128];   /* the address of the server that the call was about; "": unknown */
};

/* An empty failure for a call to fill. */
#define RLOCK_FAILURE_INIT                                                                         \
    {                                                                                              \
        sizeof(struct rlock_failure), NULL, 0, 0, 0, "", ""                                        \
    }

/*
 * Gets the failure of this thread's last call as data. If the call succeeded, the code is 0.
 * Set .size (RLOCK_FAILURE_INIT) before the call. Local, no I/O. The call itself does not count as
 * the last one. Returns RLOCK_EINVAL if the size is not set.
 */
RLOCK_API int rlock_last_failure(struct rlock_failure *ret_failure) RLOCK_FILLS(1);

/* Returns the version of the library that the program runs with, for example "0.1.0". */
RLOCK_API const char *rlock_version(void);

/*
 * Initializes a struct that begins with its size, for example a struct rlock_client_opts or a
 * struct rlock_grant: sets the size, and everything else to zero. Options then have their defaults.
 * C++ and other languages call this instead of the macros.
 * size: sizeof(*ret_struct) in the caller, because the caller's header may be older or newer than
 * the library. If size is smaller than a size_t, the call that gets the struct refuses it.
 */
RLOCK_API void rlock_init(void *ret_struct, size_t size);

/* ---- Client ---- */

/*
 * The process's handle on one deployment, with one UUID of its own.
 * Threads: all threads may share it. The client runs two threads of its own, with all signals
 * blocked, unless the program's event loop runs it (RLOCK_CLIENT_USER_LOOP).
 */
struct rlock_client;

/* Why a hold was lost. */
enum rlock_reason {
    RLOCK_LOST_EXPIRED = 1, /* the client could not renew it in time: its validity ended */
    RLOCK_LOST_TAKEN,       /* the server reports another holder: in its reply to a renewal, or to a
                               lock call of another owner of this client */
    RLOCK_LOST_DELETED, /* the server has no such lock: deleted, evicted, or its data are lost */
    RLOCK_LOST_NOT_REPLICATED, /* too few replicas confirmed it, or a failover promoted a replica
                                  that did not have it */
    RLOCK_LOST_CLOCK_STEPPED,  /* somebody set the server's clock */
    RLOCK_LOST_FORKED,         /* the process is a child of fork */
    RLOCK_LOST_CLOSED,         /* the client was closed while the owner held the lock */
    RLOCK_LOST_THREAD_EXITED,  /* the thread that owned it ended without unlocking */
    RLOCK_LOST_FORCED,         /* this process released the lock by force */
    RLOCK_LOST_RESTARTED,  /* a RedLock's member: its server restarted, and may have forgotten it */
    RLOCK_LOST_OWNER_ENDED /* the program reported the end of the owner: rlock_owner_end() */
};

/* Returns a short text for a reason: static, never NULL. */
RLOCK_API const char *rlock_reason_text(int reason);

/* A lost hold. Borrowed: valid during the callback. */
struct rlock_loss {
    size_t size;
    const char *name; /* the lock's name, with a NUL byte after name_len bytes */
    size_t name_len;
    const char *kind;   /* "reentrant", … */
    const char *server; /* the address of the hold's server; "" for a multi-lock or RedLock */
    const char *holder; /* what named the hold on that server: "uuid:number"; "" for those two */
    uint64_t owner;     /* the owner's id; 0 if the owner is a thread */
    int reason;         /* RLOCK_LOST_… */
    uint32_t levels;    /* number of levels that are lost, each of which is still to be unlocked */
};

/*
 * Receives each lost hold once, within 50 ms of the loss. The callback may unlock, and may try to
 * lock without waiting. A lock call with a wait returns RLOCK_EDEADLOCK there. The callback cannot
 * close the client.
 * Threads: runs on the client's dispatcher thread. The library holds none of its mutexes meanwhile.
 */
typedef void rlock_lost_fn(const struct rlock_loss *loss, void *payload);

/* The importance of a log line. */
enum rlock_level { RLOCK_LOG_ERROR = 1, RLOCK_LOG_WARNING, RLOCK_LOG_INFO, RLOCK_LOG_DEBUG };

/* A line of the log. Borrowed: valid during the callback. */
struct rlock_log_line {
    size_t size;
    const char *text;    /* the line, without a newline and without secrets */
    const char *subject; /* what it is about, in a word: "call", "connection", … (docs/log.md) */
    const char *server;  /* the address of the server that it is about; "": none */
    int level;           /* RLOCK_LOG_… */
    int code;            /* the code of the failure that it reports; 0: none */
};

/* Receives the client's log, line by line. The library itself never prints. docs/log.md explains
 * the lines. Those of RLOCK_LOG_DEBUG explain slow and failed calls.
 * Threads: the same rules as for rlock_lost_fn. */
typedef void rlock_log_line_fn(const struct rlock_log_line *line, void *payload);

/* The address of a server, for the program to rewrite. */
struct rlock_address {
    size_t size;
    char host[256];
    unsigned port;
    int is_sentinel; /* 1: a Sentinel's address; 0: that of a server with locks */
};

/*
 * Rewrites an advertised server address (host, port or both) to one that this client can reach, for
 * example behind NAT. The client calls it with each address before it connects there, whether the
 * address comes from the URL, from a Sentinel or from a cluster. TLS checks the certificate against
 * the rewritten host.
 * While the callback runs, the client's connections are delayed. Therefore it must neither wait nor
 * call a function of this library.
 * Threads: runs on a thread of the client, or on the thread that opens the client.
 */
typedef void rlock_address_fn(struct rlock_address *inout_address, void *payload);

/* A login: user and password of one connection; at first the options'. Valid in the callback. */
struct rlock_login;

/*
 * Sets the user and the password of this connection. NULL: as the options say. The library copies
 * both strings, and wipes its copies after use. Returns 0 or RLOCK_ENOMEM.
 * Threads: only the thread that runs the callback.
 */
RLOCK_API int rlock_login_set(struct rlock_login *login, const char *user, const char *password);

/* Returns the server that wants the login: "host:port", or a unix socket's path. Borrowed. */
RLOCK_API const char *rlock_login_server(const struct rlock_login *login);

/* Returns whether that server is a Sentinel. */
RLOCK_API bool rlock_login_is_sentinel(const struct rlock_login *login);

/*
 * Asks the program for the login, before each connection. With it a program can change its password
 * without opening the client again. If the server refuses the login, the client asks again at its
 * next attempt to connect, and calls go on waiting for the server meanwhile.
 * Returns 0. Any other value fails this attempt to connect with RLOCK_EAUTH, and the client tries
 * again.
 * The client's connections are delayed while the callback runs. Therefore keep the newest password
 * at hand: the callback must neither wait nor call a function of this library, except
 * rlock_login_...().
 * Threads: runs on a thread of the client, or on the thread that runs a call. Several threads may
 * run it at the same time.
 */
typedef int rlock_login_fn(struct rlock_login *login, void *payload);

/* The calls that traces report. */
enum {
    RLOCK_CALL_LOCK = 1,     /* takes a lock: rlock_lock_for() and so on */
    RLOCK_CALL_UNLOCK,       /* rlock_unlock_as() and so on */
    RLOCK_CALL_EXTEND,       /* rlock_extend() */
    RLOCK_CALL_FORCE_UNLOCK, /* rlock_force_unlock() */
    RLOCK_CALL_INSPECT,      /* rlock_inspect() */
    RLOCK_CALL_DETACH,       /* rlock_detach() */
    RLOCK_CALL_ADOPT         /* rlock_adopt() */
};

/* A call that has ended. Borrowed: valid during the callback. */
struct rlock_trace {
    size_t size;
    size_t name_len;
    const char *name;   /* the lock's name, with a NUL byte after name_len bytes */
    const char *kind;   /* "reentrant", … */
    const char *server; /* the address of the server that it asked last; "" for a multi-lock or
                           RedLock */
    void *context;      /* rlock_take.context; otherwise NULL */
    uint64_t owner;     /* the owner's id; 0: the calling thread, or a call without an owner */
    uint64_t token;     /* LOCK and ADOPT that returned 0, UNLOCK, DETACH: the fencing number of a
                           fenced lock; 0 for other kinds */
    int64_t total_us;   /* from the call's begin to its end */
    int64_t waited_us;  /* of this, the wait for the holder, for earlier calls and so on */
    int64_t server_us;  /* the rest: the wait for the server, or for a connection to it. For a
                           multi-lock or RedLock that of the member that took longest */
    int64_t held_us;    /* UNLOCK, DETACH: how long the owner had the hold; 0: unknown */
    int call;           /* RLOCK_CALL_… */
    int code;           /* the code that the call returns */
    uint32_t requests;  /* how often it asked a server; for a multi-lock or RedLock the number of
                           its calls for members */
    uint32_t levels;    /* how many levels the owner holds now; FORCE_UNLOCK, INSPECT: 0 */
};

/*
 * Receives each call that asked a server, once, at its end. A call that asked none has no trace:
 * for example an unlock that handed the hold over, or a call that was refused at once.
 * The callback delays the call, or all callbacks of an async call. Therefore it must neither wait
 * nor call a function of this library.
 * Threads: the thread that called; for async calls the thread that runs rlock_done_fn, before that
 * callback. Several threads may run it at the same time. A call on a handle may outlive its client:
 * payload must live until no thread is in such a call.
 */
typedef void rlock_trace_fn(const struct rlock_trace *trace, void *payload);

/* Options of a client. The client copies all but payload. Set with RLOCK_CLIENT_OPTS(). */
struct rlock_client_opts {
    size_t size;
    /* Where the server is; default "redis://localhost:6379". The forms are:
     *   - redis://[user:password@]host[:port][/db], and rediss:// for TLS;
     *   - unix://[user:password@]/path[?db=n];
     *   - redis+cluster://[user:password@]host[:port],host[:port] and rediss+cluster://: a cluster.
     *     The client asks these servers for the addresses of the others.
     *   - redis+sentinel://[user:password@]host[:26379],host[:26379]/name[/db] and
     *     rediss+sentinel://: the primary that these Sentinels know by that name, or the replica
     *     that they promote in its place. User and password are the primary's.
     * The URL may contain percent-encoding and IPv6 addresses such as [::1]. */
    const char *url;
    int64_t connect_timeout_ms;    /* time for the whole handshake with the server; default 1000 */
    int64_t op_timeout_ms;         /* time for the server's answers, in each call; default 3000 */
    int64_t renewed_lease_ms;      /* lease of a renewed hold; the client renews the hold whenever a
                                   third of this time has passed; at least 30; default 30000 */
    int64_t safety_margin_ms;      /* a hold's validity ends this much earlier; less than half of
                                   renewed_lease_ms; default 0 */
    uint64_t flags;                /* RLOCK_CLIENT_…; default 0 */
    const char *key_prefix;        /* the Redis key is this prefix and the name; default: none */
    const char *user;              /* overrides the URL's user; default: the URL's user */
    const char *password;          /* overrides the URL's password; default: the URL's password */
    const char *sentinel_user;     /* user at the Sentinels; default: none */
    const char *sentinel_password; /* password at the Sentinels; default: none */
    const char *ca_file;           /* PEM file of the trusted authorities; if it contains revocation
                                      lists, the client checks for revocation; default: the
                                      system's authorities */
    const char *cert_file;  /* PEM file of a client certificate, with key_file; default: none */
    const char *key_file;   /* PEM file of the client certificate's key; default: none */
    rlock_lost_fn *on_lost; /* receives lost holds; default: none */
    rlock_log_line_fn *on_log_line; /* receives the log; default: none */
    rlock_address_fn *on_address;   /* rewrites addresses; default: none, the client uses the
                                       addresses that servers advertise */
    rlock_login_fn *on_login;       /* gives user and password at each connection; default: none */
    rlock_trace_fn *on_trace;       /* receives each call that asked a server; default: none */
    void *payload; /* passed to the callbacks; must live until the client is closed */
    /*
     * Number of replicas that must acknowledge a grant or a renewal before the client relies on it:
     * a number, or RLOCK_ACKS_...; default RLOCK_ACKS_AUTO. A failover loses every grant that the
     * promoted replica does not have.
     *   - AUTO requires every replica that a failover may promote. It leaves out a replica that has
     *     been down for some seconds while its primary was alive.
     *   - A number and ALL are strict: a replica that is down counts as missing.
     * If the client can tell that a replica can never be promoted, it neither requires nor counts
     * that replica's acknowledgement. Without enough replicas the client obtains no locks
     * (RLOCK_ENOTREPLICATED), and it loses its holds at the end of their leases
     * (RLOCK_LOST_NOT_REPLICATED). docs/guarantees.md says what each setting can lose.
     */
    int acks;
    int log_level; /* RLOCK_LOG_…, least important level to log; default RLOCK_LOG_WARNING */
};

/*
 * The flags of rlock_client_opts.
 *
 * USER_LOOP: the program's event loop runs the client, and the client has no threads of its own:
 * see rlock_client_fd().
 *
 * NO_PASS: each unlock releases the lock on the server. Without this flag, an unlock may hand its
 * hold over to a waiting call of this client, without a request to the server. The call that has
 * waited longest gets the hold.
 *   - The client hands over only renewed holds of reentrant, non-reentrant and spin locks.
 *   - After each grant by the server, the client hands the hold over at most 60 times, and only
 *     until 10 ms after the server's last answer about the hold. After that an unlock releases the
 *     lock on the server, and other clients can get it.
 *   - The client hands nothing over while a Redisson client competes for the lock, because that
 *     client would get too few turns.
 *   - A hand-over does not change the field that names the holder on the server ("uuid:number").
 *   - An unlock that hands its hold over cannot detect that somebody released the lock by force in
 *     these 10 ms.
 * Without this flag, a release on the server may also grant a reentrant, non-reentrant, fenced or
 * fair lock to a waiting call of this client. Such a hold is valid for at most 2 s until the client
 * has renewed it, which it does after 100 ms (docs/choosing.md, "What waiting costs").
 *
 * ACKS_ON_DISK: a grant or a renewal counts only when it is on disk: in the append-only files of
 * the primary and of as many replicas as acks says. A crashed server then has it after its restart.
 *   - The flag requires Redis 7.2 or newer, or Valkey, with appendonly yes on the primary and those
 *     replicas. Otherwise the client obtains no locks (RLOCK_EREFUSED, RLOCK_ENOTREPLICATED).
 *   - It requires appendfsync always. With everysec each grant takes up to a second. Therefore the
 *     client may give back a grant that succeeded.
 *
 * ANNOUNCE_BOTH: in a cluster of servers of version 7.0 or newer, the client announces each release
 * on a plain pub/sub channel as well as on a sharded one, and its waiters subscribe to both. In
 * such a cluster Redisson before 3.22 uses plain channels only. Without this flag, such a Redisson
 * client and this client do not wake each other's waiters (docs/interop.md). Each plain message
 * goes to all servers of the cluster. Outside such a cluster the flag changes nothing.
 *
 * SENTINEL_TLS, SENTINEL_PLAIN: with or without TLS to the Sentinels. Without either flag the URL's
 * scheme decides, as it does for the primary. Both: RLOCK_EINVAL. Without TLS to the Sentinels, an
 * attacker who can change their answers can send the client to any server. If you use TLS to the
 * primary but not to the Sentinels, set ca_file to a file that contains only your own authority.
 * Then the client refuses the attacker's server.
 */
enum {
    RLOCK_CLIENT_USER_LOOP = 1 << 0,
    RLOCK_CLIENT_NO_PASS = 1 << 1,
    RLOCK_CLIENT_ACKS_ON_DISK = 1 << 2,
    RLOCK_CLIENT_ANNOUNCE_BOTH = 1 << 3,
    RLOCK_CLIENT_SENTINEL_TLS = 1 << 4,
    RLOCK_CLIENT_SENTINEL_PLAIN = 1 << 5
};

/* Values of rlock_client_opts.acks. ALL requires the URL of a cluster or of Sentinels. */
enum {
    RLOCK_ACKS_AUTO = 0, /* every replica that a failover may promote; none for a plain URL */
    RLOCK_ACKS_OFF = -1, /* no replica */
    RLOCK_ACKS_ALL = -2, /* every replica: a failover to any of them loses no acknowledged grant */
};

/* Makes the options of a client: you name the options that you set, and the others have their
 * defaults. RLOCK_CLIENT_OPTS(.url = "…") is a pointer, valid until the end of the block. C only.
 */
#define RLOCK_CLIENT_OPTS(...)                                                                     \
    (&(struct rlock_client_opts){.size = sizeof(struct rlock_client_opts), __VA_ARGS__})

/*
 * Opens a client: checks the options, reads the TLS files and starts connecting. It does not wait
 * for the server. If the server is down, the first call fails. opts: NULL for all defaults.
 * Returns RLOCK_EINVAL (the URL is wrong, or the option that rlock_detail() names), RLOCK_ETLS (a
 * TLS file is wrong, or TLS is not installed), RLOCK_ENOMEM, RLOCK_ERESOURCE.
 * Owns: *ret_client belongs to the caller. End it with rlock_client_close().
 */
RLOCK_API int rlock_client_open(const struct rlock_client_opts *opts,
                                struct rlock_client **ret_client);

/*
 * Closes a client: releases its holds, wakes its waiters (RLOCK_ECLOSED), ends its threads, and
 * frees the client. From then on the client's locks return RLOCK_ECLOSED. The caller must still
 * free them. Blocks for the server's answers, at most op_timeout_ms. Before it is freed, the client
 * logs which locks stay on the server, and until when.
 * Returns NULL. The argument may be NULL. In a callback it closes nothing and returns the client.
 * Threads: call it once, from one thread. From this call on, no other thread may pass the client to
 * a function. Other threads may still call functions on the client's locks.
 */
RLOCK_API struct rlock_client *rlock_client_close(struct rlock_client *client);

/* Returns the client's UUID, 36 characters. On the server each owner's name begins with it.
 * Borrowed: valid until the client is closed. */
RLOCK_API const char *rlock_client_uuid(const struct rlock_client *client);

/* Returns a new owner id for pools, tasks, and hand-over between threads. It is never 0, and no
 * client of this process returns it again. It is usable with locks of all clients. */
RLOCK_API uint64_t rlock_owner_new(struct rlock_client *client);

/*
 * Reports that an owner with an id has ended: the task or the object is gone, and will not unlock.
 *   - The owner's holds are lost (RLOCK_LOST_OWNER_ENDED). They are not valid from this call on.
 *     Then the client releases them. Nobody has to unlock them.
 *   - Its multi-locks and RedLocks that have a member at this client are lost as a whole.
 *   - Its calls that are taking a lock at this client return RLOCK_ECANCELED.
 * It does not wait for the servers. It is for bindings to other languages, where objects and tasks
 * may end without an unlock. An owner that has nothing is not an error. The program must not use
 * the id again. The id is never 0: what a thread itself owns ends with the thread, with
 * RLOCK_LOST_THREAD_EXITED.
 * Returns 0, RLOCK_EINVAL, RLOCK_ECLOSED, RLOCK_EFORKED.
 */
RLOCK_API int rlock_owner_end(struct rlock_client *client, uint64_t owner);

/* ---- Locks ---- */

/*
 * A handle for one name and one kind. Making and freeing it does no I/O. Holds belong to the
 * client, not to the handle: any handle of the same name and kind can unlock. A handle keeps its
 * client's memory alive. docs/choosing.md says what each kind promises.
 * Threads: all threads may share it.
 */
struct rlock_handle;

/* Options of a lock. The handle copies everything. Set with RLOCK_OPTS(). A kind refuses the
 * options of other kinds with RLOCK_EINVAL, and rlock_detail() names the option. */
struct rlock_opts {
    size_t size;
    size_t name_len; /* length of the name in bytes, for names with NUL bytes; default its strlen */
    int64_t max_hold_ms;    /* longest duration of a hold, from its first level on. It limits
                                renewals, fixed leases and nested levels; default: no limit */
    int64_t linger_ms;      /* reentrant, non-reentrant, spin, setnx: for so long the client keeps
                                the lock after the last unlock (below); at most 10; default 0 */
    int64_t pause_first_ms; /* spin, setnx: the first pause; default 1, setnx 10 */
    int64_t pause_max_ms;   /* spin, setnx: the longest pause; default 128, setnx 160 */
    int64_t pause_growth;   /* spin, setnx: growth factor of the pauses, 1 for none; at most 1000;
                                default 2 */
    int64_t fair_slot_ms;   /* fair: the longest wait that any peer passes to a lock call; at
                                least Redisson's fairLockWaitTimeout; equal for all users of the
                                lock; at least 1000; default 300000 */
    int64_t max_lease_ms;   /* RedLock: a server that started less than this ago does not count
                                toward new grants; equal for all users of the lock; negative: off,
                                for servers that lose nothing (fsync always); default 30000 */
    uint64_t flags;         /* RLOCK_LOCK_…; default 0 */
    int64_t units; /* permits, semaphore: required; how many, if the server has no number; 1 to
                      2147483647 */
};

/*
 * The flags of rlock_opts.
 *
 * NO_REENTRY: an owner that takes the lock again gets RLOCK_EREACQUIRE. For every kind except
 * multi-locks and RedLocks.
 *
 * PREFER_WRITERS: for read and write locks. New readers stand back while a writer waits. Both sides
 * must have the flag.
 *
 * SENT_UNLOCK: rlock_unlock() sends the release and returns 0 without waiting for the answer. A
 * lock and an unlock then take one round trip, because the owner's next request goes right behind
 * the release. For every kind except multi-locks and RedLocks.
 *   - After 0 the lock may still be taken on the server for a moment. If the connection breaks or
 *     the server refuses the release, the library repeats it. The lock is free at the end of its
 *     lease at the latest.
 *   - If the hold was lost at the last moment, the unlock returns 0 nevertheless. The client writes
 *     a warning to its log, and counts it (rlock_stats.unsure).
 *   - If the server refuses the release for a moment, the owner's next call may find the lock busy.
 *   - The unlock still returns a code that the client knows without asking: RLOCK_ENOTOWNER; ELOST
 *     for a loss that it knows; EINDOUBT, at once, if no connection can take the release now or an
 *     earlier call of this owner goes on. Calling it again does not wait for the outcome, either.
 *
 * The option linger_ms: after the last unlock of a renewed hold, the client keeps the lock on the
 * server for a few milliseconds. The next call of this client for the lock, by any owner, then gets
 * it without a request to the server. The option is for a lock that one process takes again and
 * again, and that others want seldom.
 *   - Nothing lingers in a client with RLOCK_CLIENT_NO_PASS, and no hold with a fixed lease does.
 *   - The client gives the lock back at once if a call of another client of this library waits for
 *     it, if a call of this client needs it on other terms, for example with a fixed lease, and
 *     when the client closes.
 *   - A Redisson client cannot say that it waits. So the client takes the lock again only until
 *     10 ms after the server's last answer about the hold. Then the next unlock releases the lock.
 *   - After another client has waited for the lock, the client does not keep it for a second.
 *   - While the client keeps the lock, calls of other clients with wait 0 return RLOCK_EBUSY, and
 *     their rlock_inspect() names the holder. If clients poll the lock, do not set the option.
 *   - The unlock returns 0, and the client sends the release later. The unlock cannot report a
 *     failure of that release: see RLOCK_LOCK_SENT_UNLOCK.
 *   - If somebody releases the lock by force in these milliseconds, the next call may get a hold
 *     that the client reports as lost at its next renewal.
 */
enum {
    RLOCK_LOCK_NO_REENTRY = 1 << 8,
    RLOCK_LOCK_PREFER_WRITERS = 1 << 9,
    RLOCK_LOCK_SENT_UNLOCK = 1 << 10
};

/* Makes the options of a lock: you name the options that you set, and the others have their
 * defaults. RLOCK_OPTS(.max_hold_ms = 60000) is a pointer, valid until the end of the block. C
 * only. */
#define RLOCK_OPTS(...) (&(struct rlock_opts){.size = sizeof(struct rlock_opts), __VA_ARGS__})

/*
 * Makes a reentrant lock: its owner may lock it again, and must unlock it as many times. The
 * constructors of the other single kinds have the same arguments, codes and ownership. Redisson's
 * RLock.
 *   - While calls wait, an unlock gives the lock to one of them on the server. A call with wait 0
 *     returns RLOCK_EBUSY meanwhile, and so the lock is left free at one of 32 unlocks. The order
 *     of the waiters is that of their clients' first attempts, but no promise.
 * name: 1 to 65536 bytes. opts: NULL for all defaults.
 * Returns RLOCK_EINVAL, ENOMEM, ECLOSED, EFORKED.
 * Owns: *ret_lock belongs to the caller. Free it with rlock_free().
 */
RLOCK_API int rlock_reentrant_new(struct rlock_client *client, const char *name,
                                  const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/* Makes a non-reentrant lock: an owner that takes it again gets RLOCK_EREACQUIRE. Redisson's
 * NonReentrantLock. */
RLOCK_API int rlock_nonreentrant_new(struct rlock_client *client, const char *name,
                                     const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a spin lock: a reentrant lock whose waiters subscribe to no channel. They try again after
 * pauses that grow (rlock_opts.pause_first_ms). The kind suits servers without pub/sub, and locks
 * that owners hold only briefly. Redisson's RSpinLock.
 */
RLOCK_API int rlock_spin_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a setnx lock, the lock of redis-py, redsync, bsm/redislock and others (docs/interop.md).
 * It is one string key, and the name is that key. Use the name for no other kind of lock.
 *   - The server tells waiters that the key has changed (CLIENT TRACKING); or else they poll.
 *   - If a holder without a lease dies, the lock stays taken until rlock_force_unlock().
 */
RLOCK_API int rlock_setnx_new(struct rlock_client *client, const char *name,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a semaphore of permits: at most rlock_opts.units are held at a time. Redisson's
 * RPermitExpirableSemaphore.
 *   - A call gets all units that it asks for (rlock_take.units), or none. If its owner has some, it
 *     gets these on top. An unlock gives back the units of the owner's latest call.
 *   - Each permit has a lease by the server's clock. A dead holder's permits are free at its end.
 *   - The number on the server counts. If there is none, the first call makes it rlock_opts.units.
 *   - Waiters get permits in no particular order. A call for many units may wait for long.
 *   - Multi-locks and RedLocks take no units. Only a hold of one unit can be detached.
 */
RLOCK_API int rlock_permits_new(struct rlock_client *client, const char *name,
                                const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a semaphore: like permits, at most so many units are held at a time. Redisson's RSemaphore.
 *   - The number does not name the holders. So this library records its own units beside it: they
 *     are renewed, and free after a lease if their process died. A dead Redisson's stay lost.
 *   - A lease_ms returns RLOCK_EINVAL. A hold cannot be extended or handed over (RLOCK_ENOTSUP).
 */
RLOCK_API int rlock_semaphore_new(struct rlock_client *client, const char *name,
                                  const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a fenced lock: a reentrant lock whose grants carry a token (rlock_grant.token). Each token
 * is larger than all earlier ones, even if the server has lost its data. Nested levels have the
 * token of their hold. A resource is safe from the late writes of older holders if it refuses each
 * token that is smaller than the largest it has seen (docs/fencing.md). Redisson's RFencedLock.
 */
RLOCK_API int rlock_fenced_new(struct rlock_client *client, const char *name,
                               const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a fair lock: a reentrant lock that goes to its waiters in the order in which the server
 * queued them. Redisson's FairLock; with RLOCK_LOCK_NO_REENTRY, its NonReentrantFairLock.
 *   - A waiter that gives up leaves the queue.
 *   - A client that tries to take the free lock passes over a dead waiter, but only some time after
 *     the first such attempt: 2 s if the waiter's process was killed, 5 s if the process was
 *     stopped or its machine does not answer. A stopped waiter queues again when it comes back.
 *   - After a release, each waiter asks the server for the lock within 5 s (docs/choosing.md).
 *   - A call with wait 0 does not queue. While a live waiter queues it returns RLOCK_EBUSY.
 */
RLOCK_API int rlock_fair_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes the read side of a read/write lock: any number of owners read at a time, while nobody
 * writes. Redisson's RReadWriteLock, readLock().
 *   - Each owner has its own lease. A reader that died keeps writers out no longer than that.
 *   - An owner that writes may read as well. It may go on reading after it has given up writing.
 *   - An owner that only reads cannot write: the lock of rlock_write_new() returns RLOCK_EDEADLOCK
 *     to it at once, because the owner would wait for itself.
 *   - Every function here treats the two sides as separate locks. Counts, validity and losses are
 *     per side. On this side rlock_inspect() and rlock_force_unlock() concern readers alone.
 *   - New readers get the lock before writers that wait, unless both have the flag
 *     RLOCK_LOCK_PREFER_WRITERS.
 */
RLOCK_API int rlock_read_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes the write side of a read/write lock: one owner, while nobody else reads or writes.
 * Redisson's RReadWriteLock, writeLock(). See rlock_read_new().
 *   - rlock_force_unlock() ends the writer's own reads too.
 *   - If a waiting writer has the flag RLOCK_LOCK_PREFER_WRITERS, it keeps out the readers that
 *     also have it. If the writer dies, they come in after 5 s at most.
 */
RLOCK_API int rlock_write_new(struct rlock_client *client, const char *name,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a multi-lock: one lock that its owner holds while it holds all members. Redisson's
 * RedissonMultiLock.
 *   - A call gets all members or none. Callers may name the members in different orders.
 *   - If all members belong to one client, and none is fair, one script on the server takes them
 *     all. The call holds no member while it waits for one of them.
 *   - Otherwise, and after eight attempts or half of the wait, the call takes one member after the
 *     other. It holds what it has while it waits, and gives that back at the deadline.
 *   - The multi-lock's owner owns the members' holds, and may take a member again.
 *   - If one member is lost, the whole multi-lock is lost. The first member's client reports that
 *     once, and the library gives the other members back.
 *   - A grant's token is 0.
 *   - With a fixed lease, the client renews the members taken so far until the call has taken the
 *     last member, and no longer. Then at least two thirds of the lease remain
 *     (rlock_grant.valid_ms), and the client renews nothing.
 * members: n from 1 to 64, of any kinds and clients, including multi-locks. Name each lock once.
 * If two members are handles of the same lock, made by two clients of one server, taking the
 * multi-lock returns RLOCK_EINVAL. Do not name both sides of one read/write lock. You may free the
 * members before the multi-lock.
 * opts: NULL, or all default.
 * Returns RLOCK_EINVAL, ENOTSUP (a RedLock as a member), ENOMEM, EFORKED, ECLOSED.
 * Owns: *ret_lock belongs to the caller. Free it with rlock_free().
 */
RLOCK_API int rlock_multi_new(struct rlock_handle *const *members, size_t n,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a RedLock: a lock that its owner holds while it holds most members. Each member is on a
 * server of its own, and these servers are independent. The lock follows the Redlock algorithm of
 * the Redis documentation.
 *   - The lock survives the loss of any minority of its servers.
 *   - It relies on clocks that run at about the same rate.
 *   - A restarted server takes part in no new grant for max_lease_ms. After a restart of all
 *     servers nobody gets the lock for that long: calls return RLOCK_ENOQUORUM (rlock_detail()).
 *   - A call asks all servers at once. It returns as soon as the outcome is certain.
 *   - If Redisson clients take the lock too, name the members in their order (docs/interop.md).
 *   - Nested levels are counted only in this process.
 *   - A lock call with a lease longer than max_lease_ms returns RLOCK_EINVAL.
 * members: n from 1 to 64, each from a different client and on a different server. No member is a
 * multi-lock, a RedLock or a fenced lock. An even n tolerates no more losses than n - 1 does. If
 * two members are on one server, taking the RedLock returns RLOCK_EINVAL.
 * opts: max_lease_ms, or NULL.
 * Returns the codes of rlock_multi_new(). RLOCK_ENOTSUP here: a member is a multi-lock, a RedLock
 * or a fenced lock, or it is in a cluster or behind Sentinels. For ownership see rlock_multi_new().
 */
RLOCK_API int rlock_redlock_new(struct rlock_handle *const *members, size_t n,
                                const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/* Takes another reference to a handle, so that several parts of a program can share it. Each part
 * calls rlock_free() at its end. A new handle has one reference. Returns the handle. The argument
 * may be NULL. Threads: any thread that has a reference may call it. */
RLOCK_API struct rlock_handle *rlock_ref(struct rlock_handle *lock);

/* Drops a reference to a handle. The last one frees it. Never unlocks. Returns NULL.
 * The argument may be NULL. */
RLOCK_API struct rlock_handle *rlock_free(struct rlock_handle *lock);

/* Returns the lock's name, with a NUL byte behind it. ret_len receives its length, or is NULL.
 * Borrowed: valid until the lock is freed. */
RLOCK_API const char *rlock_name(const struct rlock_handle *lock, size_t *ret_len);

/* Returns the lock's kind, for example "reentrant": static. */
RLOCK_API const char *rlock_kind(const struct rlock_handle *lock);

/* A cancel token: firing it ends the waits of all calls that use it. A fired token stays fired.
 * Threads: fire it from any thread and signal handler.
 * Fork: the child has its own copy. Firing it in one process cancels no call in the other. */
struct rlock_cancel;

/* Makes a cancel token. Free it with rlock_cancel_free().
 * Returns RLOCK_EINVAL, ENOMEM, ERESOURCE. */
RLOCK_API int rlock_cancel_new(struct rlock_cancel **ret_cancel);

/* Frees a cancel token that no call uses any more. Returns NULL. The argument may be NULL. */
RLOCK_API struct rlock_cancel *rlock_cancel_free(struct rlock_cancel *cancel);

/* Cancels every call that waits with this token, and every later one. Async-signal-safe. */
RLOCK_API void rlock_cancel_fire(struct rlock_cancel *cancel);

/* How to take a lock. Set with RLOCK_TAKE(). */
struct rlock_take {
    size_t size;
    struct rlock_cancel *cancel; /* ends the wait; must live until the call ends; default: none */
    void *context;               /* handed to on_trace; default NULL */
    void *reserved;              /* NULL; anything else returns RLOCK_EINVAL */
    int64_t lease_ms; /* a fixed lease, at least 10 and longer than the client's safety_margin_ms;
                         0: the client renews the lease until the unlock; default 0 */
    uint64_t owner;   /* the owner's id; 0: the calling thread; default 0 */
    uint64_t flags;   /* RLOCK_TAKE_…; default 0 */
    int64_t units;    /* permits, semaphore: at most rlock_opts.units and 1000; default 1 */
};

/*
 * The flags of rlock_take.
 *
 * NEW_OWNER: the call makes a new owner id, which the grant reports (rlock_grant.owner). The caller
 * must pass a grant to fill, and no owner.
 * FROM_DEAD: only for rlock_adopt(), for a text of rlock_hold_text(), or a permit. The caller knows
 * that the process which had the hold is gone, or has given it away.
 */
enum { RLOCK_TAKE_NEW_OWNER = 1 << 16, RLOCK_TAKE_FROM_DEAD = 1 << 17 };

/* Makes the options of rlock_lock_for(): you name the options that you set, and the others have
 * their defaults. RLOCK_TAKE(.lease_ms = 10000) is a pointer, valid until the end of the block. C
 * only. */
#define RLOCK_TAKE(...) (&(struct rlock_take){.size = sizeof(struct rlock_take), __VA_ARGS__})

/* A grant of a lock, or what an owner holds of it. Set .size (RLOCK_GRANT_INIT) before the call. */
struct rlock_grant {
    size_t size;
    size_t levels;    /* how many levels the owner holds */
    uint64_t token;   /* the fencing number of a fenced lock, unchanged on re-entry; 0 for other
                         kinds */
    uint64_t owner;   /* the owner's id; 0: the calling thread */
    int64_t lease_ms; /* the lease that the client asked the server for; in the answer of
                         rlock_held() the longest lease of all levels */
    int64_t valid_ms; /* how long from now this process may rely on the hold without a renewal; at
                         first it may be 2 s at most, whatever lease_ms is: RLOCK_CLIENT_NO_PASS */
    int64_t held_ms;  /* how long ago the first level was taken */
    int reason;       /* the hold is lost: why, RLOCK_LOST_…; 0: it is not lost */
    int is_renewed;   /* 1: the client renews the lease until the unlock; 0: it does not */
};

/* An empty grant for a call to fill. */
#define RLOCK_GRANT_INIT                                                                           \
    {                                                                                              \
        sizeof(struct rlock_grant), 0, 0, 0, 0, 0, 0, 0, 0                                         \
    }

/* Takes the lock, and waits forever if necessary: rlock_lock_for(lock, RLOCK_FOREVER, NULL, NULL).
 * Blocks. Returns what rlock_lock_for() returns, except RLOCK_EBUSY and RLOCK_ETIMEDOUT. */
RLOCK_API RLOCK_CHECK_RESULT int rlock_lock(struct rlock_handle *lock);

/* Tries once to take the lock: rlock_lock_for(lock, 0, NULL, NULL). I/O: one round trip. Returns
 * what rlock_lock_for() returns. */
RLOCK_API RLOCK_CHECK_RESULT int rlock_try_lock(struct rlock_handle *lock);

/*
 * Takes the lock, and waits up to wait_ms for it.
 * wait_ms: 0, a time, or RLOCK_FOREVER. take: NULL for a renewed lease and the calling thread.
 * ret_grant: may be NULL.
 * Blocks for at most wait_ms + the client's op_timeout_ms + RLOCK_LATE_MS. wait_ms limits the wait
 * for the holder:
 *   - A request that is under way at the end of wait_ms still gets time for its answer: a few times
 *     the usual round trip of its connection, and op_timeout_ms at most.
 *   - Until a server has named a holder, the call waits for op_timeout_ms even if wait_ms is
 *     shorter. This time includes the wait for the answer: a call with wait 0 blocks for at most
 *     op_timeout_ms + RLOCK_LATE_MS.
 * Returns
 *   RLOCK_EBUSY (wait 0): somebody else holds the lock. The call leaves nothing on the server;
 *   RLOCK_ETIMEDOUT: the wait ended. Somebody else holds the lock, or the server was out of reach
 *     or could not grant it; rlock_detail() says which. The call leaves nothing on the server;
 *   RLOCK_ECONN, ETLS, EAUTH: the client could not reach the server. In a call with a wait,
 *     RLOCK_ECONN means that this client never reached any server. The call leaves nothing on the
 *     server;
 *   RLOCK_EINDOUBT: the server did not answer. If the server granted the lock, rlock_detail() gives
 *     the time by which the lock is free again. For a multi-lock or RedLock, rlock_detail() names
 *     the members in doubt. A RedLock's outcome is in doubt if the members that answered cannot
 *     prove it, for example if three of five members are in doubt, or two of four;
 *   RLOCK_ELOST: the hold that this owner already had is lost; unlock it before you take a new one;
 *   RLOCK_EDEADLOCK: a callback cannot wait; or (write lock) this owner reads already;
 *   RLOCK_EREACQUIRE: this owner holds it, and the lock is not reentrant;
 *   RLOCK_EPERM, EWRONGTYPE, EREFUSED: the server refused. With wait 0, RLOCK_EREFUSED can also
 *     mean that the lock's slot is moving to another server of the cluster;
 *   RLOCK_ECANCELED: somebody fired the cancel token. The call ends within RLOCK_LATE_MS of that.
 *     If a request on its way may still get the lock, the library gives it back, and rlock_detail()
 *     gives the latest time at which it becomes free;
 *   RLOCK_EINVAL: an argument is wrong, or this owner holds another kind of lock under the name;
 *   RLOCK_ENOQUORUM (RedLock), ENOTREPLICATED, ENOTSUP, ECLOSED, EFORKED, ENOMEM, ERESOURCE.
 */
RLOCK_API RLOCK_CHECK_RESULT int rlock_lock_for(struct rlock_handle *lock, int64_t wait_ms,
                                                const struct rlock_take *take,
                                                struct rlock_grant *ret_grant) RLOCK_FILLS(4);

/*
 * Gives up one level of the calling thread's hold. I/O: one round trip, within op_timeout_ms. In a
 * callback and in a client with RLOCK_CLIENT_USER_LOOP, an unlock of a single lock does not wait
 * for the answer. RLOCK_LOCK_SENT_UNLOCK says what that means.
 * The call gives up a held level, whatever it returns. After the last level the hold is not valid,
 * and the client does not renew it. Therefore the lock is free by the end of its lease. If the
 * server refuses a release or does not answer it, the library repeats the release.
 * Returns
 *   RLOCK_ENOTOWNER: the owner does not hold it; harmless;
 *   RLOCK_ELOST: the hold had already ended. The unlock of each level returns this code once. It
 *     does no I/O if the library knows the loss already;
 *   RLOCK_EINDOUBT: the server did not answer; or the library has to unlock later, either because
 *     an earlier call of this owner takes longer than op_timeout_ms, or because memory or file
 *     descriptors ran out. rlock_detail() gives the time by which the lock is free;
 *   RLOCK_EPERM, EWRONGTYPE, EREFUSED, ECONN: the server has done nothing so far;
 *   RLOCK_ENOTSUP: a multi-lock or RedLock in a client with RLOCK_CLIENT_USER_LOOP;
 *   RLOCK_ECLOSED, EFORKED, EINVAL.
 * After RLOCK_EINDOUBT, EPERM, EWRONGTYPE, EREFUSED or ECONN at the last level you may call unlock
 * again. If the library still repeats the release, that call waits for the result. It returns 0
 * (released), RLOCK_ELOST, or one of these five codes. The call returns RLOCK_ENOTOWNER if the
 * library no longer repeats the release, or if the lock is a multi-lock or RedLock.
 */
RLOCK_API int rlock_unlock(struct rlock_handle *lock);

/* Like rlock_unlock(), for the given owner; 0 is the calling thread. */
RLOCK_API int rlock_unlock_as(struct rlock_handle *lock, uint64_t owner);

/*
 * Extends the lease of what an owner holds. owner: 0 is the calling thread.
 *   lease_ms: after 0 the hold lasts at least so long, counted from before the request. A lease
 *     never gets shorter: if it lasts longer already, or the client renews it, it stays so. All
 *     levels share it. 0: the client renews the hold from now on, until the last unlock.
 *     max_hold_ms limits the lease;
 *   ret_grant: gets the lease that was asked for, and the validity; NULL for none.
 * I/O: one round trip, within op_timeout_ms. The call does not wait for the owner's other calls on
 * a single lock. A lost hold stays lost. A multi-lock is extended if all its members are, a RedLock
 * if most of them are. The members' max_hold_ms and the RedLock's max_lease_ms apply.
 * Returns
 *   RLOCK_ENOTOWNER: the owner holds nothing of it. Levels that belong to a multi-lock or RedLock
 *     are extended through that lock alone;
 *   RLOCK_ELOST: the hold is lost;
 *   RLOCK_EINDOUBT: the server did not answer, or not enough replicas confirmed it. The hold is
 *     valid as long as it was before, or longer. Call again;
 *   RLOCK_ECONN, EPERM, EREFUSED: nothing has changed. RLOCK_ECONN: no connection, whatever the
 *     cause;
 *   RLOCK_EINVAL: lease_ms is below 10 or within safety_margin_ms, or exceeds a RedLock's
 *     max_lease_ms;
 *   RLOCK_ECLOSED, EFORKED, ENOMEM, ERESOURCE, ENOTSUP (a semaphore).
 */
RLOCK_API int rlock_extend(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                           struct rlock_grant *ret_grant) RLOCK_FILLS(4);

/*
 * New: this function, and the three below it, may still change in the next minor version.
 *
 * Hands a hold over: another process, or this one later, takes it over with rlock_adopt(). The lock
 * stays taken all the time. One step on the server gives the hold to an owner that only the text
 * names, with a lease of its own. After 0 this owner holds nothing, and no loss is reported. If no
 * call adopts the hold, it ends with that lease. So a detach alone keeps a lock taken for a minimum
 * time.
 *   owner: 0 is the calling thread;
 *   lease_ms: how long the text's hold lasts, at least 10. It may be shorter than the lease so far;
 *   ret_text: gets the text after 0, "" otherwise. It is ASCII without spaces, and does not contain
 *     the lock's name. Keep it secret: a program that has the text, and may use the server, can
 *     take the hold.
 * I/O: one round trip, within op_timeout_ms. The hold is not valid any more once the call asks the
 * server. The call does not wait for replicas (acks): after a failover the text may be void.
 * Returns
 *   RLOCK_ENOTOWNER: the owner holds nothing of it;
 *   RLOCK_ELOST: the hold is lost. The owner unlocks it as usual;
 *   RLOCK_EINDOUBT: the server did not answer. RLOCK_ECONN, EPERM, EREFUSED, EWRONGTYPE: the server
 *     refused it. After these five codes the hold is neither valid nor renewed, and the lock is
 *     free when the leases end. Detach again, or unlock: each finds out what the server has;
 *   RLOCK_ETIMEDOUT: an earlier call of this owner took too long. Nothing has changed;
 *   RLOCK_EINVAL: the owner holds more than one level, levels of a multi-lock, or both sides of the
 *     read/write lock; or lease_ms is below 10;
 *   RLOCK_ENOTSUP: the lock is a multi-lock, a RedLock or a semaphore;
 *   RLOCK_ECLOSED, EFORKED, ENOMEM.
 */
RLOCK_API int rlock_detach(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                           char ret_text[RLOCK_TEXT_ROOM]);

/*
 * Writes a text for a hold that goes on: a precaution against a crash of this process. Adopting it
 * needs RLOCK_TAKE_FROM_DEAD. owner: 0 is the calling thread. Local: no I/O.
 * Returns RLOCK_ENOTOWNER, ELOST; RLOCK_ENOTSUP for a multi-lock, a RedLock or a semaphore;
 * RLOCK_EINVAL, ECLOSED, EFORKED.
 */
RLOCK_API int rlock_hold_text(const struct rlock_handle *lock, uint64_t owner,
                              char ret_text[RLOCK_TEXT_ROOM]);

/*
 * Takes over the hold of a text, as one level. It does not wait: if several callers have the text,
 * one of them gets the hold.
 *   lock: a handle of the same name and kind;
 *   text: the text; or, for permits, the 32 digits of a Redisson permit;
 *   take: as for rlock_lock_for(). Its lease begins now, and a cancel token ends the call;
 *   ret_grant: gets the grant; may be NULL. A fenced lock gives a larger token than before.
 * I/O: one round trip, within op_timeout_ms.
 * Returns
 *   RLOCK_ENOTOWNER: the text's hold has ended, or somebody adopted it or released it by force;
 *   RLOCK_EBUSY: the text is from rlock_hold_text(), or a permit, and take->flags lacks
 *     RLOCK_TAKE_FROM_DEAD. If the holder is alive, both rely on the lock until its next renewal;
 *   RLOCK_EINDOUBT, ECANCELED, ENOTREPLICATED: the caller does not have the hold. If the request
 *     gets it anyway, the library returns it to the text, with the take's lease: call again;
 *   RLOCK_EINVAL: the text is not one of this lock's, or the owner holds the lock already;
 *   RLOCK_ENOTSUP: the lock is a multi-lock, a RedLock or a semaphore;
 *   RLOCK_ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ECLOSED, EFORKED, ENOMEM, ERESOURCE:
 *     see rlock_lock_for().
 */
RLOCK_API RLOCK_CHECK_RESULT int rlock_adopt(struct rlock_handle *lock, const char *text,
                                             const struct rlock_take *take,
                                             struct rlock_grant *ret_grant) RLOCK_FILLS(4);

/*
 * Releases the lock by force: reads the holder, and deletes the lock if that holder still has it.
 * The caller need not hold the lock: any thread of any process may call this. If a fair lock is
 * free, the call removes the dead waiters from its queue (rlock_info.dead_waiters). If the released
 * hold belonged to this process, it is lost (RLOCK_LOST_FORCED). Another process learns of its loss
 * at its next renewal, or from the next answer that names another holder. For a read/write lock the
 * call releases only the handle's side, and with the write side the writer's own reads.
 * I/O: two round trips, each within op_timeout_ms. ret_was_locked: may be NULL.
 * Returns 0 (free now), RLOCK_EBUSY when the holder changed meanwhile, RLOCK_EINDOUBT (no answer),
 * RLOCK_ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ENOTSUP, ECLOSED, EFORKED, EINVAL, ENOMEM.
 */
RLOCK_API int rlock_force_unlock(struct rlock_handle *lock, bool *ret_was_locked);

/* Returns whether the calling thread holds the lock and may rely on it now: false if in doubt, and
 * from the end of the validity on, even if no thread of the library has run since. Local: no I/O,
 * no mutex. */
RLOCK_API bool rlock_is_valid(const struct rlock_handle *lock);

/* Like rlock_is_valid(), for the given owner; 0 is the calling thread. May take a mutex. */
RLOCK_API bool rlock_is_valid_as(const struct rlock_handle *lock, uint64_t owner);

/* Returns for how many ms the calling thread may rely on the lock without a renewal; 0: not at all.
 * Local, no I/O. */
RLOCK_API int64_t rlock_valid_ms(const struct rlock_handle *lock);

/* Like rlock_valid_ms(), for the given owner; 0 is the calling thread. May take a mutex. */
RLOCK_API int64_t rlock_valid_ms_as(const struct rlock_handle *lock, uint64_t owner);

/* Returns how many levels the calling thread holds, as this process counts. Local, no I/O. */
RLOCK_API uint32_t rlock_hold_count(const struct rlock_handle *lock);

/* Like rlock_hold_count(), for the given owner; 0 is the calling thread. May take a mutex. */
RLOCK_API uint32_t rlock_hold_count_as(const struct rlock_handle *lock, uint64_t owner);

/*
 * Gets what an owner holds of the lock, as this process knows it. owner: 0 is the calling thread.
 * A hold that is lost has its reason, until the owner has unlocked all its levels. Local, no I/O.
 * May take a mutex. Returns RLOCK_ENOTOWNER (nothing is held), ECLOSED, EFORKED, EINVAL.
 */
RLOCK_API int rlock_held(const struct rlock_handle *lock, uint64_t owner,
                         struct rlock_grant *ret_grant) RLOCK_FILLS(3);

/* The server's state of a lock. Set .size (RLOCK_INFO_INIT) before the call. */
struct rlock_info {
    size_t size;
    size_t holders;   /* number of owners that hold it; read side: number of readers */
    int locked;       /* 1: somebody holds it; read/write lock: somebody holds the handle's side */
    int mine;         /* 1: the holder is an owner of this client */
    int64_t ttl_ms;   /* the rest of the lease; -1: the key has no TTL, -2: there is no lock */
    int64_t count;    /* hold count of the first holder */
    int64_t pid;      /* the holder's process on its machine; 0 unknown */
    uint64_t token;   /* fenced: the latest granted token; 0 none */
    uint32_t waiters; /* fair: number of waiters in the queue, dead ones included; 0: none, or
                         unknown */
    uint32_t dead_waiters; /* fair: dead waiters among the first thousand in the queue, as far as
                              the server can tell: no process would receive their wake-ups */
    char holder[128];      /* the first holder: "uuid:number", or a permit; may be cut; "" free */
    char host[128];        /* the holder's machine, if the server permits the query; otherwise "" */
    char mode[8]; /* read/write, either side: "read" or "write"; "" free, or another kind */
    int64_t units, units_free; /* permits, semaphore: how many there are, and how many are free */
};

/* An empty answer for a call to fill. */
#define RLOCK_INFO_INIT                                                                            \
    {                                                                                              \
        sizeof(struct rlock_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "", "", 0, 0                     \
    }

/*
 * Asks the server about the lock. The answer was true when the server gave it. For a multi-lock or
 * RedLock it asks about the members one after the other: *ret_info describes the first member that
 * is held, and ret_info->holders is the number of members that are held.
 * I/O: one or two round trips, both within op_timeout_ms. The second one finds the holder's
 * machine.
 * Returns RLOCK_ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ENOTSUP, ECLOSED, EFORKED, EINVAL,
 * ENOMEM.
 */
RLOCK_API int rlock_inspect(struct rlock_handle *lock, struct rlock_info *ret_info) RLOCK_FILLS(2);

/* The result for one member of a multi-lock or RedLock. Borrowed: valid during the callback. */
struct rlock_member {
    size_t size;
    const char *name; /* the member's name, with a NUL byte after name_len bytes */
    size_t name_len;
    const char *kind;
    const char *server; /* address of the member's server */
    int held;           /* 1: the server granted the member, and the call kept it */
    int code;           /* 0, or why not: RLOCK_EBUSY, ETIMEDOUT, ECONN, ERESTARTED, … */
    const char *detail; /* one line about the code; it names the holder, if known; "" if held */
};

/* Receives the members one after the other, in the calling thread. */
typedef void rlock_member_fn(const struct rlock_member *member, void *payload);

/*
 * Calls fn once for each member of a multi-lock or RedLock, with the member's result in the call on
 * this handle that ended last. If threads share a handle, each sees the results of the others'
 * calls. Local, no I/O. Returns RLOCK_EINVAL, RLOCK_EFORKED.
 */
RLOCK_API int rlock_members(const struct rlock_handle *lock, rlock_member_fn *fn, void *payload);

/* ---- Async calls ---- */

/*
 * One async call, from its start until its last reference is dropped. Threads: any thread may call
 * its functions.
 */
struct rlock_op;

/*
 * The library runs this callback once for each async call that returned 0, when its operation has
 * ended. The library never runs this callback inside that async call, but another thread may run it
 * before that call returns.
 * op: borrowed, valid during the callback. The callback may call every function that does not wait,
 * and begin any async call. A function that waits returns RLOCK_EDEADLOCK there.
 * Threads: runs on the dispatcher thread of the lock's client; with RLOCK_CLIENT_USER_LOOP, inside
 * rlock_client_dispatch(). For a multi-lock or RedLock this is the client of one member, always of
 * the same member. The library holds none of its mutexes meanwhile.
 */
typedef void rlock_done_fn(struct rlock_op *op, void *payload);

/*
 * The async calls. Each begins what the function without _async does, and returns without waiting.
 * The deadlines of that function apply, from this call on. Closing the client completes every
 * pending operation. The caller may free the lock while the operation is pending.
 * done: runs when the operation is complete; NULL for none. The operation stores its outcome, which
 * the rlock_op_... functions return.
 * owner: an id that is not 0; for rlock_lock_async(), take->owner, or RLOCK_TAKE_NEW_OWNER. The
 * calling thread cannot be the owner, because the task may continue on another thread.
 * rlock_owner_new() returns ids. Calls of one owner on one lock run one after the other.
 * ret_op: receives a reference, which the caller must drop with rlock_op_unref(). Pass NULL if you
 * want no reference.
 * Returns 0, or RLOCK_EINVAL, ECLOSED, EFORKED, ENOMEM, ERESOURCE; calls that extend, detach and
 * adopt also RLOCK_ENOTSUP and RLOCK_EBUSY, as their blocking forms. After one of these codes, done
 * never runs. After RLOCK_ENOMEM or ERESOURCE nothing has changed: call again.
 */

/* Takes the lock: the async form of rlock_lock_for(). take: with an owner or _TAKE_NEW_OWNER. */
RLOCK_API RLOCK_CHECK_RESULT int rlock_lock_async(struct rlock_handle *lock, int64_t wait_ms,
                                                  const struct rlock_take *take,
                                                  rlock_done_fn *done, void *payload,
                                                  struct rlock_op **ret_op);

/* Gives up one level: the async form of rlock_unlock_as(). */
RLOCK_API int rlock_unlock_async(struct rlock_handle *lock, uint64_t owner, rlock_done_fn *done,
                                 void *payload, struct rlock_op **ret_op);

/* Extends what an owner holds: the async form of rlock_extend(). See rlock_op_grant(). */
RLOCK_API int rlock_extend_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                                 rlock_done_fn *done, void *payload, struct rlock_op **ret_op);

/* Hands a hold over: the async form of rlock_detach(). rlock_op_text() returns the text. */
RLOCK_API int rlock_detach_async(struct rlock_handle *lock, uint64_t owner, int64_t lease_ms,
                                 rlock_done_fn *done, void *payload, struct rlock_op **ret_op);

/* Takes over the hold of a text: the async form of rlock_adopt(). take: as for rlock_lock_async().
 * The library copies the text. rlock_op_grant() returns the grant. */
RLOCK_API RLOCK_CHECK_RESULT int rlock_adopt_async(struct rlock_handle *lock, const char *text,
                                                   const struct rlock_take *take,
                                                   rlock_done_fn *done, void *payload,
                                                   struct rlock_op **ret_op);

/* Releases the lock by force: the async form of rlock_force_unlock(). */
RLOCK_API int rlock_force_unlock_async(struct rlock_handle *lock, rlock_done_fn *done,
                                       void *payload, struct rlock_op **ret_op);

/* Asks the servers about the lock: the async form of rlock_inspect(). host and pid stay unknown. */
RLOCK_API int rlock_inspect_async(struct rlock_handle *lock, rlock_done_fn *done, void *payload,
                                  struct rlock_op **ret_op);

/* The result of rlock_op_code() before the operation is complete. */
#define RLOCK_UNDER_WAY 1

/* Returns the result of the operation: 0 or a negative code, as the function without _async would
 * return it. RLOCK_UNDER_WAY: the operation is not complete. */
RLOCK_API int rlock_op_code(const struct rlock_op *op);

/* Returns the operation's one line for logs, like rlock_detail(); "" if the operation succeeded or
 * is under way. Borrowed: valid as long as the reference. */
RLOCK_API const char *rlock_op_detail(const struct rlock_op *op);

/* Gets the operation's failure as data, like rlock_last_failure(). The code is 0 if the operation
 * succeeded or is under way. The detail is valid as long as the reference. Returns RLOCK_EINVAL if
 * the size is not set. */
RLOCK_API int rlock_op_failure(const struct rlock_op *op, struct rlock_failure *ret_failure)
    RLOCK_FILLS(2);

/* Writes the grant of an rlock_lock_async(), rlock_adopt_async() or rlock_extend_async() that ended
 * with 0. Returns RLOCK_EINVAL for any other operation, or if the grant's size is not set. The
 * times are from now on; the rest is as it was when the operation ended. */
RLOCK_API int rlock_op_grant(const struct rlock_op *op, struct rlock_grant *ret_grant)
    RLOCK_FILLS(2);

/* Writes the text of an rlock_detach_async() that ended with 0. Returns RLOCK_EINVAL otherwise. */
RLOCK_API int rlock_op_text(const struct rlock_op *op, char ret_text[RLOCK_TEXT_ROOM]);

/* Writes the server's answer to an rlock_inspect_async() that ended with 0. Returns RLOCK_EINVAL
 * for any other operation, or if the info's size is not set. */
RLOCK_API int rlock_op_info(const struct rlock_op *op, struct rlock_info *ret_info) RLOCK_FILLS(2);

/* Returns whether an rlock_force_unlock_async() that ended with 0 found the lock taken. */
RLOCK_API bool rlock_op_was_locked(const struct rlock_op *op);

/*
 * Asks the operation of an rlock_lock_async() or rlock_adopt_async(), or a wait for a latch
 * (latch.h), to end within RLOCK_LATE_MS.
 * It may still complete normally, or with RLOCK_ECANCELED (see rlock_lock_for()). Check its code,
 * because it may have the lock. The call has no effect on operations of other functions. op may be
 * NULL or complete.
 */
RLOCK_API void rlock_op_cancel(struct rlock_op *op);

/* Adds a reference. Returns op. */
RLOCK_API struct rlock_op *rlock_op_ref(struct rlock_op *op);

/* Drops a reference. You may drop the last one while the operation is under way: it goes on.
 * Returns NULL. The argument may be NULL. */
RLOCK_API struct rlock_op *rlock_op_unref(struct rlock_op *op);

/*
 * For a client with RLOCK_CLIENT_USER_LOOP. The program's event loop runs it: call
 * rlock_client_dispatch() whenever the fd is readable. The client starts a thread only to resolve a
 * host's name; that thread then ends.
 *   - Functions that wait, and those of admin.h, return RLOCK_ENOTSUP. An unlock of a single lock
 *     does not wait. All other functions, and the async calls, work normally in any thread.
 *   - The loop renews the holds as well. If it hangs for longer than a third of the lease, the
 *     client may lose holds. It reports them when the loop goes on (on_lost). rlock_is_valid_as()
 *     returns false as soon as they are not valid, whether or not the loop runs.
 *   - rlock_client_close() runs the remaining callbacks, in the thread that closes.
 *
 * Returns the fd: poll it for reading, level-triggered, and do nothing else with it. It belongs to
 * the client. -1: the client has threads of its own.
 */
RLOCK_API int rlock_client_fd(const struct rlock_client *client);

/*
 * Does the work that is due, and runs the callbacks. Never waits. One thread at a time.
 * Returns 0, or RLOCK_EINVAL (the client has threads of its own), RLOCK_EDEADLOCK (in a callback),
 * RLOCK_EBUSY (another thread dispatches), RLOCK_EFORKED.
 */
RLOCK_API int rlock_client_dispatch(struct rlock_client *client);

/* ---- Guard ---- */

/*
 * A hold that ends with its scope:
 *
 *     RLOCK_GUARD guard = rlock_guard_lock(lock);
 *     if (guard.code != 0) {
 *         return guard.code;
 *     }
 *
 * The code that the unlock at the end of the scope returns is ignored. If you need that code,
 * unlock with rlock_guard_end().
 * Threads: the thread that took it must end it, unless the take named an owner.
 */
struct rlock_guard {
    uint64_t owner;            /* the owner that unlocks; 0: the calling thread */
    struct rlock_handle *lock; /* NULL: nothing to unlock */
    void *reserved;            /* NULL */
    int code;                  /* what taking the lock returned */
    int reserved_int;          /* 0 */
};

/* Takes the lock, and returns the guard. Its code is what rlock_lock() returns. Blocks. */
RLOCK_API RLOCK_CHECK_RESULT struct rlock_guard rlock_guard_lock(struct rlock_handle *lock);

/* Takes the lock like rlock_lock_for(), and returns the guard. Its code is what rlock_lock_for()
 * returns. Blocks. */
RLOCK_API RLOCK_CHECK_RESULT struct rlock_guard rlock_guard_lock_for(struct rlock_handle *lock,
                                                                     int64_t wait_ms,
                                                                     const struct rlock_take *take);

/* Ends a guard now. Returns the unlock's code, or 0 if there was nothing to unlock. */
RLOCK_API int rlock_guard_end(struct rlock_guard *guard);

#ifndef RLOCK_PLAIN
/* The type of a guard variable that ends with its scope (gcc and clang). */
#define RLOCK_GUARD __attribute__((cleanup(rlock_guard_cleanup))) struct rlock_guard

/* RLOCK_GUARD runs this at the end of the scope: rlock_guard_end(), without its code. */
static inline void rlock_guard_cleanup(struct rlock_guard *guard)
{
    (void)rlock_guard_end(guard);
}
#endif

#ifdef __cplusplus
}
#endif
#endif
