/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "client.h"
#include "duration.h"
#include "say.h"
#include "secret.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_A_TIME "is not a duration (300ms, 2s, 1m, 1h)"

/* What an option does with its value. */
enum does { SETS, GIVES_TEXT, GIVES_TIME, CALLS };

/* Takes the value, NULL if the option has none. Returns NULL, or what is wrong with it. */
typedef const char *set_fn(struct cli_options *opts, char *value);

struct spec {
    const char *name;
    char letter;       /* 0: none */
    const char *value; /* what help calls it; NULL: a switch */
    int verbs;
    enum does does;
    size_t at;        /* of the member that it sets */
    int64_t least_ms; /* of a time: the library's limit */
    set_fn *set;
    const char *help;
};

static const char *set_nonblock(struct cli_options *opts, char *value)
{
    (void)value;
    opts->wait_ms = 0;
    return NULL;
}

int cli_number_of(const char *value, long least, long most)
{
    char *end;
    const long n = strtol(value, &end, 10);

    return isdigit((unsigned char)value[0]) && *end == '\0' && n >= least && n <= most
               ? (int)n
               : CLI_NO_NUMBER;
}

static const char *set_conflict_status(struct cli_options *opts, char *value)
{
    opts->conflict_status = cli_number_of(value, 0, 255);
    return opts->conflict_status != CLI_NO_NUMBER ? NULL : "is not an exit status (0 to 255)";
}

static const char *set_keep(struct cli_options *opts, char *value)
{
    opts->keep = cli_number_of(value, 1, INT_MAX);
    return opts->keep != CLI_NO_NUMBER ? NULL : "is not the number of a process";
}

static const char *set_url(struct cli_options *opts, char *value)
{
    cli_secret_free(opts->url);
    opts->url = strdup(value);
    cli_url_hide_password(value); /* ps and /proc show argv to everybody */
    return opts->url == NULL ? "does not fit into memory" : NULL;
}

static const char *add_name(struct cli_options *opts, char *value)
{
    if (opts->n_names == CLI_MEMBERS_MAX) {
        return "is one name too many";
    }
    opts->names[opts->n_names++] = value;
    return *value != '\0' ? NULL : "has an empty name";
}

static const char *set_multi(struct cli_options *opts, char *value)
{
    const char *wrong = NULL;
    const size_t len = strlen(value);

    if (len == 0 || value[0] == ',' || value[len - 1] == ',' || strstr(value, ",,") != NULL) {
        return "has an empty name"; /* before it is taken apart: the message shows all of it */
    }
    while (wrong == NULL && value != NULL) {
        wrong = add_name(opts, strsep(&value, ","));
    }
    return wrong;
}

static const char *set_redlock(struct cli_options *opts, char *value)
{
    if (*value == '\0') {
        return "names no server";
    }
    cli_secret_free(opts->redlock);
    opts->redlock = strdup(value);
    opts->is_redlock = true;
    (void)memset(value, '*', strlen(value)); /* each may have a password */
    return opts->redlock == NULL ? "does not fit into memory" : NULL;
}

static const char *set_acks(struct cli_options *opts, char *value)
{
    opts->acks = strcmp(value, "auto") == 0  ? RLOCK_ACKS_AUTO
                 : strcmp(value, "off") == 0 ? RLOCK_ACKS_OFF
                 : strcmp(value, "all") == 0 ? RLOCK_ACKS_ALL
                                             : cli_number_of(value, 1, 100);
    return opts->acks != CLI_NO_NUMBER ? NULL : "is neither off, auto, all nor a number up to 100";
}

static const char *set_max_lease(struct cli_options *opts, char *value)
{
    if (!cli_duration_parse(value, &opts->max_lease_ms)) {
        return NOT_A_TIME;
    }
    opts->max_lease_ms = opts->max_lease_ms == 0 ? -1 : opts->max_lease_ms;
    return NULL;
}

static const char *read_password(char **password, const char **ret_file, const char *path)
{
    cli_secret_free(*password);
    *password = NULL;
    *ret_file = cli_password_is_in_file(path) ? path : NULL;
    return cli_password_read(path, password);
}

static const char *set_password_file(struct cli_options *opts, char *value)
{
    return read_password(&opts->password, &opts->password_file, value);
}

