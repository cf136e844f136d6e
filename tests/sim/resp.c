/* SPDX-License-Identifier: Apache-2.0 */
#include "resp.h"

#include <stdlib.h>
#include <string.h>

#define FRAME_DEPTH_MAX 64
#define BULK_MAX (512 << 20)

void sim_buf_fini(struct sim_buf *buf)
{
    free(buf->data);
    *buf = (struct sim_buf)SIM_BUF_NULL;
}

char *sim_buf_reserve(struct sim_buf *buf, size_t more)
{
    if (buf->cap - buf->len < more) {
        size_t cap = buf->cap ? buf->cap : 256;

        while (cap - buf->len < more) {
            cap *= 2;
        }
        buf->data = realloc(buf->data, cap);
        if (!buf->data) {
            abort();
        }
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void sim_buf_add(struct sim_buf *buf, const char *data, size_t len)
{
    char *end = sim_buf_reserve(buf, len);

    if (len > 0) {
        memcpy(end, data, len);
        buf->len += len;
    }
}

size_t sim_decimal(char *out, int64_t number)
{
    char digits[20];
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t n_digits = 0;
    size_t len = 0;

    do {
        digits[n_digits++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        out[len++] = '-';
    }
    while (n_digits > 0) {
        out[len++] = digits[--n_digits];
    }
    return len;
}

static void add_number_line(struct sim_buf *buf, char mark, int64_t number)
{
    char *line = sim_buf_reserve(buf, 24);
    size_t len = 1;

    line[0] = mark;
    len += sim_decimal(line + 1, number);
    line[len++] = '\r';
    line[len++] = '\n';
    buf->len += len;
}

static void add_text_line(struct sim_buf *buf, char mark, const char *text)
{
    size_t start;

    sim_buf_add(buf, &mark, 1);
    start = buf->len;
    sim_buf_add(buf, text, strlen(text));
    for (size_t i = start; i < buf->len; i++) {
        if (buf->data[i] == '\r' || buf->data[i] == '\n') {
            buf->data[i] = ' ';
        }
    }
    sim_buf_add(buf, "\r\n", 2);
}

void sim_resp_status(struct sim_buf *buf, const char *text)
{
    add_text_line(buf, '+', text);
}

void sim_resp_error(struct sim_buf *buf, const char *text)
{
    add_text_line(buf, '-', text);
}

void sim_resp_integer(struct sim_buf *buf, int64_t number)
{
    add_number_line(buf, ':', number);
}

void sim_resp_bulk(struct sim_buf *buf, const char *data, size_t len)
{
    add_number_line(buf, '$', (int64_t)len);
    sim_buf_add(buf, data, len);
    sim_buf_add(buf, "\r\n", 2);
}

void sim_resp_nil(struct sim_buf *buf)
{
    sim_buf_add(buf, "$-1\r\n", 5);
}

void sim_resp_nil_array(struct sim_buf *buf)
{
    sim_buf_add(buf, "*-1\r\n", 5);
}

void sim_resp_array(struct sim_buf *buf, size_t n)
{
    add_number_line(buf, '*', (int64_t)n);
}

void sim_resp_push(struct sim_buf *buf, size_t n)
{
    add_number_line(buf, '>', (int64_t)n);
}

void sim_resp_command(struct sim_buf *buf, const struct sim_view *argv, size_t argc)
{
    sim_resp_array(buf, argc);
    for (size_t i = 0; i < argc; i++) {
        sim_resp_bulk(buf, argv[i].data, argv[i].len);
    }
}

/* Where reading has got to. After a failure *bad* is set, or *at* is behind *end*: more is needed.
 */
struct scan {
    const char *at;
    const char *end;
    size_t n_nodes;
    bool bad;
    bool short_of;
};

/* A line ends with CR LF; there are servers that leave a single LF in the text of an error. */
static struct sim_view scan_line(struct scan *scan)
{
    const char *start = scan->at;
    const char *stop = memmem(start, (size_t)(scan->end - start), "\r\n", 2);

    if (!stop) {
        scan->short_of = true;
        return (struct sim_view){start, 0};
    }
    scan->at = stop + 2;
    return (struct sim_view){start, (size_t)(stop - start)};
}

static int64_t scan_number(struct scan *scan)
{
    struct sim_view line = scan_line(scan);
    size_t i = line.len > 0 && line.data[0] == '-' ? 1 : 0;
    uint64_t number = 0;

    if (scan->short_of || scan->bad) {
        return 0;
    }
    if (line.len == i || line.len - i > 19) {
        scan->bad = true;
        return 0;
    }
    for (size_t at = i; at < line.len; at++) {
        if (line.data[at] < '0' || line.data[at] > '9') {
            scan->bad = true;
            return 0;
        }
        number = number * 10 + (uint64_t)(line.data[at] - '0');
    }
    if (number > (uint64_t)INT64_MAX + i) {
        scan->bad = true;
        return 0;
    }
    return (int64_t)(i ? 0 - number : number);
}

static void scan_bulk(struct scan *scan, struct sim_resp *node)
{
    int64_t len = scan_number(scan);

    if (scan->short_of || scan->bad) {
        return;
    }
    if (len < 0 || len > BULK_MAX) {
        node->type = SIM_RESP_NIL;
        scan->bad = len != -1;
        return;
    }
    if (scan->end - scan->at < len + 2) {
        scan->short_of = true;
        return;
    }
    node->text = (struct sim_view){scan->at, (size_t)len};
    scan->at += len + 2;
    scan->bad = scan->at[-2] != '\r' || scan->at[-1] != '\n';
}

static void scan_head(struct scan *scan, struct sim_resp *node, int64_t *ret_n_items)
{
    char mark = *scan->at++;

    *ret_n_items = 0;
    if (mark == '+' || mark == '-') {
        node->type = mark == '+' ? SIM_RESP_STATUS : SIM_RESP_ERROR;
        node->text = scan_line(scan);
    } else if (mark == ':') {
        node->type = SIM_RESP_INTEGER;
        node->integer = scan_number(scan);
    } else if (mark == '$') {
        node->type = SIM_RESP_BULK;
        scan_bulk(scan, node);
    } else if (mark == '*') {
        *ret_n_items = scan_number(scan);
        node->type = *ret_n_items < 0 ? SIM_RESP_NIL : SIM_RESP_ARRAY;
        scan->bad = scan->bad || *ret_n_items < -1;
    } else {
        scan->bad = true;
    }
}

/* Walks one frame; nothing is kept, only counted. */
static void scan_frame(struct scan *scan, int depth)
{
    struct sim_resp node = {0};
    int64_t n_items;

    if (scan->at >= scan->end) {
        scan->short_of = true;
        return;
    }
    scan_head(scan, &node, &n_items);
    scan->n_nodes++;
    scan->bad = scan->bad || depth > FRAME_DEPTH_MAX;
    for (int64_t i = 0; i < n_items && !scan->bad && !scan->short_of; i++) {
        scan_frame(scan, depth + 1);
    }
}

int64_t sim_resp_frame_len(const char *data, size_t len)
{
    struct scan scan = {.at = data};

    if (len == 0) {
        return 0;
    }
    scan.end = data + len;
    scan_frame(&scan, 0);
    if (scan.bad) {
        return -1;
    }
    return scan.short_of ? 0 : scan.at - data;
}

/* The bytes are known to be one good frame; the block has room for all its nodes. An array takes
   its items' nodes from the block in one piece before they take theirs. */
static void fill(struct scan *scan, struct sim_resp *node, struct sim_resp **free_nodes)
{
    int64_t n_items;

    scan_head(scan, node, &n_items);
    if (n_items <= 0) {
        return;
    }
    node->n_items = (size_t)n_items;
    node->items = *free_nodes;
    *free_nodes += n_items;
    for (size_t i = 0; i < node->n_items; i++) {
        fill(scan, &node->items[i], free_nodes);
    }
}

struct sim_resp *sim_resp_read(const char *data, size_t len)
{
    struct scan scan = {.at = data};
    struct sim_resp *tree;
    struct sim_resp *free_nodes;

    if (len == 0) {
        return NULL;
    }
    scan.end = data + len;
    scan_frame(&scan, 0);
    if (scan.bad || scan.short_of || scan.at != scan.end) {
        return NULL;
    }
    tree = calloc(scan.n_nodes, sizeof(*tree));
    if (!tree) {
        abort();
    }
    scan.at = data;
    free_nodes = tree + 1;
    fill(&scan, tree, &free_nodes);
    return tree;
}

struct sim_resp *sim_resp_free(struct sim_resp *tree)
{
    free(tree);
    return NULL;
}

void sim_words_fini(struct sim_words *words)
{
    free(words->words);
    *words = (struct sim_words){0};
}

void sim_words_add(struct sim_words *words, struct sim_view word)
{
    if (words->n == words->cap) {
        words->cap = words->cap ? words->cap * 2 : 16;
        words->words = realloc(words->words, words->cap * sizeof(*words->words));
        if (!words->words) {
            abort();
        }
    }
    words->words[words->n++] = word;
}

bool sim_resp_read_command(const char *data, size_t len, struct sim_words *words)
{
    struct scan scan = {.at = data};
    struct sim_resp node = {0};
    int64_t n_items;

    words->n = 0;
    if (len == 0) {
        return false;
    }
    scan.end = data + len;
    scan_head(&scan, &node, &n_items);
    if (node.type != SIM_RESP_ARRAY) {
        return false;
    }
    for (int64_t i = 0; i < n_items && scan.at < scan.end && *scan.at == '$'; i++) {
        scan.at++;
        node.type = SIM_RESP_BULK;
        scan_bulk(&scan, &node);
        if (scan.bad || scan.short_of || node.type != SIM_RESP_BULK) {
            return false;
        }
        sim_words_add(words, node.text);
    }
    return words->n == (size_t)n_items && scan.at == scan.end;
}
