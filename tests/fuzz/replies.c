/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a server: the replies in them, and a handshake that gets them as answers. */
#include <string.h>

#include "fuzz/fuzz.h"
#include "net/hello.h"
#include "net/resp.h"
#include "wire/errors.h"

static const char *const shapes[] = {"0", "1 -", "n i s", "*s", "i .is", "s *i 0"};

static void read_all_ways(const struct rlock__reply *reply)
{
    char name[64];

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        (void)rlock__reply_fits(reply, shapes[i], i);
    }
    (void)rlock__reply_field(reply, "epoch");
    for (size_t i = 0; i < reply->n + 1; i++) {
        struct rlock__bytes text = rlock__reply_str(reply, i);

        (void)rlock__info_field(text, "run_id");
        (void)rlock__reply_int(reply, i, 0);
    }
    if (rlock__reply_is_error(reply)) {
        struct rlock__class class = rlock__classify(reply);

        FUZZ_CHECK(class.code < 0);
        rlock__lacking(reply, name, sizeof(name));
        FUZZ_CHECK(memchr(name, '\0', sizeof(name)) != NULL);
    }
}

static void begin(struct rlock__hello *hello, uint8_t mode)
{
    static const struct rlock__uri database = {.host = NULL, .db = 3}, first = {.host = NULL};
    static const struct rlock__conn_opts opts[2] = {{.uri = &database,
                                                     .user = "u",
                                                     .password = "p",
                                                     .client_name = "rlock:x",
                                                     .want_info = true,
                                                     .want_role = true},
                                                    {.uri = &first, .password = "p"}};
    static const uint64_t unfenced[2] = {3, 0};

    FUZZ_CHECK(rlock__hello_begin(hello, &opts[mode & 1],
                                  (enum rlock__hello_manner)(mode / 2 % (RLOCK__HELLO_BARE + 1)),
                                  unfenced, mode / 8 % 3) == 0);
}

/* The first byte says how the handshake is made, the second in which pieces the bytes come. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rlock__resp *resp = rlock__resp_new(4096);
    struct rlock__hello hello = {0};
    struct rlock__reply reply;
    int up = 0, got = 0;
    size_t piece;

    FUZZ_CHECK(resp != NULL);
    if (size < 2) {
        (void)rlock__resp_free(resp);
        return 0;
    }
    begin(&hello, data[0]);
    piece = (size_t)data[1] + 1;
    data += 2;
    size -= 2;
    for (size_t at = 0; at < size && got >= 0; at += piece) {
        size_t len = size - at < piece ? size - at : piece;

        got = rlock__resp_feed(resp, (const char *)data + at, len);
        while (got >= 0 && (got = rlock__resp_next(resp, &reply)) == 1) {
            read_all_ways(&reply);
            up = up == 0 ? rlock__hello_reply(&hello, &reply) : up;
        }
    }
    FUZZ_CHECK(got >= 0 || rlock__resp_error(resp)[0] != '\0');
    rlock__hello_fini(&hello);
    (void)rlock__resp_free(resp);
    return 0;
}