static const char *set_sentinel_password_file(struct cli_options *opts, char *value)
{
    return read_password(&opts->sentinel_password, &opts->sentinel_password_file, value);
}

#define TAKES (CLI_RUN | CLI_ACQUIRE)
#define RENEWS (TAKES | CLI_ELECT)
#define LOCKS (CLI_COMMANDS | TEXTS)
#define TEXTS (CLI_ACQUIRE | CLI_EXTEND | CLI_RELEASE)
#define ANSWERS (CLI_INFO | CLI_LS | CLI_BREAK | CLI_DOCTOR)
#define SWITCH(member) .does = SETS, .at = offsetof(struct cli_options, member)
#define TEXT(member) .does = GIVES_TEXT, .at = offsetof(struct cli_options, member)
#define TIME(member, least)                                                                        \
    .does = GIVES_TIME, .at = offsetof(struct cli_options, member), .least_ms = (least)
#define CALL(fn) .does = CALLS, .set = (fn)

static const struct spec specs[] = {
    {"wait", 'w', "TIME", TAKES, TIME(wait_ms, 0),
     .help = "give up after TIME; 0 tries once (default: wait forever)"},
    {"nonblock", 'n', NULL, TAKES, CALL(set_nonblock), .help = "like --wait 0"},
    {"conflict-exit-code", 'E', "N", TAKES, CALL(set_conflict_status),
     .help = "exit with N if the lock cannot be acquired (default: 123, 124)"},
    {"lease", 0, "TIME", CLI_RUN, TIME(lease_ms, 10),
     .help = "hold the lock for at most TIME, without renewal"},
    {"lease", 0, "TIME", CLI_ACQUIRE | CLI_EXTEND, TIME(lease_ms, 10),
     .help = "the lock stays taken for TIME, unless the text is used before"},
    {"keep", 0, "PID", CLI_ACQUIRE, CALL(set_keep),
     .help = "renew the lock in the background while process PID lives, instead of --lease"},
    {"at-least", 0, "TIME", CLI_RUN, TIME(at_least_ms, 10),
     .help = "keep the lock taken for TIME, even if the command ends sooner"},
    {"adopt", 0, "TEXT", CLI_RUN, TEXT(adopt),
     .help = "take over the hold of this text, from rlock acquire, instead of waiting"},
    {"renewed-lease", 0, "TIME", RENEWS, TIME(renewed_lease_ms, 30),
     .help = "renewed lease: a crash frees the lock after TIME (default: 30s)"},
    {"max-hold", 0, "TIME", TAKES, TIME(max_hold_ms, 1), .help = "stop renewing after TIME"},
    {"kind", 0, "KIND", RENEWS, CALL(cli_kind_set),
     .help = "reentrant (the default), non-reentrant, spin, fenced, fair, read, write, setnx, "
             "permits, semaphore"},
    {"kind", 0, "KIND", CLI_INFO | CLI_BREAK, CALL(cli_kind_set),
     .help = "kind of lock (default: as on the server); read or write selects one side"},
    {"kind", 0, "KIND", CLI_SLOTS, CALL(cli_kind_set), .help = "permits (the default), semaphore"},
    {"shared", 's', NULL, TAKES, CALL(cli_shared_set), .help = "like --kind read"},
    {"exclusive", 'x', NULL, TAKES, CALL(cli_exclusive_set),
     .help = "like --kind write: excludes --shared and --exclusive"},
    {"slots", 0, "N", TAKES, CALL(cli_slots_set),
     .help = "at most N processes hold it at a time (default: --kind permits)"},
    {"fair-slot", 0, "TIME", RENEWS, TIME(fair_slot_ms, 1000),
     .help = "fair: longest wait of all users, equal for all of them (default: 300s)"},
    {"no-reentry", 0, NULL, CLI_RUN, SWITCH(no_reentry),
     .help = "an owner that holds the lock cannot take it again"},
    {"multi", 0, "NAMES", RENEWS, CALL(set_multi),
     .help = "take several locks at once: a,b,c instead of NAME"},
    {"name", 0, "NAME", RENEWS, CALL(add_name),
     .help = "one of several locks; for names that contain commas"},
    {"redlock", 0, "URLS", RENEWS, CALL(set_redlock),
     .help = "take NAME on most of these independent servers: URL,URL,URL"},
    {"max-lease", 0, "TIME", RENEWS, CALL(set_max_lease),
     .help = "RedLock: ignore a server for TIME after its restart; 0: off (default: 30s)"},
    {"acks", 0, "N", LOCKS | CLI_DOCTOR, CALL(set_acks),
     .help = "replicas that must acknowledge: N, all, off, or auto (all that can be promoted)"},
    {"acks-on-disk", 0, NULL, LOCKS | CLI_DOCTOR, SWITCH(acks_on_disk),
     .help = "the server and these replicas must acknowledge from disk"},
    {"announce-both", 0, NULL, LOCKS | CLI_BREAK | CLI_SLOTS | CLI_DOCTOR, SWITCH(announce_both),
     .help = "in a cluster: exchange wake-ups with Redisson before 3.22 too"},
    {"check", 0, NULL, CLI_INFO, SWITCH(check),
     .help = "exit with 123 if one of the locks is held"},
    {"url", 0, "URL", CLI_ALL, CALL(set_url),
     .help = "redis:// rediss:// unix:// redis+cluster:// redis+sentinel:// (default: $RLOCK_URL, "
             "or " DEFAULT_URL ")"},
    {"password-file", 0, "FILE", CLI_ALL, CALL(set_password_file),
     .help = "read the password from FILE, at each connection; only its owner may access it"},
    {"sentinel-user", 0, "NAME", CLI_ALL, TEXT(sentinel_user),
     .help = "user name at the Sentinels (default: the default user)"},
    {"sentinel-password-file", 0, "FILE", CLI_ALL, CALL(set_sentinel_password_file),
     .help = "read the password for the Sentinels from FILE, at each connection"},
    {"sentinel-plain", 0, NULL, CLI_ALL, SWITCH(sentinel_plain),
     .help = "rediss+sentinel: connect to the Sentinels without TLS"},
    {"cacert", 0, "FILE", CLI_ALL, TEXT(ca_file),
     .help = "trusted authorities (default: the system's)"},
    {"cert", 0, "FILE", CLI_ALL, TEXT(cert_file), .help = "client certificate"},
    {"key", 0, "FILE", CLI_ALL, TEXT(key_file), .help = "key of the client certificate"},
    {"prefix", 0, "TEXT", CLI_ALL, TEXT(prefix), .help = "the Redis key is TEXT followed by NAME"},
    {"json", 0, NULL, ANSWERS, SWITCH(json), .help = "one JSON object per line"},
    {"metrics", 0, NULL, CLI_LS, SWITCH(metrics), .help = "counts of locks, for Prometheus"},
    {"quiet", 0, NULL, CLI_ALL, SWITCH(quiet),
     .help = "print no messages; only the exit status tells the result"},
    {"verbose", 0, NULL, CLI_ALL, SWITCH(verbose),
     .help = "print the library's log to standard error"},
    {"help", 'h', NULL, CLI_ALL, SWITCH(help), .help = "print this text"},
};

