/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world of clients, a server and a network between them, on one thread and one virtual clock,
 * decided by one seed. The clients are the library's real core, the server runs its real scripts;
 * only the network, the clock and the users are ours.
 *
 * What the network does is what TCP allows: on one connection everything arrives once and in order,
 * or the connection breaks. A break loses what is under way, or not yet: what lies in the server's
 * socket buffer runs later, unless the server closed the connection first. Messages of pub/sub may
 * be lost and doubled as well: servers drop them.
 */
#ifndef RLOCK_TESTS_SIM_WORLD_H
#define RLOCK_TESTS_SIM_WORLD_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/timer.h"
#include "lock/core.h"
#include "seen.h"
#include "server.h"
#include "support/alone.h"

#define SIM_MAX_USERS 3
#define SIM_KEYS 3
#define SIM_SIDES 2 /* of a read/write lock: reading, writing */
#define SIM_LEFT 8
#define SIM_ENDED 16
#define SIM_TEXTS 4
#define SIM_TEXT_AT                                                                                \
    19 /* where the UUIDs of texts have this digit, and those of clients another one */
#define SIM_TEXT_DIGIT '9'
#define SIM_NODES 5      /* servers that share the keys, and their replicas */
#define SIM_NODE_LINKS 2 /* links of a client to one of them, for locks */
#define SIM_ACK_LINKS 2  /* and for acknowledgements */

struct sim_world;
struct sim_client;

/* One direction's frame, under way. */
struct sim_message {
    struct rlock__timer timer;
    struct sim_conn *conn;
    struct sim_message *prev, *next; /* of its connection */
    bool to_server, is_end;          /* is_end: the peer closed */
    bool unasked;                    /* a reply once more; it comes only where nothing is awaited */
    size_t len;
    char bytes[];
};

struct sim_conn {
    struct sim_world *world;
    struct sim_client *client; /* NULL: gone */
    struct sim_link *link;     /* the client's */
    unsigned node;
    struct sim_conn *prev, *next;
    uint64_t id; /* at the server; 0 not connected yet */
    bool is_sub;
    bool open;        /* as the client sees it */
    bool mute;        /* it swallows everything, and nobody is told */
    bool asks;        /* the frame that the client sent last is ASKING */
    bool has_run;     /* a script since the latest WAIT */
    bool is_round;    /* ROLE came behind it: the first WAIT for it comes */
    bool is_demoted;  /* the client was told that the server is a replica */
    uint64_t written; /* world.written, after its latest script */
    unsigned server_life;
    int64_t uptime_s; /* that the server told; RLOCK__UNKNOWN nothing */
    struct sim_message *under_way;
    int64_t last_up, last_down; /* arrival of the latest frame, each way */
    struct rlock__timer end;    /* the server notices that the client closed */
};

/* SIM_GREETED: it waits until others have confirmed that its server is still the primary. */
enum sim_link_state { SIM_DOWN, SIM_CONNECTING, SIM_HELLO, SIM_GREETED, SIM_UP };

struct sim_link {
    struct sim_client *client;
    unsigned node, index; /* the index-th to that node */
    bool is_sub;
    enum sim_link_state state;
    struct sim_conn *conn;
    uint64_t gen, client_id;
    unsigned answers_due; /* of the handshake */
    int64_t spoke_at;     /* client's clock: it sent the greeting */
    bool fenced;
    uint64_t unfenced[RLOCK__UNFENCED_MAX]; /* what this connection is to kill */
    size_t n_unfenced;
    struct rlock__timer timer; /* connect, retry, handshake deadline */
};

