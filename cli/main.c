/* SPDX-License-Identifier: Apache-2.0 */
/* rlock: the distributed flock(1). Picks the command; --help is made of the same tables. */
#include "mailbox.h"
#include "say.h"
#include "verbs.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

struct verb {
    enum cli_verb verb;
    const char *name;
    cli_verb_fn *run;
    const char *synopsis;
    int least, most; /* operands; most -1: any number */
    const char *help;
    const char *examples;
};

static const struct verb verbs[] = {
    {CLI_RUN, "run", cli_run, "[options] NAME -- COMMAND [ARGUMENT...]", 0, 1,
     "Takes the lock, runs the command, and releases the lock.\n"
     "If rlock cannot renew the lock, it stops the command before the lock expires.\n",
     "  rlock run nightly-report -- ./report.sh\n"
     "  rlock run --wait 0 backup -- pg_dump shop      exits 123 if the lock is held\n"
     "  rlock run --wait 30s --lease 10m import -- make import\n"
     "  rlock run --multi order:7,stock:3 -- ./ship.sh\n"
     "  rlock run --redlock redis://a,redis://b,redis://c job -- ./job.sh\n"},
    {CLI_ELECT, "elect", cli_elect, "[options] NAME -- COMMAND [ARGUMENT...]", 0, 1,
     "Waits until it is the leader, the only process that holds the lock, and runs the command.\n"
     "If rlock cannot renew the lock, it stops the command before the lock expires, and waits to\n"
     "be the leader again. rlock ends when the command ends by itself, or after a signal.\n",
     "  rlock elect scheduler -- ./scheduler           start this on each machine\n"
     "  rlock elect --renewed-lease 5s scheduler -- ./scheduler\n"},
    {CLI_ACQUIRE, "acquire", cli_acquire, "[options] NAME", 0, 1,
     "Takes the lock, and prints a text for rlock release.\n"
     "With --lease the lock stays taken for TIME, although no process holds it. A program that\n"
     "has the text can take the lock over: keep it secret.\n"
     "With --keep a process in the background holds the lock and renews it while PID lives. If\n"
     "it loses the lock, it sends SIGTERM to PID.\n",
     "  text=$(rlock acquire --lease 10m deploy)       a lock over several commands\n"
     "  text=$(rlock acquire --keep $$ job) || exit    a lock for the rest of a script\n"},
    {CLI_EXTEND, "extend", cli_extend, "[options] NAME TEXT", 2, 2,
     "Keeps the lock of the text for another --lease, and prints a new text. The old text is "
     "void.\n",
     "  text=$(rlock extend --lease 10m deploy \"$text\")\n"},
    {CLI_RELEASE, "release", cli_release, "[options] NAME TEXT", 2, 2,
     "Releases the lock of the text. If a keeper holds it, the keeper releases it and ends.\n",
     "  rlock release deploy \"$text\"\n"},
    {CLI_INFO, "info", cli_info, "[options] NAME...", 1, -1,
     "Shows for each lock the holder, its machine, and the rest of its lease.\n",
     "  rlock info nightly-report\n"
     "  rlock info --check nightly-report && echo free\n"
     "  rlock info --json nightly-report | jq .ttl_ms\n"},
    {CLI_LS, "ls", cli_ls, "[options] [PATTERN]", 0, 1,
     "Lists the keys that look like locks. PATTERN works as in SCAN MATCH.\n",
     "  rlock ls 'order:*'\n"
     "  rlock ls --metrics >rlock.prom                 for node_exporter's textfile collector\n"},
    {CLI_BREAK, "break", cli_break, "[options] NAME", 1, 1,
     "Releases the lock by force. The holder continues, and finds out later.\n",
     "  rlock break nightly-report\n"},
    {CLI_SLOTS, "slots", cli_slots, "[options] NAME N", 2, 2,
     "Sets how many processes rlock run --slots lets in at a time. Holders keep their slots.\n",
     "  rlock slots report 16\n"},
    {CLI_DOCTOR, "doctor", cli_doctor, "[options]", 0, 0,
     "Tests on the server everything that locks need, and reports problems.\n",
     "  rlock doctor --url rediss://locks.example:6380 --cacert ca.pem\n"},
};