#define N_SPECS (sizeof(specs) / sizeof(specs[0]))

void cli_options_describe(enum cli_verb verb)
{
    for (size_t i = 0; i < N_SPECS; i++) {
        const struct spec *spec = &specs[i];
        const char letter[] = {'-', spec->letter, ',', ' ', '\0'};
        char head[64];

        if ((spec->verbs & (int)verb) != 0) {
            (void)snprintf(head, sizeof(head), "%s--%s %s", spec->letter != 0 ? letter : "    ",
                           spec->name, spec->value != NULL ? spec->value : "");
            printf("  %-26s %s\n", head, spec->help);
        }
    }
}

static const char *apply(const struct spec *spec, struct cli_options *opts, char *value)
{
    char *member = (char *)opts + spec->at;
    int64_t ms;

    switch (spec->does) {
    case SETS:
        *(bool *)(void *)member = true;
        return NULL;
    case GIVES_TEXT:
        *(const char **)(void *)member = value;
        return NULL;
    case GIVES_TIME:
        if (!cli_duration_parse(value, &ms)) {
            return NOT_A_TIME;
        }
        *(int64_t *)(void *)member = ms;
        return ms < spec->least_ms ? "is too short" : NULL;
    case CALLS:
    default:
        return spec->set(opts, value);
    }
}