/* What a user has of a lock, or of one side of it. */
struct sim_hold {
    uint32_t depth; /* levels that the user believes to hold */
    struct rlock__view *view;
    /* for the checker */
    uint64_t number, token;
    bool doomed; /* the server lost it, or an admin took it: only its loss is demanded */
    int64_t doomed_valid;
    bool fuzzy;         /* a nested level is in doubt: the server's count may be one more */
    bool half;          /* a level may have been released though that was refused */
    bool gone;          /* a failover took it */
    bool lost;          /* reported */
    bool over;          /* its validity was seen to end */
    int64_t until;      /* client's clock: what its validity last was, while it had one */
    bool begun;         /* its last release was refused: it may be tried again, and no more */
    int64_t not_after;  /* client's clock: not renewed beyond, its unlock was refused; 0 any time */
    bool expired;       /* on the server, by its clock */
    bool fixed;         /* its first level has a lease of its own */
    unsigned renewed;   /* a bit for each level that is to be renewed */
    int64_t held_until; /* client's clock: max_hold allows no longer; 0 any time */
    int64_t first_until, first_left; /* of its first level: its validity, and what was left of it */
    int64_t lease;                   /* the longest that was granted */
    /* given up, the server's answer unknown */
    uint64_t given_up; /* number; 0 none */
    unsigned given_key;
    int64_t free_by;    /* client's clock: what was promised */
    int64_t since;      /* world clock */
    bool shared;        /* two threads of its owner have worked on it */
    bool rests;         /* no renewal of what was given up is under way */
    int64_t idle_since; /* world clock: its owner has no call since then */
};

/* A number that its user has no more, though copies of its acquire may run yet. */
struct sim_ended {
    uint64_t number;
    int64_t until; /* client's clock: so long the client must look after it */
};

/* A text that a detach returned, and that no call has adopted. */
struct sim_text {
    char owner[RLOCK__OWNER_SIZE]; /* "" none */
    unsigned key, side, adopters;  /* that asked for it */
    uint64_t given_back; /* of a call: the attempt that gave it back when the call began; 0 none */
};

/* A second thread of a user: it unlocks while the user has a call under way. */
struct sim_second {
    bool is_calling;
    unsigned side;
    struct rlock__call call;
    struct rlock__texts texts;
    int64_t began_at; /* world clock */
    struct rlock__timer act;
};

/* A user: one thread, or one given id, that takes and gives up locks, one call at a time. */
struct sim_user {
    struct sim_client *client;
    struct rlock__owner owner;
    unsigned key;
    struct sim_hold holds[SIM_SIDES]; /* of that key */
    unsigned side;                    /* of the call */
    bool calling;
    struct rlock__call call;
    struct rlock__texts texts; /* the call's */
    int64_t began, cancelled;  /* client's clock; 0 not cancelled */
    struct rlock__timer act;
    struct sim_second second;
    struct sim_text text;          /* that its call adopts */
    int64_t valid_before;          /* client's clock: the validity before its extension began */
    bool is_ended;                 /* its owner was reported to have ended during its call */
    bool doomed_call;              /* the server lost its data while the call was on its way */
    int64_t began_at;              /* world clock */
    bool knew_loss;                /* the hold of its call was lost when that began */
    bool gone;                     /* it was not on the server when its release began */
    int64_t cut;                   /* client's clock: its release has no more time, validity ends */
    unsigned spins, attempts;      /* pauses that were looked at; the same */
    uint64_t own;                  /* the number of its call in the wait queue; 0 none */
    uint64_t joined;               /* when it came there, counted; 0: it is in none */
    bool asks, open;               /* an attempt of its call was under way; or may have been */
    bool awaits;                   /* it waits for a hold of its client */
    unsigned tries;                /* attempts of its call, when that was seen */
    int64_t listens_since;         /* world clock: it hears the channel since then; 0 does not */
    int64_t listened_at[SIM_KEYS]; /* world clock: it was last on its channel */
    /* opening a lock by force */
    bool forcing, opened;
    bool seized;     /* somebody else opens what the call is granted, maybe */
    char seen[1024]; /* who holds it, as the kind says it */
    uint64_t forced[SIM_MAX_USERS][SIM_SIDES]; /* its client's holds that were there then; 0 none */
};

