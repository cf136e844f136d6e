/*
 * The scenarios: properties that must hold between a Redisson process and one of ours. Each is
 * written once, for one who holds and one who waits, and run in both directions, for every kind.
 */
#ifndef RLOCK_INTEROP_INTEROP_H
#define RLOCK_INTEROP_INTEROP_H

#include "deployment.h"
#include "peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LONG_MS = 30000,    /* renewed lease of the client "long" */
    SHORT_MS = 1500,    /* of "short", where leases are waited for */
    SLOT_MS = 300000,   /* of fair locks, Redisson's default */
    PROMPT_MS = 2500,   /* a message arrived, also where the machine is busy: far below any lease
                           of "long", and half of what ours lets pass before it looks again */
    FRESH_MS = 20000,   /* what is left of 30 s is more, as long as nobody shortens it */
    PATIENCE_MS = 15000 /* for an answer that nothing holds up */
};

enum { MAX_MEMBERS = 4 };

/* One of the locks that a group is made of. */
struct member {
    const char *kind;
    size_t server;
    const char *suffix;  /* of the group's name */
    const char *against; /* the kind that it excludes; NULL: its own */
};

/* A kind of lock, a row each: what both sides call it, and what decides which steps it has. */
struct kind {
    const char *name;
    const char *channel;  /* where its waiters listen, without the name; NULL: they poll */
    const char *waits_as; /* what the waiter takes, where that is another kind */
    const char *label;    /* what the table calls it; NULL: the name */
    bool is_reentrant;
    bool is_shared; /* owners of one kind hold it together */
    bool is_fair;   /* each waiter has a channel of its own: the kind's, the name's and its own */
    bool is_fenced;
    bool is_lenient;  /* Redisson's unlock succeeds, or is announced, also when the lock is free */
    bool is_missed;   /* Redisson may miss a writer's release before it sleeps: docs/interop.md */
    bool shares_hash; /* with the reentrant lock: excluded by it under the same name */
    bool is_silent;   /* Redisson's unlock succeeds whatever happens */
    bool is_brief;    /* also where little time is spent on a deployment */

    /* Of a group; its waiters listen where its members' do, or poll. */
    struct member members[MAX_MEMBERS];
    size_t n_members; /* 0: a single lock */
    size_t quorum;    /* how many of them are the whole */
};

extern const struct kind interop_kinds[];
extern const size_t interop_n_kinds;
const struct kind *interop_kind(const char *name); /* the first of that name */
size_t kind_servers(const struct kind *kind);

static inline bool kind_is_group(const struct kind *kind)
{
    return kind->n_members > 0;
}
static inline bool kind_is_redlock(const struct kind *kind)
{
    return kind->quorum < kind->n_members;
}

/* One side: a process with its clients "long" and "short"; of those for further servers, the names
 * go on ".1", ".2" and so on. */
struct party {
    struct peer *peer;
    bool is_ours;
    const char *urls[MAX_SERVERS];
    size_t n_servers;
    char uuids_long[MAX_SERVERS][40], uuids_short[MAX_SERVERS][40];
};

enum { MAX_WAKES = 128 };

/* Who plays a property, and how it went. */
struct pair {
    struct deployment *deployment;
    const struct kind *kind;
    struct party *holder, *waiter;
    const char *client;          /* the one that is used, "long" at first */
    const char *as;              /* the kind that is taken, NULL: as the pair's kind says */
    const struct member *member; /* of a group, what it is about; NULL: the whole */
    char name[128];              /* of the lock: new for each property */
    struct peer_answer last;
    char failure[8192];          /* why the property does not hold */
    int64_t wakes_us[MAX_WAKES]; /* from the unlock's sending to the waiter's answer */
    size_t n_wakes;
    struct trace *reference; /* what Redisson leaves (state.c) */
};

/* Whether it holds; if not, `failure` says why. */
typedef bool property_fn(struct pair *pair);

