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
#include <rlock/rlock.h>

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 64       /* processes, threads of each, and counters of each thing */
#define THINGS 3      /* order, product, shelf: in the order of their names */
#define DELIVERY 1000 /* units, when a product or a shelf is sold out */
#define LEASE_MS 600  /* with --kill: how soon a dead worker's locks are free */
#define KILL_EVERY_US 1000000

struct counter {
    volatile int64_t value;   /* what the shop believes; plain on purpose */
    _Atomic int64_t happened; /* what is true */
};

/* What one thread of one process is doing. */
struct slot {
    _Atomic int64_t orders, units, longest_us;
    atomic_bool waits;
    atomic_bool writes; /* is between the first and the last of these changes */
    struct counter *counters[THINGS];
    int64_t changes[THINGS];
};

static struct shop {
    atomic_bool open;
    bool locked;
    struct counter counters[THINGS][MOST];
    struct slot slots[MOST][MOST]; /* of process and thread */
} * shop;

static const char *const things[THINGS] = {"order", "product", "shelf"};
static int things_there_are[THINGS] = {MOST, 8, 4};
static int seconds = 4, processes = 4, threads = 4;
static bool killing, failed;
static volatile sig_atomic_t interrupted;

static pid_t workers[MOST];
static struct rlock *locks[THINGS][MOST]; /* a worker process's handles */

static struct {
    pid_t pid;
    char dir[32], socket[48], url[64];
} server;

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void nap_us(long us)
{
    const struct timespec nap = {.tv_nsec = us * 1000};

    (void)nanosleep(&nap, NULL);
}

/* Forks a child that dies with us. */
static pid_t fork_bound(void)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();

    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        _exit(EXIT_FAILURE);
    }
    return pid;
}

/* ---- An order ------------------------------------------------------------------------------ */

/* Unlocks the first n. Returns the first code that is not 0. */
static int release(struct rlock *const *held, int n)
{
    int code = 0;

    while (n-- > 0) {
        const int one = rlock_unlock(held[n]);

        if (one != RLOCK_ELOST || !killing) { /* a short lease may end on a busy machine */
            code = code == 0 ? one : code;
        }
    }
    return code;
}

/* Locks all, in the order in which everybody does: so nobody deadlocks. */
static int take(struct rlock *const *wanted, struct slot *slot)
{
    const int64_t start_us = now_us();
    int code = 0;
    int n = 0;

    atomic_store(&slot->waits, true);
    while (n < THINGS && (code = rlock_lock(wanted[n])) == 0) {
        n++;
    }
    atomic_store(&slot->waits, false);
    if (now_us() - start_us > atomic_load(&slot->longest_us)) {
        atomic_store(&slot->longest_us, now_us() - start_us);
    }
    if (code != 0) {
        (void)release(wanted, n);
    }
    return code;
}

/* Asking for the validity costs nothing, so it is asked just before the write. */
static bool may_write(struct rlock *const *held)
{
    bool valid = true;

    for (int i = 0; i < THINGS && shop->locked; i++) {
        valid = valid && rlock_is_valid(held[i]);
    }
    return valid;
}

/* Reads, thinks, writes back: right only for whoever holds all three. */
static void sell(struct slot *slot, int64_t units, struct rlock *const *held)
{
    int64_t values[THINGS];

    for (int i = 0; i < THINGS; i++) {
        values[i] = slot->counters[i]->value;
        slot->changes[i] = i == 0 ? units : -units + (values[i] < units ? DELIVERY : 0);
    }
    nap_us(20);
    if (!may_write(held)) {
        return;
    }
    atomic_store(&slot->writes, true);
    for (int i = 0; i < THINGS; i++) {
        slot->counters[i]->value = values[i] + slot->changes[i];
        atomic_fetch_add(&slot->counters[i]->happened, slot->changes[i]);
    }
    atomic_store(&slot->writes, false);
    atomic_fetch_add(&slot->orders, 1);
    atomic_fetch_add(&slot->units, units);
}

