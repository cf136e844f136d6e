/* The part of server.h that asks the server questions. */
#include "run.h"
#include "server_files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *vcmd(struct test_server *server, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static char *vcmd(struct test_server *server, const char *fmt, va_list ap)
{
    char *command = NULL;
    char *line = NULL;

    test_must(vasprintf(&command, fmt, ap), "vasprintf");
    const int len = test_must(asprintf(&line, "%s\r\n", command), "asprintf");
    char *reply = server_call(server, line, (size_t)len);
    free(command);
    free(line);
    return reply;
}

char *test_server_cmd(struct test_server *server, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *reply = vcmd(server, fmt, ap);
    va_end(ap);
    return reply;
}

long long test_server_int(struct test_server *server, const char *fmt, ...)
{
    va_list ap;
    char *end = NULL;

    va_start(ap, fmt);
    char *reply = vcmd(server, fmt, ap);
    va_end(ap);
    const long long value = strtoll(reply, &end, 10);
    if (end == reply || *end != '\0') {
        test_die("no number in answer to %s: %s", fmt, reply);
    }
    free(reply);
    return value;
}

bool test_server_says(struct test_server *server, const char *expected, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *reply = vcmd(server, fmt, ap);
    va_end(ap);
    const bool is_same = strcmp(reply, expected) == 0;
    free(reply);
    return is_same;
}

void test_server_do(struct test_server *server, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    free(vcmd(server, fmt, ap));
    va_end(ap);
}

char *test_server_argv(struct test_server *server, const char *const *argv)
{
    char *command = NULL;
    size_t len = 0;
    int n = 0;
    FILE *out = open_memstream(&command, &len);

    TEST_CHECK(out != NULL);
    while (argv[n] != NULL) {
        n++;
    }
    fprintf(out, "*%d\r\n", n);
    for (int i = 0; i < n; i++) {
        fprintf(out, "$%zu\r\n%s\r\n", strlen(argv[i]), argv[i]);
    }
    fclose(out);
    char *reply = server_call(server, command, len);
    free(command);
    return reply;
}

bool test_server_has_command(struct test_server *server, const char *name)
{
    return !test_server_says(server, "", "COMMAND INFO %s", name);
}

long long test_server_info(struct test_server *server, const char *section, const char *field)
{
    char *info = test_server_cmd(server, "INFO %s", section);
    const char *at = strstr(info, field);
    const long long value = at != NULL ? strtoll(at + strlen(field) + 1, NULL, 10) : -1;

    free(info);
    return value;
}

long long test_server_listeners(struct test_server *server, const char *channel)
{
    char *reply = test_server_cmd(server, "PUBSUB NUMSUB %s", channel);
    const char *number = strrchr(reply, '\n');
    const long long n = number != NULL ? strtoll(number + 1, NULL, 10) : -1;

    free(reply);
    return n;
}

/* A call in a lock's queue hears channel:uuid. If it hears the common channel too, it hears
 * channel:rlock as well. */
static const char count_waiters[] =
    "local n = 0 "
    "for _, kind in ipairs({'', 'shard'}) do "
    "  local own = redis.pcall('pubsub', kind .. 'channels', ARGV[1] .. ':' .. "
    "    ('?'):rep(8) .. '-*-*-*-' .. ('?'):rep(12)) "
    "  local heard = redis.pcall('pubsub', kind .. 'numsub', ARGV[1], ARGV[1] .. ':rlock', "
    "    unpack(own)) "
    "  for i = 2, #heard, 2 do n = n + (i == 4 and -1 or 1) * heard[i] end "
    "end "
    "return n";

long long test_server_waiters(struct test_server *server, const char *channel)
{
    const char *const words[] = {"EVAL", count_waiters, "0", channel, NULL};
    char *reply = test_server_argv(server, words);
    const long long n = strtoll(reply, NULL, 10);

    free(reply);
    return n;
}

long long test_server_clients(struct test_server *server)
{
    char *list = test_server_cmd(server, "CLIENT LIST");
    char *rest = list;
    long long n = 0;

    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        n += line[0] != '\0' && strstr(line, " name=test-side ") == NULL &&
             strstr(line, " flags=S ") == NULL && strstr(line, " flags=M ") == NULL;
    }
    free(list);
    return n;
}

static bool is_clean(struct test_server *server)
{
    return test_server_int(server, "DBSIZE") == 0 &&
           test_server_says(server, "", "PUBSUB CHANNELS") &&
           (!test_server_has_command(server, "SPUBLISH") ||
            test_server_says(server, "", "PUBSUB SHARDCHANNELS"));
}

static void show(struct test_server *server, const char *command)
{
    char *reply = test_server_cmd(server, "%s", command);

    fprintf(stderr, "%s: %s\n", command, reply);
    free(reply);
}

void test_server_assert_clean(struct test_server *server)
{
    if (TEST_EVENTUALLY(is_clean(server), 2000)) {
        return;
    }
    show(server, "KEYS *");
    show(server, "PUBSUB CHANNELS");
    show(server, "PUBSUB SHARDCHANNELS");
    test_die("the server is not clean");
}

bool test_server_is_primary(struct test_server *server)
{
    char *role = test_server_cmd(server, "ROLE");
    const bool is = strncmp(role, "master", strlen("master")) == 0;

    free(role);
    return is;
}

bool test_server_is_copied(struct test_server *replica)
{
    char *info = test_server_cmd(replica, "INFO replication");
    const bool is = strstr(info, "master_link_status:up") != NULL;

    free(info);
    return is;
}

bool test_server_is_acknowledged(struct test_server *primary, size_t n)
{
    static const char offset[] = ",state=online,offset=";
    char *info = test_server_cmd(primary, "INFO replication");
    size_t found = 0;

    for (const char *at = info; (at = strstr(at, offset)) != NULL; at++) {
        found += at[sizeof(offset) - 1] != '0';
    }
    free(info);
    return found >= n;
}