property_fn interop_exclusion, interop_reentry, interop_queries, interop_expiry, interop_force;
property_fn interop_reacquire, interop_beside, interop_tokens;
property_fn interop_wake_up, interop_crowd, interop_names, interop_prefix, interop_database;
property_fn interop_watchdog, interop_stall, interop_crash, interop_waiter_crash;
property_fn interop_order, interop_giving_up, interop_readers, interop_downgrade,
    interop_reader_crash;
property_fn interop_state;
property_fn interop_witness, interop_order_of_members, interop_member, interop_all_or_nothing,
    interop_member_forced, interop_taker_crash, interop_minority, interop_no_quorum;
property_fn interop_failover, interop_reshard;

struct property {
    const char *name;
    property_fn *holds;
    bool (*applies)(const struct kind *kind); /* NULL: to every kind */
    enum { EVERYWHERE, NOT_IN_CLUSTERS, WITH_REPLICAS, IN_CLUSTERS } where;
    bool is_brief; /* the same */
};

extern const struct property interop_properties[];
extern const size_t interop_n_properties;
/* Whether this Redisson is known not to have it in this role, with itself neither. */
bool property_is_known(const struct property *property, const char *version,
                       const struct pair *pair);

/* ---- steps ---- */

/* The server that has the pair's lock; of a group, its first member. */
struct test_server *pair_server(struct pair *pair);

/* Whether this process, asked through an open client, has the kind. */
bool party_has(struct party *side, const char *client, const char *kind);
/* Opens the clients "long" and "short" of a process that has just been started. */
void party_open(struct party *side);
/* Opens another, on all servers; zero is the party's URLs, LONG_MS, SLOT_MS, the side's own
 * timeouts, no prefix. Returns the first answer that is a failure, or the last. */
struct client_opts {
    const char *url, *prefix;
    int lease_ms, slot_ms;
    int timeout_ms; /* of one attempt to reach a server; Redisson makes no other then */
};
struct peer_answer party_open_client(struct party *side, const char *client,
                                     const struct client_opts *opts);
/* Kills and starts anew, with its clients. */
void party_restart(struct party *side);

/* A fresh name, for a second round. */
void pair_rename(struct pair *pair);

/* What follows is about one member of the group, or about the whole again. A member is taken by
 * a client of its own server as what the member excludes, and asked and forced as what it is. */
struct pair *pair_member(struct pair *pair, size_t i);
struct pair *pair_whole(struct pair *pair);
/* "<kind> <name>" of the pair's lock, with the members in that order or the opposite one. */
void pair_spell(struct pair *pair, bool is_reversed, char *ret_words, size_t size);

/* Tells an owner of the pair's client what to do with the pair's lock; gives the request's id. The
 * waiter takes what the kind waits as, and forces what the holder took. */
int pair_tell(struct pair *pair, const struct party *side, const char *owner, const char *what);
struct peer_answer pair_wait(struct pair *pair, const struct party *side, int id,
                             int64_t timeout_ms);
/* Both, for what nothing holds up. */
struct peer_answer pair_ask(struct pair *pair, const struct party *side, const char *owner,
                            const char *what);

/* Whether it was done; whether its answer is that; whether it said that the lock is not held. */
bool pair_does(struct pair *pair, const struct party *side, const char *owner, const char *what);
bool pair_says(struct pair *pair, const struct party *side, const char *owner, const char *what,
               const char *answer);
bool pair_refuses(struct pair *pair, const struct party *side, const char *owner, const char *what);
bool answer_is_not_yours(const struct peer_answer *answer);

/* The answer is a number, else INT64_MIN. */
int64_t pair_number(struct pair *pair, const struct party *side, const char *owner,
                    const char *what);

/* The lock's hash on the server. Of a group: whether no member is held, of a RedLock within a
 * moment; until when the whole is; and the first member's. */
bool pair_is_free(struct pair *pair);
/* The same after a holder lost it; but a group of Redisson's may keep its reader's level, which
 * its watchdog finds again (docs/interop.md, 10). */
