/* SPDX-License-Identifier: Apache-2.0 */
/* rlock doctor: what the server lacks for locks, and what that means. */
#include <rlock/admin.h>

#include "client.h"
#include "say.h"
#include "text.h"
#include "verbs.h"

#include <stdio.h>
#include <string.h>

#define FINDING_MOST 2000

static const char *level_name(int level)
{
    switch (level) {
    case RLOCK_LOG_ERROR:
        return "error";
    case RLOCK_LOG_WARNING:
        return "warning";
    case RLOCK_LOG_INFO:
    case RLOCK_LOG_DEBUG:
    default:
        return "ok";
    }
}

static void print_finding(const struct rlock_finding *finding, void *payload)
{
    char text[FINDING_MOST];

    (void)snprintf(text, sizeof(text), "%s", finding->text);
    (void)payload;
    cli_speak(text, sizeof(text));
    (void)printf("%-8s ", level_name(finding->level));
    (void)cli_put_text(stdout, finding->subject, strlen(finding->subject));
    (void)fputs(": ", stdout);
    (void)cli_put_text(stdout, text, strlen(text));
    (void)putchar('\n');
    (void)fflush(stdout); /* a slow server is watched at work */
}

static void print_finding_json(const struct rlock_finding *finding, void *payload)
{
    char text[FINDING_MOST];

    (void)snprintf(text, sizeof(text), "%s", finding->text);
    (void)payload;
    cli_speak(text, sizeof(text));
    (void)printf("{\"level\":\"%s\",\"subject\":", level_name(finding->level));
    cli_put_json(stdout, finding->subject, strlen(finding->subject));
    (void)fputs(",\"text\":", stdout);
    cli_put_json(stdout, text, strlen(text));
    (void)puts("}");
}

static int diagnose(struct cli_options *opts, struct rlock_client *client)
{
    const int code =
        rlock_admin_diagnose(client, opts->json ? print_finding_json : print_finding, NULL);

    if (code != 0) { /* the findings have told the details */
        cli_say(opts, NULL, "locks will not work: %s (server %s)", rlock_strerror(code),
                opts->server);
    }
    return cli_exit_of(code);
}

int cli_doctor(struct cli_options *opts)
{
    struct cli_sink sink = {.opts = opts, .lost_fd = -1};
    struct rlock_client *client = NULL;
    int status = cli_client_open(opts, &sink, &client);

    if (status == CLI_EXIT_OK) {
        status = diagnose(opts, client);
    }
    (void)rlock_client_close(client);
    return status;
}
