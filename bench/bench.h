/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bench's files share. A row is a sort of work. It has cases (how many threads, how long a
 * hold lasts) and variants: rlock, and the floors beside it. One run is one variant of one case for
 * a moment, in processes of its own. A round runs all of them, one after the other.
 *
 * The harness (run.c) knows no lock. A variant gives it functions; whoever works notes each
 * operation by bench_note().
 */
#ifndef RLOCK_BENCH_H
#define RLOCK_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BENCH_MAX_WORKERS = 512,
    BENCH_MAX_SERVERS = 30,
    BENCH_MAX_MEMBERS = 10,
    BENCH_MAX_CALLS = 1 + BENCH_MAX_MEMBERS,
    BENCH_MAX_ROUNDS = 100,
    BENCH_MAX_VARIANTS = 10,
    BENCH_MAX_CASES = 8,
};

/* ---- what is measured ---- */

/* What one run says; all are for one operation, except the first. figures.c has their names. */
enum bench_figure {
    BENCH_RATE,     /* operations in a second */
    BENCH_P50,      /* us */
    BENCH_P99,      /* us */
    BENCH_P999,     /* us */
    BENCH_LONGEST,  /* ms, of all operations, also those that the end of the run cut short */
    BENCH_COMMANDS, /* that clients sent, by the servers' count */
    BENCH_BYTES,    /* to and from the servers */
    BENCH_CLIENT,   /* us of CPU, of all clients' processes */
    BENCH_SERVER,   /* us of CPU, of all servers */
    BENCH_SWITCHES, /* in which a working thread gave up the processor */
    BENCH_JAIN,     /* Jain's index over the threads: 1 all had as many, 1/threads one had all */
    BENCH_FIGURES
};

struct bench_figures {
    double value[BENCH_FIGURES];
};

/* ---- latencies (hist.c): buckets of 3 %, up to about a minute ---- */

enum { BENCH_BUCKETS = 1120 };

struct bench_hist {
    uint32_t count[BENCH_BUCKETS];
};

void bench_hist_add(struct bench_hist *hist, int64_t ns);
void bench_hist_merge(struct bench_hist *into, const struct bench_hist *from);
/* In us; 0 if it is empty. */
double bench_hist_percentile(const struct bench_hist *hist, double percent);

/* ---- calls of scripts, to be sent again (calls.c) ---- */

/* What rlock sent for one acquisition and its release, as the server saw it by MONITOR. The first
 * call is the acquisition. All others are the release, and go out together. */
struct bench_calls {
    size_t n;
    struct {
        char *bytes;
        size_t len;
    } call[BENCH_MAX_CALLS];
    char owner[128]; /* as in the bytes; "" if none was seen */
};

/* The same for another name and owner, of the same lengths. */
void bench_calls_copy(const struct bench_calls *from, const char *old_name, const char *name,
                      unsigned owner, struct bench_calls *ret_calls);

/* ---- rows ---- */

struct bench_worker;
struct bench_run;

struct bench_case {
    const char *name;
    int procs, threads;  /* so many threads in each process */
    int members;         /* of a multi-lock or RedLock */
    int64_t hold_us;     /* how long a hold lasts */
    int64_t delay_us;    /* one way, to each server; 0: no proxy */
    int64_t slow_us;     /* the same, to the last one; 0: as the others */
    int nodes;           /* of the cluster; 0: there is none */
    long locks;          /* that are renewed; or the names of each thread */
    int64_t lease_ms;    /* of these; renewed every third of it */
    int64_t at_least_ms; /* how long a run lasts; 0: as the options say */
};

struct bench_variant {
    const char *name;
    int threads; /* instead of the case's; 0: those */
    /* All but op may be NULL. open: once in each process; what it returns is run->shared. */
    void *(*open)(const struct bench_run *run);
    void (*start)(struct bench_worker *worker); /* in each thread */
    void (*op)(struct bench_worker *worker);    /* again and again */
    /* Of a peer (peers.c): */
    const char *program; /* that does the work, instead of the functions (program.h); or NULL */
    const char *does;    /* what one lock is, beyond a name set for a while and removed */
    const char *sends;   /* commands that its clients send and no script calls; or NULL */
    int64_t warm_ms;     /* for so long before it is measured, at least */
};

struct bench_row {
    const char *name;
    const char *about;  /* what an operation is, and what the latency is of */
    const char *kind;   /* of the lock; NULL: the row has none, or says so in its variants */
    const char *floors; /* the kind whose calls floors send, if that is another one; or NULL */
    bool shared;        /* all threads use one name */
    const char *count;  /* operations are calls of this command, not what was noted; or NULL */
    bool only_named;    /* it takes long: only who names it gets it */
    const struct bench_variant *variant[BENCH_MAX_VARIANTS]; /* rlock first */
    struct bench_case cases[BENCH_MAX_CASES];                /* up to one without a name */
};

