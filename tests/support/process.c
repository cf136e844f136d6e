/* The parts of run.h that deal with other processes and with ports. */
#include "run.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_PORT = 11000, LAST_PORT = 21999 };

struct test_peer {
    int fd;
};

struct test_child {
    pid_t pid;
    int fd; /* a socket pair and not pipes, so that a word to an ended child raises no SIGPIPE */
};

static atomic_size_t ports_kept;

static bool port_is_free(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int on = 1;
    const int fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");

    test_must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
    const bool is_free = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_free;
}

/* Keeps the port from the other tests that run now, also while nobody listens there: a name in the
 * abstract space belongs to the process that bound it, until it ends. */
static bool reserve_port(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = test_must(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    const int len = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "rlock-test-%d", port);
    const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len;

    if (bind(fd, (struct sockaddr *)&name, (socklen_t)size) == 0) {
        atomic_fetch_add(&ports_kept, 1); /* the socket stays open as long as the process */
        return true;
    }
    close(fd);
    return false;
}

int test_free_port(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        uint32_t random = 0;
        test_must((int)getrandom(&random, sizeof(random), 0), "getrandom");
        const int port = FIRST_PORT + (int)(random % (LAST_PORT - FIRST_PORT + 1));
        if (reserve_port(port) && port_is_free(port)) {
            return port;
        }
    }
    test_die("no free port from %d to %d", FIRST_PORT, LAST_PORT);
}

size_t test_ports_kept(void)
{
    return atomic_load(&ports_kept);
}

void test_die_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* it ended before the call above */
    }
}

void test_show_file(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        fprintf(stderr, "  %s", line);
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* exec leaves the strings alone; its prototype is older than const. */
static char *const *exec_strings(const char *const *strings)
{
    const union {
        const char *const *in;
        char *const *out;
    } same = {.in = strings};

    return same.out;
}

void test_exec(const char *program, const char *const *argv, const char *const *env)
{
    execvpe(program, exec_strings(argv), env != NULL ? exec_strings(env) : environ);
    _exit(127);
}

static _Noreturn void run_in_child(pid_t parent, const char *cwd, const char *log,
                                   const char *const *argv)
{
    const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    test_die_with_parent(parent);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(cwd) != 0) {
        _exit(126);
    }
    test_exec(argv[0], argv, NULL);
}

int test_reap(pid_t pid)
{
    int status = 0;

    test_must((int)TEMP_FAILURE_RETRY(waitpid(pid, &status, 0)), "waitpid");
    return status;
}

void test_run(const char *cwd, const char *log, const char *const *argv)
{
    const pid_t parent = getpid();
    const pid_t pid = test_must(fork(), "fork");

    if (pid == 0) {
        run_in_child(parent, cwd, log, argv);
    }
    const int status = test_reap(pid);
    if (status != 0) {
        test_show_file(log);
        test_die("%s %s failed with status %#x", argv[0], argv[1], (unsigned int)status);
    }
}

/* The state letter of proc(5) for one thread; 'X' when it is gone. */
static char thread_state(pid_t pid, const char *thread)
{
    char path[320];
    char text[512];

    test_text(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, thread);
    FILE *file = fopen(path, "re");
    const size_t n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    return (char)(name_end != NULL && name_end[1] == ' ' ? name_end[2] : 'X');
}

static bool all_threads_stopped(pid_t pid, bool stopped)
{
    char path[64];
    bool all = true;

    test_text(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL) {
        test_die("process %d is gone", (int)pid);
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] != '.') {
            all = all && (thread_state(pid, entry->d_name) == 'T') == stopped;
        }
    }
    closedir(dir);
    return all;
}

void test_freeze(pid_t pid)
{
    test_must(kill(pid, SIGSTOP), "SIGSTOP");
    if (!TEST_EVENTUALLY(all_threads_stopped(pid, true), 5000)) {
        test_die("process %d does not stop", (int)pid);
    }
}

void test_thaw(pid_t pid)
{
    test_must(kill(pid, SIGCONT), "SIGCONT");
    if (!TEST_EVENTUALLY(all_threads_stopped(pid, false), 5000)) {
        test_die("process %d does not go on", (int)pid);
    }
}

