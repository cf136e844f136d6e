/*
 * Shares setnx locks with the locks of other libraries, on servers of its own:
 *
 *     libraries <grants> <directory>
 *
 * The directory has the libraries' peers (bench/peers/README.md). One that is not there is skipped.
 * For each library: how soon a waiter of ours has the lock after that library's release. Then all
 * of them and three clients of ours want one lock, until so many grants were given. Each holder
 * visits the file of the word counter. A lost visit is an overlap. A failed release ends the peer
 * with an error.
 */
#include <rlock/rlock.h>

#include "peer.h"

#include "support/run.h"
#include "support/server.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* redis-semaphore puts mutex: in front of its names. The others use the whole key. */
#define SHORT "shared"
#define KEY "mutex:" SHORT

enum { OURS = 3, WAKE_UPS = 30, WAKE_MS = 30, HOLD_US = 20000, THREADS = 4, MOST_MS = 180000 };

#define MANY_GRANTS 10000 /* with fewer, 10 wake-ups have to do */

static const struct library {
    const char *name, *program, *key;
} libraries[] = {{"redis-py", "redis-py", KEY},
                 {"redsync", "redsync", KEY},
                 {"bsm/redislock", "redislock", KEY},
                 {"node-redlock", "node-redlock", KEY},
                 {"redis-semaphore", "redis-semaphore", SHORT}};

enum { LIBRARIES = sizeof(libraries) / sizeof(libraries[0]) };

/* bench/peers/README.md */
struct book {
    volatile int64_t visits, released_ns, own[LIBRARIES + OURS];
};

struct crowd {
    struct test_server *server;
    char url[64];
    const char *directory;
    char path[300]; /* of the book */
    struct book *book;
    struct rlock_client *clients[OURS];
    struct rlock_handle *locks[OURS];
    atomic_bool over;
    size_t passed, failed, skipped;
};

/* ---- The book ---- */