extern const struct bench_row *const bench_rows[];  /* rows.c; up to NULL */
extern const struct bench_row *const bench_peers[]; /* peers.c: the same, beside other libraries */

/* ---- one run ---- */

struct bench_usage {
    int64_t extra_us; /* CPU of processes that the worker waited for */
    int64_t switches;
};

/* In memory that all processes of a run share. */
struct bench_worker {
    const struct bench_run *run;
    int index;          /* in all processes */
    bool is_background; /* what it does is not noted; start() says so */
    void *state;        /* what start() left */
    uint64_t n;
    int64_t longest_ns;
    struct bench_usage usage;
    struct bench_hist hist;
};

struct bench_run {
    const struct bench_row *row;
    const struct bench_case *one;
    const struct bench_variant *variant;
    int process, procs, threads;
    int n_servers;
    const char *url[BENCH_MAX_SERVERS]; /* of the server, or of the proxy before it */
    const char *cluster_url;            /* NULL: the servers do not form a cluster */
    const struct bench_calls *calls;    /* NULL: the row has no lock */
    void *shared;                       /* what open() returned */
};

/* Notes an operation that took so long. */
void bench_note(struct bench_worker *worker, int64_t ns);
void bench_note_usage(struct bench_worker *worker, int64_t cpu_us);
int64_t bench_now_ns(void);
bool bench_is_over(void);    /* the run */
void bench_wait_over(void);  /* until it is */
void bench_hold(int64_t us); /* sleeps, as a holder that works elsewhere */

struct bench_options {
    const char *pin; /* "split", "same", "nopin" */
    int64_t run_ms, warm_ms;
};

void bench_init(void); /* before anything else of this */
/* Runs it for a moment. run: without process and shared. Dies if anything goes wrong. */
struct bench_figures bench_measure(struct bench_run *run, const struct bench_options *options);

/* A lock's name for a worker: always eight bytes. */
void bench_name(const struct bench_run *run, int worker, char ret_name[16]);
/* The same for a worker that has several names. */
void bench_name_of(const struct bench_worker *worker, long i, char ret_name[16]);

/* ---- places: servers, pinning (place.c) ---- */

void bench_pin_client(const struct bench_options *options);
void bench_servers_start(const struct bench_options *options);
/* Fills in run->url: so many servers, with a delay before each as the case says. */
void bench_servers_for(struct bench_run *run, int n);
/* Starts a cluster of so many nodes, unless it runs already. Fills in run->url, each node's, and
 * run->cluster_url. */
void bench_cluster_for(struct bench_run *run, int n);
void bench_cluster_stop(void);
/* Which server of the run's cluster has the name. */
int bench_node_of(const struct bench_run *run, const char *name);
void bench_proxies_stop(void);
void bench_servers_stop(void);
void bench_servers_empty(void);

/* What the run's servers counted since they started. */
struct bench_counts {
    int64_t cpu_ns, commands, bytes, counted; /* counted: calls of the row's .count */
    int64_t own_bytes; /* of the last answer about this, which the next one counts */
};

struct bench_counts bench_count(const struct bench_run *run);

/* What rlock sends for one pair; run: of the variant rlock, with one server. NULL: no lock. */
const struct bench_calls *bench_capture(const struct bench_run *run, const char *url);

/* What it runs on, in one line: for text and JSON. Borrowed. */
const char *bench_machine(const struct bench_options *options);
const char *bench_server_version(void);

/* ---- what came out (report.c, json.c, svg.c) ---- */

struct bench_cell { /* one variant of one case */
    const struct bench_row *row;
    const struct bench_case *one;
    const struct bench_variant *variant;
    const struct bench_cell *rlock; /* the same case's first variant; NULL: it is that */
    int rounds;
    struct bench_figures round[BENCH_MAX_ROUNDS];
};

struct bench_spread {
    double median, lo, hi;
};

const char *bench_figure_name(enum bench_figure figure); /* in JSON */
struct bench_spread bench_spread(const struct bench_cell *cell, enum bench_figure figure);
/* rlock's figure in parts of this variant's, in the same round. */
struct bench_spread bench_ratio(const struct bench_cell *cell, enum bench_figure figure);

/* A table for each row; or one for all, with what peers do for a lock. */
void bench_print(const struct bench_cell *cells, size_t n, bool markdown);
void bench_print_peers(const struct bench_cell *cells, size_t n, bool markdown);
void bench_write_json(const char *file, const struct bench_cell *cells, size_t n,
                      const struct bench_options *options);
/* A plot for each row, dir/<row>.svg. */
void bench_write_svg(const char *dir, const struct bench_cell *cells, size_t n);

#endif
