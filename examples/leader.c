/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leader URL NAME: a candidate for the lock NAME. While it is the leader it prints a line each
 * second. Start it in several terminals, and end the leader: another one takes over. On SIGTERM
 * and SIGINT it gives the lock back first.
 */
#include <rlock/leader.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void on_term(const struct rlock_term *term, void *payload)
{
    static const char *const events[] = {"", "elected", "deposed", "resigned"};

    (void)payload;
    printf("%d: %s, term %llu%s%s\n", (int)getpid(), events[term->event],
           (unsigned long long)term->number, term->reason != 0 ? ": " : "",
           term->reason != 0 ? rlock_reason_text(term->reason) : "");
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct rlock_client *client = NULL;
    struct rlock_handle *lock = NULL;
    struct rlock_leader *leader = NULL;
    int code;

    if (argc != 3) {
        (void)fprintf(stderr, "usage: %s redis://host:port NAME\n", argv[0]);
        return 64;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    code = rlock_client_open(RLOCK_CLIENT_OPTS(.url = argv[1], .renewed_lease_ms = 3000), &client);
    code = code == 0 ? rlock_reentrant_new(client, argv[2], NULL, &lock) : code;
    code = code == 0 ? rlock_leader_new(
                           lock, RLOCK_LEADER_OPTS(.margin_ms = 500, .on_term = on_term), &leader)
                     : code;
    if (code != 0) {
        (void)fprintf(stderr, "%s: %s\n", rlock_strerror(code), rlock_detail());
    }
    while (code == 0 && !stop) {
        if (rlock_leader_is_leading(leader)) { /* before each step of the work */
            printf("%d: works\n", (int)getpid());
            (void)fflush(stdout);
        }
        (void)sleep(1);
    }
    rlock_leader_free(leader);
    rlock_free(lock);
    rlock_client_close(client);
    return code == 0 ? 0 : 1;
}