struct sim_client {
    struct rlock__core core;
    struct rlock__server nodes[SIM_NODES];
    char node_ids[SIM_NODES][SIM_NODE_ID_LEN + 1];
    unsigned known[SIM_KEYS]; /* the node of each key, as far as it knows */
    bool learned[SIM_KEYS];   /* that changed: what waited for a link may go the old way */
    bool used[SIM_NODES];     /* primaries, as far as it knows: it makes links to them */
    unsigned epoch;           /* world.epoch, of the map that it has */
    int64_t heard_at;         /* world's clock: it learned that */
    struct rlock__timer hear; /* it asks for a new map */
    int64_t struck_at;        /* world's clock: its latest fault */
    unsigned cut_node;        /* what is between it and this node waits */
    int64_t cut_node_until;   /* world's clock */
    struct sim_world *world;
    unsigned index;
    bool alive, closed;
    bool may_kill;             /* the server lets it fence; if not, see links.c */
    bool may_listen;           /* the server lets it subscribe */
    bool is_lax;               /* its map knew of no replica for a while */
    bool knows_replica;        /* its map does */
    int64_t out_at;            /* world's clock: it left the replica out; 0 it did not */
    int64_t omits_until;       /* world's clock: what it holds the replica need not have */
    struct rlock__timer round; /* it asks the Sentinels */
    int64_t ppm, offset;       /* its clock */
    int64_t paused_until;      /* world's clock */
    int64_t cut_until[2]; /* what it sends, and what it is sent, waits so long; world's clock */
    int64_t disturbed;    /* until when it could not work freely */
    int64_t hampered;     /* until when something takes longer than it should */
    int64_t slowest;      /* round trip that it knew */
    struct sim_link links[SIM_NODES * (SIM_NODE_LINKS + SIM_ACK_LINKS)], subs[SIM_NODES];
    struct rlock__timer tick;
    struct sim_user users[SIM_MAX_USERS];
    unsigned n_users;
    struct rlock__spec *specs[SIM_SIDES][SIM_KEYS];
    uint64_t left[SIM_LEFT]; /* numbers of threads that ended, the latest */
    unsigned n_left;
    struct sim_ended ended[SIM_ENDED]; /* the latest */
    unsigned n_ended;
    struct sim_hold lingering[SIM_KEYS]; /* as its user had it */
};

/* What the seed chose. */
struct sim_config {
    const struct rlock_ops *kind, *other; /* other: the second side; NULL a lock without sides */
    int64_t units;                        /* of a kind that has them */
    unsigned n_clients, n_users, n_keys;
    int64_t delay_min, delay_max; /* one way */
    int64_t lease, op_timeout;
    unsigned faults;        /* per mille of steps; 0 a perfect network */
    unsigned drop_messages; /* percent of pub/sub messages */
    bool prefer_writers, drift;
    int64_t slot_ms;     /* of a fair lock */
    bool some_are_peers; /* as their UUIDs say */
    bool no_reentry;
    unsigned n_nodes; /* servers that share the keys, which move between them */
    bool sharded;     /* they announce on sharded channels */
    bool both;        /* and on plain ones; the first client knows these alone */
    bool no_pass;     /* clients pass no hold on */
    bool seconds;     /* owners unlock in two threads */
    bool hasty;       /* users give up soon what they have, and want it again */
    bool is_fleet;    /* users do that and rest seldom, so that many calls wait for one lock */
    unsigned n_links; /* of each client to each of them */
    unsigned n_acks;  /* the same, for what is to be acknowledged: 0 nothing is */
    bool opens_slots;
    bool moves_slots;     /* from one of its nodes to another */
    unsigned n_primaries; /* of its nodes: as many replicas as are left have one each */
    int64_t failover_us;  /* a server that is silent for so long may be replaced; 0 none is */
};

/* What every seed is to have; where nothing is said the seed chooses. */
struct sim_only {
    const char *kind;
    unsigned nodes, faults;                             /* faults: per mille of steps */
    int acks, failovers, links, slots, foreign, queues; /* flags: see `sim --help` */
};