static int place_order(struct slot *slot, unsigned *seed)
{
    struct rlock *wanted[THINGS];
    int code = 0;

    for (int i = 0; i < THINGS; i++) {
        const int which = rand_r(seed) % things_there_are[i];

        wanted[i] = locks[i][which];
        slot->counters[i] = &shop->counters[i][which];
    }
    if (shop->locked && (code = take(wanted, slot)) != 0) {
        return code;
    }
    sell(slot, 1 + rand_r(seed) % 3, wanted);
    return shop->locked ? release(wanted, THINGS) : 0;
}

/* ---- A worker process ---------------------------------------------------------------------- */

/* A thread's life. Returns NULL, or something else after a failure. */
static void *work(void *payload)
{
    struct slot *slot = payload;
    unsigned seed = (unsigned)(now_us() + (slot - &shop->slots[0][0]) * 7919);
    int code = 0;

    while (code == 0 && atomic_load(&shop->open)) {
        code = place_order(slot, &seed);
    }
    if (code != 0) {
        (void)fprintf(stderr, "orders: %s: %s\n", rlock_code_name(code), rlock_detail());
    }
    return code == 0 ? NULL : slot;
}

static int open_locks(struct rlock_client **ret_client)
{
    const struct rlock_client_opts opts =
        RLOCK_CLIENT_OPTS(.url = server.url, .renewed_lease_ms = killing ? LEASE_MS : 0);
    int code = rlock_client_open(&opts, ret_client);

    for (int i = 0; i < THINGS * MOST && code == 0; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "%s:%d", things[i / MOST], i % MOST);
        code = rlock_reentrant_new(*ret_client, name, NULL, &locks[i / MOST][i % MOST]);
    }
    return code;
}

static void close_locks(struct rlock_client *client)
{
    for (int i = 0; i < THINGS * MOST; i++) {
        (void)rlock_free(locks[i / MOST][i % MOST]);
    }
    (void)rlock_client_close(client);
}

_Noreturn static void be_worker(int process)
{
    struct rlock_client *client = NULL;
    pthread_t ids[MOST];
    bool trouble = shop->locked && open_locks(&client) != 0;
    int n = 0;

    (void)signal(SIGINT, SIG_IGN); /* ^C reaches us all: the parent closes the shop */
    while (!trouble && n < threads) {
        trouble = pthread_create(&ids[n], NULL, work, &shop->slots[process][n]) != 0;
        n += trouble ? 0 : 1;
    }
    while (n-- > 0) {
        void *failure;

        (void)pthread_join(ids[n], &failure);
        trouble = trouble || failure != NULL;
    }
    close_locks(client);
    _exit(trouble ? EXIT_FAILURE : EXIT_SUCCESS);
}

/* ---- A private server ---------------------------------------------------------------------- */

/* Becomes the server that the environment names, that scripts/setup put here, or the system's. */
_Noreturn static void be_server(void)
{
    const char *binary = getenv("RLOCK_REDIS_SERVER");
    char here[2048] = "";
    char path[2100];

    (void)!readlink("/proc/self/exe", here, sizeof(here) - 1);
    (void)snprintf(path, sizeof(path), "%s/../.deps/bin/redis-server", dirname(here));
    if (binary == NULL) {
        binary = access(path, X_OK) == 0 ? path : "redis-server";
    }
    (void)dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    (void)setpgid(0, 0); /* ^C is not for the server */
    (void)execlp(binary, "redis-server", "--port", "0", "--unixsocket", server.socket, "--save", "",
                 "--appendonly", "no", "--dir", server.dir, (char *)NULL);
    (void)fprintf(stderr, "orders: %s: %s; RLOCK_REDIS_SERVER names another\n", binary,
                  strerror(errno));
    _exit(EXIT_FAILURE);
}

