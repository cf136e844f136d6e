/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

const char *number(pid_t pid)
{
    static char texts[4][16];
    static unsigned next;
    char *text = texts[next++ % 4];

    test_text(text, sizeof(texts[0]), "%d", (int)pid);
    return text;
}

pid_t start_process(void)
{
    const pid_t parent = getpid();
    const pid_t pid = test_must(fork(), "fork");

    if (pid == 0) {
        test_die_with_parent(parent);
        (void)signal(SIGTERM, SIG_DFL);
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

int end_of(pid_t pid)
{
    int status = 0;

    assert_true(TEST_EVENTUALLY(waitpid(pid, &status, WNOHANG) == pid, 10000));
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int end_process(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    return end_of(pid);
}

pid_t holder_of(const char *name)
{
    const struct command info = COMMAND("info", "--json", name);
    const char *at;

    assert_int_equal(command_status(info), 0);
    at = strstr(file_text(info.out), "\"pid\":");
    assert_non_null(at);
    return (pid_t)strtol(at + strlen("\"pid\":"), NULL, 10);
}

pid_t keep_a(pid_t process, char ret_text[static COMMAND_TEXT])
{
    command_text(COMMAND("acquire", "--keep", number(process), "a"), ret_text);
    return holder_of("a");
}

pid_t keep_a_shortly(pid_t process, char ret_text[static COMMAND_TEXT])
{
    command_text(COMMAND("acquire", "--renewed-lease", SHORT_LEASE, "--keep", number(process), "a"),
                 ret_text);
    return holder_of("a");
}

bool is_free_soon(const char *name)
{
    return TEST_EVENTUALLY(!is_held(name), 1000);
}

bool is_gone_soon(pid_t keeper)
{
    return TEST_EVENTUALLY(!process_lives(keeper), 5000);
}

int connect_to(const char *text)
{
    const int fd = test_must(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "rlock-keeper-%s",
                             strchr(text, ':') + 1);

    (void)test_must(connect(fd, (struct sockaddr *)&address,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)),
                    "connect");
    return fd;
}

pid_t keeper_of(const char *text)
{
    const int fd = connect_to(text);
    struct ucred keeper = {0};
    socklen_t len = sizeof(keeper);

    (void)test_must(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &keeper, &len), "SO_PEERCRED");
    (void)close(fd);
    return keeper.pid;
}