#define N_VERBS (sizeof(verbs) / sizeof(verbs[0]))

/* What the commands exit with, apart from the status of the command that ran. */
static const struct {
    int verbs;
    enum cli_exit status;
    const char *meaning;
} exits[] = {
    {CLI_ALL & ~CLI_COMMANDS, CLI_EXIT_OK, "done"},
    {CLI_ALL, CLI_EXIT_USAGE, "wrong usage"},
    {CLI_ALL & ~CLI_RELEASE, CLI_EXIT_REFUSED, "the server refused the request"},
    {CLI_RELEASE, CLI_EXIT_REFUSED,
     "the server refused the request, or the keeper belongs to another user"},
    {CLI_INFO | CLI_LS | CLI_SLOTS | CLI_DOCTOR, CLI_EXIT_UNREACHABLE,
     "the server cannot be reached"},
    {CLI_BREAK, CLI_EXIT_UNREACHABLE, "the server cannot be reached, or the outcome is in doubt"},
    {CLI_EXTEND | CLI_RELEASE, CLI_EXIT_UNREACHABLE,
     "the server cannot be reached, or the outcome is in doubt"},
    {CLI_COMMANDS | CLI_ACQUIRE, CLI_EXIT_UNREACHABLE,
     "the server cannot be reached, no quorum, or the outcome is in doubt"},
    {CLI_RUN, CLI_EXIT_LOST, "the lock was lost while the command ran"},
    {CLI_ACQUIRE, CLI_EXIT_LOST,
     "the process of --keep, the hold or the keeper ended before acquire did"},
    {CLI_EXTEND, CLI_EXIT_LOST, "the text's hold has ended, or was taken over"},
    {CLI_RELEASE, CLI_EXIT_LOST,
     "the text's hold has ended, or was taken over, or its keeper runs elsewhere"},
    {CLI_RUN | CLI_ACQUIRE, CLI_EXIT_BUSY, "another owner holds the lock (--wait 0)"},
    {CLI_INFO, CLI_EXIT_BUSY, "one of the locks is held (--check)"},
    {CLI_BREAK, CLI_EXIT_BUSY, "the holder changed meanwhile"},
    {CLI_RUN | CLI_ACQUIRE, CLI_EXIT_TIMED_OUT, "the wait ended without the lock"},
    {CLI_ALL, CLI_EXIT_OWN, "rlock itself failed"},
    {CLI_COMMANDS, CLI_EXIT_NOT_EXECUTABLE, "the command cannot be executed"},
    {CLI_COMMANDS, CLI_EXIT_NOT_FOUND, "the command was not found"},
};

static void print_exits(enum cli_verb verb)
{
    (void)fputs("\nExit status:\n", stdout);
    if ((verb & CLI_COMMANDS) != 0) {
        (void)fputs("    N  the exit status of the command; 128+N if signal N killed it\n", stdout);
    }
    for (size_t i = 0; i < sizeof(exits) / sizeof(exits[0]); i++) {
        if ((exits[i].verbs & (int)verb) != 0) {
            printf("  %3d  %s\n", (int)exits[i].status, exits[i].meaning);
        }
    }
}

static int help(void)
{
    (void)fputs("rlock: distributed locks on Redis and Valkey\n\n", stdout);
    for (size_t i = 0; i < N_VERBS; i++) {
        printf("  rlock %s %s\n", verbs[i].name, verbs[i].synopsis);
    }
    (void)fputs(
        "  rlock --help | --version;  rlock COMMAND --help lists its options\n\nExamples:\n",
        stdout);
    for (size_t i = 0; i < N_VERBS; i++) {
        (void)fputs(verbs[i].examples, stdout);
    }
    (void)fputs("\nrlock(1) has the rest.\n", stdout);
    return CLI_EXIT_OK;
}

