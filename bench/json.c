/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that was measured, round by round. All names are this program's own: none needs
 * escaping. */
#include "bench.h"

#include "program.h"

#include "support/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void write_machine(FILE *out, const struct bench_options *options)
{
    char date[32];
    const time_t now = time(NULL);
    struct tm utc;

    strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    fprintf(out, "{\"date\":\"%s\",\"machine\":\"%s\",\"pin\":\"%s\",", date,
            bench_machine(options), options->pin);
    fprintf(out, "\"run_ms\":%lld,\"cells\":[", (long long)options->run_ms);
}

/* A program's threads are its own: nobody counts how often they gave up the processor. */
static bool is_known(const struct bench_cell *cell, int figure)
{
    return cell->variant->program == NULL || figure != BENCH_SWITCHES;
}

static void write_figures(FILE *out, const struct bench_cell *cell,
                          const struct bench_figures *figures)
{
    for (int i = 0; i < BENCH_FIGURES; i++) {
        if (!is_known(cell, i)) {
            continue;
        }
        fprintf(out, "%s\"%s\":%.4g", i == 0 ? "{" : ",", bench_figure_name((enum bench_figure)i),
                figures->value[i]);
    }
    fputc('}', out);
}

static void write_spread(FILE *out, const char *name, struct bench_spread spread)
{
    fprintf(out, "\"%s\":{\"median\":%.6g,\"min\":%.6g,\"max\":%.6g}", name, spread.median,
            spread.lo, spread.hi);
}

typedef struct bench_spread spread_fn(const struct bench_cell *cell, enum bench_figure figure);

static void write_spreads(FILE *out, const char *name, const struct bench_cell *cell,
                          spread_fn *spread)
{
    fprintf(out, ",\n  \"%s\":{", name);
    for (int i = 0; i < BENCH_FIGURES; i++) {
        if (!is_known(cell, i)) {
            continue;
        }
        fputs(i == 0 ? "" : ",", out);
        write_spread(out, bench_figure_name((enum bench_figure)i),
                     spread(cell, (enum bench_figure)i));
    }
    fputc('}', out);
}

static void write_cell(FILE *out, const struct bench_cell *cell)
{
    fprintf(out, "\n {\"row\":\"%s\",\"case\":\"%s\",\"variant\":\"%s\",", cell->row->name,
            cell->one->name, cell->variant->name);
    if (cell->variant->program != NULL) {
        fprintf(out, "\"note\":\"%s\",", bench_program_note(cell->variant->program));
    }
    if (cell->variant->does != NULL) {
        fprintf(out, "\"a_lock_has\":\"%s\",", cell->variant->does);
    }
    fprintf(out, "\n  \"rounds\":[");
    for (int i = 0; i < cell->rounds; i++) {
        fputs(i == 0 ? "" : ",", out);
        write_figures(out, cell, &cell->round[i]);
    }
    fputc(']', out);
    write_spreads(out, "all", cell, bench_spread);
    if (cell->rlock != NULL) {
        write_spreads(out, "rlock_is", cell, bench_ratio);
    }
    fputc('}', out);
}

void bench_write_json(const char *file, const struct bench_cell *cells, size_t n,
                      const struct bench_options *options)
{
    FILE *out = fopen(file, "we");

    if (out == NULL) {
        test_die("%s: %s", file, strerror(errno));
    }
    write_machine(out, options);
    for (size_t i = 0; i < n; i++) {
        fputs(i == 0 ? "" : ",", out);
        write_cell(out, &cells[i]);
    }
    fputs("\n]}\n", out);
    if (fclose(out) != 0) {
        test_die("%s: %s", file, strerror(errno));
    }
}
