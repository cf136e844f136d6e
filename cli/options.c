/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "duration.h"
#include "say.h"
#include "secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL "redis://localhost:6379"

/* One line per kind of lock. */
static const struct cli_kind kinds[] = {
    {"reentrant", rlock_reentrant_new}, {"non-reentrant", rlock_nonreentrant_new},
    {"spin", rlock_spin_new},           {"fenced", rlock_fenced_new},
    {"fair", rlock_fair_new},           {"read", rlock_read_new},
    {"write", rlock_write_new},
};

/* Takes the option's value, NULL if it has none. Returns NULL, or what is wrong with the value. */
typedef const char *set_fn(struct cli_options *opts, char *value);

struct option {
    const char *name;
    const char *value; /* what help calls it; NULL: a switch */
    int verbs;
    set_fn *set;
    const char *help;
};

static const char *set_duration(int64_t *ret_ms, const char *value)
{
    return cli_duration_parse(value, ret_ms) ? NULL : "is not a duration (300ms, 2s, 1m, 1h)";
}

static const char *set_wait(struct cli_options *opts, char *value)
{
    return set_duration(&opts->wait_ms, value);
}

/* The library's limit, in the words of the command line. */
static const char *set_lease(struct cli_options *opts, char *value)
{
    const char *wrong = set_duration(&opts->lease_ms, value);

    return wrong == NULL && opts->lease_ms < 10 ? "is too short; 10ms at least" : wrong;
}

static const char *set_renewed_lease(struct cli_options *opts, char *value)
{
    const char *wrong = set_duration(&opts->renewed_lease_ms, value);

    return wrong == NULL && opts->renewed_lease_ms < 30 ? "is too short; 30ms at least" : wrong;
}

static const char *set_max_hold(struct cli_options *opts, char *value)
{
    const char *wrong = set_duration(&opts->max_hold_ms, value);

    return wrong == NULL && opts->max_hold_ms == 0 ? "is no time at all" : wrong;
}

static const char *set_kind(struct cli_options *opts, char *value)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(value, kinds[i].name) == 0) {
            opts->kind = &kinds[i];
            return NULL;
        }
    }
    return "is not a kind of lock (reentrant, non-reentrant, spin, fenced, fair, read, write)";
}

/* The library's limit again. */
static const char *set_fair_slot(struct cli_options *opts, char *value)
{
    const char *wrong = set_duration(&opts->fair_slot_ms, value);

    return wrong == NULL && opts->fair_slot_ms < 1000 ? "is too short; 1s at least" : wrong;
}

static const char *set_no_reentry(struct cli_options *opts, char *value)
{
    (void)value;
    opts->no_reentry = true;
    return NULL;
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

static const char *set_max_lease(struct cli_options *opts, char *value)
{
    const char *wrong = set_duration(&opts->max_lease_ms, value);

    opts->max_lease_ms = opts->max_lease_ms == 0 ? -1 : opts->max_lease_ms;
    return wrong;
}

static const char *set_password_file(struct cli_options *opts, char *value)
{
    cli_secret_free(opts->password);
    opts->password = NULL;
    return cli_password_read(value, &opts->password);
}

static const char *set_ca_file(struct cli_options *opts, char *value)
{
    opts->ca_file = value;
    return NULL;
}

static const char *set_cert_file(struct cli_options *opts, char *value)
{
    opts->cert_file = value;
    return NULL;
}

static const char *set_key_file(struct cli_options *opts, char *value)
{
    opts->key_file = value;
    return NULL;
}

static const char *set_prefix(struct cli_options *opts, char *value)
{
    opts->prefix = value;
    return NULL;
}

static const char *set_quiet(struct cli_options *opts, char *value)
{
    (void)value;
    opts->quiet = true;
    return NULL;
}

static const char *set_verbose(struct cli_options *opts, char *value)
{
    (void)value;
    opts->verbose = true;
    return NULL;
}

static const char *set_json(struct cli_options *opts, char *value)
{
    (void)value;
    opts->json = true;
    return NULL;
}

static const char *set_help(struct cli_options *opts, char *value)
{
    (void)value;
    opts->help = true;
    return NULL;
}

#define ANSWERS (CLI_INFO | CLI_LS | CLI_BREAK | CLI_DOCTOR)

static const struct option options[] = {
    {"wait", "TIME", CLI_RUN, set_wait, "give up after TIME; 0 tries once (default: never)"},
    {"lease", "TIME", CLI_RUN, set_lease, "hold for TIME at most, without renewal"},
    {"renewed-lease", "TIME", CLI_RUN, set_renewed_lease,
     "renew a lease of TIME: how soon a crash frees the lock (default: 30s)"},
    {"max-hold", "TIME", CLI_RUN, set_max_hold, "stop renewing after TIME"},
    {"kind", "KIND", CLI_RUN, set_kind,
     "reentrant (the default), non-reentrant, spin, fenced, fair, read, write"},
    {"kind", "KIND", CLI_INFO | CLI_BREAK, set_kind,
     "the same; as the server has it by default; of a read/write lock that side"},
    {"fair-slot", "TIME", CLI_RUN, set_fair_slot,
     "fair: the queue's slot, the same for all (default: 300s)"},
    {"no-reentry", NULL, CLI_RUN, set_no_reentry, "refuse to be taken twice by one owner"},
    {"multi", "NAMES", CLI_RUN, set_multi, "take several at once: a,b,c in place of NAME"},
    {"name", "NAME", CLI_RUN, add_name, "one more of several, for names with commas"},
    {"redlock", "URLS", CLI_RUN, set_redlock,
     "take NAME on most of these independent servers: URL,URL,URL"},
    {"max-lease", "TIME", CLI_RUN, set_max_lease,
     "RedLock: a server that restarted within TIME does not count; 0 off (default: 30s)"},
    {"url", "URL", CLI_ALL, set_url,
     "redis:// rediss:// or unix:// (default: $RLOCK_URL, else " DEFAULT_URL ")"},
    {"password-file", "FILE", CLI_ALL, set_password_file,
     "password in FILE, which only its owner may read"},
    {"cacert", "FILE", CLI_ALL, set_ca_file, "authorities to trust (default: the system's)"},
    {"cert", "FILE", CLI_ALL, set_cert_file, "client certificate"},
    {"key", "FILE", CLI_ALL, set_key_file, "key of the client certificate"},
    {"prefix", "TEXT", CLI_ALL, set_prefix, "the Redis key is TEXT and the name"},
    {"json", NULL, ANSWERS, set_json, "one JSON object per line"},
    {"quiet", NULL, CLI_ALL, set_quiet, "no messages: the exit status says it"},
    {"verbose", NULL, CLI_ALL, set_verbose, "the library's log to standard error"},
    {"help", NULL, CLI_ALL, set_help, "this text"},
};

#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

void cli_options_describe(enum cli_verb verb)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *option = &options[i];
        char head[64];

        if ((option->verbs & (int)verb) != 0) {
            (void)snprintf(head, sizeof(head), "--%s %s", option->name,
                           option->value != NULL ? option->value : "");
            printf("  %-22s %s\n", head, option->help);
        }
    }
}

