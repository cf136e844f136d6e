/* SPDX-License-Identifier: Apache-2.0 */
/* A plot for each row: how many a second, a group of bars for each case, with the smallest and the
 * largest of all rounds. Each case has a scale of its own: its highest bar fills the plot. */
#include "bench.h"

#include "support/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEFT = 20, HEAD = 50, HEIGHT = 220, BAR = 68, GAP = 40, FOOT = 40, MOST_WIDTH = 1300 };

static const char *const colours[] = {"#c0392b", "#7f8c8d", "#bdc3c7", "#d5dbdb"};
static const char peers_colour[] = "#2e6da4";

/* What is drawn, and how far it has come. */
struct plot {
    FILE *out;
    int x, top, width;
};

static size_t cells_of_case(const struct bench_cell *cells, size_t n)
{
    size_t i = 1;

    while (i < n && cells[i].rlock == &cells[0]) {
        i++;
    }
    return i;
}

static size_t cells_of_row(const struct bench_cell *cells, size_t n)
{
    size_t i = 1;

    while (i < n && cells[i].row == cells[0].row) {
        i++;
    }
    return i;
}

static void write_bar(const struct plot *plot, const struct bench_cell *cell, double highest,
                      const char *fill)
{
    const struct bench_spread rate = bench_spread(cell, BENCH_RATE);
    const double scale = highest > 0 ? HEIGHT / highest : 0;
    const double base = plot->top + HEIGHT, middle = plot->x + BAR / 2.0;
    FILE *out = plot->out;

    fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\"/>\n", plot->x,
            base - rate.median * scale, BAR - 4, rate.median * scale, fill);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#000\"/>\n", middle - 2,
            base - rate.lo * scale, base - rate.hi * scale);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", middle - 2,
            base - rate.hi * scale - 4, rate.median);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", middle - 2,
            base + 14, cell->variant->name);
}

static void write_case(struct plot *plot, const struct bench_cell *cells, size_t n)
{
    double highest = 0;

    for (size_t i = 0; i < n; i++) {
        const double rate = bench_spread(&cells[i], BENCH_RATE).hi;

        highest = rate > highest ? rate : highest;
    }
    fprintf(plot->out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", plot->x,
            plot->top + HEIGHT + FOOT - 8, cells[0].one->name);
    for (size_t i = 0; i < n; i++) {
        const bool is_peer = cells[i].variant->program != NULL;

        write_bar(plot, &cells[i], highest, is_peer ? peers_colour : colours[i]);
        plot->x += BAR;
    }
    plot->width = plot->x > plot->width ? plot->x : plot->width;
    plot->x += GAP;
}

/* The row's cases side by side, in as many lines as they need. */
static void write_row(struct plot *plot, const struct bench_cell *cells, size_t n)
{
    fprintf(plot->out,
            "<text x=\"%d\" y=\"%d\"><tspan font-weight=\"bold\">%s</tspan>: in a second; "
            "%s</text>\n",
            LEFT, plot->top + 18, cells[0].row->name, cells[0].row->about);
    plot->top += HEAD;
    plot->x = LEFT;
    for (size_t i = 0; i < n;) {
        const size_t same = cells_of_case(cells + i, n - i);

        if (plot->x > LEFT && plot->x + (int)same * BAR > MOST_WIDTH) {
            plot->x = LEFT;
            plot->top += HEIGHT + FOOT + HEAD / 2;
        }
        write_case(plot, cells + i, same);
        i += same;
    }
    plot->top += HEIGHT + FOOT;
}

/* One row's cases in a file. */
static void write_file(const char *dir, const struct bench_cell *cells, size_t n)
{
    struct plot plot = {.width = 640};
    char path[PATH_MAX], *body = NULL;
    size_t size = 0;

    test_text(path, sizeof(path), "%s/%s.svg", dir, cells[0].row->name);
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        test_die("%s: %s", path, strerror(errno));
    }
    plot.out = open_memstream(&body, &size);
    TEST_CHECK(plot.out != NULL);
    write_row(&plot, cells, n);
    TEST_CHECK(fclose(plot.out) == 0);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n%s</svg>\n",
            plot.width + LEFT, plot.top, body);
    free(body);
    TEST_CHECK(fclose(out) == 0);
}

void bench_write_svg(const char *dir, const struct bench_cell *cells, size_t n)
{
    for (size_t i = 0; i < n;) {
        const size_t same = cells_of_row(cells + i, n - i);

        write_file(dir, cells + i, same);
        i += same;
    }
}
