/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permits URL NAME N: a process with four threads that all want to work. At most N of them work at
 * a time, in all processes that you start with the same NAME. Start it in several terminals, and
 * kill one: its permits are free a few seconds later.
 */
#include <rlock/rlock.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5 };

static void report(const char *what, int code)
{
    (void)fprintf(stderr, "%s: %s: %s\n", what, rlock_strerror(code), rlock_detail());
}

/* One hold after the other. The client renews the permit during the work. */
static void *work(void *payload)
{
    struct rlock_handle *permits = payload;

    for (int round = 0; round < ROUNDS; round++) {
        struct rlock_info info = RLOCK_INFO_INIT;
        int code = rlock_lock_for(permits, 60000, NULL, NULL); /* .units = 2 would take two */

        if (code != 0) {
            report("no permit", code);
            return NULL;
        }
        if (rlock_inspect(permits, &info) == 0) {
            printf("%d: works, %lld of %lld are free\n", (int)getpid(), (long long)info.units_free,
                   (long long)info.units);
            (void)fflush(stdout);
        }
        (void)sleep(1);
        code = rlock_unlock(permits);
        if (code != 0) { /* RLOCK_ELOST: another process may have worked meanwhile */
            report("unlock", code);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct rlock_client *client = NULL;
    struct rlock_handle *permits = NULL;
    pthread_t threads[THREADS];
    int code, n = 0;

    if (argc != 4) {
        (void)fprintf(stderr, "usage: %s redis://host:port NAME N\n", argv[0]);
        return 64;
    }
    code = rlock_client_open(RLOCK_CLIENT_OPTS(.url = argv[1], .renewed_lease_ms = 3000), &client);
    code = code == 0 ? rlock_permits_new(client, argv[2],
                                         RLOCK_OPTS(.units = strtoll(argv[3], NULL, 10)), &permits)
                     : code;
    if (code != 0) {
        report(argv[2], code);
    }
    while (code == 0 && n < THREADS && pthread_create(&threads[n], NULL, work, permits) == 0) {
        n++;
    }
    while (n-- > 0) {
        (void)pthread_join(threads[n], NULL);
    }
    rlock_free(permits);
    rlock_client_close(client);
    return code == 0 ? 0 : 1;
}
