/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No key of a lock without an end: whoever is killed, at whichever of its commands. A proxy holds
 * back one command after the other; there the process is killed, and every key on the server must
 * have a TTL: before the server has that command, and after. The counters of fenced locks stay.
 * The process may also live, and lose its connection for messages there.
 */
#include "command.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* The longest TTL: of a queue, its last score and a slot. */
#define LONGEST_MS 1300000LL

/* A role: the words of the command, or of kill_role; and the lock as it finds it. */
struct role {
    const char *const *words;
    const char *held_by; /* HSET's words; NULL: the lock is free */
    long long held_ms;   /* its lease */
    bool has_dead;       /* somebody was killed who waited for it, as a fair lock */
    bool is_program;     /* the words are kill_role's */
    bool lives;          /* it is not killed: its connection for messages is cut */
};

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define OTHER "a2b0e6a4-6f5b-8c9d-8e7f-0123456789ab:1"

/* How many keys of a server have no end, or one too far away. */
static long long count_endless(struct test_server *server)
{
    static const char script[] = "local n = 0\n"
                                 "for _, key in ipairs(redis.call('keys', '*')) do\n"
                                 "  local left = redis.call('pttl', key)\n"
                                 "  if (left < 0 or left > tonumber(ARGV[1])) and not "
                                 "key:find('^redisson_lock_token:') then\n"
                                 "    n = n + 1\n"
                                 "  end\n"
                                 "end\n"
                                 "return n\n";
    char longest[24];
    char *reply;
    long long n;

    test_text(longest, sizeof(longest), "%lld", LONGEST_MS);
    reply = test_server_argv(server, WORDS("EVAL", script, "0", longest));
    n = strtoll(reply, NULL, 10);
    free(reply);
    return n;
}

static void assert_all_end(const struct role *role, unsigned step, const char *when)
{
    for (size_t i = 0; i < fixture.n; i++) {
        const long long n = count_endless(fixture.servers[i]);
        char *keys = n != 0 ? test_server_cmd(fixture.servers[i], "KEYS *") : NULL;

        if (n != 0) {
            fail_msg("%s %s, killed at its command %u, %s: %lld keys without an end: %s",
                     role->words[0], role->words[1] != NULL ? role->words[1] : "", step, when, n,
                     keys);
        }
    }
}

static void set_the_stage(struct test_server *server, const struct role *role)
{
    test_server_do(server, "FLUSHALL");
    if (role->held_by != NULL) {
        test_server_do(server, "HSET a %s", role->held_by);
        test_server_do(server, "PEXPIRE a %lld", role->held_ms);
    }
    if (role->has_dead) {
        test_server_do(server, "RPUSH redisson_lock_queue:{a} " OTHER);
        test_server_do(server, "PEXPIRE redisson_lock_queue:{a} 9000");
    }
}

struct held_or_over {
    const struct command *command;
    struct proxy *proxy;
    int status;
    bool is_over;
};

static bool is_held_or_over(struct held_or_over *state)
{
    state->is_over = state->is_over || waitpid(state->command->pid, &state->status, WNOHANG) != 0;
    return state->is_over || proxy_stats(state->proxy).held > 0;
}

static bool nobody_is_connected(void)
{
    long long n = 0;

    for (size_t i = 0; i < fixture.n; i++) {
        n += test_server_clients(fixture.servers[i]);
    }
    return n == 0;
}

static void strike(const struct role *role, struct proxy *proxy, const struct command *command)
{
    int status;

    if (role->lives) {
        proxy_cut_all(proxy, PROXY_SUBSCRIBERS);
        return;
    }
    assert_int_equal(kill(command->pid, SIGKILL), 0);
    status = command_wait(command, 10000);
    assert_true(status == 128 + SIGKILL || status == 0); /* it may wait for no answer, and end */
}

/* Kills it at the command of that number to that server. False: it has ended without one. */
static bool kill_at(const struct role *role, size_t server, unsigned step)
{
    struct proxy *proxy = fixture.proxies[server];
    struct command command;
    struct held_or_over state = {.command = &command, .proxy = proxy};
    int rule;

    for (size_t i = 0; i < fixture.n; i++) {
        set_the_stage(fixture.servers[i], role);
    }
    proxy_remove_all(proxy);
    rule = proxy_add(proxy, &(struct proxy_rule){.act = PROXY_HOLD, .skip = step});
    command = command_start(role->words);
    assert_true(TEST_EVENTUALLY(is_held_or_over(&state), 20000));
    if (proxy_fired(proxy, rule) == 0) {
        return false;
    }
    if (!state.is_over) { /* it needs no answer from one of several servers */
        strike(role, proxy, &command);
    }
    assert_all_end(role, step, "before the server had it");
    proxy_hold_requests(proxy, false);
    if (role->lives && !state.is_over) {
        assert_int_equal(command_wait(&command, 20000), 0);
    }
    assert_true(TEST_EVENTUALLY(nobody_is_connected(), 10000));
    assert_all_end(role, step, "after the server had it");
    return true;
}

