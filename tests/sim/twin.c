/* SPDX-License-Identifier: Apache-2.0 */
#include "twin.h"

#include "keyspace.h"
#include "real_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TTL_TOLERANCE_MS 5000
#define SERVES_MS 20000
#define LOOSE 64 /* valkey: texts of errors and of scores differ */

struct side {
    int fd;
    uint64_t sim_conn;
    struct sim_buf from_real;
    struct sim_buf from_sim;
};

struct twin {
    struct real_server *real;
    struct sim_server *sim;
    struct side sides[TWIN_CONNS];
    char version[32];
    unsigned rules;
    int64_t latest_us;
};

static void on_frame(void *payload, uint64_t conn, const char *bytes, size_t len, bool is_push)
{
    struct twin *twin = payload;

    (void)is_push;
    for (size_t i = 0; i < TWIN_CONNS; i++) {
        if (twin->sides[i].sim_conn == conn) {
            sim_buf_add(&twin->sides[i].from_sim, bytes, len);
        }
    }
}

/* Asks the real server alone. Returns what stands in its answer from a text on, up to the end of
   the line; "" if it is not there. */
static void ask_real(struct twin *twin, const char *command, const char *text, char *ret_line,
                     size_t size)
{
    struct side *side = &twin->sides[0];
    const char *at;
    size_t len;

    real_send(side->fd, command, strlen(command));
    len = real_wait_frame(side->fd, &side->from_real);
    sim_buf_add(&side->from_real, "", 1);
    at = strstr(side->from_real.data, text);
    snprintf(ret_line, size, "%.*s", at ? (int)strcspn(at, "\r") : 0, at ? at : "");
    real_take(&side->from_real, len + 1);
}

static void ask_version(struct twin *twin)
{
    static const char command[] = "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n";

    ask_real(twin, command, "valkey_version:", twin->version, sizeof(twin->version));
    if (twin->version[0] == '\0') {
        ask_real(twin, command, "redis_version:", twin->version, sizeof(twin->version));
    }
    if (!twin_is_exact(twin)) {
        twin->rules = LOOSE;
        sim_server_set_dialect(twin->sim, SIM_VALKEY_8);
    }
}

static struct twin *make(const char *nodes)
{
    struct twin *twin = calloc(1, sizeof(*twin));
    struct sim_events events = {.on_frame = on_frame, .payload = twin};

    if (!twin || !(twin->real = real_server_start(nodes))) {
        free(twin);
        return NULL;
    }
    twin->sim = sim_server_new(1);
    sim_server_set_events(twin->sim, &events);
    for (size_t i = 0; i < TWIN_CONNS; i++) {
        twin->sides[i].fd = real_server_connect(twin->real);
        twin->sides[i].sim_conn = sim_server_connect(twin->sim);
    }
    ask_version(twin);
    return twin;
}

struct twin *twin_new(void)
{
    return make(NULL);
}

/* A node that has been started waits a little before it serves its slots again. */
static void wait_until_it_serves(struct twin *twin)
{
    static const char command[] = "*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n";
    char line[64] = "";

    for (int i = 0; i < SERVES_MS / 10 && strcmp(line, "cluster_state:ok") != 0; i++) {
        usleep(10000);
        ask_real(twin, command, "cluster_state:", line, sizeof(line));
    }
}

struct twin *twin_new_node(void)
{
    struct twin *twin = make(TWIN_SELF " 127.0.0.1:7001@17001 myself,master - 0 0 1 connected "
                                       "0-8191\n" TWIN_OTHER
                                       " 127.0.0.1:7002@17002 master - 0 0 2 connected 8192-16383\n"
                                       "vars currentEpoch 2 lastVoteEpoch 0\n");

    if (twin) {
        sim_server_join(twin->sim, TWIN_SELF, "127.0.0.1:7001");
        sim_server_join(twin->sim, TWIN_OTHER, "127.0.0.1:7002");
        sim_server_assign(twin->sim, 0, TWIN_OTHERS - 1, 1);
        sim_server_assign(twin->sim, TWIN_OTHERS, 16383, 2);
        wait_until_it_serves(twin);
    }
    return twin;
}

struct twin *twin_free(struct twin *twin)
{
    if (!twin) {
        return NULL;
    }
    for (size_t i = 0; i < TWIN_CONNS; i++) {
        close(twin->sides[i].fd);
        sim_buf_fini(&twin->sides[i].from_real);
        sim_buf_fini(&twin->sides[i].from_sim);
    }
    sim_server_free(twin->sim);
    real_server_stop(twin->real);
    free(twin);
    return NULL;
}

struct sim_server *twin_sim(struct twin *twin)
{
    return twin->sim;
}

const char *twin_version(const struct twin *twin)
{
    return twin->version;
}

bool twin_is_exact(const struct twin *twin)
{
    return strncmp(twin->version, "redis_version:7.0.", 18) == 0;
}

bool twin_is_comparable(const struct twin *twin)
{
    return twin_is_exact(twin) || strncmp(twin->version, "valkey_version:8.0.", 19) == 0;
}

/* ---- comparing ---- */

static bool same_number(int64_t a, int64_t b, unsigned rules)
{
    bool both_ttl = a > TTL_TOLERANCE_MS && b > TTL_TOLERANCE_MS;

    return a == b ||
           ((rules & TWIN_TTL) && both_ttl && a - b < TTL_TOLERANCE_MS && b - a < TTL_TOLERANCE_MS);
}

static struct sim_view first_word(struct sim_view text)
{
    const char *end = memchr(text.data, ' ', text.len);

    return (struct sim_view){text.data, end ? (size_t)(end - text.data) : text.len};
}