bool pair_is_left(struct pair *pair);
int64_t pair_ttl(struct pair *pair);
/* How many of the group's members are held. */
size_t pair_n_held(struct pair *pair);
/* Its first owner, as "uuid:number", "" when there is none; and that one's count. The next call
 * overwrites it. */
const char *pair_owner(struct pair *pair);
int pair_count(struct pair *pair);

/* Waits until a process, or as many, listen on the lock's channel (of a fair lock: until so many
 * wait), and where Redisson could miss a release, until all its owners that wait for something
 * sleep. True at once where the kind has no channel. */
bool pair_is_awaited(struct pair *pair);
bool pair_is_awaited_by(struct pair *pair, size_t listeners);

/* Whether anybody listens on the channel that all libraries share, of standalone servers. A waiter
 * of ours subscribes to it after it has entered its queue, if another library holds the lock. */
bool pair_is_heard(struct pair *pair);

/* Waits until as many stand in the queue of a fair lock or member, with a slot each, and nobody
 * else listens. For names without braces. */
bool pair_is_queued(struct pair *pair, size_t n);

/* Whether the owner says so, or is of a Redisson that cannot say it of a group. */
bool pair_holds(struct pair *pair, const struct party *side, const char *owner, bool is_held);

/* How often the owner has it: by its own count, where it tells, and by the servers'. */
bool pair_has_levels(struct pair *pair, const struct party *side, const char *owner, int levels);

/* Whether the side was told of the loss of the pair's lock, with one of the reasons in "A B".
 * Redisson never tells: true for it. */
bool pair_lost(struct pair *pair, const struct party *side, const char *reasons,
               int64_t timeout_ms);

/* Notes what failed, with the last answer. Returns false. */
bool pair_failed(struct pair *pair, const char *file, int line, const char *what);

/* Ends a property_fn unless the condition is true. */
#define EXPECT(pair, condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return pair_failed((pair), __FILE__, __LINE__, #condition);                            \
        }                                                                                          \
    } while (0)

/* ---- state, scripts, shares and stress ---- */

/* What two Redissons leave after each step of the kind's script; NULL, and the pair's failure, when
 * they did not go through it. */
struct trace *trace_record(struct pair *pair);
struct trace *trace_free(struct trace *trace); /* NULL ok */

/* Uses a fair lock on a fresh server, and leaves the scripts of it in the directory, for
 * tests/fair/recorded.h. Returns false after printing why not. */
bool interop_record(struct party *java, struct test_server *server, const char *version,
                    const char *directory);
/* Runs one of the programs of that directory which play the model of the fair lock by those
 * scripts, and prints what came of it; whether it played all that it has. */
bool interop_model(const char *programs, const char *name);
/* Runs a program beside the witness; its output goes to the file `log`, or where ours does. */
bool interop_succeeds(const char *programs, const char *const *argv, const char *log);

enum { SHARES_PARTIES = 52, SHARES_SERVERS = 3 };

/* Processes of Redisson's, and then of ours. */
struct shares_opts {
    struct party *parties; /* their clients "long" are open */
    size_t n_java, n_ours; /* SHARES_PARTIES together, at most */
    bool is_whole;         /* the limits and the kinds are; else half of the limits will do for a
                              reentrant lock, and the table has two kinds */
    const char *kind;      /* the table of this kind alone; NULL: everything */
};

/* Runs threads that want one name all the time, and prints who had it; whether all had enough. */
bool interop_shares(const struct shares_opts *opts);
/* The same with a thread in each process, and so many processes of each side as the table says. */
bool interop_mixes(const struct shares_opts *opts);

/* The four processes of the stress. */
struct stress_opts {
    struct party *parties; /* CELLS_SLOTS, in the order of slots */
    int64_t seconds;
};

/* Runs it, prints what was counted; whether exclusion held, and nobody erred or was stuck. */
bool interop_stress(const struct stress_opts *opts);
/* The same processes without locks for a moment: whether the cells catch it. */
bool interop_stress_is_witnessed(const struct stress_opts *opts);

#endif