static int help_on(const struct verb *verb)
{
    printf("Usage: rlock %s %s\n%s\nOptions:\n", verb->name, verb->synopsis, verb->help);
    cli_options_describe(verb->verb);
    if ((verb->verb & (CLI_COMMANDS | CLI_ACQUIRE | CLI_EXTEND)) != 0) {
        (void)fputs("\nA TIME is 300ms, 2s, 1m, 1h, or a bare number of seconds.\n", stdout);
    }
    printf("\nExamples:\n%s", verb->examples);
    print_exits(verb->verb);
    (void)fputs("\nrlock(1) has the rest.\n", stdout);
    return CLI_EXIT_OK;
}

static int check_operands(const struct verb *verb, const struct cli_options *opts)
{
    const bool takes = (verb->verb & (CLI_COMMANDS | CLI_ACQUIRE)) != 0;

    if (opts->n_names > 0 && opts->is_redlock) {
        return cli_usage("--redlock and --multi exclude each other: --redlock takes one NAME on "
                         "several servers");
    }
    if (opts->n_names > 0 && opts->n_operands > 0) {
        return cli_usage("NAME and --multi or --name exclude each other");
    }
    if (opts->n_operands < verb->least || (takes && opts->n_operands + opts->n_names == 0)) {
        return cli_usage("usage: rlock %s %s", verb->name, verb->synopsis);
    }
    if ((verb->verb & CLI_COMMANDS) != 0 && (opts->command == NULL || opts->command[0] == NULL)) {
        return cli_usage("missing \"-- COMMAND\": rlock %s %s", verb->name, verb->synopsis);
    }
    if (verb->most >= 0 && opts->n_operands > verb->most) {
        return cli_usage("unexpected argument '%s': rlock %s %s", opts->operands[verb->most],
                         verb->name, verb->synopsis);
    }
    return CLI_EXIT_OK;
}

/* A keeper can hold any lock, and renews it. Without a keeper, the text stands for one lock on one
 * server, and its lease is fixed. */
static int check_keep(const struct cli_options *opts)
{
    const bool is_several = opts->is_redlock || opts->n_names > 0;

    if (opts->keep != 0 && opts->lease_ms != 0) {
        return cli_usage("--keep and --lease exclude each other: the keeper renews the lock. "
                         "--renewed-lease sets its lease");
    }
    if (opts->keep == 0 && (is_several || opts->renewed_lease_ms != 0 || opts->max_hold_ms != 0)) {
        return cli_usage("--multi, --name, --redlock, --renewed-lease and --max-hold require "
                         "--keep");
    }
    return opts->keep != 0 || opts->lease_ms != 0
               ? CLI_EXIT_OK
               : cli_usage("missing --lease: the lock stays taken for so long. Or give --keep, and "
                           "a keeper renews it");
}

/* The hold of a keeper's text is the keeper's until rlock release. */
static int check_text(struct cli_options *opts, enum cli_verb verb, const char *text)
{
    const bool is_kept = cli_mailbox_is_text(text);

    if (is_kept && verb != CLI_RELEASE) {
        return cli_usage("a keeper renews the hold of this text: only rlock release works with it");
    }
    return is_kept || cli_kind_of_text(opts, text)
               ? CLI_EXIT_OK
               : cli_usage("this is not a text of rlock acquire or rlock extend");
}

/* What concerns texts, which know the kind of their lock. */
static int check_texts(struct cli_options *opts, enum cli_verb verb)
{
    const bool is_several = opts->is_redlock || opts->n_names > 0;
    const bool has_text = opts->adopt != NULL || verb == CLI_EXTEND || verb == CLI_RELEASE;

    if ((opts->adopt != NULL || opts->at_least_ms != 0) && is_several) {
        return cli_usage("--adopt and --at-least need one lock on one server");
    }
    if (opts->adopt != NULL && (opts->kind != NULL || opts->wait_ms != RLOCK_FOREVER)) {
        return cli_usage("--adopt does not wait, and the text says which kind of lock it is");
    }
    if (verb == CLI_ACQUIRE) {
        return check_keep(opts);
    }
    if (verb == CLI_EXTEND && opts->lease_ms == 0) {
        return cli_usage("missing --lease: the lock stays taken for so long");
    }
    return has_text ? check_text(opts, verb, opts->adopt != NULL ? opts->adopt : opts->operands[1])
                    : CLI_EXIT_OK;
}

