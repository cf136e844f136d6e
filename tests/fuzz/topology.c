/* SPDX-License-Identifier: Apache-2.0 */
/* What clusters and Sentinels say: CLUSTER NODES, CLUSTER SLOTS, redirections, primaries. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "net/resp.h"
#include "topology/map.h"
#include "topology/nodes.h"
#include "topology/redirect.h"
#include "topology/sentinel.h"
#include "topology/slot.h"
#include "topology/slots.h"

static void read_nodes(struct rlock__bytes text, enum rlock__endpoint endpoint)
{
    static char servers[7];
    struct rlock__nodes_line line;
    struct rlock__map map = {0};
    unsigned from, to, slot, ranges = rlock__nodes_count(text);
    bool leaves;

    for (int lines = 0; lines < 64 && rlock__nodes_next(&text, endpoint, &line); lines++) {
        struct rlock__bytes slots = line.slots, open = line.slots;

        for (int i = 0; i < 256 && rlock__nodes_range(&slots, &from, &to); i++) {
            FUZZ_CHECK(from <= to && to < RLOCK__SLOTS);
            FUZZ_CHECK(
                rlock__map_learn(&map, from, to, &servers[lines % 7], line.epoch, lines, NULL));
            FUZZ_CHECK(ranges > 0);
        }
        while (rlock__nodes_open(&open, &slot, &leaves)) {
            FUZZ_CHECK(slot < RLOCK__SLOTS);
            FUZZ_CHECK(rlock__map_told(&map, slot, &servers[1], lines + 1));
            FUZZ_CHECK(rlock__map_find(&map, slot) == &servers[1]);
        }
    }
    rlock__map_fini(&map);
}

static void read_reply(const struct rlock__reply *reply)
{
    struct rlock__redirection redirection;
    struct rlock__primary primary = {.port = 0};
    struct rlock__buf out = {0};

    if (rlock__redirection_read(reply, &redirection)) {
        FUZZ_CHECK(redirection.slot < RLOCK__SLOTS);
    }
    if (rlock__slots_rewrite(reply, rlock__bytes("me", 2), &out)) {
        read_nodes(rlock__bytes(out.data, out.len), RLOCK__ADDRESS);
    }
    rlock__buf_fini(&out);
    out = (struct rlock__buf){0};
    rlock__primary_read_peers(reply, &out);
    rlock__buf_fini(&out);
    (void)rlock__primary_read(reply, &primary);
    (void)rlock__primary_read_place(reply, &primary);
    FUZZ_CHECK(memchr(primary.host, '\0', sizeof(primary.host)) != NULL);
}

/* The first byte says whether the rest is the text of CLUSTER NODES or a server's bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rlock__resp *resp;
    struct rlock__reply reply;

    if (size < 1) {
        return 0;
    }
    if (data[0] < 3) {
        read_nodes(rlock__bytes((const char *)data + 1, size - 1), (enum rlock__endpoint)data[0]);
        return 0;
    }
    resp = rlock__resp_new(65536);
    FUZZ_CHECK(resp != NULL);
    if (rlock__resp_feed(resp, (const char *)data + 1, size - 1) == 0) {
        while (rlock__resp_next(resp, &reply) == 1) {
            read_reply(&reply);
        }
    }
    (void)rlock__resp_free(resp);
    return 0;
}
