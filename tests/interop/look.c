/* What is in Redis: the keys, messages and listeners that have to do with a lock, as text. */
#include "look.h"

#include "support/raw.h"
#include "support/resp.h"
#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_KEYS = LOOK_KEYS };

/* Replaces every `from`, and with it the number that follows, if it is an owner's. */
static char *replaced(char *text, const char *from, const char *to, bool is_owner)
{
    char *out = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&out, &size);
    const char *at = text;

    TEST_CHECK(file != NULL);
    for (const char *hit = strstr(at, from); *from != '\0' && hit != NULL; hit = strstr(at, from)) {
        fprintf(file, "%.*s%s", (int)(hit - at), at, to);
        at = hit + strlen(from);
        if (is_owner && *at == ':') {
            fputs(":n", file);
            at += 1 + strspn(at + 1, "0123456789");
        }
    }
    fputs(at, file);
    fclose(file);
    free(text);
    return out;
}

char *look_normalise(const struct pair *pair, char *text)
{
    for (size_t i = 0; i < pair->holder->n_servers; i++) {
        text = replaced(text, pair->holder->uuids_long[i], "H", true);
        text = replaced(text, pair->waiter->uuids_long[i], "W", true);
    }
    return replaced(text, pair->name, "NAME", false);
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Splits the text at its newlines into at most `n` sorted lines. */
static size_t sort_lines(char *text, char **ret_lines, size_t n)
{
    size_t count = 0;

    for (char *line = strsep(&text, "\n"); line != NULL && count < n; line = strsep(&text, "\n")) {
        if (line[0] != '\0') {
            ret_lines[count++] = line;
        }
    }
    qsort(ret_lines, count, sizeof(*ret_lines), compare_lines);
    return count;
}

/* Prints fields as "field = value", sorted. */
static void print_hash(FILE *out, char *reply)
{
    char *lines[MAX_KEYS];
    char *joined = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&joined, &size);
    char *rest = reply;

    TEST_CHECK(file != NULL);
    for (char *field = strsep(&rest, "\n"); field != NULL && rest != NULL;
         field = strsep(&rest, "\n")) {
        fprintf(file, "%s = %s\n", field, strsep(&rest, "\n"));
    }
    fclose(file);
    const size_t n = sort_lines(joined, lines, MAX_KEYS);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "    %s\n", lines[i]);
    }
    free(joined);
}

static void print_key(FILE *out, const struct pair *pair, struct test_server *server,
                      const char *key)
{
    char *type = test_server_cmd(server, "TYPE %s", key);

    fprintf(out, "  %s %s\n", type, key);
    if (strncmp(key, "redisson_lock_token:", 20) == 0) {
        free(type);
        return;
    }
    char *value = strcmp(type, "hash") == 0   ? test_server_cmd(server, "HGETALL %s", key)
                  : strcmp(type, "list") == 0 ? test_server_cmd(server, "LRANGE %s 0 -1", key)
                  : strcmp(type, "zset") == 0 ? test_server_cmd(server, "ZRANGE %s 0 -1", key)
                                              : test_server_cmd(server, "GET %s", key);
    if (strcmp(type, "hash") == 0) {
        value = look_normalise(pair, value); /* that is how its lines are sorted */
        print_hash(out, value);
    } else {
        fprintf(out, "    %s\n", value);
    }
    free(value);
    free(type);
}

/* The key's TTL; and of a fair queue's scores, which are moments of time, how far the last is. */
static void note_time(const struct pair *pair, struct test_server *server, struct moment *moment,
                      const char *key)
{
    if (kind_is_group(pair->kind) && strstr(key, ":rwlock_timeout:") != NULL) {
        return;
    }
    TEST_CHECK(moment->n_keys + 2 <= MAX_KEYS);
    moment->ttl_ms[moment->n_keys++] = test_server_int(server, "PTTL %s", key);
    if (strncmp(key, "redisson_lock_timeout:", 22) == 0) {
        char *last = test_server_cmd(server, "ZRANGE %s -1 -1 WITHSCORES", key);
        char *time = test_server_cmd(server, "TIME");
        const char *score = strchr(last, '\n');
        moment->is_score[moment->n_keys] = true;
        moment->ttl_ms[moment->n_keys++] =
            score == NULL ? 0 : strtoll(score + 1, NULL, 10) - strtoll(time, NULL, 10) * 1000;
        free(last);
        free(time);
    }
}

/* A level's key of a reader that is not there any more: Redisson's forceUnlock() leaves it. */
static bool is_left_over(struct test_server *server, const char *key)
{
    const char *owner = strchr(key, '}');
    const char *end = strstr(key, ":rwlock_timeout:");

    return owner != NULL && end != NULL &&
           test_server_int(server, "HEXISTS %.*s %.*s", (int)(owner - key - 1), key + 1,
                           (int)(end - owner - 2), owner + 2) == 0;
}

/* The token of a fenced member, to which Redisson gives the lease. */
static bool is_expiring_token(const struct pair *pair, const char *key)
{
    return kind_is_group(pair->kind) && strncmp(key, "redisson_lock_token:", 20) == 0;
}

/* Whether it is of ours alone: another library does not look at it. */
static bool is_ours_alone(const char *key)
{
    return strncmp(key, "rlock_wait:", 11) == 0 || strncmp(key, "rlock_fair_asks:", 16) == 0;
}