/* An option that would say nothing is a mistake. */
static int check_options(struct cli_options *opts, enum cli_verb verb)
{
    if (opts->json && opts->metrics) {
        return cli_usage("--json and --metrics exclude each other");
    }
    if (opts->max_lease_ms != 0 && !opts->is_redlock) {
        return cli_usage("--max-lease requires --redlock");
    }
    if (opts->fair_slot_ms != 0 && !cli_is_kind(opts, "fair")) {
        return cli_usage("--fair-slot requires --kind fair");
    }
    if (opts->slots != 0 && !cli_has_slots(opts)) {
        return cli_usage("--slots requires --kind permits or semaphore, or no --kind");
    }
    if (cli_has_slots(opts) && opts->slots == 0 && opts->adopt == NULL &&
        (verb == CLI_RUN || verb == CLI_ACQUIRE)) {
        return cli_usage("--kind %s requires --slots N: how many there are", opts->kind->name);
    }
    if (cli_is_kind(opts, "semaphore") && (opts->lease_ms != 0 || opts->at_least_ms != 0 ||
                                           (verb == CLI_ACQUIRE && opts->keep == 0))) {
        return cli_usage("a semaphore is always renewed: --lease and --at-least do not apply, and "
                         "acquire requires --keep");
    }
    if (opts->lease_ms != 0 && opts->renewed_lease_ms != 0) {
        return cli_usage(
            "--lease and --renewed-lease exclude each other: a fixed lease is not renewed");
    }
    if (opts->lease_ms != 0 && opts->max_hold_ms != 0) {
        return cli_usage("--lease and --max-hold exclude each other: a fixed lease is not renewed");
    }
    return check_texts(opts, verb);
}

static int run_verb(const struct verb *verb, int argc, char **argv)
{
    struct cli_options opts;
    int status = cli_options_parse(&opts, verb->verb, argc, argv);

    if (status == CLI_EXIT_OK && opts.help) {
        status = help_on(verb);
    } else if (status == CLI_EXIT_OK) {
        status = check_operands(verb, &opts);
        status = status == CLI_EXIT_OK ? check_options(&opts, verb->verb) : status;
        status = status == CLI_EXIT_OK ? verb->run(&opts) : status;
    }
    cli_options_fini(&opts);
    return status;
}

static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(name, verbs[i].name) == 0) {
            return &verbs[i];
        }
    }
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    const struct verb *verb = argc > 1 ? find_verb(argv[1]) : NULL;

    if (argc < 2) {
        return cli_usage("missing command: run, elect, acquire, extend, release, info, ls, break, "
                         "slots or doctor");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        verb = argc > 2 ? find_verb(argv[2]) : NULL;
        return verb != NULL ? help_on(verb) : help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("rlock %s\n", rlock_version());
        return CLI_EXIT_OK;
    }
    if (verb != NULL) {
        return run_verb(verb, argc - 1, argv + 1);
    }
    return cli_usage(
        "'%s' is not a command: run, elect, acquire, extend, release, info, ls, break, slots "
        "or doctor",
        argv[1]);
}

int main(int argc, char **argv)
{
    int status;

#ifdef M_ARENA_MAX
    (void)mallopt(M_ARENA_MAX, 1); /* one for each thread would cost more than it gains */
#endif
    status = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout) != 0) { /* a full disk must not look like an answer */
        (void)fputs("rlock: cannot write to standard output\n", stderr);
        return status == CLI_EXIT_OK ? CLI_EXIT_OWN : status;
    }
    return status;
}