/* How often the thread has gone to sleep; -1 while it is awake. */
static long count_sleeps(pid_t thread)
{
    static const char heading[] = "\nvoluntary_ctxt_switches:";
    char path[64], text[4096], *count;

    test_text(path, sizeof(path), "/proc/self/task/%d/status", (int)thread);
    FILE *file = fopen(path, "re");
    const size_t n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[n] = '\0';
    count = strstr(text, heading);
    return count != NULL && strstr(text, "\nState:\tS") != NULL
               ? strtol(count + strlen(heading), NULL, 10)
               : -1;
}

bool test_thread_sleeps(pid_t thread)
{
    const int64_t since_us = test_now_us();
    const long sleeps = count_sleeps(thread);
    bool same = sleeps >= 0;

    while (same && test_elapsed_us(since_us) < 20000) {
        (void)usleep(1000);
        same = count_sleeps(thread) == sleeps;
    }
    return same;
}

struct test_child *test_child_spawn(test_child_fn *fn, void *payload)
{
    const pid_t parent = getpid();
    struct test_child *child = calloc(1, sizeof(*child));
    int ends[2];

    TEST_CHECK(child != NULL);
    test_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
    fflush(NULL); /* or the child prints it again */
    child->pid = test_must(fork(), "fork");
    if (child->pid == 0) {
        struct test_peer peer = {.fd = ends[1]};
        test_die_with_parent(parent);
        close(ends[0]);
        free(child);
        exit(fn(&peer, payload)); /* not _exit: sanitizers and coverage report at exit */
    }
    close(ends[1]);
    child->fd = ends[0];
    return child;
}

pid_t test_child_pid(const struct test_child *child)
{
    return child->pid;
}

void test_child_kill(struct test_child *child, int signal)
{
    test_must(kill(child->pid, signal), "kill");
}

static bool has_ended(pid_t pid, int *ret_status)
{
    return test_must(waitpid(pid, ret_status, WNOHANG), "waitpid") == pid;
}

int test_child_wait(struct test_child *child, int64_t timeout_ms)
{
    int status = 0;
    const bool in_time = TEST_EVENTUALLY(has_ended(child->pid, &status), timeout_ms);

    if (!in_time) {
        test_child_kill(child, SIGKILL);
        test_reap(child->pid);
    }
    close(child->fd);
    free(child);
    if (!in_time) {
        return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void send_word(int fd, uint64_t word)
{
    if (TEMP_FAILURE_RETRY(send(fd, &word, sizeof(word), MSG_NOSIGNAL)) != (ssize_t)sizeof(word)) {
        test_die("the other process has ended: %s", strerror(errno));
    }
}

static uint64_t recv_word(int fd, int64_t timeout_ms)
{
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    uint64_t word = 0;

    if (!TEST_EVENTUALLY(poll(&wanted, 1, 50) == 1, timeout_ms)) {
        test_die("no word from the other process in %lld ms", (long long)timeout_ms);
    }
    if (TEMP_FAILURE_RETRY(recv(fd, &word, sizeof(word), 0)) != (ssize_t)sizeof(word)) {
        test_die("the other process has ended");
    }
    return word;
}

void test_child_send(struct test_child *child, uint64_t word)
{
    send_word(child->fd, word);
}

uint64_t test_child_recv(struct test_child *child, int64_t timeout_ms)
{
    return recv_word(child->fd, timeout_ms);
}

void test_peer_send(struct test_peer *peer, uint64_t word)
{
    send_word(peer->fd, word);
}

uint64_t test_peer_recv(struct test_peer *peer, int64_t timeout_ms)
{
    return recv_word(peer->fd, timeout_ms);
}

void test_child_barrier(struct test_child *const *children, size_t n, int64_t timeout_ms)
{
    for (size_t i = 0; i < n; i++) {
        test_child_recv(children[i], timeout_ms);
    }
    for (size_t i = 0; i < n; i++) {
        test_child_send(children[i], 0);
    }
}

void test_peer_barrier(struct test_peer *peer, int64_t timeout_ms)
{
    test_peer_send(peer, 0);
    test_peer_recv(peer, timeout_ms);
}
