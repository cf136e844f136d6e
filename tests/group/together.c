/* SPDX-License-Identifier: Apache-2.0 */
#include "group/together.h"

void together_open(struct together *t)
{
    fixture_open(&t->f, &(struct fixture_opts){.proxy = PROXY_ON_UNIX});
    t->one = user_open(&t->f, USUAL);
    t->two = user_open(&t->f, USUAL);
    for (size_t i = 0; i < 2; i++) {
        struct user *user = i == 0 ? t->one : t->two;

        t->b[i] = user_lock(user, "b");
        t->multi[i] = user_multi(user, t->b[i], user->lock);
        assert_code(rlock_try_lock(t->multi[i]), 0); /* connected, scripts known */
        assert_code(rlock_unlock(t->multi[i]), 0);
    }
}

void together_close(struct together *t)
{
    assert_true(TEST_EVENTUALLY(fixture_holding(&t->f, "a") == 0, 5000));
    assert_true(TEST_EVENTUALLY(fixture_holding(&t->f, "b") == 0, 5000));
    fixture_close(&t->f);
}

uint64_t requests(const struct together *t)
{
    return proxy_stats(t->f.proxy).requests;
}

void pass_through(struct waiter *waiter, struct rlock_handle *lock)
{
    waiter_start_on(waiter, NULL, lock, 20000, NULL);
}
