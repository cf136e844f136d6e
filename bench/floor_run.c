/* SPDX-License-Identifier: Apache-2.0 */
/* The floor of `rlock run`, a program of its own: bench_floor_run <url> <name> <program>. */
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char take[] = "redis.call('hset', KEYS[1], ARGV[1], 1) "
                           "return redis.call('pexpire', KEYS[1], 30000)";
static const char give[] = "return redis.call('hdel', KEYS[1], ARGV[1])";

static bool command(redisContext *context, const char *script, const char *name)
{
    redisReply *reply = redisCommand(context, "EVAL %s 1 %s owner", script, name);
    const bool is_done = reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;

    freeReplyObject(reply);
    return is_done;
}

int main(int argc, char **argv)
{
    int status = 0;
    const char *port = argc == 4 ? strrchr(argv[1], ':') : NULL;
    redisContext *context = port != NULL ? redisConnect("127.0.0.1", atoi(port + 1)) : NULL;

    if (context == NULL || context->err != 0 || !command(context, take, argv[2])) {
        return 1;
    }
    const pid_t pid = vfork();
    if (pid == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return command(context, give, argv[2]) && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
