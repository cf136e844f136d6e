/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of all rounds together: medians, and ratios within a round. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

const char *bench_figure_name(enum bench_figure figure)
{
    static const char *const names[] = {
        [BENCH_RATE] = "per_s",         [BENCH_P50] = "p50_us",
        [BENCH_P99] = "p99_us",         [BENCH_P999] = "p99.9_us",
        [BENCH_LONGEST] = "longest_ms", [BENCH_COMMANDS] = "commands",
        [BENCH_BYTES] = "bytes",        [BENCH_CLIENT] = "client_us",
        [BENCH_SERVER] = "server_us",   [BENCH_SWITCHES] = "switches",
        [BENCH_JAIN] = "jain",
    };

    return names[figure];
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct bench_spread spread_of(double *values, int n)
{
    if (n == 0) {
        return (struct bench_spread){0};
    }
    qsort(values, (size_t)n, sizeof(*values), compare);
    return (struct bench_spread){
        .median = (values[(n - 1) / 2] + values[n / 2]) / 2, .lo = values[0], .hi = values[n - 1]};
}

struct bench_spread bench_spread(const struct bench_cell *cell, enum bench_figure figure)
{
    double values[BENCH_MAX_ROUNDS];

    for (int i = 0; i < cell->rounds; i++) {
        values[i] = cell->round[i].value[figure];
    }
    return spread_of(values, cell->rounds);
}

/* Whether the same figure of rlock is of the same thing. A variant with threads of its own waits
 * for something else; one that sends nothing leaves the server idle. */
static bool is_comparable(const struct bench_cell *cell, int round, enum bench_figure figure)
{
    const bool has_other_threads =
        cell->variant->threads != 0 && cell->variant->threads != cell->one->threads;

    if (figure >= BENCH_P50 && figure <= BENCH_LONGEST) {
        return !has_other_threads;
    }
    return figure != BENCH_SERVER || cell->round[round].value[BENCH_COMMANDS] > 0;
}

struct bench_spread bench_ratio(const struct bench_cell *cell, enum bench_figure figure)
{
    double values[BENCH_MAX_ROUNDS];
    int n = 0;

    for (int i = 0; cell->rlock != NULL && i < cell->rounds; i++) {
        const double floor = cell->round[i].value[figure];

        if (floor > 0 && is_comparable(cell, i, figure)) {
            values[n++] = cell->rlock->round[i].value[figure] / floor;
        }
    }
    return spread_of(values, n);
}
