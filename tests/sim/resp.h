/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RESP2 for the simulator: writing frames, finding their ends in a stream of bytes, and reading one
 * into a small tree. Out of memory aborts: nothing here is linked into the library.
 */
#ifndef RLOCK_TESTS_SIM_RESP_H
#define RLOCK_TESTS_SIM_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that belong to somebody else. */
struct sim_view {
    const char *data;
    size_t len;
};

#define SIM_VIEW(literal) ((struct sim_view){(literal), sizeof(literal) - 1})

/* A buffer that grows and is used again; zeroed is empty. */
struct sim_buf {
    char *data;
    size_t len;
    size_t cap;
};

#define SIM_BUF_NULL                                                                               \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void sim_buf_fini(struct sim_buf *buf);

/* Makes room for *more* bytes behind the end, and returns the end. */
char *sim_buf_reserve(struct sim_buf *buf, size_t more);

void sim_buf_add(struct sim_buf *buf, const char *data, size_t len);

void sim_resp_status(struct sim_buf *buf, const char *text);

/* The text is the whole line behind the "-", code included; line ends in it become spaces. */
void sim_resp_error(struct sim_buf *buf, const char *text);

void sim_resp_integer(struct sim_buf *buf, int64_t number);
void sim_resp_bulk(struct sim_buf *buf, const char *data, size_t len);
void sim_resp_nil(struct sim_buf *buf);
void sim_resp_nil_array(struct sim_buf *buf);

/* Only the head: the n items are written next. */
void sim_resp_array(struct sim_buf *buf, size_t n);
void sim_resp_push(struct sim_buf *buf, size_t n);

/* A whole command: an array of bulk strings. */
void sim_resp_command(struct sim_buf *buf, const struct sim_view *argv, size_t argc);

/* Writes a number in decimal, without a zero byte, and returns how many bytes that took: at most
   20, and the room must be there. */
size_t sim_decimal(char *out, int64_t number);

/*
 * The length of the first frame (a reply, a message, or a command: all are RESP).
 * Returns 0 if more bytes are needed, -1 if these bytes are not RESP2.
 */
int64_t sim_resp_frame_len(const char *data, size_t len);

enum sim_resp_type {
    SIM_RESP_STATUS,
    SIM_RESP_ERROR,
    SIM_RESP_INTEGER,
    SIM_RESP_BULK,
    SIM_RESP_NIL, /* the null bulk string and the null array */
    SIM_RESP_ARRAY,
};

/* One node of a frame; *text* points into the bytes that were read. */
struct sim_resp {
    enum sim_resp_type type;
    struct sim_view text;   /* status, error and bulk */
    int64_t integer;        /* integer */
    size_t n_items;         /* array */
    struct sim_resp *items; /* array */
};

/*
 * Reads one frame, which must be whole and alone. The tree is one block of memory and borrows from
 * *data*. Returns NULL if the bytes are not exactly one frame; free with sim_resp_free.
 */
struct sim_resp *sim_resp_read(const char *data, size_t len);
struct sim_resp *sim_resp_free(struct sim_resp *tree);

/* The words of a command, in an array that grows and is used again. */
struct sim_words {
    struct sim_view *words;
    size_t n;
    size_t cap;
};

void sim_words_fini(struct sim_words *words);
void sim_words_add(struct sim_words *words, struct sim_view word);

/* Reads a frame that must be an array of bulk strings. Returns whether it was. */
bool sim_resp_read_command(const char *data, size_t len, struct sim_words *words);

#endif
