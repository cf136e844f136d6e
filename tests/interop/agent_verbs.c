/* What the agent is asked to do, in terms of the public interface. */
#include "agent.h"

#include "support/run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CLIENTS = 24, MAX_MEMBERS = 4 };

struct agent_client {
    char label[32];
    struct rlock_client *client;
    int64_t slot_ms; /* of its fair locks */
};

/* Handles by client, kind and name; kept until the process ends. */
struct handle {
    struct handle *next;
    char *key;
    struct rlock_handle *lock;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects what follows */
static struct agent_client clients[MAX_CLIENTS];
static struct handle *handles;

typedef int new_fn(struct rlock_client *client, const char *name, const struct rlock_opts *opts,
                   struct rlock_handle **ret_lock);

/* The kinds: a row each. */
static const struct {
    const char *name;
    new_fn *make;
} kinds[] = {
    {"reentrant", rlock_reentrant_new}, {"nonreentrant", rlock_nonreentrant_new},
    {"spin", rlock_spin_new},           {"fenced", rlock_fenced_new},
    {"fair", rlock_fair_new},           {"read", rlock_read_new},
    {"write", rlock_write_new},
};

static const char *reason_word(int reason)
{
    static const char *const words[] = {
        [RLOCK_LOST_EXPIRED] = "EXPIRED",
        [RLOCK_LOST_TAKEN] = "TAKEN",
        [RLOCK_LOST_DELETED] = "DELETED",
        [RLOCK_LOST_NOT_REPLICATED] = "NOT_REPLICATED",
        [RLOCK_LOST_CLOCK_STEPPED] = "CLOCK_STEPPED",
        [RLOCK_LOST_FORKED] = "FORKED",
        [RLOCK_LOST_CLOSED] = "CLOSED",
        [RLOCK_LOST_THREAD_EXITED] = "THREAD_EXITED",
        [RLOCK_LOST_FORCED] = "FORCED",
    };

    return (size_t)reason < sizeof(words) / sizeof(words[0]) && words[reason] != NULL
               ? words[reason]
               : "?";
}

static void on_lost(const struct rlock_loss *loss, void *payload)
{
    (void)payload;
    agent_event("lost %s %s", agent_encode(loss->name), reason_word(loss->reason));
}

static void on_log(const struct rlock_log_line *line, void *payload)
{
    (void)payload;
    fprintf(stderr, "log %d: %s\n", line->level, line->text);
}

static struct agent_client *place_of(const char *label)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++) {
        if (clients[i].label[0] == '\0') {
            test_text(clients[i].label, sizeof(clients[i].label), "%s", label);
        }
        if (strcmp(clients[i].label, label) == 0) {
            return &clients[i];
        }
    }
    test_die("too many clients");
}

static struct rlock_handle *make(const char *client, const char *kind, const char *name)
{
    const struct agent_client *place = place_of(client);
    const bool fair = strcmp(kind, "fair") == 0;
    const struct rlock_opts *opts = RLOCK_OPTS(.fair_slot_ms = fair ? place->slot_ms : 0);
    struct rlock_handle *lock = NULL;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) == 0) {
            TEST_CHECK(kinds[i].make(place->client, name, opts, &lock) == 0);
        }
    }
    return lock;
}

static bool is_group(const char *kind)
{
    return strcmp(kind, "multi") == 0 || strcmp(kind, "redlock") == 0;
}

/* A lock made of locks; its name lists them, as "client/kind/name,client/kind/name". */
static struct rlock_handle *compose(const char *kind, const char *name)
{
    struct rlock_handle *members[MAX_MEMBERS];
    struct rlock_handle *lock = NULL;
    char words[512];
    char *rest = words;
    size_t n = 0;

    test_text(words, sizeof(words), "%s", name);
    for (char *word = strsep(&rest, ","); word != NULL; word = strsep(&rest, ",")) {
        const char *client = strsep(&word, "/");
        const char *member_kind = strsep(&word, "/");
        TEST_CHECK(n < MAX_MEMBERS && word != NULL);
        members[n++] = agent_lock(client, member_kind, word);
    }
    const int code = strcmp(kind, "multi") == 0
                         ? rlock_multi_new(members, n, NULL, &lock)
                         : rlock_redlock_new(members, n, RLOCK_OPTS(.max_lease_ms = -1), &lock);
    TEST_CHECK(code == 0);
    return lock;
}

/* The handle of that key, or NULL. With the mutex. */
static struct handle *find(const char *key)
{
    struct handle *handle = handles;

    while (handle != NULL && strcmp(handle->key, key) != 0) {
        handle = handle->next;
    }
    return handle;
}

/* A group's members come this way too, so nothing is made with the mutex held. */
struct rlock_handle *agent_lock(const char *client, const char *kind, const char *name)
{
    char key[512];

    test_text(key, sizeof(key), "%s %s %s", client, kind, name);
    pthread_mutex_lock(&mutex);
    struct handle *handle = find(key);
    pthread_mutex_unlock(&mutex);
    if (handle != NULL) {
        return handle->lock;
    }
    struct rlock_handle *made = is_group(kind) ? compose(kind, name) : make(client, kind, name);
    pthread_mutex_lock(&mutex);
    handle = find(key);
    if (handle == NULL) {
        handle = calloc(1, sizeof(*handle));
        TEST_CHECK(handle != NULL);
        handle->key = strdup(key);
        handle->lock = made;
        handle->next = handles;
        handles = handle;
        made = NULL;
    }
    pthread_mutex_unlock(&mutex);
    rlock_free(made);
    return handle->lock;
}