static bool same_loosely(struct sim_view a, struct sim_view b)
{
    struct sim_view a_word = first_word(a);
    double a_score;
    double b_score;

    if (sim_parse_double(a, &a_score) && sim_parse_double(b, &b_score)) {
        return a_score <= b_score && a_score >= b_score;
    }
    return a_word.len < a.len && sim_view_equal(a_word, first_word(b));
}

static bool same_text(struct sim_view a, struct sim_view b, unsigned rules)
{
    int64_t a_number;
    int64_t b_number;

    if (sim_view_equal(a, b) || ((rules & LOOSE) && same_loosely(a, b))) {
        return true;
    }
    return sim_parse_int64(a, &a_number) && sim_parse_int64(b, &b_number) &&
           same_number(a_number, b_number, rules);
}

static bool same(const struct sim_resp *a, const struct sim_resp *b, unsigned rules);

static bool same_items(const struct sim_resp *a, const struct sim_resp *b, unsigned rules)
{
    bool used[256] = {false};

    if (a->n_items != b->n_items || a->n_items > sizeof(used)) {
        return false;
    }
    for (size_t i = 0; i < a->n_items; i++) {
        size_t at = rules & TWIN_UNORDERED ? 0 : i;
        size_t end = rules & TWIN_UNORDERED ? b->n_items : i + 1;

        while (at < end && (used[at] || !same(&a->items[i], &b->items[at], rules))) {
            at++;
        }
        if (at == end) {
            return false;
        }
        used[at] = true;
    }
    return true;
}

static bool same(const struct sim_resp *a, const struct sim_resp *b, unsigned rules)
{
    if (a->type != b->type) {
        return false;
    }
    switch (a->type) {
    case SIM_RESP_STATUS:
    case SIM_RESP_ERROR:
    case SIM_RESP_BULK:
        return same_text(a->text, b->text, rules);
    case SIM_RESP_INTEGER:
        return same_number(a->integer, b->integer, rules);
    case SIM_RESP_ARRAY:
        return same_items(a, b, rules);
    case SIM_RESP_NIL:
    default:
        return true;
    }
}

static void print_bytes(const char *label, const char *bytes, size_t len)
{
    printf("%s", label);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        printf(c < ' ' || c > '~' || c == '\\' ? "\\x%02x" : "%c", c);
    }
    printf("\n");
}

void twin_print_command(const struct sim_words *words)
{
    printf(" ");
    for (size_t i = 0; i < words->n; i++) {
        print_bytes(" ", words->words[i].data, words->words[i].len);
    }
}

static bool same_frame(struct side *side, size_t sim_len, size_t real_len, unsigned rules)
{
    struct sim_resp *sim;
    struct sim_resp *real;
    bool is_same =
        sim_len == real_len && memcmp(side->from_sim.data, side->from_real.data, sim_len) == 0;

    if (!is_same && rules) {
        sim = sim_resp_read(side->from_sim.data, sim_len);
        real = sim_resp_read(side->from_real.data, real_len);
        is_same = sim && real && same(sim, real, rules);
        sim_resp_free(sim);
        sim_resp_free(real);
    }
    if (!is_same) {
        print_bytes("  real: ", side->from_real.data, real_len);
        print_bytes("  sim:  ", side->from_sim.data, sim_len);
    }
    return is_same;
}

/* Takes as many frames from the real server as the other sent. */
static bool same_frames(struct side *side, unsigned rules)
{
    bool all_same = true;

    while (side->from_sim.len > 0) {
        int64_t sim_len = sim_resp_frame_len(side->from_sim.data, side->from_sim.len);
        size_t real_len = real_wait_frame(side->fd, &side->from_real);

        if (sim_len <= 0) {
            sim_len = (int64_t)side->from_sim.len;
        }
        all_same = same_frame(side, (size_t)sim_len, real_len, rules) && all_same;
        real_take(&side->from_sim, (size_t)sim_len);
        real_take(&side->from_real, real_len);
    }
    if (side->from_real.len > 0) {
        print_bytes("  real, one too many: ", side->from_real.data, side->from_real.len);
        side->from_real.len = 0;
        all_same = false;
    }
    return all_same;
}

/* ---- commands ---- */

static void follow_clock(struct twin *twin)
{
    struct timespec now;
    int64_t now_us;

    clock_gettime(CLOCK_REALTIME, &now);
    now_us = now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000 - SIM_EPOCH_US;
    if (now_us > twin->latest_us) {
        twin->latest_us = now_us;
    }
    sim_server_set_time(twin->sim, twin->latest_us);
}

bool twin_command(struct twin *twin, size_t conn, const struct sim_words *words, unsigned rules)
{
    struct sim_buf bytes = SIM_BUF_NULL;
    bool is_same = true;

    sim_resp_command(&bytes, words->words, words->n);
    follow_clock(twin);
    real_send(twin->sides[conn].fd, bytes.data, bytes.len);
    sim_server_command(twin->sim, twin->sides[conn].sim_conn, bytes.data, bytes.len);
    sim_buf_fini(&bytes);
    for (size_t i = 0; i < TWIN_CONNS; i++) {
        is_same = same_frames(&twin->sides[i], rules | twin->rules) && is_same;
    }
    if (!is_same) {
        printf("on connection %zu:\n", conn);
        twin_print_command(words);
    }
    return is_same;
}

bool twin_line(struct twin *twin, size_t conn, unsigned rules, const char *line, const char *last)
{
    struct sim_words words = {0};
    bool is_same;

    while (*line) {
        size_t len = strcspn(line, " ");

        sim_words_add(&words, (struct sim_view){line, len});
        line += len + (line[len] == ' ');
    }
    if (last) {
        sim_words_add(&words, (struct sim_view){last, strlen(last)});
    }
    is_same = twin_command(twin, conn, &words, rules);
    sim_words_fini(&words);
    return is_same;
}
