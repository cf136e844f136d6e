/* SPDX-License-Identifier: Apache-2.0 */
#include "show.h"

#include "text.h"

#include <inttypes.h>
#include <string.h>

void cli_show_holder(FILE *out, const struct rlock_info *info)
{
    (void)cli_put_text(out, info->holder, strlen(info->holder));
    if (info->host[0] != '\0') {
        (void)fputs(" on ", out);
        (void)cli_put_text(out, info->host, strlen(info->host));
    }
    if (info->pid != 0) {
        (void)fprintf(out, " (process %" PRId64 ")", info->pid);
    }
    if (info->holders > 1) {
        (void)fprintf(out, " and %zu more", info->holders - 1);
    }
}

char *cli_holder_text(const struct rlock_info *info)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    cli_show_holder(out, info);
    return fclose(out) == 0 ? text : NULL;
}

void cli_show_ttl(FILE *out, const struct rlock_info *info)
{
    if (info->ttl_ms < 0) {
        (void)fputs("never expires", out);
    } else {
        (void)fputs("expires in ", out);
        cli_put_ms(out, info->ttl_ms);
    }
}

void cli_show_waiters(FILE *out, const struct rlock_info *info)
{
    const bool all_dead = info->dead_waiters == info->waiters;

    if (info->waiters == 0) {
        return;
    }
    (void)fprintf(out, ", %" PRIu32 " waiting", info->waiters);
    if (all_dead && !info->locked) {
        (void)fputs(", all dead (rlock break removes them)", out);
    } else if (info->dead_waiters > 0) {
        (void)fprintf(out, ", %" PRIu32 " of them dead", info->dead_waiters);
    }
}

void cli_show_mode(FILE *out, const struct rlock_info *info)
{
    if (info->mode[0] != '\0') {
        (void)fprintf(out, ", mode %s", info->mode);
    }
}

void cli_show_slots(FILE *out, const struct rlock_info *info)
{
    if (info->units != 0 || info->units_free != 0) {
        (void)fprintf(out, ", %" PRId64 " of %" PRId64 " slots free",
                      info->units_free > 0 ? info->units_free : 0, info->units);
    }
}

/* Writes the text, or null for an empty one. */
static void put_member(FILE *out, const char *label, const char *text)
{
    (void)fprintf(out, ",\"%s\":", label);
    if (text[0] == '\0') {
        (void)fputs("null", out);
    } else {
        cli_put_json(out, text, strlen(text));
    }
}

void cli_show_json(FILE *out, const char *label, const char *name, size_t len,
                   const struct rlock_info *info)
{
    (void)fprintf(out, "{\"%s\":", label);
    cli_put_json(out, name, len);
    (void)fprintf(out, ",\"locked\":%s", info->locked ? "true" : "false");
    put_member(out, "holder", info->holder);
    put_member(out, "host", info->host);
    if (info->pid != 0) {
        (void)fprintf(out, ",\"pid\":%" PRId64, info->pid);
    } else {
        (void)fputs(",\"pid\":null", out);
    }
    (void)fprintf(
        out, ",\"holders\":%zu,\"count\":%" PRId64 ",\"ttl_ms\":%" PRId64 ",\"token\":%" PRIu64,
        info->holders, info->count, info->ttl_ms, info->token);
    put_member(out, "mode", info->mode);
    if (info->units != 0 || info->units_free != 0) {
        (void)fprintf(out, ",\"slots\":%" PRId64 ",\"slots_free\":%" PRId64, info->units,
                      info->units_free);
    } else {
        (void)fputs(",\"slots\":null,\"slots_free\":null", out);
    }
}