static void open_book(struct crowd *crowd)
{
    int fd;

    test_text(crowd->path, sizeof(crowd->path), "%s/book", test_dir());
    fd = test_must(open(crowd->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), "book");
    test_must(ftruncate(fd, sizeof(*crowd->book)), "book");
    crowd->book = mmap(NULL, sizeof(*crowd->book), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TEST_CHECK(crowd->book != MAP_FAILED);
    (void)close(fd);
}

static void visit(struct crowd *crowd, size_t slot)
{
    int64_t visits = crowd->book->visits;

    (void)sched_yield();
    crowd->book->visits = visits + 1;
    crowd->book->own[slot]++;
}

static int64_t now_ns(void) /* as the peers count it */
{
    struct timespec now;

    test_must(clock_gettime(CLOCK_REALTIME, &now), "clock");
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- The libraries ---- */

static bool is_there(const struct crowd *crowd, const struct library *library)
{
    char path[300];

    test_text(path, sizeof(path), "%s/%s", crowd->directory, library->program);
    return access(path, X_OK) == 0;
}

/* Starts the library's threads, which want the lock from then on. */
static struct peer *begin(struct crowd *crowd, const struct library *library, int threads,
                          int hold_us)
{
    static char words[LIBRARIES][9][320];
    const size_t slot = (size_t)(library - libraries);
    static const char *argv[LIBRARIES][10];
    struct peer *peer;
    char log[300];

    test_text(words[slot][0], 320, "%s/%s", crowd->directory, library->program);
    test_text(words[slot][1], 320, "row=one");
    test_text(words[slot][2], 320, "threads=%d", threads);
    test_text(words[slot][3], 320, "first=0");
    test_text(words[slot][4], 320, "hold_us=%d", hold_us);
    test_text(words[slot][5], 320, "name=%s", library->key);
    test_text(words[slot][6], 320, "counter=%s", crowd->path);
    test_text(words[slot][7], 320, "slot=%zu", slot);
    test_text(words[slot][8], 320, "url=%s", crowd->url);
    for (size_t i = 0; i < 9; i++) {
        argv[slot][i] = words[slot][i];
    }
    test_text(log, sizeof(log), "%s/%s.log", test_dir(), library->program);
    peer = peer_start(library->name, log, argv[slot]);
    if (!peer_says(peer, "ready ", 30000)) {
        test_show_file(log);
        test_die("%s does not begin", library->name);
    }
    return peer;
}

static void stop(struct peer *peer)
{
    peer_say(peer, "measure");
    peer_say(peer, "over");
}

/* Waits for their end. Returns whether all their releases succeeded. */
static bool end(struct peer *peer)
{
    bool good = peer_ends(peer, 30000);

    if (!good) {
        test_show_file(peer_log(peer));
    }
    (void)peer_free(peer);
    return good;
}

/* ---- Wake-up ---- */

/* Takes the lock again and again. Returns how soon after the other library's releases. */
static int64_t median_of_wake_ups(struct crowd *crowd, size_t wanted)
{
    int64_t us[WAKE_UPS];
    size_t n = 0;

    while (n < wanted) {
        TEST_CHECK(rlock_lock(crowd->locks[0]) == 0);
        if (crowd->book->released_ns != 0) {
            us[n++] = (now_ns() - crowd->book->released_ns) / 1000;
            crowd->book->released_ns = 0;
        }
        TEST_CHECK(rlock_unlock(crowd->locks[0]) == 0);
        /* the other one has it again */
        TEST_CHECK(TEST_EVENTUALLY(test_server_int(crowd->server, "EXISTS " KEY) == 1, 10000));
    }
    return test_median(us, n);
}

static void count(struct crowd *crowd, bool good)
{
    crowd->passed += good;
    crowd->failed += !good;
}

static void wake_up(struct crowd *crowd, const struct library *library, int64_t grants)
{
    size_t n = grants >= MANY_GRANTS ? WAKE_UPS : 10;
    struct peer *peer;
    int64_t us;
    bool good;

    *crowd->book = (struct book){.visits = 0};
    peer = begin(crowd, library, 1, HOLD_US);
    us = median_of_wake_ups(crowd, n);
    stop(peer);
    good = end(peer);
    good = good && us <= WAKE_MS * 1000;
    printf("%-16s wake-up  %-7s %.1f ms, the median of %zu\n", library->name,
           good ? "ok" : "FAILED", (double)us / 1000, n);
    count(crowd, good);
}

/* ---- Exclusion ---- */

struct worker {
    struct crowd *crowd;
    size_t index;
    pthread_t thread;
};

static void *work(void *arg)
{
    const struct worker *worker = arg;
    struct crowd *crowd = worker->crowd;

    while (!atomic_load(&crowd->over)) {
        TEST_CHECK(rlock_lock(crowd->locks[worker->index]) == 0);
        visit(crowd, LIBRARIES + worker->index);
        TEST_CHECK(rlock_unlock(crowd->locks[worker->index]) == 0);
        (void)test_pause_until(INT64_MAX); /* about 1 ms, in which others get it */
    }
    return NULL;
}

/* Prints a line of shares, and returns the sum. */
static int64_t print_shares(const struct crowd *crowd)
{
    int64_t sum = 0, ours = 0;

    for (size_t i = 0; i < LIBRARIES + OURS; i++) {
        sum += crowd->book->own[i];
        ours += i >= LIBRARIES ? crowd->book->own[i] : 0;
    }
    printf("%-16s grants   rlock %lld", "all", (long long)ours);
    for (size_t i = 0; i < LIBRARIES; i++) {
        printf(", %s %lld", libraries[i].name, (long long)crowd->book->own[i]);
    }
    printf("\n");
    return sum;
}

static bool all_took_part(const struct crowd *crowd, struct peer *const peers[static LIBRARIES])
{
    bool all = true;

    for (size_t i = 0; i < LIBRARIES; i++) {
        all = all && (peers[i] == NULL || crowd->book->own[i] >= 20);
    }
    return all;
}

static void exclude(struct crowd *crowd, int64_t grants)
{
    struct peer *peers[LIBRARIES] = {NULL};
    struct worker workers[OURS];
    bool good = true, enough;
    int64_t sum;

    *crowd->book = (struct book){.visits = 0};
    atomic_store(&crowd->over, false);
    for (size_t i = 0; i < LIBRARIES; i++) {
        peers[i] = is_there(crowd, &libraries[i]) ? begin(crowd, &libraries[i], THREADS, 0) : NULL;
    }
    for (size_t i = 0; i < OURS; i++) {
        workers[i] = (struct worker){.crowd = crowd, .index = i};
        TEST_CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    enough = TEST_EVENTUALLY(crowd->book->visits >= grants && all_took_part(crowd, peers), MOST_MS);
    atomic_store(&crowd->over, true);
    for (size_t i = 0; i < LIBRARIES; i++) {
        if (peers[i] != NULL) {
            stop(peers[i]);
        }
    }
    for (size_t i = 0; i < OURS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
    }
    for (size_t i = 0; i < LIBRARIES; i++) {
        good = (peers[i] == NULL || end(peers[i])) && good;
    }
    sum = print_shares(crowd);
    good = good && enough && sum == crowd->book->visits;
    printf("%-16s together %-7s %lld grants, %lld visits lost\n", "all", good ? "ok" : "FAILED",
           (long long)sum, (long long)(sum - crowd->book->visits));
    count(crowd, good);
}

/* ---- All of it ---- */

static void play_on(struct crowd *crowd, const char *program, int64_t grants)
{
    const struct test_server_opts opts = {.program = program, .transport = TEST_TCP};

    if (!test_server_available(program)) {
        printf("%-16s skipped: there is no %s-server\n", "all", program);
        crowd->skipped++;
        return;
    }
    crowd->server = test_server_start(&opts);
    test_text(crowd->url, sizeof(crowd->url), "redis://127.0.0.1:%d",
              test_server_port(crowd->server));
    printf("---- %s-server, and setnx locks\n", program);
    for (size_t i = 0; i < OURS; i++) {
        struct rlock_client_opts client = {.size = sizeof(client), .url = crowd->url};

        TEST_CHECK(rlock_client_open(&client, &crowd->clients[i]) == 0);
        TEST_CHECK(rlock_setnx_new(crowd->clients[i], KEY, NULL, &crowd->locks[i]) == 0);
    }
    for (size_t i = 0; i < LIBRARIES; i++) {
        if (is_there(crowd, &libraries[i])) {
            wake_up(crowd, &libraries[i], grants);
        } else {
            printf("%-16s skipped: bench/peers/setup says why it is not there\n",
                   libraries[i].name);
            crowd->skipped++;
        }
    }
    exclude(crowd, grants);
    for (size_t i = 0; i < OURS; i++) {
        (void)rlock_free(crowd->locks[i]);
        (void)rlock_client_close(crowd->clients[i]);
    }
    (void)test_server_stop(crowd->server);
}

int main(int argc, char **argv)
{
    struct crowd crowd = {.directory = argc == 3 ? argv[2] : ""};

    if (argc != 3 || atoll(argv[1]) <= 0) {
        fprintf(stderr, "usage: libraries <grants> <directory of the peers>\n");
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_book(&crowd);
    play_on(&crowd, "redis", atoll(argv[1]));
    play_on(&crowd, "valkey", atoll(argv[1]));
    printf("%zu passed, %zu failed, %zu skipped\n", crowd.passed, crowd.failed, crowd.skipped);
    return crowd.failed == 0 ? 0 : 1;
}
