/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster of many primaries: the answer with its map is made up, and so are they. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/run.h"
#include "support/user.h"
#include "topology/slot.h"

enum { FEW = 10, MANY = 70 };

/* Sockets that take connections, and say nothing. */
struct primaries {
    size_t n;
    int fds[MANY], ports[MANY];
    bool met[MANY]; /* somebody has connected */
};

static int listen_at(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = test_must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
    int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    test_must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
    test_must(bind(fd, (struct sockaddr *)&address, sizeof(address)), "bind");
    test_must(listen(fd, 8), "listen");
    return fd;
}

static unsigned first_slot(const struct primaries *all, size_t i)
{
    return (unsigned)(i * RLOCK__SLOTS / all->n);
}

/* They share all slots; the one that is asked has none. */
static char *nodes_answer(const struct primaries *all)
{
    char *body = NULL, *answer = NULL;
    size_t len;
    FILE *out = open_memstream(&body, &len);

    TEST_CHECK(out != NULL);
    for (size_t i = 0; i < all->n; i++) {
        fprintf(out, "%040zu 127.0.0.1:%d@%d master - 0 0 %zu connected %u-%u\n", i + 1,
                all->ports[i], all->ports[i] + 10000, i + 1, first_slot(all, i),
                first_slot(all, i + 1) - 1);
    }
    TEST_CHECK(fclose(out) == 0);
    TEST_CHECK(asprintf(&answer, "$%zu\r\n%s\r\n", len, body) > 0);
    free(body);
    return answer;
}

/* Opens a client of that many. */
static struct user *open_user(struct fixture *f, struct primaries *all, size_t n)
{
    struct proxy_rule rule = {
        .act = PROXY_REPLACE_REPLY, .command = "CLUSTER", .times = PROXY_ALWAYS};
    char url[100], *answer;

    *all = (struct primaries){.n = n};
    for (size_t i = 0; i < n; i++) {
        all->ports[i] = test_free_port();
        all->fds[i] = listen_at(all->ports[i]);
    }
    answer = nodes_answer(all);
    rule.bytes = answer;
    rule.len = strlen(answer);
    proxy_add(f->proxy, &rule);
    free(answer);
    test_text(url, sizeof(url), "redis+cluster:%s", strchr(proxy_url(f->proxy), '/'));
    return user_open(f, *RLOCK_CLIENT_OPTS(.url = url, .op_timeout_ms = 500));
}

static void close_all(struct user *user, struct primaries *all)
{
    user_close(user);
    for (size_t i = 0; i < all->n; i++) {
        close(all->fds[i]);
    }
}

/* How many somebody has connected to. */
static size_t n_met(struct primaries *all)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++) {
        int fd = accept(all->fds[i], NULL, NULL);

        all->met[i] = all->met[i] || fd >= 0;
        n += all->met[i];
        if (fd >= 0) {
            close(fd);
        }
    }
    return n;
}

FIXTURE_WITH_TEST(a_few_primaries_are_connected_to_before_a_key_needs_them, f,
                  .proxy = PROXY_ON_TCP)
{
    struct primaries few;
    struct user *user = open_user(f, &few, FEW);

    assert_true(TEST_EVENTUALLY(n_met(&few) == FEW, 5000));
    close_all(user, &few);
}

FIXTURE_WITH_TEST(of_many_primaries_those_are_connected_to_that_a_key_needs, f,
                  .proxy = PROXY_ON_TCP)
{
    struct primaries many;
    struct user *user = open_user(f, &many, MANY);
    size_t mine = rlock__slot(rlock__bytes_of(LOCK_A)) * MANY / RLOCK__SLOTS;

    assert_int_not_equal(rlock_try_lock(user->lock), 0);
    assert_int_equal(n_met(&many), 1);
    assert_true(many.met[mine]);
    close_all(user, &many);
}