/* Sends a command. Returns the number in the answer, 0 for other answers, -1 without one. */
static long ask_server(const char *command)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char answer[128] = "";
    ssize_t len = -1;

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.socket);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        write(fd, command, strlen(command)) > 0) {
        len = read(fd, answer, sizeof(answer) - 1);
    }
    (void)close(fd);
    return len > 0 ? strtol(answer + 1, NULL, 10) : -1;
}

static bool start_server(void)
{
    (void)snprintf(server.dir, sizeof(server.dir), "/tmp/rlock-orders-XXXXXX");
    if (mkdtemp(server.dir) == NULL) {
        return false;
    }
    (void)snprintf(server.socket, sizeof(server.socket), "%s/socket", server.dir);
    (void)snprintf(server.url, sizeof(server.url), "unix://%s", server.socket);
    server.pid = fork_bound();
    if (server.pid == 0) {
        be_server();
    }
    for (int i = 0; i < 500 && !interrupted && waitpid(server.pid, NULL, WNOHANG) == 0; i++) {
        if (ask_server("PING\r\n") == 0) {
            return true;
        }
        nap_us(10000);
    }
    return false;
}

static void stop_server(void)
{
    if (server.pid > 0 && kill(server.pid, SIGTERM) == 0) {
        (void)waitpid(server.pid, NULL, 0);
    }
    (void)unlink(server.socket);
    (void)rmdir(server.dir);
}

/* ---- The table ----------------------------------------------------------------------------- */

struct totals {
    int64_t orders, units, waiting, longest_us;
    int64_t oversold; /* units by which a product's stock is wrong */
    int64_t lost;     /* units by which orders and shelves are wrong */
};

static struct totals count(void)
{
    struct totals sum = {0};

    for (int i = 0; i < processes * threads; i++) {
        struct slot *slot = &shop->slots[i / threads][i % threads];
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
    for (int i = 0; i < threads; i++) {
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
    const int process = rand_r(&seed) % processes;

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
    for (int i = 0; i < processes; i++) {
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
    for (int i = 0; i < processes && !failed; i++) {
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
    while (now_us() < start_us + seconds * INT64_C(1000000) && !interrupted && !failed) {
        if (locked && killing && now_us() >= next_kill_us) {
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

/* Every lock is released, or its lease ends. Returns how many keys stay. */
static long leftovers(void)
{
    const int64_t end_us = now_us() + LEASE_MS * 1000 + 2000000;
    long keys;

    while ((keys = ask_server("DBSIZE\r\n")) != 0 && now_us() < end_us) {
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
    if (failed) {
        printf("A worker failed.\n");
    }
    return wrong_with == 0 && keys == 0 && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int run(void)
{
    int64_t wrong_without;
    int64_t wrong_with;

    printf("%d processes x %d threads, %d products%s\n\n", processes, threads, things_there_are[1],
           killing ? "; with locks, workers are killed and started again" : "");
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
        "usage: orders [--seconds N] [--processes N] [--threads N] [--products N] [--kill]\n"
        "Takes orders without locks, then with locks, each for N seconds (4), by N processes\n"
        "(4) of N threads (4). Exits 1 if with locks a single unit is wrong.\n"
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
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 's'}, {"processes", required_argument, NULL, 'p'},
        {"threads", required_argument, NULL, 't'}, {"products", required_argument, NULL, 'n'},
        {"kill", no_argument, NULL, 'k'},          {NULL, 0, NULL, 0}};
    bool good = true;
    int option;

    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'k') {
            killing = true;
            continue;
        }
        good = option != '?' && read_number(optarg, option == 's' ? 3600 : MOST,
                                            option == 's'   ? &seconds
                                            : option == 'p' ? &processes
                                            : option == 't' ? &threads
                                                            : &things_there_are[1]);
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
    if (start_server()) {
        status = run();
    }
    stop_server();
    return interrupted ? 128 + interrupted : status;
}
