/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock: distributed locks on Redis and Valkey, byte-compatible with Redisson.
 *
 * A client is this process's handle on one deployment.
 * A lock is a handle for one name and one kind.
 * A hold is what an owner has between a successful lock call and its unlock. The server keeps it
 *   for its lease. This process may rely on it until its validity ends, which is always earlier.
 * An owner is the calling thread, or an id that the caller gives. Where tasks move between threads
 *   (Go without LockOSThread, coroutines, pools), only ids and the functions in _as are right.
 *
 * Calling sequence:
 *
 *     struct rlock_client_opts opts = RLOCK_CLIENT_OPTS(.url = "redis://localhost");
 *     rlock_client_open(&opts, &client);
 *     rlock_reentrant_new(client, "orders", NULL, &lock);
 *     if (rlock_lock(lock) == 0) {
 *         ... while (rlock_is_valid(lock)) ...
 *         rlock_unlock(lock);
 *     }
 *     rlock_free(lock);
 *     rlock_client_close(client);
 *
 * Functions return 0 or a negative enum rlock_code, unless they say otherwise. Outputs are written
 * only on success. Times are in milliseconds. Zero is always the documented default of an option.
 * Structs that begin with their size may grow: docs/abi.md. Where the macros that set it are of no
 * use (C++, other languages) the functions rlock_..._init() do.
 *
 * C++ has <rlock/rlock.hpp>. For parsers that know declarations alone there is RLOCK_PLAIN: define
 * it, and preprocess this file (cc -E -P -DRLOCK_PLAIN). What comes out has no attribute, no inline
 * function and nothing of other headers: the parser must know bool, size_t and the types of
 * stdint.h.
 *
 * Threads: every function may be called from any thread at any time, unless it says otherwise. A
 * thread that is stopped in a call delays the calls of others by at most 50 ms. If it is stopped
 * while it has a mutex of the library (for microseconds), it stops the client. No call is a
 * cancellation point.
 * Fork: in a child of fork(2) every call on an inherited client or lock returns RLOCK_EFORKED. No
 * hold is valid there, and nothing is sent. The parent is not affected. Open a new client in the
 * child.
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

#ifndef RLOCK_API
#ifdef RLOCK_PLAIN
/* Nothing is marked. */
#define RLOCK_API
#else
/* Marks a function as part of the library's interface. Who defines it first has his own. */
#define RLOCK_API __attribute__((visibility("default")))
#endif
#endif

/* Wait without end: a value for rlock_take.wait_ms. */
#define RLOCK_FOREVER (-1)

/* The longest time: a hundred years. A longer one counts as that; a longer wait has no end. */
#define RLOCK_TIME_MAX_MS INT64_C(3162240000000)

/* How much later than its deadline a call may return, and how soon a canceled one does: in ms. */
#define RLOCK_LATE_MS 50

/* ---- Codes ---- */

/*
 * Every code with its number and text. A code exists where a caller acts differently; the text of
 * rlock_detail() says what happened this time.
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

/* What a call returns: RLOCK_OK is 0, all others are negative; see RLOCK_CODES. */
enum rlock_code {
#define RLOCK_CODE_ENTRY(name, number, text) RLOCK_##name = (number),
    RLOCK_CODES(RLOCK_CODE_ENTRY)
#undef RLOCK_CODE_ENTRY
};

/* Returns the text of a code: static, never NULL, also for numbers that are no code. */
RLOCK_API const char *rlock_strerror(int code);

/* Returns the name of a code, as "EBUSY": static, never NULL. */
RLOCK_API const char *rlock_code_name(int code);

/*
 * Returns one line about the last call that failed in this thread: the lock, the server and, where
 * known, the holder. For logs only; decide by the code. Never NULL. Valid until this thread's next
 * call.
 */
RLOCK_API const char *rlock_detail(void);

/* Returns the version of the library that is linked, as "0.1.0". */
RLOCK_API const char *rlock_version(void);

/* ---- Client ---- */

/*
 * The process's handle on one deployment, with one UUID of its own.
 * Threads: may be shared by all threads; it runs two of its own, with all signals blocked.
 */
struct rlock_client;

/* Why a hold was lost. */
enum rlock_reason {
    RLOCK_LOST_EXPIRED = 1, /* not renewed in time: its validity ended */
    RLOCK_LOST_TAKEN,   /* the server says that somebody else holds it: in answer to a renewal, or
                               to another owner of this client, who was granted or refused it */
    RLOCK_LOST_DELETED, /* the server has no such lock: deleted, evicted, or its data are lost */
    RLOCK_LOST_NOT_REPLICATED, /* too few replicas confirmed it, or one without it was promoted */
    RLOCK_LOST_CLOCK_STEPPED,  /* the server's clock was set */
    RLOCK_LOST_FORKED,         /* asked in a child of fork */
    RLOCK_LOST_CLOSED,         /* the client was closed while it was held */
    RLOCK_LOST_THREAD_EXITED,  /* the thread that owned it ended without unlocking */
    RLOCK_LOST_FORCED,         /* this process forced the lock open */
    RLOCK_LOST_RESTARTED /* member of a RedLock: its server restarted, and may have forgotten it */
};

/* Returns a short text for a reason: static, never NULL. */
RLOCK_API const char *rlock_reason_text(enum rlock_reason reason);

/* A lost hold. Borrowed: valid during the callback. */
struct rlock_loss {
    size_t size;
    const char *name; /* the lock's name, with a NUL byte after name_len bytes */
    size_t name_len;
    const char *kind; /* "reentrant", … */
    uint64_t owner;   /* the id that was given, 0 for a thread */
    enum rlock_reason reason;
};

