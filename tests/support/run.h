/*
 * What every test needs to run: time, waiting for a condition, forked children, and a way to fail
 * that also works where cmocka's does not.
 *
 * cmocka reports a failure by longjmp to the test's own frame. In another thread or in a forked
 * child that frame is not theirs to return to, so there use TEST_CHECK, which ends the process with
 * a message.
 *
 * Time is CLOCK_BOOTTIME, as in the library. Timeouts are given as for a plain build and stretched
 * by test_slack().
 */
#ifndef RLOCK_TEST_RUN_H
#define RLOCK_TEST_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stall.h"

/* Prints the message, removes this process's temporary directory, and aborts. Threads: any. */
_Noreturn void test_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns `result`, or dies naming `what` and errno when it is negative: for system calls that
 * cannot fail here. */
int test_must(int result, const char *what);

#define TEST_CHECK(expr)                                                                           \
    ((expr) ? (void)0 : test_die("%s:%d: check failed: %s", __FILE__, __LINE__, #expr))

/* snprintf that dies instead of cutting. */
void test_text(char *ret_text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- time ---- */

int64_t test_now_us(void);
int64_t test_elapsed_us(int64_t since_us);

/* How many times longer things may take here: 1, or 10 under a sanitizer; RLOCK_TEST_SLACK
 * overrides both. */
int test_slack(void);

/* A time that has to run out in a test, such as a lease: three times as long where threads run
 * slowly, though not as much longer as a deadline, which is there to be met. */
int64_t test_ms(int64_t ms);

/* The moment `timeout_ms` from now, stretched by test_slack(). */
int64_t test_deadline_us(int64_t timeout_ms);

/* Yields the processor for about 1 ms; false, at once, when `deadline_us` has passed. */
bool test_pause_until(int64_t deadline_us);

/* Polls `expr` every millisecond until it is true or the time is over; its value is whether it
 * became true. Where the machine stood still meanwhile, it polls for as much longer, to tell what
 * is late from what never comes: see stall.h. */
#define TEST_EVENTUALLY(expr, timeout_ms)                                                          \
    __extension__({                                                                                \
        const int64_t test_began_us_ = test_now_us();                                              \
        const int64_t test_end_us_ = test_deadline_us(timeout_ms);                                 \
        bool test_met_ = false;                                                                    \
        do {                                                                                       \
            test_met_ = (expr);                                                                    \
        } while (!test_met_ && test_pause_until(test_end_us_));                                    \
        while (!test_met_ && test_pause_stalled(test_began_us_, test_end_us_)) {                   \
            if (expr) {                                                                            \
                (void)test_missed(test_began_us_, test_elapsed_us(test_end_us_));                  \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        test_met_;                                                                                 \
    })

/* ---- figures ---- */

/* The smallest value that at least `percent` % of the n values do not exceed (nearest rank). Sorts
 * `values`. */
int64_t test_percentile(int64_t *values, size_t n, double percent);
int64_t test_median(int64_t *values, size_t n);

/* ---- what this process holds, to compare before and after ---- */

size_t test_fds_open(void);
/* Lists them on stderr. */
void test_show_fds(void);
size_t test_threads_running(void);
/* Before a test. ThreadSanitizer starts a thread of its own with the first one, and one that was
 * joined may still be listed for a moment. */
size_t test_threads_at_rest(void);

/* ---- places ---- */

/* This process's own temporary directory: in TMPDIR; without that in memory, where there is room;
 * else in /tmp. Made on first use, removed at exit unless RLOCK_TEST_KEEP is set. */
const char *test_dir(void);

/* Makes a fresh directory in test_dir() and writes its path to `ret_path`. */
void test_dir_make(char *ret_path, size_t size);
void test_dir_remove(const char *path);

/* Copies a file to stderr, indented: a log, before dying. */
void test_show_file(const char *path);

/* The root of the source tree, or NULL: RLOCK_ROOT, else the parent of this executable that holds
 * scripts/setup. */
const char *test_root(void);

/* A TCP port on 127.0.0.1 that is free, and that no other test gets until this process has ended:
   a server that is down keeps its port. Below the ephemeral range, so that nobody's outgoing
   connection takes it while its server is down, and a client that retries cannot connect to itself;
   so is the cluster bus port, 10000 above. */
int test_free_port(void);
/* How many this process has got so: each is a descriptor, which test_fds_open() does not count. */
size_t test_ports_kept(void);

/* ---- other processes ---- */

/* Whether a child of fork may start threads: a sanitizer does not allow that. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MAY_START_THREADS false
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_START_THREADS false
#endif
#ifndef MAY_START_THREADS
#define MAY_START_THREADS true
#endif

/* Runs a program to its end in `cwd` with its output in the file `log`. Dies with that output
 * unless it exits 0. */
void test_run(const char *cwd, const char *log, const char *const *argv);

/* To be called between fork and exec or before the child's own work: ties its life to the calling
 * process. */
void test_die_with_parent(pid_t parent);

/* exec with strings that are const; NULL `env` is this process's. For between fork and exec: exits
 * 127 if it fails. */
_Noreturn void test_exec(const char *program, const char *const *argv, const char *const *env);

/* Waits for the end of a child that is known to end: its wait status. */
int test_reap(pid_t pid);

/* SIGSTOP and SIGCONT that return when /proc says that every thread has followed. */
void test_freeze(pid_t pid);
void test_thaw(pid_t pid);

/* A thread of this process has slept for the last 20 ms, and nothing woke it. */
bool test_thread_sleeps(pid_t thread);

/*
 * A child that runs a function of this program, with a line for words to each side. Spawn before
 * the process has threads: the child goes on using malloc and pthread. It dies with the thread that
 * spawned it.
 */
struct test_peer; /* the child's end */
struct test_child;

/* Runs in the child; its value is the exit status. Not for cmocka's assertions: use TEST_CHECK. */
typedef int test_child_fn(struct test_peer *peer, void *payload);

struct test_child *test_child_spawn(test_child_fn *fn, void *payload);
pid_t test_child_pid(const struct test_child *child);
void test_child_kill(struct test_child *child, int signal);

/* Waits for the end and frees: the exit status, 128 + signal, or -1 after killing it at the
 * deadline. */
int test_child_wait(struct test_child *child, int64_t timeout_ms);

/* One word from one side to the other. Receiving dies at the deadline or when the other side has
 * ended. */
void test_child_send(struct test_child *child, uint64_t word);
uint64_t test_child_recv(struct test_child *child, int64_t timeout_ms);
void test_peer_send(struct test_peer *peer, uint64_t word);
uint64_t test_peer_recv(struct test_peer *peer, int64_t timeout_ms);

/* All `n` children and the parent leave the barrier when the last of them has entered. */
void test_child_barrier(struct test_child *const *children, size_t n, int64_t timeout_ms);
void test_peer_barrier(struct test_peer *peer, int64_t timeout_ms);

#endif