static void open_client(const struct agent_request *request)
{
    const char *const *args = agent_args(request);
    const struct rlock_client_opts *opts =
        RLOCK_CLIENT_OPTS(.url = args[0], .renewed_lease_ms = agent_number(request, 1),
                          .on_lost = on_lost, .on_log_line = on_log,
                          .op_timeout_ms = agent_number(request, 3),
                          .key_prefix = request->n_args > 4 ? args[4] : NULL,
                          .flags = getenv("RLOCK_ANNOUNCE_BOTH") != NULL
                                       ? RLOCK_CLIENT_ANNOUNCE_BOTH
                                       : 0);
    struct rlock_client *client = NULL;
    const int code = rlock_client_open(opts, &client);

    if (code != 0) {
        agent_fail(request, code);
        return;
    }
    pthread_mutex_lock(&mutex);
    place_of(agent_client(request))->client = client;
    place_of(agent_client(request))->slot_ms = agent_number(request, 2);
    pthread_mutex_unlock(&mutex);
    agent_ok(request, "%s", rlock_client_uuid(client));
}

static void of_client(const struct agent_request *request)
{
    if (strcmp(agent_verb(request), "open") == 0) {
        open_client(request);
    } else if (strcmp(agent_verb(request), "version") == 0) {
        agent_ok(request, "%s", agent_encode(rlock_version()));
    } else if (strcmp(agent_verb(request), "stress") == 0) {
        agent_stress(request);
    } else {
        test_die("no verb is called %s", agent_verb(request));
    }
}

/* Verbs of a lock. Each answers. */
typedef void verb_fn(const struct agent_request *request, struct rlock_handle *lock);

static void done(const struct agent_request *request, int code)
{
    if (code == 0) {
        agent_ok(request, "%s", "");
    } else {
        agent_fail(request, code);
    }
}

static void do_lock(const struct agent_request *request, struct rlock_handle *lock)
{
    done(request, rlock_lock_for(lock, RLOCK_FOREVER,
                                 RLOCK_TAKE(.lease_ms = agent_number(request, 0)), NULL));
}

static void do_try(const struct agent_request *request, struct rlock_handle *lock)
{
    const int code = rlock_lock_for(lock, agent_number(request, 0),
                                    RLOCK_TAKE(.lease_ms = agent_number(request, 1)), NULL);

    if (code == 0 || code == RLOCK_EBUSY || code == RLOCK_ETIMEDOUT) {
        agent_ok(request, "%s", code == 0 ? "true" : "false");
    } else {
        agent_fail(request, code);
    }
}

/* As lock 0; the value is the fencing token. */
static void do_fence(const struct agent_request *request, struct rlock_handle *lock)
{
    struct rlock_grant grant = RLOCK_GRANT_INIT;
    const int code = rlock_lock_for(lock, RLOCK_FOREVER, NULL, &grant);

    if (code == 0) {
        agent_ok(request, "%llu", (unsigned long long)grant.token);
    } else {
        agent_fail(request, code);
    }
}

static void do_unlock(const struct agent_request *request, struct rlock_handle *lock)
{
    done(request, rlock_unlock(lock));
}

static void do_force(const struct agent_request *request, struct rlock_handle *lock)
{
    bool was_locked = false;
    const int code = rlock_force_unlock(lock, &was_locked);

    if (code == 0) {
        agent_ok(request, "%s", was_locked ? "true" : "false");
    } else {
        agent_fail(request, code);
    }
}

static void do_held(const struct agent_request *request, struct rlock_handle *lock)
{
    agent_ok(request, "%s", rlock_is_valid(lock) ? "true" : "false");
}

static void do_count(const struct agent_request *request, struct rlock_handle *lock)
{
    agent_ok(request, "%u", rlock_hold_count(lock));
}

/* locked, ttl, token; and who: the first holder with its count, which Redisson does not tell. */
static void do_inspect(const struct agent_request *request, struct rlock_handle *lock)
{
    struct rlock_info info = RLOCK_INFO_INIT;
    const int code = rlock_inspect(lock, &info);

    if (code != 0) {
        agent_fail(request, code);
    } else if (strcmp(agent_verb(request), "locked") == 0) {
        agent_ok(request, "%s", info.locked ? "true" : "false");
    } else if (strcmp(agent_verb(request), "ttl") == 0) {
        agent_ok(request, "%lld", (long long)info.ttl_ms);
    } else if (strcmp(agent_verb(request), "token") == 0) {
        agent_ok(request, "%llu", (unsigned long long)info.token);
    } else {
        agent_ok(request, "%s=%lld", info.holder, (long long)info.count);
    }
}

static const struct {
    const char *name;
    verb_fn *perform;
} verbs[] = {
    {"lock", do_lock},      {"try", do_try},     {"unlock", do_unlock}, {"force", do_force},
    {"locked", do_inspect}, {"held", do_held},   {"count", do_count},   {"ttl", do_inspect},
    {"fence", do_fence},    {"who", do_inspect}, {"token", do_inspect}, {"loop", agent_loop},
};

void agent_perform(const struct agent_request *request)
{
    if (strcmp(agent_kind(request), "-") == 0) {
        of_client(request);
        return;
    }
    struct rlock_handle *lock =
        agent_lock(agent_client(request), agent_kind(request), agent_name(request));
    if (lock == NULL) {
        agent_fail(request, RLOCK_ENOTSUP);
        return;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verbs[i].name, agent_verb(request)) == 0) {
            verbs[i].perform(request, lock);
            return;
        }
    }
    test_die("no verb is called %s", agent_verb(request));
}