/*
 * Called once for every hold that is lost, within 50 ms. It may unlock, and it may try to lock. A
 * call that waits returns RLOCK_EDEADLOCK there. The client cannot be closed there.
 * Threads: runs on the client's dispatcher thread, with no lock of the library held.
 */
typedef void rlock_lost_fn(const struct rlock_loss *loss, void *payload);

/* How much a log line matters. */
enum rlock_level { RLOCK_LOG_ERROR = 1, RLOCK_LOG_WARNING, RLOCK_LOG_INFO, RLOCK_LOG_DEBUG };

/* Receives the client's log lines: one line each, no newline, no secrets. The library never prints.
 * docs/log.md says what the lines mean; RLOCK_LOG_DEBUG explains slow and failed calls.
 * Threads: as rlock_lost_fn. */
typedef void rlock_log_fn(enum rlock_level level, const char *text, void *payload);

/*
 * Says where a server is reached that calls itself otherwise, as behind NAT: changes host, port, or
 * both. Called with each address of the URL, of a Sentinel or of a cluster, before anything is
 * connected to it. A certificate is checked against the host that this says.
 * host: at most 255 bytes and a NUL byte. Must neither wait nor call a function of this library:
 * the client's connections wait for it.
 * Threads: one of the client's own, or the one that opens it.
 */
typedef void rlock_map_address_fn(char host[256], unsigned *port, void *payload);

/* Options of a client. Everything is copied, except payload. Set with RLOCK_CLIENT_OPTS(). */
struct rlock_client_opts {
    size_t size;
    /* Where the server is; default "redis://localhost:6379".
     * redis://[user:password@]host[:port][/db] and rediss:// (TLS),
     * unix://[user:password@]/path[?db=n]; percent-encoding and [::1] are understood.
     * redis+cluster://[user:password@]host[:port],host[:port] and rediss+cluster://: a cluster,
     * whose other servers are found by asking these.
     * redis+sentinel://[user:password@]host[:26379],host[:26379]/name[/db] and
     * rediss+sentinel://: the primary that these Sentinels know by that name, and whichever
     * replica they promote in its place. User and password are the primary's. */
    const char *url;
    int64_t connect_timeout_ms; /* for the whole handshake with the server; default 1000 */
    int64_t op_timeout_ms;      /* how long a server may take for its answers, in each call; default
                                 1000 */
    int64_t renewed_lease_ms;   /* lease of a hold that is renewed, renewed every third of it; at
                                 least 30; default 30000 */
    int64_t safety_margin_ms;   /* a hold's validity ends this much earlier; less than half of
                                 renewed_lease_ms; default 0 */
    const char *key_prefix;     /* the Redis key is this prefix and the name; default none */
    const char *user;           /* overrides the URL's; default none */
    const char *password;       /* the same; default none */
    const char *ca_file;    /* PEM file of the authorities to trust, and of their revocation lists
                                 if they are to be checked; default the system's authorities */
    const char *cert_file;  /* PEM file of a client certificate, with key_file; default none */
    const char *key_file;   /* PEM file of its key; default none */
    rlock_lost_fn *on_lost; /* default none */
    rlock_log_fn *on_log;   /* default none */
    enum rlock_level log_level; /* least important level that is logged; default
                                   RLOCK_LOG_WARNING */
    void *payload;              /* handed to the callbacks; must live until the client is closed */
    const char *sentinel_user;  /* for the Sentinels; default none */
    const char *sentinel_password; /* the same; default none */
    int sentinel_tls; /* 1: Sentinels are spoken to with TLS, -1: without; default 0: as the URL's
                         scheme says for the primary. Without it whoever changes what they say can
                         name a server of his own: trust no authority but yours then (ca_file) */
    /*
     * Number of replicas that must acknowledge a grant or a renewal before the client relies on it:
     * a number, or RLOCK_ACKS_...; default RLOCK_ACKS_AUTO. A failover loses what the replica that
     * is promoted does not have. AUTO requires every replica that a failover may promote, and
     * leaves out one that has been down for some seconds while its primary was alive. A number and
     * ALL are strict: a replica that is down counts as missing. Copies that no failover promotes
     * never count. Without enough replicas the client grants nothing (RLOCK_ENOTREPLICATED), and
     * holds are lost at the end of their leases (RLOCK_LOST_NOT_REPLICATED). docs/guarantees.md
     * says what each setting can lose.
     */
    int acks;
    rlock_map_address_fn *map_address; /* default none: servers are where they say; gets payload */
    /*
     * 1: a grant, and each renewal, counts only once it is on disk: in the append-only file of the
     * primary, and in those of as many replicas as acks says. A server that crashes then has it
     * when it is back. Wants Redis 7.2 or newer, or Valkey, with appendonly yes on the primary and
     * those replicas; without that nothing is granted (RLOCK_EREFUSED,
     * RLOCK_ENOTREPLICATED). Wants appendfsync always: with everysec each grant takes up to a
     * second, and may be given back in vain. Default 0.
     */
    int acks_on_disk;
    /*
     * 1: in a cluster of servers 7.0 or newer releases are announced on plain channels besides the
     * sharded ones, and waiters hear both. Redisson before 3.22 hears and announces on plain ones
     * alone there; without this neither side wakes the other (docs/interop.md). Each plain
     * announcement goes to all servers of the cluster. Elsewhere it changes nothing. Default 0.
     */
    int announce_both;
    /*
     * Whether an unlock may pass its hold on to the call of this client that has waited longest,
     * without telling the server: RLOCK_PASS_…; default RLOCK_PASS_ON. Only renewed holds of
     * reentrant, non-reentrant and spin locks are passed on, at most 32 times and 10 ms after the
     * server's last word; then the lock is really released, so that others get it. None is passed
     * on while a Redisson takes the lock as well: it would have too few turns. The server's field
     * of the hold ("uuid:number") stays the same meanwhile. An unlock that passes its hold on does
     * not learn whether somebody opened the lock by force in these 10 ms.
     */
    int pass;
    /* Who runs the client: RLOCK_LOOP_…; default RLOCK_LOOP_OWN. */
    int loop;
};

