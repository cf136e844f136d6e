/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void nap_us(long us)
{
    const struct timespec nap = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    (void)nanosleep(&nap, NULL);
}

void nap_ms(long ms)
{
    nap_us(ms * 1000);
}

pid_t fork_bound(void)
{
    const pid_t parent = getpid();
    const pid_t pid = fork();

    if (pid == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)) {
        _exit(EXIT_FAILURE);
    }
    return pid;
}