/* The options of one command, as getopt_long(3) wants them; val is the index in specs and VAL. */
struct known {
    struct option longs[N_SPECS + 1];
    char letters[2 * N_SPECS + 3];
};

#define VAL 256

/* In the order of the words, whatever the environment says; a missing value is told apart. */
static void list_known(struct known *known, enum cli_verb verb)
{
    char *letter = stpcpy(known->letters, "-:");
    size_t n = 0;

    for (size_t i = 0; i < N_SPECS; i++) {
        const int takes = specs[i].value != NULL ? required_argument : no_argument;

        if ((specs[i].verbs & (int)verb) != 0) {
            known->longs[n++] = (struct option){specs[i].name, takes, NULL, VAL + (int)i};
            if (specs[i].letter != 0) {
                *letter++ = specs[i].letter;
                letter = stpcpy(letter, takes == required_argument ? ":" : "");
            }
        }
    }
    known->longs[n] = (struct option){0};
}

static const struct spec *find_spec(int val)
{
    for (size_t i = 0; i < N_SPECS; i++) {
        if (val == VAL + (int)i || (val != 0 && val == specs[i].letter)) {
            return &specs[i];
        }
    }
    return NULL;
}

/* What getopt_long did not like. What follows a = may be secret: it is not repeated. */
static int complain(int sign, const char *word)
{
    const struct spec *spec = find_spec(optopt);

    if (sign == ':' && spec != NULL) {
        return cli_usage("--%s needs a value", spec->name);
    }
    if (spec != NULL && optopt >= VAL) {
        return cli_usage("--%s takes no value", spec->name);
    }
    if (optopt != 0) {
        return cli_usage("unknown option -%c", optopt);
    }
    return cli_usage("unknown or ambiguous option %.*s", (int)strcspn(word, "="), word);
}

static int take_option(struct cli_options *opts, const struct spec *spec, char *value)
{
    const char *wrong = apply(spec, opts, value);

    return wrong == NULL ? 0 : cli_usage("--%s: '%s' %s", spec->name, value, wrong);
}

/* Sorts the words: options are taken, operands move to the front of argv, what follows -- stays
 * where it is. */
static int parse_words(struct cli_options *opts, enum cli_verb verb, int argc, char **argv)
{
    struct known known;
    int status = 0;
    int sign;

    list_known(&known, verb);
    opts->operands = argv;
    opterr = 0;
    while (status == 0 &&
           (sign = getopt_long(argc, argv, known.letters, known.longs, NULL)) != -1) {
        if (sign == 1) {
            opts->operands[opts->n_operands++] = optarg;
        } else if (sign == '?' || sign == ':') {
            status = complain(sign, argv[optind - 1]);
        } else {
            status = take_option(opts, find_spec(sign), optarg);
        }
    }
    if (status == 0 && strcmp(argv[optind - 1], "--") == 0) {
        opts->command = argv + optind;
    }
    if (status == 0 && (opts->cert_file == NULL) != (opts->key_file == NULL)) {
        return cli_usage("--cert and --key go together");
    }
    return status;
}

int cli_options_parse(struct cli_options *opts, enum cli_verb verb, int argc, char **argv)
{
    int status;

    *opts = (struct cli_options){.wait_ms = RLOCK_FOREVER,
                                 .conflict_status = -1,
                                 .acks = (verb & (LOCKS | CLI_DOCTOR)) != 0 ? RLOCK_ACKS_AUTO
                                                                            : RLOCK_ACKS_OFF};
    status = parse_words(opts, verb, argc, argv);
    if (status == 0 && (verb & CLI_COMMANDS) == 0 &&
        opts->command != NULL) { /* names that start with - */
        const int rest = argc - (int)(opts->command - argv);

        memmove(opts->operands + opts->n_operands, opts->command, (size_t)rest * sizeof(char *));
        opts->n_operands += rest;
    }
    return status != 0 ? status : cli_server_default(opts);
}

void cli_options_fini(struct cli_options *opts)
{
    cli_secret_free(opts->url);
    cli_secret_free(opts->password);
    cli_secret_free(opts->sentinel_password);
    cli_secret_free(opts->redlock);
    free(opts->server);
    *opts = (struct cli_options){0};
}
