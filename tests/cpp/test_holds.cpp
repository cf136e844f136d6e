/* SPDX-License-Identifier: Apache-2.0 */
/* rlock::hold: it has an owner of its own, moves, and unlocks itself. */
#include "cpp/ground.hpp"

#include <future>
#include <optional>
#include <vector>

static bool is_free(rlock::handle &lock)
{
    return eventually([&] { return !lock.inspect().locked; });
}

TEST(a_hold_unlocks_itself_at_the_end_of_its_scope)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");

    {
        const rlock::hold held = lock.acquire();

        CHECK(held && held.is_valid() && held.validity() > 0ms && held.owner() != 0);
        CHECK(lock.inspect().mine && !lock.is_valid()); /* the thread has nothing */
        CHECK(!lock.try_acquire() && !lock.try_acquire_for(10ms));
    }
    CHECK(is_free(lock));
}

TEST(a_hold_that_is_unlocked_is_empty_and_says_how_that_ended)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    rlock::hold held = lock.acquire();

    CHECK(!held.unlock() && !held && !held.is_valid());
    CHECK(!lock.inspect().locked); /* at once: unlock() waits for the answer */
    held = lock.acquire({nullptr, 20s});
    CHECK(held.validity() <= 20s);
    lock.force_unlock();
    CHECK(held && !held.is_valid());
    CHECK(held.unlock() == RLOCK_ELOST);
    CHECK(held.unlock() == RLOCK_EINVAL); /* it is empty */
}

TEST(a_hold_is_extended)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    rlock::hold held = lock.acquire({nullptr, 20s}), empty;

    CHECK(!held.extend(1min) && held.validity() > 50s);
    CHECK(held.extend(-1ms) == RLOCK_EINVAL);
    CHECK(!held.extend(0ms) && held.validity() > 50s);
    CHECK(empty.extend(1min) == RLOCK_EINVAL);
    lock.force_unlock();
    CHECK(held.extend(1min) == RLOCK_ELOST);
    CHECK(held.unlock() == RLOCK_ELOST);
}

TEST(a_hold_is_handed_over_by_a_text)
{
    rlock::client client(ground.options()), other(ground.options());
    rlock::handle lock = client.reentrant("a"), theirs = other.reentrant("a");
    rlock::hold held = lock.acquire(), empty;
    std::error_code code;
    std::string text = held.detach(1min);

    CHECK(!held && !text.empty());
    rlock::hold adopted = theirs.adopt(text, {nullptr, 20s});
    CHECK(adopted.is_valid() && adopted.validity() < 20s);
    CHECK(!lock.adopt(text, {}, false, code) && code == RLOCK_ENOTOWNER);
    text = adopted.text();
    CHECK(!lock.adopt(text, {}, false, code) && code == RLOCK_EBUSY);
    held = lock.adopt(text, {}, true);
    CHECK(held.is_valid());
    CHECK(held.detach(0ms, code).empty() && code == RLOCK_EINVAL && held.is_valid());
    CHECK(empty.detach(1min, code).empty() && code == RLOCK_EINVAL);
    CHECK(!held.unlock());
    CHECK(adopted.unlock() == RLOCK_ELOST);
    CHECK(is_free(lock));
}

TEST(a_hold_moves_between_threads_and_ends_in_another)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.fenced("a");
    std::vector<rlock::hold> holds;

    std::thread([&] { holds.push_back(lock.acquire()); }).join();
    CHECK(holds[0].is_valid() && holds[0].token() > 0);
    rlock::hold held = std::move(holds[0]);
    CHECK(!holds[0] && held.is_valid());
    std::async(std::launch::async, [moved = std::move(held)] { CHECK(moved.is_valid()); }).get();
    CHECK(is_free(lock));
    test_server_do(ground.server(), "DEL redisson_lock_token:{a}");
}

TEST(a_hold_that_another_is_moved_to_unlocks_first)
{
    rlock::client client(ground.options());
    rlock::handle a = client.reentrant("a"), b = client.reentrant("b");
    rlock::hold held = a.acquire();

    held = b.acquire();
    CHECK(is_free(a) && held.is_valid());
    rlock::hold &same = held;
    held = std::move(same);
    CHECK(held.is_valid() && b.inspect().locked);
}

TEST(an_exception_unlocks_a_hold)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");

    try {
        const rlock::hold held = lock.acquire();

        throw 1;
    } catch (int) {
    }
    CHECK(is_free(lock));
}

TEST(the_owner_of_a_hold_takes_one_more_level)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    const rlock::hold held = lock.acquire();

    CHECK(lock.as(held.owner()).try_lock());
    CHECK(lock.as(held.owner()).hold_count() == 2);
    lock.as(held.owner()).unlock();
    CHECK(held.is_valid());
}

TEST(a_thread_that_takes_a_lock_beside_its_hold_waits_for_itself)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    const rlock::hold held = lock.acquire();

    CHECK(!lock.try_lock_for(20ms) && !lock.try_acquire_for(20ms));
    CHECK(held.is_valid());
}

TEST(a_take_that_fails_throws_or_writes_its_code_and_leaves_nothing)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::error_code code;

    lock.lock();
    CHECK(!lock.try_acquire_for(0ms, {}, code) && code == RLOCK_EBUSY);
    CHECK(!lock.try_acquire_for(5ms, {}, code) && code == RLOCK_ETIMEDOUT);
    CHECK_THROWS(RLOCK_EINVAL, (void)lock.acquire({nullptr, -1ms}));
    CHECK(!lock.acquire({nullptr, -1ms}, code) && code == RLOCK_EINVAL);
    lock.unlock();
    CHECK_THROWS(RLOCK_EINVAL, (void)lock.try_acquire({nullptr, -1ms}));
    CHECK(!lock.inspect().locked);
}

TEST(a_hold_may_end_in_a_callback_and_after_its_client)
{
    rlock::client_options opts = ground.options();
    std::optional<rlock::hold> other;
    std::atomic<bool> is_told{false};

    opts.on_lost = [&](const rlock_loss &) {
        other.reset();
        is_told = true;
    };
    rlock::client client(std::move(opts));
    rlock::handle a = client.reentrant("a"), b = client.reentrant("b");
    rlock::hold lost = a.acquire();
    other = b.acquire();
    a.force_unlock();
    CHECK(eventually([&] { return is_told.load(); }));
    CHECK(is_free(b));
    lost = b.acquire();
    client = {};
    CHECK(!lost.is_valid());
}