void look_at_keys(FILE *out, const struct pair *pair, struct test_server *server,
                  struct moment *moment)
{
    char *keys[MAX_KEYS * 4];
    char *reply = test_server_cmd(server, "KEYS *%s*", pair->name);
    const size_t n = sort_lines(reply, keys, MAX_KEYS * 4);

    for (size_t i = 0; i < n; i++) { /* the holder's, which is H, before the waiter's */
        for (size_t j = i + 1; j < n && strstr(keys[i], pair->waiter->uuids_long[0]) != NULL; j++) {
            if (strstr(keys[j], pair->holder->uuids_long[0]) != NULL) {
                char *swapped = keys[i];
                keys[i] = keys[j];
                keys[j] = swapped;
            }
        }
        if (strncmp(keys[i], "redisson_unlock_latch:", 22) != 0 && !is_ours_alone(keys[i]) &&
            !is_left_over(server, keys[i]) && !is_expiring_token(pair, keys[i])) {
            note_time(pair, server, moment, keys[i]);
            print_key(out, pair, server, keys[i]);
        }
    }
    free(reply);
}

void ear_open(struct ear *ear, struct test_server *server)
{
    ear->server = server;
    ear->fd = raw_dial(test_server_unix_url(server));
    TEST_CHECK(ear->fd >= 0);
    raw_say(ear->fd, "PSUBSCRIBE *\r\n");
}

void ear_close(struct ear *ear)
{
    close(ear->fd);
}

static void hear(struct ear *ear)
{
    const ssize_t n =
        recv(ear->fd, ear->heard + ear->n_heard, sizeof(ear->heard) - ear->n_heard, MSG_DONTWAIT);

    if (n > 0) {
        ear->n_heard += (size_t)n;
    }
}

static bool same(struct resp_bytes word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.data, text, word.len) == 0;
}

/* Prints a message of the lock's channels; `before` is the payload of the one before it. */
static void print_message(FILE *out, struct resp_bytes frame, char *before)
{
    const struct resp_bytes channel = resp_word(frame, 2);
    const struct resp_bytes payload = resp_word(frame, 3);

    if (*before != '1' || !same(payload, "0")) {
        fprintf(out, "  message %.*s: %.*s\n", (int)channel.len, channel.data, (int)payload.len,
                payload.data);
    }
    *before = payload.len == 1 ? payload.data[0] : ' ';
}

/* Whether a channel has to do with the queue that clients of ours stand in. A fair lock's channels
 * go on behind the client's id. */
static bool is_of_our_queue(const char *channel)
{
    const char *end = strstr(channel, "}:");

    return end != NULL && strchr(end + 2, ':') == NULL;
}

/* Prints messages until the mark; true when that was there. */
static bool print_messages(const struct pair *pair, struct ear *ear, FILE *out)
{
    const bool is_told = pair->kind->channel != NULL || kind_is_group(pair->kind);
    struct resp_bytes rest = {ear->heard, ear->n_heard};
    bool is_marked = false;
    char before = ' ';

    for (long n = resp_frame_len(rest); n > 0; n = resp_frame_len(rest)) {
        const struct resp_bytes frame = {rest.data, (size_t)n};
        const struct resp_bytes channel = resp_word(frame, 2);
        is_marked = is_marked || same(channel, "interop-mark");
        char name[256];

        test_text(name, sizeof(name), "%.*s", (int)channel.len, channel.data);
        if (is_told && resp_is(resp_word(frame, 0), "pmessage") &&
            strstr(name, pair->name) != NULL && !is_of_our_queue(name)) {
            print_message(out, frame, &before);
        }
        rest.data += n;
        rest.len -= (size_t)n;
    }
    memmove(ear->heard, rest.data, rest.len);
    ear->n_heard = rest.len;
    return is_marked;
}

void look_at_messages(const struct pair *pair, struct ear *ear, FILE *out, bool counts)
{
    char *lines[MAX_KEYS];
    char *text = NULL;
    size_t size = 0;
    FILE *heard = open_memstream(&text, &size);

    TEST_CHECK(heard != NULL);
    free(test_server_cmd(ear->server, "PUBLISH interop-mark 0"));
    TEST_CHECK(TEST_EVENTUALLY((hear(ear), print_messages(pair, ear, heard)), 5000));
    fclose(heard);
    if (counts && kind_is_group(pair->kind)) {
        const size_t n = sort_lines(text, lines, MAX_KEYS);
        for (size_t i = 0; i < n; i++) {
            fprintf(out, "%s\n", lines[i]);
        }
    } else if (counts) {
        fputs(text, out);
    }
    free(text);
}

void look_at_listeners(FILE *out, const struct pair *pair, struct test_server *server)
{
    char *lines[MAX_KEYS];
    char *channels =
        look_normalise(pair, test_server_cmd(server, "PUBSUB CHANNELS *%s*", pair->name));
    const size_t n = sort_lines(channels, lines, MAX_KEYS);

    for (size_t i = 0; i < n; i++) {
        if (!is_of_our_queue(lines[i])) {
            fprintf(out, "  listening on %s\n", lines[i]);
        }
    }
    free(channels);
}
