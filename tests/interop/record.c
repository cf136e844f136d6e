/*
 * Takes down the scripts of a Redisson's fair lock, for tests/fair/recorded.c: it uses one on a
 * server of its own, and MONITOR tells what it says there. Nothing of them is kept anywhere else.
 */
#include "interop.h"

#include "support/raw.h"
#include "support/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK "recorded"

enum { MOST_WORDS = 32, MOST_BODIES = 32 };

/* What one owner does, and what is to be taken down of it. */
struct scene {
    const char *verb; /* the script's; NULL: nothing is */
    const char *client, *owner;
    const char *what; /* NULL: waits for a renewal */
    const char *answer;
    bool is_last; /* the script is the last of several */
    int64_t lease_ms, wait_ms;
};

static const struct scene scenes[] = {
    {"try", "short", "a", "try 0 0", "true", false, SHORT_MS, SLOT_MS},
    {"release", "short", "a", "unlock", "", false, SHORT_MS, 0},
    {"acquire", "short", "a", "lock 0", "", false, SHORT_MS, SLOT_MS},
    {"renew", "short", "a", NULL, NULL, false, SHORT_MS, 0},
    {NULL, "short", "a", "unlock", "", false, 0, 0},
    {NULL, "long", "a", "lock 60000", "", false, 0, 0},
    {"give_up", "long", "b", "try 203 60000", "false", true, 60000, 203},
    {"force", "long", "b", "force", "true", false, 0, 0},
};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

/* A line of MONITOR: a command's words. */
struct heard {
    char *line;
    char *words[MOST_WORDS];
    size_t n;
};

struct recorder {
    struct test_server *server;
    struct party *java;
    const char *directory;
    FILE *monitor;
    struct heard scripts[SCENES]; /* as they were run, by the digests of some */
    char *bodies[MOST_BODIES];    /* that were loaded */
    size_t n_bodies;
};

/* ---- What the server is told ---- */

static char byte_of(const char *digits)
{
    const char text[] = {digits[0], digits[1], '\0'};

    return (char)strtol(text, NULL, 16);
}

/* Reads a word up to its closing quote, in place; gives what is behind it. */
static char *unquote(char *at)
{
    static const char letters[] = "nrtab", bytes[] = "\n\r\t\a\b";
    char *out = at;

    for (; *at != '\0' && *at != '"'; at++) {
        if (*at != '\\') {
            *out++ = *at;
        } else if (*++at == 'x') {
            *out++ = byte_of(at + 1);
            at += 2;
        } else {
            const char *letter = strchr(letters, *at);
            *out++ = letter != NULL ? bytes[letter - letters] : *at;
        }
    }
    TEST_CHECK(*at == '"');
    *out = '\0';
    return at + 1;
}

/* The next command; those of scripts are none. The caller frees the line. */
static struct heard hear(struct recorder *recorder)
{
    struct heard heard = {.line = NULL};
    size_t size = 0;

    do {
        TEST_CHECK(getline(&heard.line, &size, recorder->monitor) > 0);
    } while (strstr(heard.line, " lua] \"") != NULL);
    for (char *at = strchr(heard.line, '"'); at != NULL && heard.n < MOST_WORDS;
         at = strchr(at, '"')) {
        heard.words[heard.n++] = at + 1;
        at = unquote(at + 1);
    }
    return heard;
}

static bool is_word(const struct heard *heard, size_t i, const char *word)
{
    return i < heard->n && strcasecmp(heard->words[i], word) == 0;
}

/* Notes the body that a command loads, or the script that it runs; whether it ran one. */
static bool take_down(struct recorder *recorder, struct heard *heard, size_t scene)
{
    const bool runs = is_word(heard, 0, "EVAL") || is_word(heard, 0, "EVALSHA");
    struct heard *script = &recorder->scripts[scene];

    if (is_word(heard, 0, "SCRIPT") && is_word(heard, 1, "LOAD") && heard->n == 3) {
        TEST_CHECK(recorder->n_bodies < MOST_BODIES);
        recorder->bodies[recorder->n_bodies++] = strdup(heard->words[2]);
    }
    if (runs && (scenes[scene].is_last || script->line == NULL)) {
        free(script->line);
        *script = *heard;
    } else {
        free(heard->line);
    }
    return runs;
}

/* Hears all that was said until now. */
static void hear_all(struct recorder *recorder, size_t scene)
{
    bool is_end = false;

    TEST_CHECK(test_server_says(recorder->server, "so far", "ECHO 'so far'"));
    while (!is_end) {
        struct heard heard = hear(recorder);

        is_end = is_word(&heard, 0, "ECHO");
        (void)take_down(recorder, &heard, scene);
    }
}

static void hear_script(struct recorder *recorder, size_t scene)
{
    struct heard heard;

    do {
        heard = hear(recorder);
    } while (!take_down(recorder, &heard, scene));
}

/* ---- What is written down ---- */

