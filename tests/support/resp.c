#include "resp.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A line's length with its CRLF (inline commands may end in LF alone), 0 when its end is not there
 * yet. */
static size_t line_len(struct resp_bytes buffer)
{
    const char *end = memchr(buffer.data, '\n', buffer.len);

    return end != NULL ? (size_t)(end - buffer.data) + 1 : 0;
}

static struct resp_bytes skip(struct resp_bytes buffer, size_t n)
{
    return (struct resp_bytes){.data = buffer.data + n, .len = buffer.len - n};
}

/* The number that follows the type byte of a whole line; absurd ones are made merely huge, so that
 * sums hold. */
static long header_number(struct resp_bytes line)
{
    char text[24] = "";

    if (line.len - 1 < sizeof(text)) {
        memcpy(text, line.data + 1, line.len - 1);
    }
    const long n = strtol(text, NULL, 10);
    return n < 1L << 40 ? n : 1L << 40;
}

/* How many values a whole header line announces behind itself, 0 for a value that ends with its
 * line. */
static long members(struct resp_bytes line)
{
    const long n = header_number(line);

    switch (n > 0 ? line.data[0] : 0) {
    case '*':
    case '~':
    case '>':
        return n;
    case '%':
        return 2 * n;
    case '|':
        return 2 * n + 1; /* attributes stand in front of the value they describe */
    default:
        return 0;
    }
}

/* How many bytes a whole header line announces behind itself, with their CRLF. */
static size_t payload_len(struct resp_bytes line)
{
    const long n = strchr("$=!", line.data[0]) != NULL ? header_number(line) : -1;

    return n >= 0 ? (size_t)n + 2 : 0;
}

static bool is_type(char byte)
{
    return byte != '\0' && strchr("+-:$*~>%|_#,(=!", byte) != NULL;
}

static bool is_inline_start(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '\r' ||
           byte == '\n';
}

long resp_frame_len(struct resp_bytes buffer)
{
    size_t at = 0;

    for (long pending = 1; pending > 0; pending--) {
        if (at >= buffer.len) {
            return 0;
        }
        const struct resp_bytes rest = skip(buffer, at);
        if (!is_type(rest.data[0]) && !(at == 0 && is_inline_start(rest.data[0]))) {
            return -1;
        }
        const struct resp_bytes line = {.data = rest.data, .len = line_len(rest)};
        if (line.len == 0) {
            return 0;
        }
        at += line.len;
        if (is_type(line.data[0])) {
            pending += members(line);
            at += payload_len(line);
        }
    }
    return at <= buffer.len ? (long)at : 0;
}

static struct resp_bytes inline_word(struct resp_bytes frame, size_t i)
{
    const char *spaces = " \t\r\n";
    const char *at = frame.data;
    const char *end = frame.data + frame.len;

    for (;; i--) {
        while (at < end && strchr(spaces, *at) != NULL) {
            at++;
        }
        const char *start = at;
        while (at < end && strchr(spaces, *at) == NULL) {
            at++;
        }
        if (i == 0 || start == end) {
            return (struct resp_bytes){.data = start, .len = (size_t)(at - start)};
        }
    }
}

/* The text of a whole scalar: behind the header of a bulk string, else the line without its type
 * byte. */
static struct resp_bytes scalar_text(struct resp_bytes value)
{
    const size_t header = line_len(value);
    const size_t payload = payload_len((struct resp_bytes){.data = value.data, .len = header});

    if (payload > 0) {
        return (struct resp_bytes){.data = value.data + header, .len = payload - 2};
    }
    const bool is_nil = value.data[0] == '_' || value.data[0] == '$' || value.data[0] == '*';
    return (struct resp_bytes){.data = value.data + 1, .len = is_nil ? 0 : header - 3};
}

struct resp_bytes resp_word(struct resp_bytes frame, size_t i)
{
    const size_t header = line_len(frame);
    const struct resp_bytes none = {.data = "", .len = 0};

    if (!is_type(frame.data[0])) {
        return inline_word(frame, i);
    }
    if (i >= (size_t)members((struct resp_bytes){.data = frame.data, .len = header})) {
        return none;
    }
    struct resp_bytes rest = skip(frame, header);
    for (; i > 0; i--) {
        rest = skip(rest, (size_t)resp_frame_len(rest));
    }
    return scalar_text(rest);
}

bool resp_is(struct resp_bytes word, const char *name)
{
    return word.len == strlen(name) && strncasecmp(word.data, name, word.len) == 0;
}

void resp_print(FILE *out, struct resp_bytes frame)
{
    const struct resp_bytes line = {.data = frame.data, .len = line_len(frame)};
    struct resp_bytes rest = skip(frame, line.len);

    if (members(line) == 0) {
        const struct resp_bytes text = scalar_text(frame);
        fwrite(text.data, 1, text.len, out);
        return;
    }
    for (long i = 0; i < members(line); i++) {
        const size_t len = (size_t)resp_frame_len(rest);
        if (i > 0) {
            fputc('\n', out);
        }
        resp_print(out, (struct resp_bytes){.data = rest.data, .len = len});
        rest = skip(rest, len);
    }
}
