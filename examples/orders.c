/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An order flow, first without locks and then with them. Several processes with several threads
 * take orders: each reads three counters (the order's units, the product's and the shelf's stock),
 * thinks a moment, and writes them back. Without locks updates overwrite each other, and goods are
 * sold that do not exist. With locks every order holds all three, and not one unit may be wrong.
 *
 * The counters lie in memory that the processes share, so what is seen is the locks at work and no
 * database's. With --kill workers are killed in the middle of it all and started again.
 */
#include "orders/orders.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_EVERY_US 1000000

struct shop *shop;
struct settings settings = {
    .seconds = 4, .processes = 4, .threads = 4, .things = {MOST, 8, 4}, .kind = "reentrant"};

static pid_t workers[MOST];
static bool failed;
static volatile sig_atomic_t interrupted;

/* ---- The table ----------------------------------------------------------------------------- */

struct totals {
    int64_t orders, units, waiting, longest_us;
    int64_t oversold; /* units by which a product's stock is wrong */
    int64_t lost;     /* units by which orders and shelves are wrong */
};

static struct totals count(void)
{
    struct totals sum = {0};

    for (int i = 0; i < settings.processes * settings.threads; i++) {
        struct slot *slot = &shop->slots[i / settings.threads][i % settings.threads];
        const int64_t longest_us = atomic_load(&slot->longest_us);

        sum.orders += atomic_load(&slot->orders);
        sum.units += atomic_load(&slot->units);
        sum.waiting += atomic_load(&slot->waits) ? 1 : 0;
        sum.longest_us = longest_us > sum.longest_us ? longest_us : sum.longest_us;
    }
    for (int i = 0; i < THINGS * MOST; i++) {
        struct counter *counter = &shop->counters[i / MOST][i % MOST];
        const int64_t wrong = counter->value - atomic_load(&counter->happened);

        *(i / MOST == 1 ? &sum.oversold : &sum.lost) += wrong > 0 ? wrong : -wrong;
    }
    return sum;
}

/* With locks an error counts when it stays: a glance between two writes of an order sees half. */
static void print_row(const struct totals *now, const struct totals *before, int64_t took_us)
{
    const bool live = isatty(STDOUT_FILENO) != 0;
    const int64_t oversold =
        shop->locked && before->oversold < now->oversold ? before->oversold : now->oversold;
    const int64_t lost = shop->locked && before->lost < now->lost ? before->lost : now->lost;

    printf("%s%-13s %9lld %10lld %10lld %9lld %9lld %8lld %9.1f ms%s", live ? "\r" : "",
           shop->locked ? "with locks" : "without locks",
           (long long)(now->orders * 1000000 / (took_us > 0 ? took_us : 1)), (long long)now->orders,
           (long long)now->units, (long long)oversold, (long long)lost, (long long)now->waiting,
           (double)now->longest_us / 1000, live ? "\033[K" : "\n");
    (void)fflush(stdout);
}

/* ---- The shop's day ------------------------------------------------------------------------- */

static void spawn(int process)
{
    workers[process] = fork_bound();
    if (workers[process] == 0) {
        be_worker(process);
    }
    failed = failed || workers[process] < 0;
}

/*
 * A worker was killed. Its locks stay with it until their leases end, so nobody else has touched
 * what it was writing: what it had only half written is taken back. Anything but its own change
 * would be a fault, and stays to be seen.
 */
static void settle(int process)
{
    for (int i = 0; i < settings.threads; i++) {
        struct slot *slot = &shop->slots[process][i];

        atomic_store(&slot->waits, false);
        for (int k = 0; k < THINGS && atomic_load(&slot->writes); k++) {
            struct counter *counter = slot->counters[k];
            const int64_t happened = atomic_load(&counter->happened);

            counter->value =
                counter->value - happened == slot->changes[k] ? happened : counter->value;
        }
        atomic_store(&slot->writes, false);
    }
}

static void kill_somebody(void)
{
    static unsigned seed = 1;
    const int process = rand_r(&seed) % settings.processes;

    (void)kill(workers[process], SIGKILL);
    (void)waitpid(workers[process], NULL, 0);
    settle(process);
    spawn(process);
}

/* Lets the workers go home. One that does not is stuck on a lock. */
static void close_shop(void)
{
    const int64_t patience_us = now_us() + 5000000;

    atomic_store(&shop->open, false);
    for (int i = 0; i < settings.processes; i++) {
        int status = 0;
        pid_t gone;

        while ((gone = waitpid(workers[i], &status, WNOHANG)) == 0 && now_us() < patience_us) {
            nap_us(5000);
        }
        if (gone == 0) {
            (void)kill(workers[i], SIGKILL);
            (void)waitpid(workers[i], &status, 0);
        }
        failed = failed || status != 0;
    }
}

static void open_shop(bool locked)
{
    memset(shop, 0, sizeof(*shop));
    for (int i = MOST; i < THINGS * MOST; i++) {
        shop->counters[i / MOST][i % MOST].value = DELIVERY;
        atomic_store(&shop->counters[i / MOST][i % MOST].happened, DELIVERY);
    }
    shop->locked = locked;
    atomic_store(&shop->open, true);
    for (int i = 0; i < settings.processes && !failed; i++) {
        spawn(i);
    }
}

/* Sells for the given time. Returns by how many units the books are wrong. */
static int64_t sell_all_day(bool locked)
{
    const int64_t start_us = now_us();
    const int64_t print_us = isatty(STDOUT_FILENO) != 0 ? 250000 : 1000000;
    int64_t next_print_us = start_us + print_us;
    int64_t next_kill_us = start_us + KILL_EVERY_US;
    struct totals now = {0};

    open_shop(locked);
    while (now_us() < start_us + settings.seconds * INT64_C(1000000) && !interrupted && !failed) {
        if (locked && settings.killing && now_us() >= next_kill_us) {
            kill_somebody();
            next_kill_us += KILL_EVERY_US;
        }
        if (now_us() >= next_print_us) {
            const struct totals before = now;

            now = count();
            print_row(&now, &before, now_us() - start_us);
            next_print_us += print_us;
        }
        nap_us(20000);
    }
    close_shop();
    now = count();
    print_row(&now, &now, now_us() - start_us);
    printf("%s", isatty(STDOUT_FILENO) != 0 ? "\n" : "");
    return now.oversold + now.lost;
}

/* Counts the keys in which a killed worker still waits for a fair lock, and that end by themselves;
 * or all others. The last tokens of fenced locks may stay. */
#define COUNT_KEYS(ends)                                                                           \
    "EVAL \"local n = 0 "                                                                          \
    "for _, key in ipairs(redis.call('keys', '*')) do "                                            \
    "local ends = redis.call('pttl', key) > 0 and (key:find('redisson_lock_queue:', 1, true) or "  \
    "key:find('redisson_lock_timeout:', 1, true) or key:find('rlock_fair:', 1, true)) == 1 "       \
    "if ends == " ends " and not key:find('redisson_lock_token:', 1, true) then n = n + 1 end "    \
    "end return n\" 0\r\n"

/* Every lock is released, or its lease ends. Returns how many keys stay. */
static long leftovers(void)
{
    static const char count_keys[] = COUNT_KEYS("false");
    const int64_t end_us = now_us() + LEASE_MS * 1000 + 2000000;
    long keys;

    while ((keys = server_ask(count_keys)) != 0 && now_us() < end_us) {
        nap_us(10000);
    }
    return keys;
}

static int judge(int64_t wrong_without, int64_t wrong_with)
{
    const long keys = leftovers();

    printf("\nWithout locks the books are wrong by %lld units, with locks by %lld.\n",
           (long long)wrong_without, (long long)wrong_with);
    printf("%ld keys are left on the server.\n", keys);
    if (server_ask(COUNT_KEYS("true")) != 0) {
        printf(
            "Killed workers stand in queues that nobody has used since: these keys have a TTL.\n");
    }
    if (failed) {
        printf("A worker failed.\n");
    }
    return wrong_with == 0 && keys == 0 && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(void)
{
    int64_t wrong_without;
    int64_t wrong_with;

    printf("%d processes x %d threads, %d products, %s locks%s\n\n", settings.processes,
           settings.threads, settings.things[1], settings.kind,
           settings.killing ? "; with locks, workers are killed and started again" : "");
    printf("%-13s %9s %10s %10s %9s %9s %8s %12s\n", "", "orders/s", "orders", "units", "oversold",
           "lost", "waiting", "longest wait");
    wrong_without = sell_all_day(false);
    if (interrupted || failed) {
        return EXIT_FAILURE;
    }
    wrong_with = sell_all_day(true);
    return interrupted ? EXIT_FAILURE : judge(wrong_without, wrong_with);
}

static void interrupt(int signo)
{
    interrupted = signo;
}

static int usage(int status)
{
    (void)fputs(
        "usage: orders [--seconds N] [--processes N] [--threads N] [--products N]\n"
        "              [--kind KIND] [--kill]\n"
        "Takes orders without locks, then with locks, each for N seconds (4), by N processes (4)\n"
        "of N threads (4). Exits 1 if with locks a single unit is wrong.\n"
        "--kind: what the locks are: " KINDS ".\n"
        "--kill: kills a worker every second while there are locks.\n",
        status == EXIT_SUCCESS ? stdout : stderr);
    return status;
}

/* Returns whether *number is within the limits now. */
static bool read_number(const char *text, int most, int *number)
{
    char *end;
    const long value = strtol(text, &end, 10);

    *number = value > 0 && value <= most ? (int)value : 0;
    return *end == '\0' && *number > 0;
}

static bool read_options(int argc, char **argv)
{
    static const struct option options[] = {{"seconds", required_argument, NULL, 's'},
                                            {"processes", required_argument, NULL, 'p'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"products", required_argument, NULL, 'n'},
                                            {"kind", required_argument, NULL, 'd'},
                                            {"kill", no_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'k') {
            settings.killing = true;
            continue;
        }
        if (option == 'd') {
            settings.kind = optarg;
            good = kind_exists(optarg);
            continue;
        }
        good = option != '?' && read_number(optarg, option == 's' ? 3600 : MOST,
                                            option == 's'   ? &settings.seconds
                                            : option == 'p' ? &settings.processes
                                            : option == 't' ? &settings.threads
                                                            : &settings.things[1]);
    }
    return good && optind == argc;
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = interrupt};
    int status = EXIT_FAILURE;

    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        return usage(EXIT_SUCCESS);
    }
    if (!read_options(argc, argv)) {
        return usage(2);
    }
    shop = mmap(NULL, sizeof(*shop), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shop == MAP_FAILED) {
        perror("orders");
        return EXIT_FAILURE;
    }
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    if (server_start()) {
        status = run();
    }
    server_stop();
    return interrupted ? 128 + interrupted : status;
}
