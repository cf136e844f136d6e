/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line asks for, and the one table of options that parsing and help both read. */
#ifndef RLOCK_CLI_OPTIONS_H
#define RLOCK_CLI_OPTIONS_H

#include <rlock/rlock.h>

#define DEFAULT_URL "redis://localhost:6379"

/* The commands, as bits: an option says which of them know it. */
enum cli_verb {
    CLI_RUN = 1,
    CLI_INFO = 2,
    CLI_LS = 4,
    CLI_BREAK = 8,
    CLI_DOCTOR = 16,
    CLI_ACQUIRE = 32,
    CLI_EXTEND = 64,
    CLI_RELEASE = 128,
    CLI_ELECT = 256,
    CLI_SLOTS = 512,
    CLI_COMMANDS = CLI_RUN | CLI_ELECT, /* the verbs that run a command */
    CLI_ALL = 1023
};

/* Makes a lock of a kind, as the library's constructors do. */
typedef int cli_new_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                       struct rlock_handle **ret_lock);

/* A kind of lock that --kind may name. */
struct cli_kind {
    const char *name;
    cli_new_fn *make;
};

/* What the library allows for one lock. */
#define CLI_MEMBERS_MAX 64

struct cli_options {
    char *redlock; /* --redlock: the list of URLs, erased like url */
    bool is_redlock;
    char *names[CLI_MEMBERS_MAX]; /* of --multi and --name, in argv */
    int n_names;
    char *url;               /* with its password: erased as soon as the client has it */
    char *password;          /* from --password-file: likewise */
    char *sentinel_password; /* from --sentinel-password-file: likewise */
    const char *password_file,
        *sentinel_password_file; /* where to read them again; NULL: nowhere */
    const char *sentinel_user;
    bool sentinel_plain;
    int acks; /* of the library */
    bool acks_on_disk;
    bool announce_both;
    char *server; /* the URL for messages, its password as *** */
    const char *prefix;
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
    const struct cli_kind *kind; /* NULL: not told */
    int64_t wait_ms;
    int64_t lease_ms;         /* 0: renewed */
    int64_t renewed_lease_ms; /* 0: the library's default */
    int64_t max_hold_ms;
    int64_t max_lease_ms; /* RedLock: 0 the library's default, negative off */
    int64_t fair_slot_ms; /* 0: the library's default */
    int64_t slots;        /* of a semaphore; 0: not told */
    int64_t at_least_ms;  /* 0: no longer than the command runs */
    const char *adopt;    /* a text; NULL: none */
    int keep;             /* the process for which a keeper holds the lock; 0: there is no keeper */
    int conflict_status;  /* what to exit with when the lock is not had; -1: as the code says */
    bool no_reentry;
    bool check;
    bool quiet;
    bool verbose;
    bool json;
    bool metrics;
    bool help;
    char **operands; /* names, or a pattern */
    int n_operands;
    char **command; /* what to run, ending with NULL; NULL when there was no -- */
};

/* Fills *opts from argv, which begins with the command's name; hides passwords there on the way.
 * Returns 0 or 64. */
int cli_options_parse(struct cli_options *opts, enum cli_verb verb, int argc, char **argv);

/* Sets the kind of lock with this name. Returns NULL, or what is wrong with the name. */
const char *cli_kind_set(struct cli_options *opts, char *value);
/* Sets the kind of lock that a text of rlock_detach() is for. False: it is not such a text. */
bool cli_kind_of_text(struct cli_options *opts, const char *text);
/* What the options of these names do, each with its value. Return what is wrong with it; NULL:
 * nothing. */
const char *cli_shared_set(struct cli_options *opts, char *value);
const char *cli_exclusive_set(struct cli_options *opts, char *value);
const char *cli_slots_set(struct cli_options *opts, char *value);
/* A number within these bounds; CLI_NO_NUMBER: it is none. */
#define CLI_NO_NUMBER INT_MIN
int cli_number_of(const char *value, long least, long most);
/* Whether the options name this kind. */
bool cli_is_kind(const struct cli_options *opts, const char *name);
/* Whether they name a kind of which several processes hold slots. */
bool cli_has_slots(const struct cli_options *opts);

/* Erases what is secret, and frees. */
void cli_options_fini(struct cli_options *opts);

/* Prints the options that the command knows, one per line. */
void cli_options_describe(enum cli_verb verb);

#endif