/* A server, as its events name it. */
struct sim_node {
    struct sim_world *world;
    struct sim_server *server;
    unsigned index;
    /* STALE: it was replaced, and does not know */
    enum { SIM_SERVES, SIM_FROZEN, SIM_DEAD, SIM_STALE } state;
    unsigned replica; /* that has what it has, some time later; SIM_NODES none */
    bool is_replica;
    int64_t until;       /* frozen: it goes on then */
    int64_t not_before;  /* it is not replaced earlier */
    unsigned life;       /* how often it has died */
    uint64_t written;    /* scripts that ran */
    uint64_t replicated; /* of these, that the replica has */
};

/* A slot on its way from one node to another. */
struct sim_move {
    unsigned key, from, to;
    int step;
    unsigned tries;
    bool aborts;       /* it will come back */
    bool is_off;       /* it came back, and one of the two knows that */
    bool source_first; /* which of the two nodes is told first in the end */
    struct rlock__timer timer;
};

/* A primary that does not answer, and may be replaced. */
struct sim_failover {
    bool is_on;
    unsigned from, to;
    bool is_promoted; /* to serves the keys of from */
    bool returns;     /* before that could be: nobody is promoted */
    bool is_empty;    /* without its data */
    int64_t promotes_at, returns_at;
    struct rlock__timer timer;
};

/* What has happened to the only replica of the only server. */
struct sim_standby {
    enum {
        SIM_LINKED,
        SIM_UNLINKED, /* from its primary */
        SIM_DOWN_TOO, /* the same, and the Sentinels reach it as little */
        SIM_SPLIT     /* with two Sentinels it is on the other side of a cut */
    } state;
    int64_t since, seen_at;       /* seen: by Sentinels again, before it is back */
    int64_t back_at;              /* it was back last */
    int64_t missing_since;        /* as a client sees it that asks each second for the list */
    int64_t out_until, listed_at; /* so long it was right to leave it out; it was listed */
    struct rlock__timer timer;    /* it is back */
};

struct sim_world {
    uint64_t seed, random;
    int64_t now;
    uint64_t steps;
    struct sim_config config;
    struct rlock__timers timers;
    struct sim_server *server; /* the only one, or the first */
    struct sim_node nodes[SIM_NODES];
    struct sim_server *replica;     /* of the only one, where writes are acknowledged */
    int64_t lags_since, lags_until; /* it does not catch up from then to then */
    struct sim_standby standby;
    struct sim_move move;
    struct sim_failover failover;
    unsigned epoch;    /* of the map that all nodes agree on */
    int64_t struck_at; /* the latest fault of all */
    unsigned server_life;
    int64_t server_paused_until;
    unsigned paused_node; /* that one alone; SIM_NODES all */
    unsigned node_of[SIM_KEYS];
    bool server_down;
    int64_t server_started; /* the server's clock; 0 it does not tell */
    int64_t clock_offset;   /* by how much that clock was set since the beginning */
    int64_t refuses_until;  /* the server refuses every script */
    const char *refusal;
    int64_t open_until[SIM_KEYS];  /* the key's slot is being moved, or was until then */
    int64_t moved_at[SIM_KEYS][3]; /* when it last went to another node, thrice */
    int64_t asked_at[SIM_KEYS];    /* when a script last ran that was told of ASKING */
    bool aborts;                   /* what runs now is answered as if it had been stopped */
    struct rlock__timer slot;
    struct sim_conn *conns;
    struct sim_client *clients[SIM_MAX_CLIENTS];
    struct sim_dead *dead;
    char keys[SIM_KEYS][16];
    int64_t free_permits[SIM_KEYS], peer_units[SIM_KEYS];
    int64_t free_since[SIM_SIDES][SIM_KEYS]; /* RLOCK__NEVER: taken */
    uint64_t last_token[SIM_KEYS];
    int64_t lacks_token[SIM_KEYS];         /* when its counter was deleted, by the server's clock */
    char holder[SIM_KEYS][SIM_OWNER_SIZE]; /* of a lock that has one */
    int64_t holder_since[SIM_KEYS];        /* it holds since then */
    int64_t holder_ends[SIM_KEYS];         /* its lease has ended by then */
    int64_t lapsed_at[SIM_KEYS];           /* the latest lease that nobody released ended; 0 none */
    char stray[SIM_KEYS][SIM_OWNER_SIZE];  /* a holder that its client does not know */
    int64_t stray_since[SIM_KEYS];
    int64_t restored_until[SIM_KEYS]; /* a failover brought back what was released */
    bool was_meddled[SIM_KEYS];       /* with its queue, ever: a replica may bring that back */
    struct sim_queue queues[SIM_KEYS];
    struct sim_entries entries[SIM_KEYS];
    struct sim_turns turns[SIM_KEYS];
    struct sim_foreign foreign;
    struct sim_peer peer; /* peers.c */
    struct rlock__timer restart;
    bool healed, trace; /* healed: no more faults, the end */
    struct sim_only only;
    char violation[256]; /* "" none */
    uint64_t grants, losses, doubts, passed, passes;
    struct sim_text texts[SIM_TEXTS];
    unsigned n_texts;
    uint64_t seconds, joins; /* unlocks of second threads in doubt; calls that came to a queue */
};

