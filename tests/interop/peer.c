#include "peer.h"

#include "support/run.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_SIZE = 4096, MAX_WORDS = 4 };

/* A line that was read and that nobody has asked for yet. */
struct line {
    struct line *next;
    int64_t at_us;
    char text[];
};

struct peer {
    const char *label;
    char log[256];
    const char *const *argv;
    pid_t pid; /* 0: killed */
    int fd;
    int last_id;
    struct line *lines;
    char partial[LINE_SIZE];
    size_t n_partial;
    char event[LINE_SIZE];
};

static _Noreturn void run(const struct peer *peer, pid_t parent, int fd)
{
    const int log = open(peer->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    test_die_with_parent(parent);
    if (log < 0 || dup2(fd, 0) < 0 || dup2(fd, 1) < 0 || dup2(log, 2) < 0) {
        _exit(126);
    }
    test_exec(peer->argv[0], peer->argv, NULL);
}

static void spawn(struct peer *peer)
{
    const pid_t parent = getpid();
    int ends[2];

    /* a socket pair and not pipes, so that a word to an ended process raises no SIGPIPE */
    test_must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socketpair");
    fflush(NULL);
    peer->pid = test_must(fork(), "fork");
    if (peer->pid == 0) {
        run(peer, parent, ends[1]);
    }
    close(ends[1]);
    peer->fd = ends[0];
    peer->n_partial = 0;
}

struct peer *peer_start(const char *label, const char *log, const char *const *argv)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    TEST_CHECK(peer != NULL);
    peer->label = label;
    peer->argv = argv;
    test_text(peer->log, sizeof(peer->log), "%s", log);
    spawn(peer);
    return peer;
}

static void drop_lines(struct peer *peer)
{
    while (peer->lines != NULL) {
        struct line *line = peer->lines;
        peer->lines = line->next;
        free(line);
    }
}

void peer_kill(struct peer *peer)
{
    if (peer->pid != 0) {
        kill(peer->pid, SIGKILL);
        test_reap(peer->pid);
        close(peer->fd);
        peer->pid = 0;
        peer->fd = -1;
    }
}

void peer_restart(struct peer *peer)
{
    peer_kill(peer);
    drop_lines(peer);
    spawn(peer);
}

struct peer *peer_free(struct peer *peer)
{
    if (peer != NULL) {
        peer_kill(peer);
        drop_lines(peer);
        free(peer);
    }
    return NULL;
}

const char *peer_label(const struct peer *peer)
{
    return peer->label;
}

const char *peer_log(const struct peer *peer)
{
    return peer->log;
}

pid_t peer_pid(const struct peer *peer)
{
    return peer->pid;
}

int peer_tell(struct peer *peer, const char *fmt, ...)
{
    char request[LINE_SIZE];
    char line[LINE_SIZE];
    va_list ap;

    va_start(ap, fmt);
    const int n = vsnprintf(request, sizeof(request), fmt, ap);
    va_end(ap);
    TEST_CHECK(n > 0 && (size_t)n < sizeof(request));
    test_text(line, sizeof(line), "%d %s\n", ++peer->last_id, request);
    if (peer->pid != 0) { /* of one that has ended, the waiting tells */
        (void)!send(peer->fd, line, strlen(line), MSG_NOSIGNAL);
    }
    return peer->last_id;
}

static void keep(struct peer *peer, const char *text, size_t len)
{
    struct line *line = calloc(1, sizeof(*line) + len + 1);
    struct line **end = &peer->lines;

    TEST_CHECK(line != NULL);
    memcpy(line->text, text, len);
    line->at_us = test_now_us();
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = line;
}

static void split(struct peer *peer)
{
    char *at = peer->partial;
    const char *end = peer->partial + peer->n_partial;

    for (char *newline = memchr(at, '\n', (size_t)(end - at)); newline != NULL;
         newline = memchr(at, '\n', (size_t)(end - at))) {
        keep(peer, at, (size_t)(newline - at));
        at = newline + 1;
    }
    peer->n_partial = (size_t)(end - at);
    TEST_CHECK(peer->n_partial < sizeof(peer->partial));
    memmove(peer->partial, at, peer->n_partial);
}

