/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of rlock.hpp under the standard's: they exclude, wait, end with their scope, and move. */
#include "cpp/ground.hpp"

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <vector>

using std::chrono::milliseconds;
using std::chrono::steady_clock;

static constexpr std::uint64_t SOMEBODY = 4711; /* an owner who is not this thread */

/* Tokens outlive their locks, so that they never go back; here they would be left. */
static void forget_token(const test_ground &ground, const char *name)
{
    test_server_do(ground.server(), "DEL redisson_lock_token:{%s}", name);
}

TEST(scoped_lock_excludes_threads_that_name_two_locks_in_any_order)
{
    rlock::client client(ground.options());
    rlock::handle a = client.reentrant("a"), b = client.reentrant("b");
    std::vector<std::thread> threads;

    for (unsigned int id = 1; id <= 4; id++) {
        threads.emplace_back([&, id] {
            for (int i = 0; i < 20; i++) {
                std::scoped_lock both(id % 2 == 0 ? a : b, id % 2 == 0 ? b : a);

                witness_enter(ground.eye(), 0, id);
                witness_leave(ground.eye(), 0, id);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(witness_entries(ground.eye()) == 80);
    CHECK(witness_is_clean(ground.eye(), stderr));
}

TEST(lock_guard_excludes_threads_of_each_kind)
{
    rlock::client client(ground.options());
    rlock::handle kinds[] = {client.reentrant("a"), client.nonreentrant("b"), client.spin("c"),
                             client.fenced("d"), client.fair("e")};
    std::vector<std::thread> threads;

    for (unsigned int id = 1; id <= 3; id++) {
        threads.emplace_back([&, id] {
            for (std::size_t i = 0; i < 100; i++) {
                std::lock_guard hold(kinds[i % std::size(kinds)]);

                witness_enter(ground.eye(), i % std::size(kinds), id);
                witness_leave(ground.eye(), i % std::size(kinds), id);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(witness_is_clean(ground.eye(), stderr));
    forget_token(ground, "d");
}

TEST(a_hold_ends_with_its_scope_and_not_with_its_handle)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");

    {
        std::unique_lock hold(lock);

        CHECK(lock.inspect().mine);
        CHECK(lock.is_valid() && lock.validity() > 0ms && lock.hold_count() == 1);
    }
    CHECK(!lock.inspect().locked && !lock.is_valid() && lock.hold_count() == 0);
    CHECK(!lock.unlock_error());
    client.reentrant("a").lock();
    CHECK(lock.is_valid());
    lock.unlock();
}

TEST(try_lock_is_false_while_another_owner_holds)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::unique_lock hold(lock, std::try_to_lock);

    CHECK(hold.owns_lock());
    CHECK(!lock.as(SOMEBODY).try_lock());
    hold.unlock();
    CHECK(lock.as(SOMEBODY).try_lock());
    CHECK(!hold.try_lock());
    lock.as(SOMEBODY).unlock();
}

TEST(a_timed_wait_ends_after_its_time_and_not_before)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::unique_lock other(lock, std::defer_lock);
    auto began = steady_clock::now();

    lock.as(SOMEBODY).lock();
    CHECK(!other.try_lock_for(50ms));
    CHECK(steady_clock::now() - began >= 50ms);
    began = steady_clock::now();
    CHECK(!other.try_lock_until(began + 50ms));
    CHECK(steady_clock::now() - began >= 50ms);
    CHECK(!other.try_lock_until(std::chrono::system_clock::now() - 1h));
    lock.as(SOMEBODY).unlock();
    CHECK(other.try_lock_for(10s));
}

TEST(readers_share_and_keep_a_writer_out)
{
    rlock::client client(ground.options());
    rlock::read_write pair = client.read_write("a");
    auto somebody = pair.as(SOMEBODY);

    {
        std::shared_lock first(pair);
        std::shared_lock second(somebody, std::try_to_lock);

        CHECK(first.owns_lock() && second.owns_lock());
        CHECK(pair.read().inspect().holders == 2);
        CHECK(!pair.as(SOMEBODY + 1).try_lock());
        CHECK(!pair.as(SOMEBODY + 1).try_lock_for(10ms));
    }
    {
        std::unique_lock writer(pair, 10s);

        CHECK(writer.owns_lock() && pair.write().is_valid());
        CHECK(!somebody.try_lock_shared());
        CHECK(!somebody.try_lock_shared_for(10ms));
        CHECK(!somebody.try_lock_shared_until(steady_clock::now() + 10ms));
        CHECK(pair.try_lock_shared()); /* who writes may read */
        pair.unlock_shared();
    }
    CHECK(!pair.write().inspect().locked);
}

TEST(a_reader_that_wants_to_write_is_told_of_the_deadlock)
{
    rlock::client client(ground.options());
    rlock::read_write pair = client.read_write("a");
    std::shared_lock reader(pair);

    CHECK_THROWS(RLOCK_EDEADLOCK, pair.lock());
    CHECK_THROWS(RLOCK_EDEADLOCK, pair.try_lock());
}

TEST(each_kind_can_be_made)
{
    rlock::client client(ground.options());
    const rlock::handle a = client.reentrant("a"), b = client.fenced("b");
    rlock::read_write pair = client.read_write("c");

    CHECK(a.kind() == "reentrant" && b.kind() == "fenced");
    CHECK(client.nonreentrant("a").kind() == "non-reentrant");
    CHECK(client.spin("a").kind() == "spin");
    CHECK(client.fair("a").kind() == "fair");
    CHECK(pair.read().kind() == "read" && pair.write().kind() == "write");
    CHECK(rlock::multi({a, b}).kind() == "multi");
}

TEST(a_name_may_hold_any_byte_and_not_be_empty)
{
    rlock::client client(ground.options());
    const std::string_view name("a\0b", 3);

    CHECK(client.reentrant(name).name() == name);
    CHECK(client.reentrant(std::string_view("abc").substr(0, 2)).name() == "ab");
    CHECK_THROWS(RLOCK_EINVAL, (void)client.reentrant(""));
    CHECK_THROWS(RLOCK_EINVAL, (void)client.reentrant({}));
}

TEST(options_of_a_lock_are_heeded)
{
    rlock::client client(ground.options());
    rlock::lock_options opts;

    opts.flags = RLOCK_LOCK_NO_REENTRY;
    rlock::handle lock = client.reentrant("a", opts);
    std::lock_guard hold(lock);
    CHECK_THROWS(RLOCK_EREACQUIRE, lock.lock());
}

TEST(a_grant_tells_token_lease_and_validity)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.fenced("a");
    rlock::take how;

    how.lease = 20s;
    CHECK(lock.held().lease == 0s && lock.held().token == 0);
    CHECK(lock.try_lock_for(0s, how));
    const rlock::grant first = lock.held();
    lock.unlock();
    CHECK(lock.try_lock_until(std::chrono::steady_clock::now(), how));
    const rlock::grant second = lock.held();
    std::unique_lock hold(lock, std::adopt_lock);
    CHECK(first.lease == 20s && first.validity > 0s && first.validity <= 20s);
    CHECK(second.token > first.token);
    CHECK(lock.inspect().token == second.token);
    forget_token(ground, "a");
}

TEST(a_multi_lock_takes_all_or_none)
{
    rlock::client client(ground.options());
    rlock::handle a = client.reentrant("a"), b = client.reentrant("b");
    rlock::handle both = rlock::multi({a, b});
    std::unique_lock hold(both, std::defer_lock);

    b.as(SOMEBODY).lock();
    CHECK(!hold.try_lock());
    CHECK(!a.inspect().locked);
    b.as(SOMEBODY).unlock();
    hold.lock();
    CHECK(a.inspect().locked && b.inspect().locked);
}

TEST(a_redlock_is_held_while_most_members_are)
{
    rlock::client client(ground.options());
    rlock::handle a = client.reentrant("a");
    rlock::lock_options opts;

    opts.max_lease_ms = -1; /* the server has only just started */
    rlock::handle lock = rlock::redlock({a}, opts);
    a = {}; /* which the RedLock keeps alive */
    std::lock_guard hold(lock);
    CHECK(lock.kind() == "redlock" && lock.is_valid());
}

TEST(an_owner_by_id_may_unlock_in_another_thread)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    rlock::handle_view mine = lock.as(client.new_owner());
    std::unique_lock hold(mine);

    CHECK(mine.is_valid() && !lock.is_valid());
    std::thread([&] {
        std::unique_lock theirs = std::move(hold);

        theirs.unlock();
    }).join();
    CHECK(!mine.unlock_error() && !lock.inspect().locked);
}

TEST(a_handle_that_moved_keeps_its_lock_and_leaves_an_empty_one)
{
    rlock::client client(ground.options());
    rlock::handle first = client.reentrant("a");

    first.lock();
    rlock::handle second = std::move(first);
    CHECK(second && second.is_valid() && second.name() == "a");
    CHECK(!first && !first.is_valid() && first.validity() == 0ms && first.hold_count() == 0);
    CHECK_THROWS(RLOCK_EINVAL, first.lock());
    CHECK(first.try_unlock() == RLOCK_EINVAL);
    first = std::move(second);
    first.unlock();
    CHECK(!first.unlock_error());
}

TEST(force_unlock_opens_whoever_holds_and_says_whether)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");

    CHECK(!lock.force_unlock());
    lock.as(SOMEBODY).lock();
    CHECK(lock.force_unlock());
    CHECK(!lock.inspect().locked);
    CHECK(lock.as(SOMEBODY).try_unlock() == RLOCK_ELOST);
}

TEST(a_cancel_signal_ends_a_wait)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    const rlock::cancel_signal cancel;
    rlock::take how;

    how.cancel = &cancel;
    lock.as(SOMEBODY).lock();
    std::thread firing([&] {
        ground_await_waiting(client.native(), 1);
        cancel.fire();
    });
    CHECK_THROWS(RLOCK_ECANCELED, lock.try_lock_for(rlock::forever, how));
    firing.join();
    lock.as(SOMEBODY).unlock();
}
