#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BUILT_SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUILT_SLOW 1
#endif
#ifdef BUILT_SLOW
static const int default_slack = 10;
#else
static const int default_slack = 1;
#endif

enum { PATH_SIZE = 256 };

static pthread_mutex_t dir_mutex = PTHREAD_MUTEX_INITIALIZER; /* protects the making of dir_path */
static char dir_path[PATH_SIZE];
static pid_t dir_owner; /* a forked child inherits the path and must not remove it */

static void remove_own_dir(void)
{
    if (dir_path[0] != '\0' && dir_owner == getpid() && getenv("RLOCK_TEST_KEEP") == NULL) {
        test_dir_remove(dir_path);
    }
}

void test_die(const char *fmt, ...)
{
    va_list ap;

    flockfile(stderr);
    fprintf(stderr, "test support: ");
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    funlockfile(stderr);
    remove_own_dir();
    abort();
}

void test_text(char *ret_text, size_t size, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    const int n = vsnprintf(ret_text, size, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= size) {
        test_die("more than %zu bytes: %s", size, ret_text);
    }
}

int test_must(int result, const char *what)
{
    if (result < 0) {
        test_die("%s: %s", what, strerror(errno));
    }
    return result;
}

int64_t test_now_us(void)
{
    struct timespec now;

    test_must(clock_gettime(CLOCK_BOOTTIME, &now), "clock_gettime");
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t test_elapsed_us(int64_t since_us)
{
    return test_now_us() - since_us;
}

int test_slack(void)
{
    const char *given = getenv("RLOCK_TEST_SLACK");
    const long slack = given != NULL ? strtol(given, NULL, 10) : default_slack;

    return slack >= 1 && slack <= 1000 ? (int)slack : 1;
}

int64_t test_ms(int64_t ms)
{
    return test_slack() > 1 ? 3 * ms : ms;
}

int64_t test_deadline_us(int64_t timeout_ms)
{
    return test_now_us() + timeout_ms * 1000 * test_slack();
}

bool test_pause_until(int64_t deadline_us)
{
    if (test_now_us() >= deadline_us) {
        return false;
    }
    usleep(1000);
    return true;
}

static int compare_int64(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

int64_t test_percentile(int64_t *values, size_t n, double percent)
{
    if (n == 0 || percent < 0 || percent > 100) {
        test_die("percentile %g of %zu values", percent, n);
    }
    qsort(values, n, sizeof(*values), compare_int64);
    const double exact =
        percent * (double)n / 100 - 1e-9; /* 7 % of 100 is rank 7, whatever doubles say */
    size_t rank = (size_t)exact;
    if ((double)rank < exact || rank == 0) {
        rank++;
    }
    return values[rank - 1];
}

int64_t test_median(int64_t *values, size_t n)
{
    return test_percentile(values, n, 50);
}

static size_t count_entries(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    if (dir == NULL) {
        test_die("%s: %s", path, strerror(errno));
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

size_t test_fds_open(void)
{
    return count_entries("/proc/self/fd") - test_ports_kept() - 1; /* the directory's own */
}

void test_show_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");

    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL;
         entry = readdir(dir)) {
        char what[128];
        const ssize_t len = readlinkat(dirfd(dir), entry->d_name, what, sizeof(what) - 1);

        if (len >= 0) {
            what[len] = '\0';
            (void)fprintf(stderr, "    %s: %s\n", entry->d_name, what);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

size_t test_threads_running(void)
{
    return count_entries("/proc/self/task");
}

static void *do_nothing(void *arg)
{
    return arg;
}

size_t test_threads_at_rest(void)
{
    pthread_t thread;
    size_t least;

    TEST_CHECK(pthread_create(&thread, NULL, do_nothing, NULL) == 0);
    TEST_CHECK(pthread_join(thread, NULL) == 0);
    least = test_threads_running();
    for (int i = 0; i < 20 && least > 1; i++) {
        const size_t n = test_threads_running();

        least = n < least ? n : least;
        (void)usleep(1000);
    }
    return least;
}

/* In memory where there is room: Sentinels and cluster nodes sync what they write, and a disk that
 * others keep busy can take seconds for that, in which they answer nobody. */
static const char *base_dir(void)
{
    static const char memory[] = "/dev/shm";
    const char *named = getenv("TMPDIR");
    struct statvfs fs;

    if (named != NULL && strlen(named) < 40) {
        return named;
    }
    const bool fits = access(memory, W_OK) == 0 && statvfs(memory, &fs) == 0 &&
                      (fs.f_flag & ST_NOEXEC) == 0 &&
                      (uint64_t)fs.f_bavail * fs.f_frsize >= UINT64_C(512) << 20;
    return fits ? memory : "/tmp";
}

const char *test_dir(void)
{
    pthread_mutex_lock(&dir_mutex);
    if (dir_path[0] == '\0') {
        test_text(dir_path, sizeof(dir_path), "%s/rlock-test-XXXXXX", base_dir());
        if (mkdtemp(dir_path) == NULL) {
            test_die("%s: %s", dir_path, strerror(errno));
        }
        dir_owner = getpid();
        atexit(remove_own_dir);
    }
    pthread_mutex_unlock(&dir_mutex);
    return dir_path;
}

void test_dir_make(char *ret_path, size_t size)
{
    test_text(ret_path, size, "%s/XXXXXX", test_dir());
    if (mkdtemp(ret_path) == NULL) {
        test_die("%s: %s", ret_path, strerror(errno));
    }
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info, (void)kind, (void)walk;
    remove(path); /* what another process removed first is no loss */
    return 0;
}

void test_dir_remove(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static char root_path[PATH_SIZE];
static pthread_once_t root_once = PTHREAD_ONCE_INIT;

static bool holds_setup(const char *dir)
{
    char path[PATH_SIZE + 16];

    test_text(path, sizeof(path), "%s/scripts/setup", dir);
    return access(path, F_OK) == 0;
}

static void find_root(void)
{
    const char *given = getenv("RLOCK_ROOT");

    if (given != NULL) {
        test_text(root_path, sizeof(root_path), "%s", given);
        return;
    }
    const ssize_t n = readlink("/proc/self/exe", root_path, sizeof(root_path) - 1);
    root_path[n > 0 ? n : 0] = '\0';
    for (char *slash = strrchr(root_path, '/'); slash != NULL; slash = strrchr(root_path, '/')) {
        *slash = '\0';
        if (holds_setup(root_path)) {
            return;
        }
    }
    root_path[0] = '\0';
}

const char *test_root(void)
{
    pthread_once(&root_once, find_root);
    return root_path[0] != '\0' ? root_path : NULL;
}