/* Reads what is there, waiting a little for it; false when the process has ended. */
static bool read_some(struct peer *peer, int timeout_ms)
{
    struct pollfd wanted = {.fd = peer->fd, .events = POLLIN};

    if (peer->pid == 0) {
        return false;
    }
    if (poll(&wanted, 1, timeout_ms) != 1) {
        return true;
    }
    const ssize_t n =
        read(peer->fd, peer->partial + peer->n_partial, sizeof(peer->partial) - peer->n_partial);
    if (n <= 0) {
        return n < 0 && errno == EINTR;
    }
    peer->n_partial += (size_t)n;
    split(peer);
    return true;
}

/* The line that begins with `start`, or NULL. */
static struct line **find(struct peer *peer, const char *start)
{
    for (struct line **line = &peer->lines; *line != NULL; line = &(*line)->next) {
        if (strncmp((*line)->text, start, strlen(start)) == 0) {
            return line;
        }
    }
    return NULL;
}

static struct line **await(struct peer *peer, const char *start, int64_t timeout_ms)
{
    const int64_t end_us = test_deadline_us(timeout_ms);
    struct line **line = find(peer, start);

    while (line == NULL && test_now_us() < end_us && read_some(peer, 5)) {
        line = find(peer, start);
    }
    return line;
}

static void take(struct line **line)
{
    struct line *taken = *line;

    *line = taken->next;
    free(taken);
}

struct peer_answer peer_wait(struct peer *peer, int id, int64_t timeout_ms)
{
    struct peer_answer answer = {.ok = false};
    char start[24];

    test_text(start, sizeof(start), "%d ", id);
    struct line **line = await(peer, start, timeout_ms);
    if (line == NULL) {
        answer.at_us = test_now_us();
        test_text(answer.text, sizeof(answer.text), "no answer of %s in %lld ms", peer->label,
                  (long long)timeout_ms);
        return answer;
    }
    const char *text = (*line)->text + strlen(start);
    answer.ok = strncmp(text, "ok", 2) == 0;
    answer.at_us = (*line)->at_us;
    snprintf(answer.text, sizeof(answer.text), "%s", text + (answer.ok ? 3 : 5));
    take(line);
    return answer;
}

bool peer_has_answered(struct peer *peer, int id)
{
    char start[24];

    test_text(start, sizeof(start), "%d ", id);
    return await(peer, start, 0) != NULL || (read_some(peer, 0) && find(peer, start) != NULL);
}

void peer_say(struct peer *peer, const char *text)
{
    char line[LINE_SIZE];

    test_text(line, sizeof(line), "%s\n", text);
    if (peer->pid != 0) {
        (void)!send(peer->fd, line, strlen(line), MSG_NOSIGNAL);
    }
}

bool peer_says(struct peer *peer, const char *start, int64_t timeout_ms)
{
    struct line **line = await(peer, start, timeout_ms);

    if (line == NULL) {
        return false;
    }
    take(line);
    return true;
}

bool peer_ends(struct peer *peer, int64_t timeout_ms)
{
    const int64_t end_us = test_deadline_us(timeout_ms);
    int status = -1;

    while (test_now_us() < end_us && read_some(peer, 5)) {
    }
    if (peer->pid == 0 ||
        !TEST_EVENTUALLY(waitpid(peer->pid, &status, WNOHANG) == peer->pid, 5000)) {
        return false;
    }
    close(peer->fd);
    peer->pid = 0;
    peer->fd = -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

const char *peer_event(struct peer *peer, const char *start, int64_t timeout_ms)
{
    char full[LINE_SIZE];

    test_text(full, sizeof(full), "* %s", start);
    struct line **line = await(peer, full, timeout_ms);
    if (line == NULL) {
        return NULL;
    }
    test_text(peer->event, sizeof(peer->event), "%s", (*line)->text + strlen(full));
    take(line);
    return peer->event;
}

const char *peer_word(const char *text)
{
    static char words[MAX_WORDS][1024];
    static size_t turn;
    char *word = words[turn++ % MAX_WORDS];
    size_t n = 0;

    for (; *text != '\0'; text++) {
        TEST_CHECK(n + 4 < sizeof(words[0]));
        if (isalnum((unsigned char)*text) || strchr("-_.:/", *text) != NULL) {
            word[n++] = *text;
        } else {
            n += (size_t)snprintf(word + n, 4, "%%%02X", (unsigned char)*text);
        }
    }
    word[n] = '\0';
    return word;
}