/* ---- basics.c ---- */

int64_t sim_random(struct sim_world *world, int64_t n);
bool sim_chance(struct sim_world *world, int64_t per_mille);
void sim_trace(const struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_violate(struct sim_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What a clock says that gains so many parts per million. */
int64_t sim_drifted(int64_t now, int64_t ppm);
/* The client's clock. */
int64_t sim_clock(const struct sim_client *client);
bool sim_is_paused(const struct sim_client *client);
/* The client that has this owner's UUID; NULL: none has. */
const struct sim_client *sim_owner_client(const struct sim_world *world, struct sim_view owner);
/* When the world's clock will have brought the client's to a time; never earlier. */
int64_t sim_world_time(const struct sim_client *client, int64_t at);
/* What remains of a reader's lease, the longest of its levels'; -2 it is dead. */
int64_t sim_reader_ttl(const struct sim_world *world, struct sim_view key, struct sim_view owner,
                       long count);

/* ---- world.c ---- */

/* Runs one seed. Returns whether all went well; world.violation says what did not. */
bool sim_run(struct sim_world *world, uint64_t seed, uint64_t steps);
struct sim_client *sim_client_new(struct sim_world *world, unsigned index);
/* The process dies: nobody says goodbye. */
void sim_client_kill(struct sim_client *client);
/* After each event of its core: does what the core wants. */
void sim_pump(struct sim_client *client);

/* ---- wire.c ---- */

/* The ids of its one node, where slots are left open, and of the one that they are moved to, where
 * nobody is. */
#define SIM_SELF "1111111111111111111111111111111111111111"
#define SIM_OTHER "2222222222222222222222222222222222222222"
/* At the end of the answer of a script that ran, and is told to have been stopped. */
#define SIM_ABORTED "script: somewhere"

int64_t sim_delay(struct sim_client *client, struct sim_world *world);
/* Sends what the core said. */
void sim_conn_say(struct sim_conn *conn, const char *bytes, size_t len);
/* The client closed it: what is under way may still run; some time passes until the server has read
 * it all and sees the end. */
void sim_conn_let_go(struct sim_conn *conn);
void sim_wire_server(struct sim_world *world);
void sim_conns_fini(struct sim_world *world);

/* The server answers what is not its own to answer. */
void sim_conn_answer(struct sim_conn *conn, const char *bytes);

/* ---- replica.c ---- */

void sim_replica_start(struct sim_world *world, uint64_t seed);
/* The replica of a node, which may be promoted in its place; NULL there is none. */
struct sim_server *sim_replica_of(const struct sim_world *world, unsigned node);
/* It has all that its primary has, unless it lags. */
void sim_replica_catch_up(struct sim_world *world, unsigned node);
void sim_replica_lags_until(struct sim_world *world, int64_t until);
void sim_replica_lags(struct sim_world *world);
/* A client's map knows of it no more, or again. */
void sim_replica_leaves(struct sim_client *client);
/* A WAIT came on the connection. */
void sim_replica_wait(struct sim_conn *conn, const char *bytes, size_t len);
/* Whether what the client believes valid is on the replica that its map names. */
bool sim_is_acked(const struct sim_client *client);
/* Whoever believes to hold does so on the replica too. */
void sim_replica_check(struct sim_user *user, unsigned side);

/* ---- standby.c ---- */

void sim_standby_client(struct sim_client *client);
/* A map tells the client whether the node has a replica. */
void sim_standby_know(struct sim_client *client, unsigned node, bool has_replica);
/* The client has asked all Sentinels that it reaches. */
void sim_standby_round(struct sim_client *client);
void sim_standby_strikes(struct sim_world *world);
void sim_standby_ends(struct sim_world *world);
/* Answers ROLE and INFO. False: it is another command. */
bool sim_standby_answers(struct sim_conn *conn, const char *bytes, size_t len);
/* Whether another replica may be promoted; whether one more than the replica acknowledges. */
bool sim_standby_has_twin(const struct sim_world *world);
bool sim_standby_other_is_quick(const struct sim_world *world);
/* A number of replicas does not count one that the client's map holds down, or that it has not
 * heard of from most. It waits for another one beside it. */
bool sim_standby_counts(const struct sim_client *client);
/* Each client leaves the replica out when it may, and for as long. */
void sim_standby_check(struct sim_world *world);

/* ---- links.c ---- */

struct rlock__link *sim_core_link(const struct sim_link *link);
/* Its connection is to be made, or checked, when the core says. */
void sim_link_plan(struct sim_link *link);
void sim_link_up(struct sim_link *link, int64_t alive_at);
/* Whether the connection that the call hears its channel on is up, and may hear. */
bool sim_hears(const struct sim_client *client, const struct rlock__call *call);
/* Something arrived. */
void sim_link_hear(struct sim_conn *conn, const char *bytes, size_t len);
/* Gives the client's core its servers and links: before its locks are made; and begins to connect.
 */
void sim_wire_core(struct sim_client *client, const char *address);
void sim_wire_client(struct sim_client *client);
/* One of its connections for commands, or with a chance of so many in a thousand for messages. */
struct sim_link *sim_any_link(struct sim_client *client, int64_t subs);
/* The process dies: its connections end, and its timers. */
void sim_wire_end(struct sim_client *client);
/* It learns which node has each key. */
void sim_wire_learn(struct sim_client *client);
void sim_wire_pump(struct sim_client *client);
/* The client's side of a connection breaks. */
void sim_link_break(struct sim_client *client, struct sim_link *link, const char *why);

/* ---- users.c ---- */

void sim_users_start(struct sim_client *client);
/* Whether the user believes to hold anything. */
bool sim_user_holds(const struct sim_user *user);
void sim_user_done(struct sim_user *user);
void sim_user_lost(struct sim_client *client, const struct rlock__loss *loss);
void sim_user_begin(struct sim_user *user);
/* The same for a release, or a detach. */
void sim_user_begin_release(struct sim_user *user);
void sim_user_plan(struct sim_user *user, int64_t pause);

/* ---- second.c ---- */

/* The user's call has begun: its second thread may unlock meanwhile. */
void sim_second_plan(struct sim_user *user);
void sim_second_done(struct sim_user *user);
/* How many levels its owner is shown. */
uint32_t sim_levels_left(const struct sim_hold *hold);
void sim_second_check(struct sim_user *user, unsigned side);

/* ---- force.c ---- */

/* Looks who holds a lock; and opens it, if that one still does. */
void sim_force_look(struct sim_user *user);
void sim_force_open(struct sim_user *user);
void sim_force_done(struct sim_user *user);

/* ---- faults.c ---- */

void sim_fault(struct sim_world *world);
/* Somebody does something by hand. words: of the command, the last one NULL. */
void sim_by_hand(struct sim_world *world, const char *const *words);
void sim_heal(struct sim_world *world);

/* ---- nodes.c ---- */

unsigned sim_n_nodes(const struct sim_world *world);
/* It is now there. */
void sim_set_time(struct sim_world *world);
/* They are the nodes of one cluster, if there are several. */
void sim_nodes_start(struct sim_world *world);
/* Who has the name: its owner, or the node on the other side of a move; SIM_NODES neither. */
unsigned sim_holder_of(const struct sim_world *world, struct sim_view name);
/* What one of the servers has under the name: its owner, if that one does. */
bool sim_find_key(const struct sim_world *world, struct sim_view name,
                  struct sim_key_info *ret_info);
bool sim_find_field(const struct sim_world *world, struct sim_view key, struct sim_view field,
                    struct sim_view *ret_value);
/* Goes through the keys of all; node and info are zero at first. */
bool sim_next_key(const struct sim_world *world, unsigned *inout_node, struct sim_key_info *info);
/* At all of them. */
size_t sim_n_subscribers(const struct sim_world *world, struct sim_view channel);
/* A command that names a key first goes to whichever has that. words: the last one NULL. */
void sim_say_by_hand(struct sim_world *world, const char *const *words);
/* The lock that a name belongs to; SIM_KEYS: none. */
unsigned sim_key_of(const struct sim_world *world, struct sim_view name);
void sim_node_name(unsigned node, char out[static SIM_NODE_ID_LEN + 1]);
void sim_say_to(struct sim_server *server, const char *const *words, bool asking);

/* ---- moves.c ---- */

/* A slot begins to be moved, unless one is on its way. */
void sim_move_slot(struct sim_world *world);
/* While the target of a move that is called off has been told, and the source not yet: what came to
 * the target is lost, though the source sends everybody there. */
void sim_move_loses(struct sim_world *world);
/* Whether the node has a part in that. */
bool sim_moves_from_or_to(const struct sim_world *world, unsigned node);
/* Whether the lock's own key went from one node to another three times since then. A copy that
 * follows it can miss it each time, and nothing that a client does closes that. */
bool sim_moved_thrice(const struct sim_world *world, unsigned key, int64_t since);
/* It arrives at once. */
void sim_moves_end(struct sim_world *world);

/* ---- failover.c ---- */

void sim_failovers_start(struct sim_world *world);
/* A primary dies, or stops; unless another one has just done so. */
void sim_fail_over(struct sim_world *world);
/* A script ran: its replica has it at once, or later. */
void sim_failover_ran(struct sim_world *world, unsigned node);
/* A key came to the node, or left it: its replica knows at once. What would be lost with one that
 * does not, whoever moves it answers for. */
void sim_move_replicates(struct sim_world *world, unsigned node);
/* In the end. */
void sim_replicas_catch_up(struct sim_world *world);
/* A loss by failover is told when it can be. */
void sim_check_verified(struct sim_user *user, unsigned side);

/* ---- maps.c: what a client knows of the servers where they are replaced ---- */

/* It learns the present map now, as the core is told of it. */
void sim_map_hear(struct sim_client *client);
/* It learns that so much later, or earlier if that was planned. */
void sim_map_plan(struct sim_client *client, int64_t pause);
/* The map has changed, where servers are replaced: each client learns it at another time. */
void sim_map_spread(struct sim_world *world);
void sim_map_start(struct sim_client *client);
/* The node is used: links to it are made. */
void sim_map_use(struct sim_client *client, unsigned node);
/* Links whose greeting is over may be used, or are closed: the map is asked for that. */
void sim_map_confirm(struct sim_link *link);

/* ---- foreign.c ---- */

void sim_foreign_start(struct sim_world *world);
/* Before each step: it comes, or goes. */
void sim_foreign_step(struct sim_world *world);
void sim_foreign_go(struct sim_world *world);
/* A key was deleted, or all (NULL). */
void sim_foreign_gone(struct sim_world *world, const char *name);

#include "checks.h"

#endif