/* Values of rlock_client_opts.loop. */
enum {
    RLOCK_LOOP_OWN = 0, /* two threads of its own */
    RLOCK_LOOP_USER,    /* the program's event loop: see rlock_client_fd() */
};

/* Values of rlock_client_opts.pass. */
enum {
    RLOCK_PASS_ON = 0,
    RLOCK_PASS_OFF = -1, /* each unlock releases the lock on the server */
};

/* Values of rlock_client_opts.acks. ALL needs a URL of a cluster or of Sentinels. */
enum {
    RLOCK_ACKS_AUTO = 0, /* one, where a primary has any; of a plain URL none */
    RLOCK_ACKS_OFF = -1,
    RLOCK_ACKS_ALL = -2, /* every one: no failover to any of them loses what counts */
};

/* Options of a client by name, the others default: RLOCK_CLIENT_OPTS(.url = "…"). C only. */
#define RLOCK_CLIENT_OPTS(...)                                                                     \
    ((struct rlock_client_opts){.size = sizeof(struct rlock_client_opts), __VA_ARGS__})

/*
 * Makes all options default, and sets their size: what RLOCK_CLIENT_OPTS() does, for other
 * languages than C. size: of the caller's struct, sizeof(*ret_opts), since its header may be older
 * or newer than the library.
 */
RLOCK_API void rlock_client_opts_init(struct rlock_client_opts *ret_opts, size_t size);

/*
 * Opens a client: checks the options, reads the TLS files and starts connecting. It does not wait
 * for the server, so a server that is down shows at the first call. opts: NULL for all defaults.
 * Returns RLOCK_EINVAL (the URL, or an option: rlock_detail() names it), RLOCK_ETLS (a TLS file, or
 * TLS is not installed), RLOCK_ENOMEM, RLOCK_ERESOURCE.
 * Owns: *ret_client is the caller's, to be ended with rlock_client_close().
 */
RLOCK_API int rlock_client_open(const struct rlock_client_opts *opts,
                                struct rlock_client **ret_client);

/*
 * Closes a client: releases its holds, wakes its waiters (RLOCK_ECLOSED), ends its threads, and
 * ends the handle. Locks of the client answer RLOCK_ECLOSED from then on. They must still be freed.
 * Blocks for the server's answers, at most op_timeout_ms. Then it logs what stays on the server,
 * and until when.
 * Returns NULL; NULL is ok. In a callback it closes nothing and returns the client.
 * Threads: call it once, in one thread, when no other is about to use the client itself.
 */
RLOCK_API struct rlock_client *rlock_client_close(struct rlock_client *client);

/* Returns the client's UUID, 36 characters: the first part of its owners' names on the server.
 * Borrowed: valid until the client is closed. */
RLOCK_API const char *rlock_client_uuid(const struct rlock_client *client);

/* Returns an owner id, never 0, that no client of this process gives to anybody else: for pools,
 * tasks, and hand-over between threads. It serves for locks of all clients. */
RLOCK_API uint64_t rlock_owner_new(struct rlock_client *client);

/* ---- Locks ---- */

/*
 * A handle for one name and one kind. Making and freeing it does no I/O. Holds belong to the
 * client, not to the handle: any handle of the same name and kind can unlock. A handle keeps its
 * client's memory alive. docs/choosing.md says what each kind promises.
 * Threads: may be shared by all threads.
 */
struct rlock_handle;

/* Options of a lock. Everything is copied. Set with RLOCK_OPTS(). A kind refuses the options of
 * other kinds: RLOCK_EINVAL, and rlock_detail() names the option. */
struct rlock_opts {
    size_t size;
    size_t name_len; /* length of the name in bytes, for names with NUL bytes; default its strlen */
    int64_t max_hold_ms;     /* how long a hold lasts at most, from its first level on. It limits
                                renewals, fixed leases and nested levels; default no end */
    int64_t spin_initial_ms; /* spin: the first pause; default 1 */
    int64_t spin_max_ms;     /* spin: the longest pause; default 128 */
    int64_t spin_multiplier; /* spin: how pauses grow, 1 not at all; default 2 */
    int64_t fair_slot_ms;    /* fair: the longest wait that any peer passes; at least Redisson's
                                fairLockWaitTimeout; the same for all who use the lock; at least
                                1000; default 300000 */
    bool no_reentry;         /* an owner that takes it again gets RLOCK_EREACQUIRE; every kind
                                except multi-locks and RedLocks; default off */
    bool prefer_writers;     /* read and write: readers stand back while a writer waits; both sides
                                must have it; default off */
    int64_t max_lease_ms;    /* RedLock: a server that started less than this ago does not count
                                for new grants; the same for all who use the lock; negative: off,
                                for servers that lose nothing (fsync always); default 30000 */
};

/* Options of a lock by name, the others default: RLOCK_OPTS(.max_hold_ms = 60000). C only. */
#define RLOCK_OPTS(...) ((struct rlock_opts){.size = sizeof(struct rlock_opts), __VA_ARGS__})

/* Makes all options default, as rlock_client_opts_init(). */
RLOCK_API void rlock_opts_init(struct rlock_opts *ret_opts, size_t size);

