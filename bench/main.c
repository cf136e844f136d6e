/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring bench: see docs/performance.md. */
#include "bench.h"

#include "lib.h"
#include "program.h"

#include "support/run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUN_MS = 600,
    PEERS_RUN_MS = 2000,
    WARM_MS = 150,
    QUICK_MS = 20,
    QUICK_WARM_MS = 5,
    ROUNDS = 5
};
enum { QUICK_THREADS = 8, MAX_CELLS = 256 };

static struct {
    struct bench_options run;
    int rounds;
    bool quick, markdown, peers;
    const char *json, *svg;
    const struct bench_row *const *known; /* rows */
    char *const *rows;                    /* wanted, up to NULL; none: all */
} opts = {.known = bench_rows,
          .run = {.pin = "same", .run_ms = RUN_MS, .warm_ms = WARM_MS},
          .rounds = ROUNDS};

static const char usage[] =
    "Usage: scripts/bench [peers] [rows...] [options]\n"
    "  peers           rlock beside other libraries, instead of its floors\n"
    "  --rounds N      rounds, each with all variants of all cases; 5 by default\n"
    "  --seconds S     how long one run lasts; 0.6 by default, 2 with peers\n"
    "  --pin HOW       same: clients on the servers' core (the default); split: on the other;\n"
    "                  nopin: nobody is pinned\n"
    "  --quick         one short round of small cases: to see that it works\n"
    "  --markdown      the tables as Markdown\n"
    "  --json FILE     every round's figures\n"
    "  --svg DIR       a plot for each row\n"
    "  --list          the rows\n";

static void list_rows(void)
{
    for (int i = 0; opts.known[i] != NULL; i++) {
        printf("%-18s %s\n", opts.known[i]->name, opts.known[i]->about);
    }
}

static _Noreturn void refuse(const char *what)
{
    fprintf(stderr, "bench: %s\n%s", what, usage);
    exit(64);
}

static void be_quick(void)
{
    opts.quick = true;
    opts.rounds = 1;
    opts.run.run_ms = QUICK_MS;
    opts.run.warm_ms = QUICK_WARM_MS;
}

static void take_option(int option)
{
    switch (option) {
    case 'r':
        opts.rounds = atoi(optarg);
        break;
    case 's':
        opts.run.run_ms = (int64_t)(atof(optarg) * 1000);
        break;
    case 'p':
        opts.run.pin = optarg;
        break;
    case 'q':
        be_quick();
        break;
    case 'm':
        opts.markdown = true;
        break;
    case 'j':
        opts.json = optarg;
        break;
    case 'g':
        opts.svg = optarg;
        break;
    case 'l':
        list_rows();
        exit(0);
    case 'h':
        fputs(usage, stdout);
        exit(0);
    default:
        refuse("no such option");
    }
}

static void check_options(void)
{
    static const char *const pins[] = {"split", "same", "nopin"};
    bool known = false;

    for (int i = 0; i < 3; i++) {
        known = known || strcmp(opts.run.pin, pins[i]) == 0;
    }
    if (!known) {
        refuse("--pin is split, same or nopin");
    }
    if (opts.rounds < 1 || opts.rounds > BENCH_MAX_ROUNDS || opts.run.run_ms < 1) {
        refuse("too few or too many rounds or seconds");
    }
    for (int i = 0; opts.rows[i] != NULL; i++) {
        known = false;
        for (int j = 0; opts.known[j] != NULL; j++) {
            known = known || strcmp(opts.rows[i], opts.known[j]->name) == 0;
        }
        if (!known) {
            refuse("no such row; see --list");
        }
    }
}

/* `peers`, before all options. Returns how many words it took. */
static int take_subject(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "peers") != 0) {
        return 0;
    }
    opts.peers = true;
    opts.known = bench_peers;
    opts.run.run_ms = PEERS_RUN_MS;
    return 1;
}

static void take_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"rounds", 1, NULL, 'r'},   {"seconds", 1, NULL, 's'},
        {"pin", 1, NULL, 'p'},      {"quick", 0, NULL, 'q'},
        {"markdown", 0, NULL, 'm'}, {"json", 1, NULL, 'j'},
        {"svg", 1, NULL, 'g'},      {"list", 0, NULL, 'l'},
        {"help", 0, NULL, 'h'},     {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        take_option(option);
    }
    opts.rows = argv + optind;
    check_options();
}

static bool is_wanted(const struct bench_row *row)
{
    bool wanted = opts.rows[0] == NULL && !row->only_named;

    for (int i = 0; opts.rows[i] != NULL; i++) {
        wanted = wanted || strcmp(opts.rows[i], row->name) == 0;
    }
    return wanted;
}