static void kill_at_every_step(const struct role *roles, size_t n)
{
    (void)setenv("RLOCK_URL", proxy_url(fixture.proxy), 1);
    for (size_t i = 0; i < n; i++) {
        if (roles[i].is_program) {
            (void)setenv("RLOCK_COMMAND", KILL_ROLE, 1);
        }
        for (size_t server = 0; server < fixture.n; server++) {
            unsigned step = 0;

            while (kill_at(&roles[i], server, step)) {
                step++;
            }
            print_message("%s: %u commands\n", roles[i].words[0], step);
            assert_true(step >= 3);
            proxy_remove_all(fixture.proxies[server]);
        }
        (void)unsetenv("RLOCK_COMMAND");
    }
}

#define KILL_TEST(name)                                                                            \
    COMMAND_WITH_TEST(name, .server.transport = TEST_UNIX, .proxy = PROXY_ON_UNIX)
#define RUN(...) .words = WORDS("run", "--lease", "9s", __VA_ARGS__, "a", "--", "true")
#define WAITS .held_by = OTHER " 1", .held_ms = 250
#define KILL(...)                                                                                  \
    kill_at_every_step((const struct role[]){__VA_ARGS__},                                         \
                       sizeof((const struct role[]){__VA_ARGS__}) / sizeof(struct role))

KILL_TEST(a_killed_holder_leaves_keys_that_end)
{
    KILL({RUN("--kind", "reentrant")}, {RUN("--kind", "non-reentrant")}, {RUN("--kind", "spin")},
         {RUN("--kind", "fenced")}, {RUN("--kind", "fair")}, {RUN("--kind", "read")},
         {RUN("--kind", "write")}, {RUN("--kind", "setnx")},
         {.words = WORDS("run", "--renewed-lease", "600ms", "a", "--", "sleep", "0.3")});
}

KILL_TEST(a_killed_waiter_leaves_keys_that_end)
{
    KILL({RUN("--kind", "reentrant"), WAITS}, {RUN("--kind", "non-reentrant"), WAITS},
         {RUN("--kind", "spin"), WAITS}, {RUN("--kind", "fenced"), WAITS},
         {RUN("--kind", "fair"), WAITS}, {RUN("--kind", "setnx"), WAITS},
         {RUN("--kind", "read"), .held_by = "mode write " OTHER ":write 1", .held_ms = 250},
         {RUN("--kind", "write"), .held_by = "mode write " OTHER ":write 1", .held_ms = 250});
}

KILL_TEST(a_killed_member_of_a_multi_lock_leaves_keys_that_end)
{
    KILL({.words = WORDS("run", "--lease", "9s", "--multi", "a,b", "--", "true"), WAITS},
         {.words = WORDS("run", "--lease", "9s", "--kind", "fair", "--multi", "a,b", "--", "true"),
          WAITS});
}

/* RedLocks of three servers: the process is killed at each command to each of them. */
COMMAND_WITH_TEST(a_killed_owner_of_a_redlock_leaves_keys_that_end, .server.transport = TEST_UNIX,
                  .proxy = PROXY_ON_UNIX, .servers = 3)
{
    char urls[800];

    test_text(urls, sizeof(urls), "%s,%s,%s", proxy_url(fixture.proxies[0]),
              proxy_url(fixture.proxies[1]), proxy_url(fixture.proxies[2]));
    KILL({RUN("--redlock", urls, "--max-lease", "0")},
         {RUN("--redlock", urls, "--max-lease", "0"), WAITS});
}

#define HEARS .lives = true, WAITS

/* The connection for messages of a waiter, which goes on. */
KILL_TEST(a_waiter_that_loses_its_messages_leaves_keys_that_end)
{
    KILL({RUN("--kind", "reentrant"), HEARS}, {RUN("--kind", "fair"), HEARS},
         {RUN("--kind", "read"), .held_by = "mode write " OTHER ":write 1", .held_ms = 250,
          .lives = true},
         {RUN("--kind", "write"), .held_by = "mode write " OTHER ":write 1", .held_ms = 250,
          .lives = true});
}

KILL_TEST(a_killed_owner_of_several_levels_leaves_keys_that_end)
{
    KILL({.words = WORDS("levels"), .is_program = true},
         {.words = WORDS("fair-levels"), WAITS, .is_program = true},
         {.words = WORDS("read-levels"), .is_program = true},
         {.words = WORDS("downgrade"), .is_program = true},
         {.words = WORDS("writer-first"),
          .held_by = "mode write " OTHER ":write 1",
          .held_ms = 250,
          .is_program = true});
}

/* Of a held lock, and of one that is free and has a dead waiter. */
KILL_TEST(a_killed_breaker_leaves_keys_that_end)
{
    static const char *const kinds[] = {"reentrant", "fenced", "fair"};

    for (size_t i = 0; i < 3; i++) {
        KILL({.words = WORDS("break", "--kind", kinds[i], "a"),
              .held_by = OTHER " 1",
              .held_ms = 9000});
    }
    KILL({.words = WORDS("break", "a"),
          .held_by = "mode write " OTHER ":write 1 " OTHER " 1",
          .held_ms = 9000},
         {.words = WORDS("break", "a"), .has_dead = true},
         {.words = WORDS("break", "a"), .held_by = OTHER " 1", .held_ms = 9000, .has_dead = true},
         {.words = WORDS("break", "--kind", "read", "a"),
          .held_by = "mode read " OTHER " 1",
          .held_ms = 9000});
}

/* The lease of what it tries is ten seconds; it has more than a hundred commands. */
KILL_TEST(a_killed_doctor_leaves_keys_that_end)
{
    KILL({.words = WORDS("doctor")});
}
