/* SPDX-License-Identifier: Apache-2.0 */
#include "cpp/ground.h"

#include "support/clients.h"
#include "support/fixture.h"

/* No frame of C++ is between here and cmocka when a test fails: it would be jumped over. */
static void run(void **state)
{
    const struct ground_test *test = *state;
    struct fixture f;
    const char *failure;

    fixture_open(&f, NULL);
    failure = test->fn(&f);
    if (failure != NULL) {
        fail_msg("%s", failure);
    }
    fixture_close(&f);
}

void ground_list(const struct ground_test *test)
{
    test_list(&(struct CMUnitTest){test->name, run, NULL, NULL, (void *)(uintptr_t)test});
}

void ground_fill(const struct fixture *f, struct rlock_client_opts *opts)
{
    *opts = client_opts(f, opts);
}

struct test_server *ground_server(const struct fixture *f)
{
    return f->server;
}

struct witness *ground_witness(const struct fixture *f)
{
    return f->witness;
}

void ground_await_waiting(struct rlock_client *client, size_t n)
{
    await_waiting(client, n);
}
