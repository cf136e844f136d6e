/* The part of proxy.h about rules and about what went through. */
#include "proxy_impl.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *copy_of(const char *bytes, size_t len)
{
    char *copy = NULL;

    if (bytes != NULL) {
        copy = calloc(1, len + 1);
        TEST_CHECK(copy != NULL);
        memcpy(copy, bytes, len);
    }
    return copy;
}

static char *copy_of_text(const char *text)
{
    return copy_of(text, text != NULL ? strlen(text) : 0);
}

int proxy_add(struct proxy *proxy, const struct proxy_rule *rule)
{
    struct proxy_rule_kept *kept = calloc(1, sizeof(*kept));

    TEST_CHECK(kept != NULL);
    kept->rule = *rule;
    kept->command = copy_of_text(rule->command);
    kept->contains = copy_of_text(rule->contains);
    kept->bytes = copy_of(rule->bytes, rule->len);
    kept->rule.command = kept->command;
    kept->rule.contains = kept->contains;
    kept->rule.bytes = kept->bytes;
    pthread_mutex_lock(&proxy->mutex);
    kept->number = ++proxy->n_rules;
    *proxy->last_rule = kept;
    proxy->last_rule = &kept->next;
    pthread_mutex_unlock(&proxy->mutex);
    return kept->number;
}

/* Mutex held. */
static struct proxy_rule_kept *find_rule(struct proxy *proxy, int rule)
{
    struct proxy_rule_kept *kept = proxy->rules;

    while (kept != NULL && kept->number != rule) {
        kept = kept->next;
    }
    if (kept == NULL) {
        test_die("no rule %d", rule);
    }
    return kept;
}

void proxy_remove(struct proxy *proxy, int rule)
{
    pthread_mutex_lock(&proxy->mutex);
    find_rule(proxy, rule)->is_removed = true; /* and kept: replies may still be expected for it */
    pthread_mutex_unlock(&proxy->mutex);
}

void proxy_remove_all(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    for (struct proxy_rule_kept *kept = proxy->rules; kept != NULL; kept = kept->next) {
        kept->is_removed = true;
    }
    pthread_mutex_unlock(&proxy->mutex);
}

unsigned int proxy_fired(struct proxy *proxy, int rule)
{
    pthread_mutex_lock(&proxy->mutex);
    const unsigned int fired = find_rule(proxy, rule)->fired;
    pthread_mutex_unlock(&proxy->mutex);
    return fired;
}

int proxy_cut_after_requests(struct proxy *proxy, unsigned int n)
{
    return proxy_add(proxy, &(struct proxy_rule){
                                .act = PROXY_CUT_REPLY, .which = PROXY_COMMANDS, .skip = n - 1});
}

int proxy_cut_in_reply(struct proxy *proxy, size_t at)
{
    return proxy_add(
        proxy, &(struct proxy_rule){.act = PROXY_CUT_IN_REPLY, .which = PROXY_COMMANDS, .at = at});
}

int proxy_repeat_requests(struct proxy *proxy, unsigned int n)
{
    return proxy_add(
        proxy, &(struct proxy_rule){.act = PROXY_REPEAT, .which = PROXY_COMMANDS, .times = n});
}

int proxy_mutate(struct proxy *proxy, const char *bytes, size_t len)
{
    return proxy_add(proxy, &(struct proxy_rule){.act = PROXY_REPLACE_REPLY,
                                                 .which = PROXY_COMMANDS,
                                                 .bytes = bytes,
                                                 .len = len});
}

/* Mutex held. */
static const struct proxy_stats *count(struct proxy *proxy)
{
    proxy->stats.open = 0;
    proxy->stats.subscribers = 0;
    for (const struct proxy_conn *conn = proxy->conns; conn != NULL; conn = conn->next) {
        const bool is_open = conn->end[PROXY_TO_CLIENT].fd >= 0;
        proxy->stats.open += is_open;
        proxy->stats.subscribers += is_open && conn->is_subscriber;
    }
    return &proxy->stats;
}

struct proxy_stats proxy_stats(struct proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    const struct proxy_stats stats = *count(proxy);
    pthread_mutex_unlock(&proxy->mutex);
    return stats;
}

static struct timespec deadline_of(int64_t timeout_ms)
{
    struct timespec at;

    test_must(clock_gettime(CLOCK_MONOTONIC, &at), "clock_gettime");
    timeout_ms *= test_slack();
    at.tv_sec += timeout_ms / 1000;
    at.tv_nsec += timeout_ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    return at;
}

bool proxy_wait(struct proxy *proxy, proxy_cond_fn *cond, void *payload, int64_t timeout_ms)
{
    const struct timespec end = deadline_of(timeout_ms);
    bool is_in_time = true;
    bool is_met = false;

    pthread_mutex_lock(&proxy->mutex);
    while (!(is_met = cond(count(proxy), payload)) && is_in_time) {
        is_in_time = pthread_cond_timedwait(&proxy->changed, &proxy->mutex, &end) == 0;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return is_met;
}

static bool has_requests(const struct proxy_stats *stats, void *payload)
{
    return stats->requests >= *(const uint64_t *)payload;
}

bool proxy_wait_requests(struct proxy *proxy, uint64_t n, int64_t timeout_ms)
{
    return proxy_wait(proxy, has_requests, &n, timeout_ms);
}

static bool has_held(const struct proxy_stats *stats, void *payload)
{
    return stats->held >= *(const size_t *)payload;
}

bool proxy_wait_held(struct proxy *proxy, size_t n, int64_t timeout_ms)
{
    return proxy_wait(proxy, has_held, &n, timeout_ms);
}

static bool has_open(const struct proxy_stats *stats, void *payload)
{
    return stats->open == *(const size_t *)payload;
}

bool proxy_wait_open(struct proxy *proxy, size_t n, int64_t timeout_ms)
{
    return proxy_wait(proxy, has_open, &n, timeout_ms);
}

static bool has_subscribers(const struct proxy_stats *stats, void *payload)
{
    return stats->subscribers == *(const size_t *)payload;
}

bool proxy_wait_subscribers(struct proxy *proxy, size_t n, int64_t timeout_ms)
{
    return proxy_wait(proxy, has_subscribers, &n, timeout_ms);
}

struct firing {
    const struct proxy_rule_kept *kept;
    unsigned int n;
};

static bool has_fired(const struct proxy_stats *stats, void *payload)
{
    const struct firing *firing = payload;

    (void)stats;
    return firing->kept->fired >= firing->n;
}

bool proxy_wait_fired(struct proxy *proxy, int rule, unsigned int n, int64_t timeout_ms)
{
    pthread_mutex_lock(&proxy->mutex);
    struct firing firing = {.kept = find_rule(proxy, rule), .n = n};
    pthread_mutex_unlock(&proxy->mutex);
    return proxy_wait(proxy, has_fired, &firing, timeout_ms);
}
