/* SPDX-License-Identifier: Apache-2.0 */
/* The text: a table for each row, as text or as Markdown. */
#include "bench.h"

#include "program.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WIDTH = 18, VARIANT_WIDTH = 8, PEERS_FIRST_WIDTH = 19, PEER_WIDTH = 12 };

/* Columns after case and variant, in their order. Beside peers: those that are known of programs,
 * and fit. */
static const struct column {
    const char *heading;
    enum bench_figure figure;
    int width, digits;
    bool peers;
} columns[] = {
    {"/s", BENCH_RATE, 9, 0, true},
    {"p50 us", BENCH_P50, 9, 1, true},
    {"p99 us", BENCH_P99, 9, 0, true},
    {"p99.9 us", BENCH_P999, 9, 0, false},
    {"longest ms", BENCH_LONGEST, 10, 1, true},
    {"Jain", BENCH_JAIN, 5, 2, true},
    {"cmds", BENCH_COMMANDS, 6, 2, true},
    {"bytes", BENCH_BYTES, 6, 0, false},
    {"client us", BENCH_CLIENT, 9, 2, true},
    {"server us", BENCH_SERVER, 9, 2, true},
    {"switches", BENCH_SWITCHES, 8, 2, false},
};

/* What rlock is in parts of the variant. */
static const struct column ratios[] = {
    {"rlock /s", BENCH_RATE, 17, 2, true},        {"rlock p50", BENCH_P50, 17, 2, false},
    {"rlock p99.9", BENCH_P999, 17, 2, false},    {"rlock client", BENCH_CLIENT, 17, 2, true},
    {"rlock server", BENCH_SERVER, 17, 2, false},
};

enum {
    N_COLUMNS = sizeof(columns) / sizeof(columns[0]),
    N_RATIOS = sizeof(ratios) / sizeof(ratios[0])
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

/* Returns how many. */
static int put_headings(bool peers, bool markdown)
{
    int n = 0;

    for (int i = 0; i < N_COLUMNS + N_RATIOS; i++) {
        const struct column *column = i < N_COLUMNS ? &columns[i] : &ratios[i - N_COLUMNS];

        if (column->peers || !peers) {
            put(markdown, column->width, column->heading);
            n++;
        }
    }
    return n;
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
    const int n = put_headings(false, markdown);
    end_line(markdown);
    put_rule(2, n, markdown);
    if (markdown) {
        end_line(markdown);
    }
}

/* What nobody knows is empty. */
static void put_figures(const struct bench_cell *cell, bool peers, bool markdown)
{
    char text[64];

    for (int i = 0; i < N_COLUMNS; i++) {
        const struct bench_spread spread = bench_spread(cell, columns[i].figure);

        if (columns[i].peers || !peers) {
            snprintf(text, sizeof(text), "%.*f", columns[i].digits, spread.median);
            put(markdown, columns[i].width, spread.hi > 0 ? text : "");
        }
    }
    for (int i = 0; i < N_RATIOS; i++) {
        const struct bench_spread spread = bench_ratio(cell, ratios[i].figure);

        if (ratios[i].peers || !peers) {
            snprintf(text, sizeof(text), "%.2f [%.2f..%.2f]", spread.median, spread.lo, spread.hi);
            put(markdown, ratios[i].width, spread.hi > 0 ? text : "");
        }
    }
}

static void print_cell(const struct bench_cell *cell, bool markdown)
{
    put(markdown, -FIRST_WIDTH, cell->one->name);
    put(markdown, -VARIANT_WIDTH, cell->variant->name);
    put_figures(cell, false, markdown);
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
    const int n = put_headings(true, markdown);
    put(markdown, 0, "a lock has");
    end_line(markdown);
    put_rule(2, n, markdown);
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
    put_figures(cell, true, markdown);
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
