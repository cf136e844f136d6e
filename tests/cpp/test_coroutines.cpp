/* SPDX-License-Identifier: Apache-2.0 */
/* coroutine.hpp: coroutines take locks, wait for them, and learn how that ended. */
#include "cpp/ground.hpp"

#include <atomic>
#include <future>
#include <vector>

#include <poll.h>

/* A coroutine that nobody waits for: it ends by itself. */
struct task {
    struct promise_type {
        task get_return_object()
        {
            return {};
        }
        std::suspend_never initial_suspend() noexcept
        {
            return {};
        }
        std::suspend_never final_suspend() noexcept
        {
            return {};
        }
        void return_void()
        {
        }
        void unhandled_exception()
        {
            std::terminate();
        }
    };
};

/* What a coroutine came to; the test waits for it. */
template <class Value> Value outcome(std::promise<Value> &promise)
{
    std::future<Value> future = promise.get_future();

    check(future.wait_for(100s) == std::future_status::ready, "the coroutine did not end");
    return future.get();
}

static task take_and_give_back(rlock::handle &lock, std::uint64_t owner, std::promise<bool> &ends)
{
    const rlock::grant granted = co_await lock.async_lock(owner);
    const bool held = lock.as(owner).is_valid() && granted.validity > 0s && granted.lease > 0s;

    co_await lock.async_unlock(owner);
    ends.set_value(held && !lock.as(owner).is_valid());
}

TEST(a_coroutine_takes_a_lock_and_gives_it_back)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<bool> ends;

    take_and_give_back(lock, client.new_owner(), ends);
    CHECK(outcome(ends));
    CHECK(!lock.inspect().locked);
}

TEST(a_coroutine_waits_until_the_lock_is_free)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.fair("a");
    std::promise<bool> ends;

    lock.lock();
    take_and_give_back(lock, client.new_owner(), ends);
    ground_await_waiting(client.native(), 1);
    lock.unlock();
    CHECK(outcome(ends));
}

/* The count is read and written by whoever holds the lock, on any thread. */
static task count(const test_ground &ground, rlock::handle &lock, std::uint64_t owner, int times,
                  std::atomic<int> &running)
{
    for (int i = 0; i < times; i++) {
        co_await lock.async_lock(owner);
        witness_enter(ground.eye(), 0, owner);
        witness_leave(ground.eye(), 0, owner);
        co_await lock.async_unlock(owner);
    }
    running--;
}

TEST(many_coroutines_exclude_each_other_and_a_thread)
{
    enum { COROUTINES = 40, TIMES = 10 };
    rlock::client clients[] = {rlock::client(ground.options()), rlock::client(ground.options())};
    rlock::handle locks[] = {clients[0].reentrant("a"), clients[1].reentrant("a")};
    std::atomic<int> running{COROUTINES};

    for (unsigned int i = 0; i < COROUTINES; i++) {
        const std::uint64_t id = clients[0].new_owner() * 2 + i % 2;

        count(ground, locks[i % 2], id, TIMES, running);
    }
    for (int i = 0; i < TIMES; i++) {
        locks[0].lock();
        witness_enter(ground.eye(), 0, 1);
        witness_leave(ground.eye(), 0, 1);
        locks[0].unlock();
    }
    CHECK(eventually([&] { return running == 0; }));
    CHECK(witness_entries(ground.eye()) == COROUTINES * TIMES + TIMES);
    CHECK(witness_is_clean(ground.eye(), stderr));
}

/* How each of these ends: by its code, and by what is thrown. */
static task fail(rlock::handle &lock, std::uint64_t owner, std::chrono::milliseconds wait,
                 std::promise<std::vector<std::error_code>> &ends)
{
    std::vector<std::error_code> codes(3);

    (void)co_await lock.async_lock_for(owner, wait, {}, codes[0]);
    try {
        (void)co_await lock.async_lock_for(owner, wait);
    } catch (const std::system_error &error) {
        if (std::string(error.what()).find("lock a") != std::string::npos || owner == 0) {
            codes[1] = error.code();
        }
    }
    co_await lock.async_unlock(owner, codes[2]);
    ends.set_value(codes);
}

TEST(a_failure_is_thrown_or_written)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<std::vector<std::error_code>> once, waiting;

    lock.lock();
    fail(lock, client.new_owner(), 0ms, once);
    CHECK(outcome(once) ==
          std::vector<std::error_code>({RLOCK_EBUSY, RLOCK_EBUSY, RLOCK_ENOTOWNER}));
    fail(lock, client.new_owner(), 20ms, waiting);
    CHECK(outcome(waiting) ==
          std::vector<std::error_code>({RLOCK_ETIMEDOUT, RLOCK_ETIMEDOUT, RLOCK_ENOTOWNER}));
    lock.unlock();
}