/*
 * Makes a reentrant lock: its owner may lock it again, and must unlock it as often. Redisson's
 * RLock.
 * name: 1 to 65536 bytes. opts: NULL for all defaults.
 * Returns RLOCK_EINVAL, RLOCK_ENOMEM, RLOCK_ECLOSED, RLOCK_EFORKED.
 * Owns: *ret_lock is the caller's, to be freed with rlock_free().
 */
RLOCK_API int rlock_reentrant_new(struct rlock_client *client, const char *name,
                                  const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a non-reentrant lock: an owner that takes it again gets RLOCK_EREACQUIRE. Redisson's
 * NonReentrantLock. Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_nonreentrant_new(struct rlock_client *client, const char *name,
                                     const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a spin lock: a reentrant lock whose waiters hear no channel. They try again after pauses
 * that grow (spin_* of the options). For servers without pub/sub, and for locks that are held for
 * moments. Redisson's RSpinLock.
 * Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_spin_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a fenced lock: a reentrant lock whose every grant carries a token (rlock_grant.token). Each
 * token is larger than all before it, also when the server has lost its data. Nested levels have
 * that of their hold. A holder may be stopped beyond its lease and write then. A resource is safe
 * from that if it refuses a token that is smaller than the largest it has seen. Redisson's
 * RFencedLock.
 * Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_fenced_new(struct rlock_client *client, const char *name,
                               const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a fair lock: a reentrant lock that goes to its waiters in the order in which the server
 * saw them queue. Redisson's FairLock; with the option no_reentry its NonReentrantFairLock.
 *   - A waiter that gives up leaves the queue.
 *   - A waiter that died is passed over by whoever asks for the free lock. If its process was
 *     killed, that happens 2 s after the first such attempt. If it was stopped, or its machine is
 *     silent, it happens after 5 s; such a waiter queues again when it comes back. Calls that end
 *     earlier count too: what they saw stays on the server.
 *   - A waiter asks 5 s after a release at the latest. It asks at once if that release finds that
 *     the next waiter does not listen.
 *   - A call with wait 0 does not queue. It gets RLOCK_EBUSY while anybody alive queues, though the
 *     lock may be free: it never goes past those who wait. It may never find a moment without them.
 * Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_fair_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes the read side of a read/write lock: any number of owners read at a time, while nobody
 * writes. Redisson's RReadWriteLock, readLock().
 *   - Each owner has its own lease. So a reader that died keeps writers out no longer than that.
 *   - An owner that writes may read as well. It may go on reading when it has given up writing.
 *   - An owner that only reads cannot write: rlock_write_new()'s lock answers RLOCK_EDEADLOCK to it
 *     at once, since it would wait for itself.
 *   - The two sides are locks of their own to every function here. Counts, validity and losses are
 *     per side. rlock_inspect() and rlock_force_unlock() speak of readers alone.
 *   - Readers come in past writers that wait, unless both have the option prefer_writers.
 * Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_read_new(struct rlock_client *client, const char *name,
                             const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes the write side of a read/write lock: one owner, while nobody else reads or writes.
 * Redisson's RReadWriteLock, writeLock(). See rlock_read_new().
 *   - rlock_force_unlock() ends the writer's own reads too.
 *   - With the option prefer_writers a writer that waits keeps out the readers that have it too. If
 *     the writer dies they come in after 5 s at the most.
 * Arguments, returns and ownership as rlock_reentrant_new().
 */
RLOCK_API int rlock_write_new(struct rlock_client *client, const char *name,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a multi-lock: one lock that is held while all of its members are. Redisson's
 * RedissonMultiLock.
 *   - A call gets all members or none. Different callers may name them in different orders.
 *   - If all members are of one client, and none is fair, one script takes them all. Nothing is
 *     held while the call waits for one of them.
 *   - Other members are taken one by one. So are members that were never free at once for half of
 *     the wait, or in eight rounds. They are held while the call waits for the rest, and given back
 *     at the deadline.
 *   - The members' holds are the owner's own: it may take a member once more.
 *   - If one member is lost the whole is lost. That is reported once, by the first member's client,
 *     and the other members are given back.
 *   - A grant's token is 0.
 *   - A fixed lease is renewed until the last member is taken. Then at least two thirds of it
 *     remain: see rlock_grant.valid_ms.
 * members: n from 1 to 64, of any kinds and clients; multi-locks too. Each lock once: if two are
 * one lock, through two clients of one server, taking it returns RLOCK_EINVAL. Not both sides of
 * one read/write lock. They may be freed before the multi-lock is.
 * opts: NULL, or all default.
 * Returns RLOCK_EINVAL, ENOTSUP (a RedLock as a member), ENOMEM, EFORKED, ECLOSED.
 * Owns: *ret_lock is the caller's, to be freed with rlock_free().
 */
RLOCK_API int rlock_multi_new(struct rlock_handle *const *members, size_t n,
                              const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/*
 * Makes a RedLock: a lock that is held while most of its members are. Each member is on a server of
 * its own, and the servers know nothing of each other. After the Redlock algorithm of the Redis
 * documentation.
 *   - The lock survives the loss of any minority of its servers.
 *   - It relies on clocks that run at about the same rate.
 *   - It relies on restarted servers staying out of new grants for max_lease_ms. So after a start
 *     of all of them nobody gets it for that long: RLOCK_ENOQUORUM, and rlock_detail() says how
 *     long.
 *   - All servers are asked at once. The answer comes as soon as it is certain.
 *   - The order of the members matters only beside a Redisson, which takes one after the other:
 *     give them in its order, and both sides get equal shares sooner (docs/interop.md).
 *   - Nested levels are counted by this process alone.
 *   - A lease that is longer than max_lease_ms is RLOCK_EINVAL.
 * members: n from 1 to 64, each of another client and server, single locks that are not fenced. An
 * even n tolerates no more losses than n - 1 does. If two are on one server, taking it returns
 * RLOCK_EINVAL.
 * opts: max_lease_ms, or NULL.
 * Returns as rlock_multi_new(); RLOCK_ENOTSUP for a member of another sort, in a cluster, or
 * behind Sentinels.
 */
RLOCK_API int rlock_redlock_new(struct rlock_handle *const *members, size_t n,
                                const struct rlock_opts *opts, struct rlock_handle **ret_lock);

/* Frees a handle that nobody uses any more. Never unlocks. Returns NULL; NULL is ok. */
RLOCK_API struct rlock_handle *rlock_free(struct rlock_handle *lock);

/* Returns the lock's name, with a NUL byte behind it; ret_len (may be NULL) gets its length.
 * Borrowed: valid until the lock is freed. */
RLOCK_API const char *rlock_name(const struct rlock_handle *lock, size_t *ret_len);

/* Returns the lock's kind, as "reentrant": static. */
RLOCK_API const char *rlock_kind(const struct rlock_handle *lock);

/* A signal to stop waiting, for any number of calls. Once fired it stays fired.
 * Threads: fire it from any thread and signal handler. Fork: a child's copy is another signal. */
struct rlock_cancel;

/* Makes a cancel signal, to be freed with rlock_cancel_free(). Returns RLOCK_ENOMEM, ERESOURCE. */
RLOCK_API int rlock_cancel_new(struct rlock_cancel **ret_cancel);

/* Frees a cancel signal that no call uses any more. Returns NULL; NULL is ok. */
RLOCK_API struct rlock_cancel *rlock_cancel_free(struct rlock_cancel *cancel);

/* Cancels every call that waits with this signal, and every later one. Async-signal-safe. */
RLOCK_API void rlock_cancel_fire(struct rlock_cancel *cancel);

/* How to take a lock. Set with RLOCK_TAKE(). */
struct rlock_take {
    size_t size;
    int64_t wait_ms;  /* how long to wait for the holder; 0 is one attempt, RLOCK_FOREVER is for
                         ever; default 0 */
    int64_t lease_ms; /* a fixed lease, at least 10 and longer than the client's safety_margin_ms;
                         0 is renewed until unlock; default 0 */
    uint64_t owner;   /* who holds: an id, 0 is the calling thread; default 0 */
    struct rlock_cancel *cancel; /* ends the wait; must live until the call returns; default none */
};

/* A way to take a lock by name, the rest default: RLOCK_TAKE(.wait_ms = 500, .lease_ms = 10000). C
 * only. */
#define RLOCK_TAKE(...) (&(struct rlock_take){.size = sizeof(struct rlock_take), __VA_ARGS__})

/* Makes it one attempt with a renewed lease, as rlock_client_opts_init(). */
RLOCK_API void rlock_take_init(struct rlock_take *ret_take, size_t size);

/* What was granted. Set .size (RLOCK_GRANT_INIT) before the call. */
struct rlock_grant {
    size_t size;
    uint64_t token;   /* the fencing number of a fenced lock, the same on re-entry; 0 for other
                         kinds */
    int64_t lease_ms; /* what the server was asked for */
    int64_t valid_ms; /* how long from now this process may rely on it if it is not renewed */
};

/* An empty grant to be filled. */
#define RLOCK_GRANT_INIT                                                                           \
    {                                                                                              \
        sizeof(struct rlock_grant), 0, 0, 0                                                        \
    }

/* Makes it an empty grant to be filled, as rlock_client_opts_init(). */
RLOCK_API void rlock_grant_init(struct rlock_grant *ret_grant, size_t size);

/* Takes the lock, and waits as long as that takes. The lease is renewed until the unlock.
 * Blocks. Returns what rlock_lock_with() does, except RLOCK_EBUSY and RLOCK_ETIMEDOUT. */
RLOCK_API int rlock_lock(struct rlock_handle *lock);

/* Tries once to take the lock, with a renewed lease. I/O: one round trip. Returns what
 * rlock_lock_with() does. */
RLOCK_API int rlock_try_lock(struct rlock_handle *lock);

/*
 * Takes the lock as told. take: NULL for one attempt with a renewed lease. ret_grant: may be NULL.
 * Blocks at most wait_ms, the client's op_timeout_ms, and RLOCK_LATE_MS. wait_ms limits the time
 * spent waiting for the holder: a request that was sent has time for its answer, a few round trips
 * as the connection usually takes, and op_timeout_ms at most. A call that was told of no holder
 * waits for the server at least op_timeout_ms, as a call with wait 0 does.
 * Returns
 *   RLOCK_EBUSY (wait 0): somebody else holds it; nothing of this call is left;
 *   RLOCK_ETIMEDOUT: the wait ran out, because somebody else holds it, or the server was not in
 *     reach or could not grant it; rlock_detail() says which; nothing of this call is left;
 *   RLOCK_ECONN, ETLS, EAUTH: the server could not be reached; with a wait, RLOCK_ECONN: this
 *     client never reached any server; nothing of this call is left;
 *   RLOCK_EINDOUBT: no answer; if it was granted, it is free again by the time in rlock_detail(),
 *     which names the members in doubt for a lock made of locks. A RedLock is in doubt if so many
 *     members are that the others do not prove the outcome (three of five, two of four);
 *   RLOCK_ELOST: this owner's outer hold is lost; unlock it before you take a new one;
 *   RLOCK_EDEADLOCK: a callback cannot wait; or (write lock) this owner reads already;
 *   RLOCK_EREACQUIRE: this owner holds it, and it is not reentrant;
 *   RLOCK_EPERM, EWRONGTYPE, EREFUSED: the server refused; with wait 0 also RLOCK_EREFUSED: the
 *     lock's slot is being moved to another server of the cluster;
 *   RLOCK_ECANCELED: the signal was fired. The call ends within RLOCK_LATE_MS of that. If a request
 *     on its way may still get the lock, the library gives it back, and rlock_detail() says when it
 *     is free at the latest;
 *   RLOCK_EINVAL: an argument is wrong, or this owner holds another kind of lock under the name;
 *   RLOCK_ENOQUORUM, ERESTARTED (RedLock), ENOTREPLICATED, ENOTSUP, ECLOSED, EFORKED, ENOMEM,
 *   ERESOURCE.
 */
RLOCK_API int rlock_lock_with(struct rlock_handle *lock, const struct rlock_take *take,
                              struct rlock_grant *ret_grant);

/*
 * Gives up one level of the calling thread's hold. I/O: one round trip, within op_timeout_ms.
 * A level that is held is given up whatever this returns. After the last one the hold is not valid,
 * and is not renewed: the lock is free by the end of its lease at the latest. The library goes on
 * with a release that was not answered or was refused.
 * Returns
 *   RLOCK_ENOTOWNER: not held; harmless;
 *   RLOCK_ELOST: the hold had ended, once for each level; no I/O when that is known;
 *   RLOCK_EINDOUBT: the server did not answer; or an earlier call of this owner goes on for longer
 *     than op_timeout_ms, or there is no memory or no file descriptor, and the library unlocks
 *     behind that. rlock_detail() gives the time by which the lock is free;
 *   RLOCK_EPERM, EWRONGTYPE, EREFUSED, ECONN: the server did nothing so far;
 *   RLOCK_ECLOSED, EFORKED, EINVAL, ENOTSUP.
 * After RLOCK_EINDOUBT and the four codes below it, at the last level, another unlock returns what
 * is known by then.
 */
RLOCK_API int rlock_unlock(struct rlock_handle *lock);

/* rlock_unlock() for an owner that was given by id; 0 is the calling thread. */
RLOCK_API int rlock_unlock_as(struct rlock_handle *lock, uint64_t owner);

/*
 * Opens the lock, whoever holds it: reads who holds it, and deletes it if exactly they still do. A
 * fair lock that is free has the dead taken out of its queue (rlock_info.dead_waiters). A hold of
 * this process is lost by that (RLOCK_LOST_FORCED). Another process learns of its loss at
 * its next renewal, or from the next answer that names another holder. Of a read/write lock it
 * opens the side of the handle.
 * I/O: two round trips, each within op_timeout_ms. ret_was_locked: may be NULL.
 * Returns 0 (open now), RLOCK_EBUSY when the holder changed meanwhile, RLOCK_EINDOUBT (no answer),
 * RLOCK_ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ENOTSUP, EDEADLOCK, ECLOSED, EFORKED,
 * EINVAL, ENOMEM.
 */
RLOCK_API int rlock_force_unlock(struct rlock_handle *lock, bool *ret_was_locked);

/*
 * Returns whether the calling thread holds the lock and may rely on it now. Local: no I/O, no
 * mutex. Errs towards false. From the end of the validity on it is false, even if no thread of the
 * library has run since.
 */
RLOCK_API bool rlock_is_valid(const struct rlock_handle *lock);

/* rlock_is_valid() for an owner that was given by id; 0 is the calling thread. May take a mutex. */
RLOCK_API bool rlock_is_valid_as(const struct rlock_handle *lock, uint64_t owner);

/* Returns for how many ms the calling thread may rely on the lock if it is not renewed. 0: it is
 * not held, or it is lost. Local, no I/O. */
RLOCK_API int64_t rlock_valid_ms(const struct rlock_handle *lock);

/* rlock_valid_ms() as rlock_is_valid_as(). */
RLOCK_API int64_t rlock_valid_ms_as(const struct rlock_handle *lock, uint64_t owner);

/* Returns how often the calling thread holds the lock, by this process's count. Local, no I/O. */
RLOCK_API uint32_t rlock_hold_count(const struct rlock_handle *lock);

/* rlock_hold_count() as rlock_is_valid_as(). */
RLOCK_API uint32_t rlock_hold_count_as(const struct rlock_handle *lock, uint64_t owner);

/* What the server says of a lock. Set .size (RLOCK_INFO_INIT) before the call. */
struct rlock_info {
    size_t size;
    bool locked;      /* somebody holds it; of a read/write lock: the handle's side */
    bool mine;        /* the holder is an owner of this client */
    int64_t ttl_ms;   /* what remains of the lease; -1 the key has no end, -2 there is no lock */
    uint32_t holders; /* how many owners hold it; of the read side: how many read */
    int64_t count;    /* hold count of the first holder */
    char holder[128]; /* the first holder, as "uuid:number", maybe cut; "" when free */
    char host[128];   /* the holder's machine, if the server lets us know; else "" */
    int64_t pid;      /* the holder's process there, 0 unknown */
    uint64_t token;   /* fenced: the latest token given; 0 none */
    uint32_t waiters; /* fair: how many stand in the queue, with the dead; 0 none, or not known */
    char mode[8];     /* read/write, either side: "read" or "write"; "" free, or another kind */
    uint32_t dead_waiters; /* fair: how many of the first thousand in the queue are dead, as far as
                            * the server can tell: nobody hears that they are called */
};

/* An empty answer to be filled. */
#define RLOCK_INFO_INIT                                                                            \
    {                                                                                              \
        sizeof(struct rlock_info), false, false, 0, 0, 0, "", "", 0, 0, 0, "", 0                   \
    }

/* Makes it an empty answer to be filled, as rlock_client_opts_init(). */
RLOCK_API void rlock_info_init(struct rlock_info *ret_info, size_t size);

/*
 * Asks the server about the lock. The answer was true when the server gave it. Of a multi-lock or
 * RedLock it asks the members one after the other: *ret_info tells of the first that is held, and
 * its holders is how many members are held.
 * I/O: one or two round trips, both within op_timeout_ms; the second one finds out the holder's
 * machine.
 * Returns RLOCK_ECONN, ETLS, EAUTH, EPERM, EWRONGTYPE, EREFUSED, ENOTSUP, EDEADLOCK, ECLOSED,
 * EFORKED, EINVAL, ENOMEM.
 */
RLOCK_API int rlock_inspect(struct rlock_handle *lock, struct rlock_info *ret_info);

/* What one member of a multi-lock or RedLock said. Borrowed: valid during the callback. */
struct rlock_member {
    size_t size;
    const char *name; /* the member's name, with a NUL byte after name_len bytes */
    size_t name_len;
    const char *kind;
    const char *server; /* its server's address */
    bool held;          /* granted, and kept */
    int code;           /* 0, or why not: RLOCK_EBUSY, ETIMEDOUT, ECONN, ERESTARTED, … */
    const char *detail; /* one line about that, naming the holder where known; "" if it is held */
};

/* Receives the members one after the other, in the calling thread. */
typedef void rlock_member_fn(const struct rlock_member *member, void *payload);

/*
 * Calls fn with what each member of a multi-lock or RedLock said in the latest call that ended on
 * this handle. Threads that share a handle see each other's. Local, no I/O. Returns RLOCK_EINVAL.
 */
RLOCK_API int rlock_members(const struct rlock_handle *lock, rlock_member_fn *fn, void *payload);

/* ---- Async calls ---- */

/*
 * One async call, from its begin until its last reference is gone. Threads: its functions may be
 * called from any thread.
 */
struct rlock_op;

/*
 * Called once for each async call that returned 0, when that is complete; never inside of that
 * call, but maybe in another thread before it has returned. op: borrowed, valid during the
 * callback. It may call every function that does not wait, and begin async calls that do. A
 * function that waits returns RLOCK_EDEADLOCK there.
 * Threads: runs on the dispatcher thread of the lock's client, with no lock of the library held;
 * with RLOCK_LOOP_USER in rlock_client_dispatch(). Of a multi-lock or RedLock on that of one of its
 * members' clients, always the same one.
 */
typedef void rlock_done_fn(struct rlock_op *op, void *payload);

/*
 * The async calls. Each begins what the function without _async does, and returns without waiting:
 * the same deadlines hold, from here on. The outcome comes with done (may be NULL), and stands in
 * the operation from then on. When the client is closed all that are under way complete.
 * The lock may be freed meanwhile.
 * owner: an id that is not 0; for rlock_lock_async() take->owner. A thread cannot own, since it may
 * be elsewhere by then: rlock_owner_new() gives ids. Calls of one owner on one lock take turns.
 * ret_op: the caller's reference, to be dropped with rlock_op_unref(); NULL for none.
 * Returns 0, or (done is not called then) RLOCK_EINVAL, ECLOSED, EFORKED, ENOMEM, ERESOURCE, and
 * from rlock_unlock_async() RLOCK_ELOST where the client of a lost multi-lock or RedLock is closed.
 * After RLOCK_ENOMEM or ERESOURCE nothing has changed: call again.
 */

/* Takes the lock, as rlock_lock_with(). */
RLOCK_API int rlock_lock_async(struct rlock_handle *lock, const struct rlock_take *take,
                               rlock_done_fn *done, void *payload, struct rlock_op **ret_op);

/* Gives up one level, as rlock_unlock_as(). */
RLOCK_API int rlock_unlock_async(struct rlock_handle *lock, uint64_t owner, rlock_done_fn *done,
                                 void *payload, struct rlock_op **ret_op);

/* Opens the lock, as rlock_force_unlock(). */
RLOCK_API int rlock_force_unlock_async(struct rlock_handle *lock, rlock_done_fn *done,
                                       void *payload, struct rlock_op **ret_op);

/* Asks the servers about the lock, as rlock_inspect(); but host and pid stay unknown. */
RLOCK_API int rlock_inspect_async(struct rlock_handle *lock, rlock_done_fn *done, void *payload,
                                  struct rlock_op **ret_op);

/* What rlock_op_code() returns before the operation is complete. */
#define RLOCK_UNDER_WAY 1

/* Returns what the operation came to, as the function without _async returns it: 0, or a negative
 * code. RLOCK_UNDER_WAY: it is not complete. */
RLOCK_API int rlock_op_code(const struct rlock_op *op);

/* Returns the operation's one line for logs, as rlock_detail() does; "" where it succeeded, or is
 * under way. Borrowed: valid as long as the reference. */
RLOCK_API const char *rlock_op_detail(const struct rlock_op *op);

/* Gives what was granted. Returns RLOCK_EINVAL where the operation is no rlock_lock_async() that
 * ended with 0, or the grant's size is not set. valid_ms counts from the grant on. */
RLOCK_API int rlock_op_grant(const struct rlock_op *op, struct rlock_grant *ret_grant);

/* Gives what the server said. Returns RLOCK_EINVAL where the operation is no rlock_inspect_async()
 * that ended with 0, or the info's size is not set. */
RLOCK_API int rlock_op_info(const struct rlock_op *op, struct rlock_info *ret_info);

/* Returns whether an rlock_force_unlock_async() that ended with 0 found the lock taken. */
RLOCK_API bool rlock_op_was_locked(const struct rlock_op *op);

/*
 * Asks an operation that takes a lock to end within RLOCK_LATE_MS. It completes as it would have,
 * or with RLOCK_ECANCELED as rlock_lock_with() does: look at its code, since it may have the lock.
 * Other operations go on. NULL, and one that is complete, are ok.
 */
RLOCK_API void rlock_op_cancel(struct rlock_op *op);

/* One reference more. Returns op. */
RLOCK_API struct rlock_op *rlock_op_ref(struct rlock_op *op);

/* Drops a reference, which may be the last while the operation goes on. Returns NULL; NULL is
 * ok. */
RLOCK_API struct rlock_op *rlock_op_unref(struct rlock_op *op);

/*
 * For a client with RLOCK_LOOP_USER: it has no threads, but one that looks up a host's name at
 * times. The program's event loop runs it. Whenever the fd is readable, call
 * rlock_client_dispatch().
 *   - Functions that wait, and those that ask several servers (scan, diagnose), return
 *     RLOCK_ENOTSUP. All others, and the async calls, do what they do elsewhere, in any thread.
 *   - Renewal is up to the loop as well. A loop that stands still for longer than a third of the
 *     lease may lose its holds, and is told so when it goes on (on_lost). rlock_is_valid_as() is
 *     false as soon as they are not valid, whether or not the loop runs.
 *   - rlock_client_close() runs the callbacks that remain, in the thread that closes.
 *
 * Returns the fd: poll it for reading, level-triggered, and do nothing else with it. It belongs to
 * the client. -1: the client has threads of its own.
 */
RLOCK_API int rlock_client_fd(const struct rlock_client *client);

/*
 * Does what is due, and runs the callbacks. Never waits. One thread at a time.
 * Returns 0, or RLOCK_EINVAL (the client has threads of its own), RLOCK_EDEADLOCK (in a callback),
 * RLOCK_EBUSY (another thread dispatches), RLOCK_EFORKED.
 */
RLOCK_API int rlock_client_dispatch(struct rlock_client *client);

/* ---- Locks there are, and the server's fitness ---- */

/* Receives one lock that was found; info: of its holder, or of its queue. Borrowed: valid during
 * the callback. A return other than 0 ends the scan with that value. */
typedef int rlock_scan_fn(const char *key, size_t key_len, const struct rlock_info *info,
                          void *payload);

/*
 * Calls fn for every key that looks like a lock, by the shape of its fields, with SCAN. Calls it
 * also for every fair lock that is free but has owners in its queue: then info->locked is false,
 * and info->dead_waiters says how many of them are dead. It may see a key twice. pattern: as in
 * SCAN MATCH, for what follows the client's key_prefix; NULL for all.
 * fn runs in the calling thread, with no lock of the library held.
 * In a cluster, and behind Sentinels, primaries are asked, one after the other. Where one cannot be
 * asked the others still are, and its failure is what this returns. A key that is moved meanwhile
 * may be seen twice, or missed.
 * I/O: many round trips, each within op_timeout_ms.
 * Returns what fn returned if that was not 0, or RLOCK_ECONN, EAUTH, ETLS, EPERM, EREFUSED,
 * ECLOSED, EFORKED, EINVAL, ENOMEM.
 */
RLOCK_API int rlock_client_scan(struct rlock_client *client, const char *pattern, rlock_scan_fn *fn,
                                void *payload);

/* Receives one finding about the server. level says how bad it is, subject is a short word, text
 * says what it means for locks. */
typedef void rlock_finding_fn(enum rlock_level level, const char *subject, const char *text,
                              void *payload);

/*
 * Tries what locks need on the server: a connection, every script on a probe key, pub/sub and
 * permissions. Looks for settings that endanger locks. Calls fn in the calling thread for each
 * finding.
 * In a cluster, and behind Sentinels, each primary is looked at; a text about one begins with its
 * address. The cluster's slots, or what the Sentinels say, are looked at too.
 * Blocks. I/O: many round trips, each within op_timeout_ms.
 * Returns 0 when locks will work, else the code of the first finding that prevents some.
 */
RLOCK_API int rlock_client_diagnose(struct rlock_client *client, rlock_finding_fn *fn,
                                    void *payload);

/* ---- Guard ---- */

/*
 * A hold that ends with its scope:
 *
 *     RLOCK_GUARD guard = rlock_guard_take(lock, NULL);
 *     if (guard.code != 0) {
 *         return guard.code;
 *     }
 *
 * The end of the scope drops the code of the unlock. Where that matters, unlock with
 * rlock_guard_end().
 * Threads: ended by the thread that took it, unless an owner was given.
 */
struct rlock_guard {
    struct rlock_handle *lock; /* NULL: nothing to unlock */
    uint64_t owner;            /* as it was taken */
    int code;                  /* what taking it returned */
    void *reserved[2];         /* NULL */
};

/* Takes the lock (take: NULL waits for ever with a renewed lease) and returns the guard; see its
 * .code. Blocks. */
RLOCK_API struct rlock_guard rlock_guard_take(struct rlock_handle *lock,
                                              const struct rlock_take *take);

/* Ends a guard now. Returns the unlock's code, 0 if there was nothing to unlock. */
RLOCK_API int rlock_guard_end(struct rlock_guard *guard);

#ifndef RLOCK_PLAIN
/* The type of a guard variable that ends with its scope (gcc and clang). */
#define RLOCK_GUARD __attribute__((cleanup(rlock_guard_cleanup))) struct rlock_guard

/* What RLOCK_GUARD runs at the end of the scope: rlock_guard_end(), the code dropped. */
static inline void rlock_guard_cleanup(struct rlock_guard *guard)
{
    (void)rlock_guard_end(guard);
}
#endif

#ifdef __cplusplus
}
#endif
#endif
