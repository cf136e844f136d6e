/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what MONITOR says: every command of every script, in the order in which the
 * server ran it. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fair/hall.h"
#include "support/raw.h"

struct chronicle {
    struct fixture *f;
    int fd;
    pthread_t thread;
    struct hall_queue queue;                                 /* as the commands made it */
    char leaving[HALL_OWNER_SIZE], granted[HALL_OWNER_SIZE]; /* granted: it is in the queue still */
    size_t leaving_place;
    size_t grants, leavers;
    bool ok;
    atomic_bool begun; /* the server said that it tells all from here on */
};

/* The i-th word of a line, +time [db who] "word" "word" …; words with quotes are none of ours. */
static bool word(const char *line, int i, char out[static HALL_OWNER_SIZE])
{
    const char *at = strchr(line, '"');
    const char *end;

    while (at != NULL && i-- > 0) {
        at = strchr(at + 1, '"');
        at = at != NULL ? strchr(at + 1, '"') : NULL;
    }
    end = at != NULL ? strchr(at + 1, '"') : NULL;
    if (end == NULL || end - at > HALL_OWNER_SIZE) {
        return false;
    }
    memcpy(out, at + 1, (size_t)(end - at - 1));
    out[end - at - 1] = '\0';
    return true;
}

static size_t find(const struct hall_queue *queue, const char *owner)
{
    size_t at = 0;

    while (at < queue->n && strcmp(queue->owners[at], owner) != 0) {
        at++;
    }
    return at;
}

/* Who was taken out just now has left, unless it is granted the lock at once. */
static void settle(struct chronicle *chronicle)
{
    chronicle->leavers += chronicle->leaving[0] != '\0';
    chronicle->leaving[0] = '\0';
}

static void on_grant(struct chronicle *chronicle, const char *owner)
{
    bool queued = strcmp(chronicle->leaving, owner) == 0;

    if (chronicle->queue.n != 0 && strcmp(chronicle->queue.owners[0], owner) == 0) {
        settle(chronicle);
        test_text(chronicle->granted, HALL_OWNER_SIZE, "%s", owner);
        chronicle->grants++;
        return;
    }

    if (queued ? chronicle->leaving_place != 0 : chronicle->queue.n != 0) {
        print_error("%s was granted the lock before %s\n", owner, chronicle->queue.owners[0]);
        chronicle->ok = false;
    }
    if (queued) {
        chronicle->leaving[0] = '\0';
    }
    chronicle->grants++;
}

static void on_leave(struct chronicle *chronicle, const char *owner)
{
    struct hall_queue *queue = &chronicle->queue;
    size_t at = find(queue, owner);

    if (at == queue->n) {
        return;
    }
    settle(chronicle);
    if (strcmp(chronicle->granted, owner) != 0) {
        test_text(chronicle->leaving, HALL_OWNER_SIZE, "%s", owner);
        chronicle->leaving_place = at;
    }
    chronicle->granted[0] = '\0';
    memmove(queue->owners[at], queue->owners[at + 1], (queue->n - at - 1) * HALL_OWNER_SIZE);
    queue->n--;
}

/* Returns false at the end. */
static bool on_line(struct chronicle *chronicle, const char *line)
{
    char verb[HALL_OWNER_SIZE], key[HALL_OWNER_SIZE], a[HALL_OWNER_SIZE], b[HALL_OWNER_SIZE];

    if (!word(line, 0, verb) || !word(line, 1, key)) {
        return true;
    }
    if (strcmp(verb, "rpush") == 0 && strcmp(key, QUEUE) == 0 && word(line, 2, a)) {
        settle(chronicle);
        TEST_CHECK(chronicle->queue.n < HALL_MOST);
        memcpy(chronicle->queue.owners[chronicle->queue.n++], a, HALL_OWNER_SIZE);
    } else if (strcmp(verb, "lrem") == 0 && strcmp(key, QUEUE) == 0 && word(line, 3, a)) {
        on_leave(chronicle, a);
    } else if (strcmp(verb, "hset") == 0 && strcmp(key, NAME) == 0 && word(line, 2, a) &&
               word(line, 3, b) && strcmp(b, "1") == 0) {
        on_grant(chronicle, a);
    }
    return strcasecmp(verb, "echo") != 0;
}

static void *main_of(void *arg)
{
    struct chronicle *chronicle = arg;
    FILE *lines = fdopen(chronicle->fd, "r");
    char *line = NULL;
    size_t size = 0;

    TEST_CHECK(lines != NULL);
    while (getline(&line, &size, lines) > 0 && on_line(chronicle, line)) {
        atomic_store(&chronicle->begun, true);
    }
    settle(chronicle);
    free(line);
    (void)fclose(lines);
    return NULL;
}

struct chronicle *chronicle_begin(struct fixture *f)
{
    struct chronicle *chronicle = calloc(1, sizeof(*chronicle));

    TEST_CHECK(chronicle != NULL);
    chronicle->f = f;
    chronicle->ok = true;
    chronicle->fd = raw_dial(test_server_unix_url(f->server));
    TEST_CHECK(chronicle->fd >= 0);
    hall_queue(f, &chronicle->queue); /* nobody joins or leaves it just now */
    raw_say(chronicle->fd, "MONITOR\r\n");
    TEST_CHECK(pthread_create(&chronicle->thread, NULL, main_of, chronicle) == 0);
    TEST_CHECK(TEST_EVENTUALLY(atomic_load(&chronicle->begun), 5000));
    return chronicle;
}

bool chronicle_end(struct chronicle *chronicle, size_t *ret_grants, size_t *ret_leavers)
{
    bool ok;

    assert_true(test_server_says(chronicle->f->server, "end", "ECHO end"));
    TEST_CHECK(pthread_join(chronicle->thread, NULL) == 0);
    ok = chronicle->ok && chronicle->queue.n == 0;
    if (ret_grants != NULL) {
        *ret_grants = chronicle->grants;
    }
    if (ret_leavers != NULL) {
        *ret_leavers = chronicle->leavers;
    }
    free(chronicle);
    return ok;
}