TEST(a_call_that_cannot_begin_goes_on_at_once)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<std::vector<std::error_code>> ends;
    std::future<std::vector<std::error_code>> future = ends.get_future();

    fail(lock, 0, 0ms, ends); /* a thread cannot own */
    CHECK(future.wait_for(0s) == std::future_status::ready);
    CHECK(future.get() == std::vector<std::error_code>({RLOCK_EINVAL, RLOCK_EINVAL, RLOCK_EINVAL}));
}

static task wait_for(rlock::handle &lock, std::uint64_t owner, const rlock::cancel_signal *cancel,
                     std::promise<std::error_code> &ends)
{
    std::error_code code;

    (void)co_await lock.async_lock(owner, {.cancel = cancel}, code);
    ends.set_value(code);
}

TEST(a_cancel_signal_ends_the_wait_of_a_coroutine)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    const rlock::cancel_signal cancel;
    std::promise<std::error_code> ends;

    lock.lock();
    wait_for(lock, client.new_owner(), &cancel, ends);
    ground_await_waiting(client.native(), 1);
    cancel.fire();
    CHECK(outcome(ends) == RLOCK_ECANCELED);
    lock.unlock();
}

TEST(closing_the_client_ends_the_waits_of_coroutines)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<std::error_code> ends;

    lock.lock();
    wait_for(lock, client.new_owner(), nullptr, ends);
    ground_await_waiting(client.native(), 1);
    client = {};
    CHECK(outcome(ends) == RLOCK_ECLOSED);
}

static task note_threads(rlock::handle &lock, std::uint64_t owner,
                         std::vector<std::thread::id> &threads, bool &has_ended)
{
    co_await lock.async_lock(owner);
    threads.push_back(std::this_thread::get_id());
    co_await lock.async_unlock(owner);
    threads.push_back(std::this_thread::get_id());
    has_ended = true;
}

TEST(a_programs_own_loop_runs_its_coroutines)
{
    rlock::client_options opts = ground.options();
    std::vector<std::thread::id> threads;
    bool has_ended = false;

    opts.flags = RLOCK_CLIENT_USER_LOOP;
    rlock::client client(opts);
    rlock::handle lock = client.reentrant("a");
    note_threads(lock, client.new_owner(), threads, has_ended);
    CHECK(eventually([&] {
        pollfd readable = {rlock_client_fd(client.native()), POLLIN, 0};

        (void)poll(&readable, 1, 100);
        CHECK(rlock_client_dispatch(client.native()) == 0);
        return has_ended;
    }));
    CHECK(threads == std::vector<std::thread::id>(2, std::this_thread::get_id()));
}

/* Its frame, with the handle, is gone when it has set its value; maybe before the function that
 * began its last call has returned. */
static task own(rlock::handle lock, std::uint64_t owner, std::atomic<int> &running)
{
    co_await lock.async_lock(owner);
    co_await lock.async_unlock(owner);
    running--;
}

TEST(a_coroutine_may_be_gone_before_its_last_call_has_returned)
{
    rlock::client client(ground.options());
    std::atomic<int> running{0};

    for (int i = 0; i < 1000; i++) {
        running++;
        own(client.reentrant("a" + std::to_string(i % 10)), client.new_owner(), running);
        CHECK(eventually([&] { return running < 8; }));
    }
    CHECK(eventually([&] { return running == 0; }));
}

static task hold_for(rlock::handle &lock, std::promise<int> &ends)
{
    int outcomes = 0;

    {
        rlock::hold held = co_await lock.async_acquire();

        outcomes += held.is_valid() ? 1 : 0;
        outcomes += co_await lock.async_acquire_for(0ms) ? 0 : 10; /* another owner: it is busy */
        outcomes += co_await lock.async_acquire_for(5ms) ? 0 : 100;
        try {
            (void)co_await lock.async_acquire({.lease = -1ms});
        } catch (const std::system_error &error) {
            outcomes += error.code() == RLOCK_EINVAL ? 1000 : 0;
        }
    } /* unlocks, in the thread of the callback */
    rlock::hold again = co_await lock.async_acquire_for(10s);
    outcomes += again ? 10000 : 0;
    co_await again.async_unlock();
    outcomes += again ? 0 : 100000;
    ends.set_value(outcomes);
}

TEST(a_coroutine_has_a_hold_that_unlocks_itself)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<int> ends;

    hold_for(lock, ends);
    CHECK(outcome(ends) == 111111);
    CHECK(!lock.inspect().locked);
}

static task leave_by_exception(rlock::handle &lock, std::promise<bool> &ends)
{
    try {
        const rlock::hold held = co_await lock.async_acquire();

        throw std::runtime_error("the work fails");
    } catch (const std::runtime_error &) {
    }
    ends.set_value(true);
}

TEST(a_coroutine_that_fails_keeps_no_hold)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::promise<bool> ends;

    leave_by_exception(lock, ends);
    CHECK(outcome(ends));
    CHECK(eventually([&] { return !lock.inspect().locked; }));
}
