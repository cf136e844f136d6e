/* SPDX-License-Identifier: Apache-2.0 */
/*
 * latch URL NAME N: sets a count of N, and waits until as many parties have counted down.
 * latch URL NAME 0: waits, too.
 * latch URL NAME 0 PARTY: counts down as this party. A party that is started twice counts once.
 */
#include <rlock/latch.h>

#include <stdio.h>
#include <stdlib.h>

static int wait_for_all(struct rlock_latch *latch)
{
    int code;

    do { /* a pause to say what is missing */
        int64_t missing = 0;

        code = rlock_latch_count(latch, &missing);
        if (code == 0) {
            printf("%lld parties are missing\n", (long long)missing);
            (void)fflush(stdout);
            code = rlock_latch_wait(latch, 10000, NULL);
        }
    } while (code == RLOCK_ETIMEDOUT);
    return code;
}

int main(int argc, char **argv)
{
    struct rlock_client *client = NULL;
    struct rlock_latch *latch = NULL;
    int code;

    if (argc != 4 && argc != 5) {
        (void)fprintf(stderr, "usage: %s redis://host:port NAME N [PARTY]\n", argv[0]);
        return 64;
    }
    code = rlock_client_open(RLOCK_CLIENT_OPTS(.url = argv[1]), &client);
    code = code == 0 ? rlock_latch_new(client, argv[2], NULL, &latch) : code;
    if (code == 0 && argc == 5) {
        code = rlock_latch_down(latch, argv[4]);
    } else if (code == 0) {
        const long long n = strtoll(argv[3], NULL, 10);

        code = n != 0 ? rlock_latch_set(latch, n, NULL) : 0; /* a closed latch stays as it is */
        code = code == 0 ? wait_for_all(latch) : code;
    }
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s: %s\n", argv[2], rlock_strerror(code), rlock_detail());
    }
    rlock_latch_free(latch);
    rlock_client_close(client);
    return code == 0 ? 0 : 1;
}