static const struct option *find_option(enum cli_verb verb, const char *name, size_t len)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const struct option *option = &options[i];

        if ((option->verbs & (int)verb) != 0 && strlen(option->name) == len &&
            strncmp(option->name, name, len) == 0) {
            return option;
        }
    }
    return NULL;
}

/* Takes the option at *word, and its value, which may be the next word; moves *word to the last one
 * it used. */
static int take_option(struct cli_options *opts, enum cli_verb verb, char ***word)
{
    char *text = **word;
    char *value = strchr(text, '=');
    const size_t len = value != NULL ? (size_t)(value - text) : strlen(text);
    const struct option *option = len > 2 ? find_option(verb, text + 2, len - 2) : NULL;
    const char *wrong;

    if (option == NULL) { /* what follows a = may be secret: it is not repeated */
        return cli_usage("unknown option %.*s", (int)len, text);
    }
    if ((option->value == NULL) != (value == NULL) && option->value == NULL) {
        return cli_usage("--%s takes no value", option->name);
    }
    if (option->value != NULL) {
        value = value != NULL ? value + 1 : *++*word;
    }
    if (option->value != NULL && value == NULL) {
        return cli_usage("--%s needs a value", option->name);
    }
    wrong = option->set(opts, value);
    return wrong == NULL ? 0 : cli_usage("--%s: '%s' %s", option->name, value, wrong);
}

/* Sorts the words: options are taken, operands move to the front of argv, what follows -- stays
 * where it is. */
static int parse_words(struct cli_options *opts, enum cli_verb verb, char **argv)
{
    char **word = argv;
    int status = 0;

    opts->operands = argv;
    for (; *word != NULL && status == 0 && strcmp(*word, "--") != 0; word++) {
        if (strcmp(*word, "-h") == 0) {
            opts->help = true;
        } else if (strncmp(*word, "--", 2) == 0) {
            status = take_option(opts, verb, &word);
        } else if (**word == '-' && (*word)[1] != '\0') {
            status = cli_usage("unknown option %.2s", *word);
        } else {
            opts->operands[opts->n_operands++] = *word;
        }
    }
    if (status == 0 && *word != NULL) {
        opts->command = word + 1;
    }
    if (status == 0 && (opts->cert_file == NULL) != (opts->key_file == NULL)) {
        return cli_usage("--cert and --key go together");
    }
    return status;
}

static int default_server(struct cli_options *opts)
{
    const char *environment = getenv("RLOCK_URL");

    if (opts->is_redlock) { /* each server says its own name */
        opts->server = strdup("RedLock");
        return opts->server != NULL ? 0 : CLI_EXIT_OWN;
    }
    if (opts->url == NULL) {
        opts->url = strdup(environment != NULL && *environment != '\0' ? environment : DEFAULT_URL);
    }
    opts->server = opts->url != NULL ? strdup(opts->url) : NULL;
    if (opts->server == NULL) {
        return CLI_EXIT_OWN;
    }
    cli_url_redact(opts->server);
    return 0;
}

int cli_options_parse(struct cli_options *opts, enum cli_verb verb, int argc, char **argv)
{
    int status;

    *opts = (struct cli_options){.wait_ms = RLOCK_FOREVER};
    status = parse_words(opts, verb, argv);
    if (status == 0 && verb != CLI_RUN && opts->command != NULL) { /* names that start with - */
        const int rest = argc - (int)(opts->command - argv);

        memmove(opts->operands + opts->n_operands, opts->command, (size_t)rest * sizeof(char *));
        opts->n_operands += rest;
    }
    return status != 0 ? status : default_server(opts);
}

void cli_options_fini(struct cli_options *opts)
{
    cli_secret_free(opts->url);
    cli_secret_free(opts->password);
    cli_secret_free(opts->redlock);
    free(opts->server);
    *opts = (struct cli_options){0};
}
