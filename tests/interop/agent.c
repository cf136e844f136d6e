/* The protocol's side of the agent: requests in, owners' threads, answers out. */
#include "agent.h"

#include "support/run.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 4096 };

struct job {
    struct job *next;
    struct agent_request request;
    char line[];
};

/* A thread that does one request after the other: to rlock, an owner. Never freed. */
struct owner {
    struct owner *next;
    char *client, *name;
    pthread_mutex_t mutex; /* protects jobs */
    pthread_cond_t more;
    struct job *jobs;
};

int64_t agent_number(const struct agent_request *request, size_t i)
{
    return i < request->n_args ? strtoll(agent_args(request)[i], NULL, 10) : 0;
}

static void write_line(const char *id, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void write_line(const char *id, const char *fmt, va_list ap)
{
    char text[LINE_SIZE / 2];
    char line[LINE_SIZE];

    vsnprintf(text, sizeof(text), fmt, ap);
    test_text(line, sizeof(line), "%s %s\n", id, text);
    if (write(STDOUT_FILENO, line, strlen(line)) < 0) { /* a pipe takes a line whole */
        _exit(1);
    }
}

void agent_event(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_line("*", fmt, ap);
    va_end(ap);
}

static void answer(const struct agent_request *request, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void answer(const struct agent_request *request, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_line(request->words[0], fmt, ap);
    va_end(ap);
}

void agent_ok(const struct agent_request *request, const char *fmt, ...)
{
    char value[LINE_SIZE / 4];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(value, sizeof(value), fmt, ap);
    va_end(ap);
    answer(request, "ok %s", value);
}

void agent_fail(const struct agent_request *request, int code)
{
    answer(request, "fail %s %s", rlock_code_name(code), agent_encode(rlock_detail()));
}

const char *agent_encode(const char *word)
{
    static _Thread_local char text[LINE_SIZE / 4];
    size_t n = 0;

    for (; *word != '\0' && n + 4 < sizeof(text); word++) {
        if (isalnum((unsigned char)*word) || strchr("-_.:", *word) != NULL) {
            text[n++] = *word;
        } else {
            n += (size_t)snprintf(text + n, 4, "%%%02X", (unsigned char)*word);
        }
    }
    text[n] = '\0';
    return text;
}

static void decode(char *word)
{
    char *to = word;

    for (const char *from = word; *from != '\0'; from++) {
        unsigned int byte;
        if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static struct job *read_job(const char *line)
{
    const size_t size = strlen(line) + 1;
    struct job *job = calloc(1, sizeof(*job) + size);
    size_t n = 0;

    TEST_CHECK(job != NULL);
    memcpy(job->line, line, size);
    for (char *rest = job->line, *word = strsep(&rest, " \n"); word != NULL && *word != '\0';
         word = strsep(&rest, " \n")) {
        TEST_CHECK(n < AGENT_WORDS);
        decode(word);
        job->request.words[n++] = word;
    }
    TEST_CHECK(n >= 6);
    job->request.n_args = n - 6;
    return job;
}

static struct job *next_job(struct owner *owner)
{
    pthread_mutex_lock(&owner->mutex);
    while (owner->jobs == NULL) {
        pthread_cond_wait(&owner->more, &owner->mutex);
    }
    struct job *job = owner->jobs;
    owner->jobs = job->next;
    pthread_mutex_unlock(&owner->mutex);
    return job;
}

static void *owner_main(void *arg)
{
    for (;;) {
        struct job *job = next_job(arg);
        agent_perform(&job->request);
        free(job);
    }
    return NULL;
}

static struct owner *owner_of(const struct agent_request *request)
{
    static struct owner *owners;
    pthread_t thread;

    for (struct owner *owner = owners; owner != NULL; owner = owner->next) {
        if (strcmp(owner->client, agent_client(request)) == 0 &&
            strcmp(owner->name, agent_owner(request)) == 0) {
            return owner;
        }
    }
    struct owner *owner = calloc(1, sizeof(*owner));
    TEST_CHECK(owner != NULL);
    owner->client = strdup(agent_client(request));
    owner->name = strdup(agent_owner(request));
    TEST_CHECK(owner->client != NULL && owner->name != NULL);
    pthread_mutex_init(&owner->mutex, NULL);
    pthread_cond_init(&owner->more, NULL);
    owner->next = owners;
    owners = owner;
    TEST_CHECK(pthread_create(&thread, NULL, owner_main, owner) == 0);
    pthread_detach(thread);
    return owner;
}

static void hand_over(struct job *job)
{
    struct owner *owner = owner_of(&job->request);

    pthread_mutex_lock(&owner->mutex);
    struct job **end = &owner->jobs;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = job;
    pthread_cond_signal(&owner->more);
    pthread_mutex_unlock(&owner->mutex);
}

int main(void)
{
    char line[LINE_SIZE];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        hand_over(read_job(line));
    }
    _exit(0); /* owners may wait for locks; their leases end */
}
