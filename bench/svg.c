/* SPDX-License-Identifier: Apache-2.0 */
/* A plot for each row: how many a second, a group of bars for each case, with the smallest and the
 * largest of all rounds. Each case has a scale of its own: its highest bar fills the plot. */
#include "bench.h"

#include "support/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { LEFT = 20, TOP = 50, HEIGHT = 220, BAR = 46, GAP = 40, FOOT = 40 };

static const char *const colours[BENCH_MAX_VARIANTS] = {"#c0392b", "#7f8c8d", "#bdc3c7", "#d5dbdb"};

static size_t cells_of_case(const struct bench_cell *cells, size_t n)
{
    size_t i = 1;

    while (i < n && cells[i].rlock == &cells[0]) {
        i++;
    }
    return i;
}

static void write_bar(FILE *out, const struct bench_cell *cell, int x, double top, const char *fill)
{
    const struct bench_spread rate = bench_spread(cell, BENCH_RATE);
    const double scale = top > 0 ? HEIGHT / top : 0;
    const double base = TOP + HEIGHT, middle = x + BAR / 2.0;

    fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" fill=\"%s\"/>\n", x,
            base - rate.median * scale, BAR - 4, rate.median * scale, fill);
    fprintf(out, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#000\"/>\n", middle - 2,
            base - rate.lo * scale, base - rate.hi * scale);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3g</text>\n", middle - 2,
            base - rate.hi * scale - 4, rate.median);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", middle - 2,
            base + 14, cell->variant->name);
}

/* Returns where the next case begins. */
static int write_case(FILE *out, const struct bench_cell *cells, size_t n, int x)
{
    double top = 0;

    for (size_t i = 0; i < n; i++) {
        const double rate = bench_spread(&cells[i], BENCH_RATE).hi;

        top = rate > top ? rate : top;
    }
    for (size_t i = 0; i < n; i++) {
        write_bar(out, &cells[i], x + (int)i * BAR, top, colours[i]);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", x,
            TOP + HEIGHT + FOOT - 8, cells[0].one->name);
    return x + (int)n * BAR + GAP;
}

static void write_row(FILE *out, const struct bench_cell *cells, size_t n)
{
    int x = LEFT, width = LEFT;

    for (size_t i = 0; i < n; i += cells_of_case(cells + i, n - i)) {
        width += (int)cells_of_case(cells + i, n - i) * BAR + GAP;
    }
    width = width < 640 ? 640 : width;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
        "<text x=\"%d\" y=\"18\"><tspan font-weight=\"bold\">%s</tspan>: in a second; %s</text>\n",
        width, TOP + HEIGHT + FOOT, LEFT, cells[0].row->name, cells[0].row->about);
    for (size_t i = 0; i < n;) {
        const size_t same = cells_of_case(cells + i, n - i);

        x = write_case(out, cells + i, same, x);
        i += same;
    }
    fputs("</svg>\n", out);
}

void bench_write_svg(const char *dir, const struct bench_cell *cells, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t same = 1;
        char file[PATH_MAX];

        while (i + same < n && cells[i + same].row == cells[i].row) {
            same++;
        }
        test_text(file, sizeof(file), "%s/%s.svg", dir, cells[i].row->name);
        FILE *out = fopen(file, "we");
        if (out == NULL) {
            test_die("%s: %s", file, strerror(errno));
        }
        write_row(out, cells + i, same);
        TEST_CHECK(fclose(out) == 0);
        i += same;
    }
}