/* The text of a script; NULL: it was never told. Which digest is whose the server knows. */
static const char *body_of(const struct recorder *recorder, const struct heard *script)
{
    const char *body = is_word(script, 0, "EVAL") ? script->words[1] : NULL;

    for (size_t i = 0; i < recorder->n_bodies && body == NULL; i++) {
        char *digest = test_server_argv(
            recorder->server, (const char *const[]){"SCRIPT", "LOAD", recorder->bodies[i], NULL});

        body = is_word(script, 1, digest) ? recorder->bodies[i] : NULL;
        free(digest);
    }
    return body;
}

static bool starts(const char *word, const char *start)
{
    return strncmp(word, start, strlen(start)) == 0;
}

/* What peer_values of the model calls a word; the word where it is always the same. */
static const char *name_of(const struct recorder *recorder, const struct scene *scene,
                           const char *word)
{
    static const struct {
        const char *word, *name;
    } keys[] = {{LOCK, "LOCK"},
                {"redisson_lock_queue:{" LOCK "}", "QUEUE"},
                {"redisson_lock_timeout:{" LOCK "}", "SCORES"},
                {"redisson_lock__channel:{" LOCK "}", "CHANNEL"}};
    const long long number = strtoll(word, NULL, 10);

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strcmp(word, keys[i].word) == 0) {
            return keys[i].name;
        }
    }
    if (starts(word, recorder->java->uuids_long[0]) ||
        starts(word, recorder->java->uuids_short[0])) {
        return "OWNER";
    }
    if (starts(word, "redisson_unlock_latch:")) {
        return "LATCH";
    }
    if (number > 1000000000000) {
        return "NOW";
    }
    return number != 0 && number == scene->lease_ms  ? "LEASE"
           : number != 0 && number == scene->wait_ms ? "WAIT"
                                                     : word;
}

static FILE *create(const struct recorder *recorder, const char *name)
{
    char path[1200];
    FILE *file;

    test_text(path, sizeof(path), "%s/%s", recorder->directory, name);
    file = fopen(path, "we");
    if (file == NULL) {
        test_die("%s: cannot be written", path);
    }
    return file;
}

static bool write_down(struct recorder *recorder, size_t scene)
{
    const struct heard *script = &recorder->scripts[scene];
    const char *body = body_of(recorder, script);
    FILE *file;

    if (body == NULL) {
        printf("recording %s: no script was heard\n", scenes[scene].verb);
        return false;
    }
    file = create(recorder, scenes[scene].verb);
    for (size_t i = 2; i < script->n; i++) {
        fprintf(file, "%s%s", i > 2 ? " " : "",
                name_of(recorder, &scenes[scene], script->words[i]));
    }
    fprintf(file, "\n%s", body);
    return fclose(file) == 0;
}

static bool write_all(struct recorder *recorder, const char *version)
{
    FILE *file = create(recorder, "version");
    bool is_whole = fprintf(file, "%s\n", version) > 0;

    is_whole = fclose(file) == 0 && is_whole;
    for (size_t i = 0; i < SCENES && is_whole; i++) {
        is_whole = scenes[i].verb == NULL || write_down(recorder, i);
    }
    return is_whole;
}

/* ---- The scenes ---- */

static bool play(struct recorder *recorder, size_t scene)
{
    const struct scene *it = &scenes[scene];
    struct peer *peer = recorder->java->peer;
    struct peer_answer answer;

    if (it->what == NULL) {
        hear_script(recorder, scene);
        return true;
    }
    answer =
        peer_wait(peer, peer_tell(peer, "%s %s fair " LOCK " %s", it->client, it->owner, it->what),
                  PATIENCE_MS);
    hear_all(recorder, scene);
    if (!answer.ok || strcmp(answer.text, it->answer) != 0) {
        printf("recording %s: %s\n", it->what, answer.text);
        return false;
    }
    return true;
}

static void open_monitor(struct recorder *recorder)
{
    int fd = raw_dial(test_server_unix_url(recorder->server));

    TEST_CHECK(fd >= 0);
    recorder->monitor = fdopen(fd, "r");
    TEST_CHECK(recorder->monitor != NULL);
    raw_say(fd, "MONITOR\r\n");
    free(hear(recorder).line); /* it tells all from here on */
}

static void close_recorder(struct recorder *recorder)
{
    (void)fclose(recorder->monitor);
    for (size_t i = 0; i < SCENES; i++) {
        free(recorder->scripts[i].line);
    }
    for (size_t i = 0; i < recorder->n_bodies; i++) {
        free(recorder->bodies[i]);
    }
}

bool interop_record(struct party *java, struct test_server *server, const char *version,
                    const char *directory)
{
    struct recorder recorder = {.server = server, .java = java, .directory = directory};
    bool is_whole = true;

    (void)mkdir(directory, 0777);
    open_monitor(&recorder);
    for (size_t i = 0; i < SCENES && is_whole; i++) {
        is_whole = play(&recorder, i);
    }
    is_whole = is_whole && write_all(&recorder, version);
    close_recorder(&recorder);
    return is_whole;
}
