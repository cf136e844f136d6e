#include "server.h"

#include "run.h"
#include "server_files.h"
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 20000, PORT_TRIES = 20 };

struct test_server {
    struct server_files files;
    const char *const *env;
    pid_t pid; /* 0: killed */
    pid_t owner;
    pthread_mutex_t mutex; /* protects the side connection */
    struct side *side;
    pid_t side_owner; /* a forked child must not share the connection */
};

static size_t count_strings(const char *const *strings)
{
    size_t n = 0;

    while (strings != NULL && strings[n] != NULL) {
        n++;
    }
    return n;
}

/* The extra variables first: getenv finds the first of equals. */
static const char **make_environment(const char *const *extra)
{
    const char *const *own = (const char *const *)environ;
    const size_t n_extra = count_strings(extra);
    const size_t n_own = count_strings(own);
    const char **all = calloc(n_extra + n_own + 1, sizeof(*all));

    TEST_CHECK(all != NULL);
    for (size_t i = 0; i < n_extra + n_own; i++) {
        all[i] = i < n_extra ? extra[i] : own[i - n_extra];
    }
    return all;
}

/* Only what is allowed between fork and exec in a program with threads. */
static _Noreturn void run_server(const struct server_files *files, const char **env, int log_fd,
                                 pid_t parent)
{
    const char *argv[] = {files->argv0, files->conf, files->sentinel ? "--sentinel" : NULL, NULL};
    sigset_t none;

    test_die_with_parent(parent);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(log_fd, 1);
    dup2(log_fd, 2);
#ifdef SYS_close_range
    syscall(SYS_close_range, 3U, ~0U,
            0U); /* a leaked socket kept open in the server would hide its closing */
#endif
    test_exec(files->program, argv, env);
}

static void spawn(struct test_server *server)
{
    const pid_t parent = getpid();
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    const int log_fd = test_must(open(server->files.log, flags, 0600), server->files.log);
    const char **env = make_environment(server->env);
    const pid_t pid = test_must(fork(), "fork");

    if (pid == 0) {
        run_server(&server->files, env, log_fd, parent);
    }
    free(env);
    close(log_fd);
    server->pid = pid;
}

/* Looks at a child without reaping it: its pid stays ours until forget_child. */
static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};

    test_must(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), "waitid");
    return info.si_pid == pid;
}

static bool is_ready(struct test_server *server)
{
    server->side = side_open(server->files.socket);
    server->side_owner = getpid();
    return server->side != NULL;
}

static bool wait_until_ready(struct test_server *server)
{
    bool ready = false;

    if (!TEST_EVENTUALLY((ready = is_ready(server)) || has_ended(server->pid), READY_MS)) {
        server_files_show_log(&server->files);
        test_die("server does not answer in %d ms", READY_MS * test_slack());
    }
    return ready;
}

static void check_owner(const struct test_server *server)
{
    if (server->owner != getpid()) {
        test_die("a forked child may not freeze, kill, restart or stop its parent's server");
    }
}

void test_server_kill(struct test_server *server)
{
    check_owner(server);
    server->side = side_close(server->side);
    if (server->pid != 0) {
        test_must(kill(server->pid, SIGKILL), "kill");
        test_reap(server->pid);
        server->pid = 0;
    }
}

struct test_server *test_server_start(const struct test_server_opts *opts)
{
    const struct test_server_opts defaults = {.program = NULL};
    struct test_server *server = calloc(1, sizeof(*server));

    TEST_CHECK(server != NULL);
    opts = opts != NULL ? opts : &defaults;
    server->owner = getpid();
    server->env = opts->env;
    pthread_mutex_init(&server->mutex, NULL);
    server_files_make(&server->files, opts);
    for (int tries = 0; tries < PORT_TRIES; tries++) {
        server_files_configure(&server->files, opts);
        server_files_keep_conf(&server->files);
        spawn(server);
        if (wait_until_ready(server)) {
            return server;
        }
        test_server_kill(server);
        if (!server_files_port_was_taken(&server->files)) {
            break;
        }
    }
    server_files_show_log(&server->files);
    test_die("server does not start");
}

struct test_server *test_server_stop(struct test_server *server)
{
    if (server == NULL) {
        return NULL;
    }
    test_server_kill(server);
    server_files_remove(&server->files);
    pthread_mutex_destroy(&server->mutex);
    free(server);
    return NULL;
}

static void spawn_again(struct test_server *server)
{
    spawn(server);
    if (!wait_until_ready(server)) {
        server_files_show_log(&server->files);
        test_die("server does not start again");
    }
}

void test_server_restart(struct test_server *server, bool keep_data)
{
    test_server_kill(server);
    if (!keep_data) {
        server_files_empty_data(&server->files);
    } else if (!server->files.aof) {
        test_die("a server without opts.aof has no data to keep");
    }
    spawn_again(server);
}

void test_server_forget(struct test_server *server)
{
    test_server_kill(server);
    server_files_empty_data(&server->files);
    server_files_restore_conf(&server->files);
    spawn_again(server);
}

void test_server_freeze(struct test_server *server)
{
    check_owner(server);
    test_freeze(server->pid);
}

void test_server_thaw(struct test_server *server)
{
    check_owner(server);
    test_thaw(server->pid);
}

const char *test_server_url(const struct test_server *server)
{
    return server->files.url;
}

const char *test_server_unix_url(const struct test_server *server)
{
    return server->files.unix_url;
}

int test_server_port(const struct test_server *server)
{
    return server->files.port;
}

pid_t test_server_pid(const struct test_server *server)
{
    return server->pid;
}

const char *test_server_cacert(const struct test_server *server)
{
    (void)server;
    return test_ca();
}

const char *test_server_cert(const struct test_server *server)
{
    (void)server;
    return test_cert_file(TEST_CERT_CLIENT);
}

const char *test_server_key(const struct test_server *server)
{
    (void)server;
    return test_cert_key(TEST_CERT_CLIENT);
}

/* Mutex held. A connection that the server closed meanwhile (CLIENT KILL) or that is the parent's
 * is replaced. */
static struct side *side_of(struct test_server *server)
{
    const bool is_usable =
        server->side != NULL && server->side_owner == getpid() && side_is_open(server->side);

    if (!is_usable) {
        side_close(server->side);
        if (!TEST_EVENTUALLY(is_ready(server), READY_MS)) {
            test_die("no side connection to the server (killed or frozen?)");
        }
    }
    return server->side;
}

/* Not static: the commands of server_ask.c stand on it. */
char *server_call(struct test_server *server, const char *commands, size_t len)
{
    char *text = NULL;
    size_t text_len = 0;

    pthread_mutex_lock(&server->mutex);
    const struct resp_bytes sent = {.data = commands, .len = len};
    struct resp_bytes reply = side_call(side_of(server), sent);
    if (reply.len == 0 && !side_is_open(server->side)) { /* a Sentinel ended it just then */
        reply = side_call(side_of(server), sent);
    }
    if (reply.len == 0) {
        server_files_show_log(&server->files);
        test_die("no answer from the server to: %.200s", commands);
    }
    FILE *out = open_memstream(&text, &text_len);
    TEST_CHECK(out != NULL);
    resp_print(out, reply);
    fclose(out);
    pthread_mutex_unlock(&server->mutex);
    return text;
}
