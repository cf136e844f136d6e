/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that reach the process: they are the program's, and disturb no call. */
#include "fault/verbs.h"
#include "support/waiter.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENT_MS = 60000 };

static struct rlock_client_opts unhurried(void)
{
    return *RLOCK_CLIENT_OPTS(.op_timeout_ms = 5000 * test_slack(),
                              .connect_timeout_ms = 5000 * test_slack());
}

/* ---- Signals ---- */

static _Atomic int alarms;

static void on_alarm(int signal)
{
    (void)signal;
    (void)atomic_fetch_add(&alarms, 1);
}

static void catch (int signal)
{
    struct sigaction action = {.sa_handler = on_alarm}; /* calls are interrupted, not restarted */

    (void)sigemptyset(&action.sa_mask);
    test_must(sigaction(signal, &action, NULL), "sigaction");
}

FIXTURE_TEST(signals_at_a_thousand_a_second_have_no_effect, f)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct user *user, *rival;
    struct crew crew = {.wait_ms = PATIENT_MS};
    struct crew others = {.wait_ms = PATIENT_MS};

    catch (SIGALRM);
    test_must(setitimer(ITIMER_REAL, &often, NULL), "setitimer");
    user = user_open(f, unhurried());
    rival = user_open_direct(f);
    crew_start(&crew, user, 4);
    crew_start(&others, rival, 2);
    assert_true(TEST_EVENTUALLY(atomic_load(&alarms) >= 500 && atomic_load(&crew.visits) >= 200 &&
                                    atomic_load(&others.visits) > 0,
                                20000));
    crew_stop(&crew);
    crew_stop(&others);
    test_must(setitimer(ITIMER_REAL, &never, NULL), "setitimer");
    assert_int_equal(user_losses(user) + user_losses(rival), 0);
}

/* ThreadSanitizer keeps a signal that comes before a system call that it does not know, the parked
 * thread's futex, until that is over. */
#ifdef __SANITIZE_THREAD__
#define AT_ONCE 1
#else
#define AT_ONCE 2
#endif

FIXTURE_TEST(a_waiter_that_is_signalled_waits_on, f)
{
    struct user *user;
    struct waiter waiter, parked;

    catch (SIGUSR1);
    fixture_take_by_hand(f, 0);
    user = user_open(f, unhurried());
    waiter_start(&waiter, user, PATIENT_MS, NULL);
    assert_true(fixture_wait_waiters(f, 1));
    waiter_start(&parked, user, PATIENT_MS, NULL);
    for (int i = 0; i < 300; i++) {
        int before = atomic_load(&alarms);

        TEST_CHECK(pthread_kill(waiter.thread, SIGUSR1) == 0);
        TEST_CHECK(pthread_kill(parked.thread, SIGUSR1) == 0);
        assert_true(TEST_EVENTUALLY(atomic_load(&alarms) >= before + AT_ONCE, 5000));
        assert_false(atomic_load(&waiter.done) || atomic_load(&parked.done));
    }
    test_server_do(f->server, "DEL " LOCK_A);
    test_server_do(f->server, "PUBLISH " CHANNEL_A " 0");
    assert_int_equal(waiter_join(&waiter), 0);
    assert_int_equal(waiter_join(&parked), 0);
}

/* The signals that a thread blocks, as proc(5) shows them. */
static unsigned long long blocked_by(const char *thread)
{
    char path[300], line[128];
    unsigned long long mask = 0;
    FILE *file;

    test_text(path, sizeof(path), "/proc/self/task/%s/status", thread);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "SigBlk: %llx", &mask);
    }
    (void)fclose(file);
    return mask;
}

TEST(the_librarys_threads_block_every_signal)
{
    static const int signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGPIPE, SIGALRM, SIGTERM,
                                  SIGUSR1, SIGUSR2, SIGCHLD, SIGPROF, SIGWINCH};
    struct fixture f;
    struct user *user;
    size_t blocking = 0;
    unsigned long long all = 0;
    struct dirent *entry;
    DIR *tasks;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        all |= 1ULL << (signals[i] - 1);
    }
    fixture_open(&f, NULL);
    user = user_open(&f, unhurried());
    assert_code(user_visit(user, 0, NULL), 0);
    tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    while ((entry = readdir(tasks)) != NULL) {
        blocking += entry->d_name[0] != '.' && (blocked_by(entry->d_name) & all) == all;
    }
    (void)closedir(tasks);
    assert_true(blocking >= 2); /* the one that serves, and the one that calls back */
    fixture_close(&f);
}
