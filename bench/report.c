/* SPDX-License-Identifier: Apache-2.0 */
/* The text: a table for each row, as text or as Markdown. */
#include "bench.h"

#include "program.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WIDTH = 18, VARIANT_WIDTH = 8, PEERS_FIRST_WIDTH = 19, PEER_WIDTH = 12 };

/* Columns after case and variant, in their order. */
static const struct column {
    const char *heading;
    enum bench_figure figure;
    int width, digits;
} columns[] = {
    {"/s", BENCH_RATE, 9, 0},
    {"p50 us", BENCH_P50, 9, 1},
    {"p99 us", BENCH_P99, 9, 0},
    {"p99.9 us", BENCH_P999, 9, 0},
    {"longest ms", BENCH_LONGEST, 10, 1},
    {"Jain", BENCH_JAIN, 5, 2},
    {"cmds", BENCH_COMMANDS, 6, 2},
    {"bytes", BENCH_BYTES, 6, 0},
    {"client us", BENCH_CLIENT, 9, 2},
    {"server us", BENCH_SERVER, 9, 2},
    {"switches", BENCH_SWITCHES, 8, 2},
};

/* What rlock is in parts of the variant. Beside peers only the first. */
static const struct column ratios[] = {
    {"rlock /s", BENCH_RATE, 17, 2},       {"rlock p50", BENCH_P50, 17, 2},
    {"rlock p99.9", BENCH_P999, 17, 2},    {"rlock client", BENCH_CLIENT, 17, 2},
    {"rlock server", BENCH_SERVER, 17, 2},
};

enum {
    N_COLUMNS = sizeof(columns) / sizeof(columns[0]),
    N_RATIOS = sizeof(ratios) / sizeof(ratios[0]),
    N_PEERS_RATIOS = 1
};

static void put(bool markdown, int width, const char *text)
{
    if (markdown) {
        printf("| %s ", text);
    } else if (width < 0) {
        printf("%*s", width, text);
    } else {
        printf(" %*s", width, text);
    }
}

static void end_line(bool markdown)
{
    puts(markdown ? "|" : "");
}

static void put_headings(int n_ratios, bool markdown)
{
    for (int i = 0; i < N_COLUMNS; i++) {
        put(markdown, columns[i].width, columns[i].heading);
    }
    for (int i = 0; i < n_ratios; i++) {
        put(markdown, ratios[i].width, ratios[i].heading);
    }
}

static void put_rule(int words, int numbers, bool markdown)
{
    if (markdown) {
        for (int i = 0; i < words + numbers; i++) {
            printf(i < words ? "|---" : "|--:");
        }
    }
}

static void print_heading(const struct bench_row *row, bool markdown)
{
    printf(markdown ? "\n**%s**: %s\n\n" : "\n%s: %s\n", row->name, row->about);
    put(markdown, -FIRST_WIDTH, "case");
    put(markdown, -VARIANT_WIDTH, "variant");
    put_headings(N_RATIOS, markdown);
    end_line(markdown);
    put_rule(2, N_COLUMNS + N_RATIOS, markdown);
    if (markdown) {
        end_line(markdown);
    }
}

static void put_figures(const struct bench_cell *cell, int n_ratios, bool markdown)
{
    char text[64];

    for (int i = 0; i < N_COLUMNS; i++) {
        const struct bench_spread spread = bench_spread(cell, columns[i].figure);

        snprintf(text, sizeof(text), "%.*f", columns[i].digits, spread.median);
        put(markdown, columns[i].width, text);
    }
    for (int i = 0; i < n_ratios; i++) {
        const struct bench_spread spread = bench_ratio(cell, ratios[i].figure);

        snprintf(text, sizeof(text), "%.2f [%.2f..%.2f]", spread.median, spread.lo, spread.hi);
        put(markdown, ratios[i].width, spread.hi > 0 ? text : "");
    }
}

static void print_cell(const struct bench_cell *cell, bool markdown)
{
    put(markdown, -FIRST_WIDTH, cell->one->name);
    put(markdown, -VARIANT_WIDTH, cell->variant->name);
    put_figures(cell, N_RATIOS, markdown);
    end_line(markdown);
}

const char *bench_machine(const struct bench_options *options)
{
    static char text[256];
    struct utsname name;
    char date[32];
    const time_t now = time(NULL);
    struct tm utc;

    uname(&name);
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &utc));
    snprintf(text, sizeof(text), "%s, %s %s, %ld processors, %s, pin %s, runs of %.2f s", date,
             name.sysname, name.release, sysconf(_SC_NPROCESSORS_ONLN), bench_server_version(),
             options->pin, (double)options->run_ms / 1000);
    return text;
}

void bench_print(const struct bench_cell *cells, size_t n, bool markdown)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || cells[i].row != cells[i - 1].row) {
            print_heading(cells[i].row, markdown);
        }
        print_cell(&cells[i], markdown);
    }
}

/* ---- beside peers: one table for all rows ---- */

static void print_peers_heading(bool markdown)
{
    puts("");
    put(markdown, -PEERS_FIRST_WIDTH, "row: case");
    put(markdown, -PEER_WIDTH, "library");
    put_headings(N_PEERS_RATIOS, markdown);
    put(markdown, 0, "a lock has");
    end_line(markdown);
    put_rule(2, N_COLUMNS + N_PEERS_RATIOS, markdown);
    if (markdown) {
        put_rule(1, 0, markdown);
        end_line(markdown);
    }
}

static void print_peer(const struct bench_cell *cell, bool markdown)
{
    char text[64];

    snprintf(text, sizeof(text), "%s: %s", cell->row->name, cell->one->name);
    put(markdown, -PEERS_FIRST_WIDTH, text);
    put(markdown, -PEER_WIDTH, cell->variant->name);
    put_figures(cell, N_PEERS_RATIOS, markdown);
    put(markdown, 0, cell->variant->does != NULL ? cell->variant->does : "");
    end_line(markdown);
}

/* Each peer once: all rows have the same ones, or some of them. */
static void print_notes(bool markdown)
{
    const struct bench_variant *const *variant = bench_peers[0]->variant;

    puts("");
    for (int i = 0; i < BENCH_MAX_VARIANTS && variant[i] != NULL; i++) {
        const char *program = variant[i]->program;

        if (program != NULL && !bench_program_is_there(program)) {
            printf("%s%s: left out, it was not built; bench/peers/setup says why\n",
                   markdown ? "- " : "", variant[i]->name);
        } else if (program != NULL && bench_program_note(program)[0] != 0) {
            printf("%s%s: %s\n", markdown ? "- " : "", variant[i]->name,
                   bench_program_note(program));
        }
    }
}

void bench_print_peers(const struct bench_cell *cells, size_t n, bool markdown)
{
    print_peers_heading(markdown);
    for (size_t i = 0; i < n; i++) {
        if (!markdown && i > 0 && cells[i].rlock == NULL) {
            puts(""); /* between cases */
        }
        print_peer(&cells[i], markdown);
    }
    print_notes(markdown);
}