static bool is_there(const struct bench_variant *variant)
{
    return variant->program == NULL || bench_program_is_there(variant->program);
}

/* The cells of one row. */
static size_t lay_out(const struct bench_row *row, struct bench_cell *cells)
{
    size_t n = 0;

    for (int i = 0; i < BENCH_MAX_CASES && row->cases[i].name != NULL; i++) {
        const struct bench_cell *rlock = NULL;

        if (opts.quick && i > 0 && row->cases[i].threads > QUICK_THREADS) {
            continue;
        }
        for (int j = 0; j < BENCH_MAX_VARIANTS && row->variant[j] != NULL; j++) {
            if (!is_there(row->variant[j])) {
                continue;
            }
            cells[n] = (struct bench_cell){
                .row = row, .one = &row->cases[i], .variant = row->variant[j], .rlock = rlock};
            rlock = j == 0 ? &cells[n] : rlock;
            n++;
        }
    }
    return n;
}

/* What the floors of a row send; NULL: they know it themselves. */
static const struct bench_calls *capture(const struct bench_run *of, const char *url)
{
    struct bench_row captured = *of->row;
    struct bench_case alone = *of->one;
    struct bench_run run = {
        .row = &captured, .one = &alone, .variant = &lib_pair, .cluster_url = of->cluster_url};

    if (captured.floors != NULL) {
        captured.kind = captured.floors;
        alone.members = 0;
    }
    return captured.kind != NULL ? bench_capture(&run, url) : NULL;
}

static void prepare_servers(struct bench_run *run)
{
    const bool is_redlock = run->row->kind != NULL && strcmp(run->row->kind, "redlock") == 0;

    bench_servers_for(run, is_redlock ? run->one->members : 1);
    bench_servers_empty(); /* the last run may have ended in the middle of a hold */
    for (int i = 0; i < run->n_servers; i++) { /* each learns the scripts by that */
        run->calls = capture(run, run->url[i]);
    }
}

/* The servers learn the scripts when rlock runs, before the floor. */
static void prepare_cluster(struct bench_run *run)
{
    bench_cluster_for(run, run->one->nodes);
    bench_servers_empty();
    run->calls = capture(run, run->url[bench_node_of(run, "name0000")]);
}

static void prepare(struct bench_run *run, const struct bench_cell *cell)
{
    *run = (struct bench_run){.row = cell->row, .one = cell->one};
    if (cell->one->nodes > 0) {
        prepare_cluster(run);
    } else {
        prepare_servers(run);
    }
}

/* One case, all its variants. Returns how many. */
static size_t run_case(struct bench_cell *cells, size_t n)
{
    struct bench_run run;
    size_t i = 0;

    prepare(&run, &cells[0]);
    do {
        run.variant = cells[i].variant;
        cells[i].round[cells[i].rounds++] = bench_measure(&run, &opts.run);
        i++;
    } while (i < n && cells[i].rlock == &cells[0]);
    bench_proxies_stop();
    return i;
}

static size_t run_row(const struct bench_row *row, struct bench_cell *cells)
{
    const size_t n = lay_out(row, cells);

    for (int round = 0; round < opts.rounds; round++) {
        for (size_t i = 0; i < n;) {
            i += run_case(cells + i, n - i);
        }
        fprintf(stderr, "bench: %s, round %d of %d\n", row->name, round + 1, opts.rounds);
    }
    bench_cluster_stop(); /* its nodes would disturb the next row */
    return n;
}

/* All wanted rows. Returns the number of cells. */
static size_t run_rows(struct bench_cell *cells)
{
    size_t n = 0;

    for (int i = 0; opts.known[i] != NULL; i++) {
        if (is_wanted(opts.known[i])) {
            const size_t more = run_row(opts.known[i], cells + n);

            if (!opts.peers) {
                bench_print(cells + n, more, opts.markdown);
                fflush(stdout);
            }
            n += more;
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct bench_cell cells[MAX_CELLS];
    const int subject = take_subject(argc, argv);

    take_options(argc - subject, argv + subject);
    bench_init();
    bench_servers_start(&opts.run);
    puts(bench_machine(&opts.run));
    const size_t n = run_rows(cells);
    if (opts.peers) {
        bench_print_peers(cells, n, opts.markdown);
    }
    if (opts.json != NULL) {
        bench_write_json(opts.json, cells, n, &opts.run);
    }
    if (opts.svg != NULL) {
        bench_write_svg(opts.svg, cells, n);
    }
    bench_servers_stop();
    return 0;
}
