/* SPDX-License-Identifier: Apache-2.0 */
/* Times of rlock.hpp: durations and times of every type, however long, are waits. */
#include "cpp/ground.hpp"

#include <cmath>
#include <mutex>

using std::chrono::milliseconds;
using std::chrono::steady_clock;

static constexpr std::uint64_t SOMEBODY = 4711; /* an owner who is not this thread */

TEST(a_wait_is_rounded_up_and_the_longest_is_for_ever)
{
    using rlock::detail::wait_of;

    CHECK(wait_of(1ns) == 1ms);
    CHECK(wait_of(1500us) == 2ms);
    CHECK(wait_of(2min) == 120s);
    CHECK(wait_of(std::chrono::duration<double>(0.25)) == 250ms);
    CHECK(wait_of(std::chrono::duration<float, std::micro>(1)) == 1ms);
    CHECK(wait_of(0s) == 0ms);
    CHECK(wait_of(-1ms) == 0ms); /* the number of RLOCK_FOREVER */
    CHECK(wait_of(99 * 365 * 24h) == 99 * 365 * 24h);
    CHECK(wait_of(101 * 366 * 24h) == rlock::detail::endless);
    CHECK(wait_of(rlock::forever) == rlock::detail::endless);
}

/* Whether all of these are waits without an end. */
template <class... Durations> static bool are_for_ever(Durations... times)
{
    return ((rlock::detail::wait_of(times) == rlock::detail::endless) && ...);
}

TEST(a_duration_of_any_type_may_be_huge_or_no_number)
{
    using std::chrono::duration;
    using unsigned_days = duration<std::uint64_t, std::ratio<86400>>;

    CHECK(are_for_ever(std::chrono::hours::max(), std::chrono::nanoseconds::max(),
                       milliseconds::max(), unsigned_days::max()));
    CHECK(are_for_ever(duration<float>::max(), duration<double, std::ratio<86400>>::max(),
                       duration<double>(HUGE_VAL), duration<long double>::max()));
    CHECK(rlock::detail::wait_of(duration<double>(std::nan(""))) == 0ms);
    CHECK(rlock::detail::wait_of(duration<double>(-HUGE_VAL)) == 0ms);
    CHECK(rlock::detail::wait_of(std::chrono::hours::min()) == 0ms);
    CHECK(rlock::detail::wait_of(duration<float>::min()) == 0ms);
}

/* A clock whose times are floating-point numbers, with an epoch far away. */
struct odd_clock {
    using rep = double;
    using period = std::ratio<86400>;
    using duration = std::chrono::duration<rep, period>;
    using time_point = std::chrono::time_point<odd_clock>;
    static constexpr bool is_steady = false;
    static time_point now()
    {
        return time_point(std::chrono::duration_cast<duration>(
            std::chrono::system_clock::now().time_since_epoch() + 240000h));
    }
};

/* Holds the lock until somebody waits for it, who then gets it. */
template <class Wait> static bool waits_and_gets(rlock::client &client, Wait wait)
{
    rlock::handle lock = client.fair("a");
    bool is_got = false;

    lock.lock();
    std::thread waiter([&] {
        is_got = wait(lock);
        if (lock.hold_count() > 0) {
            lock.unlock();
        }
    });
    ground_await_waiting(client.native(), 1);
    lock.unlock();
    waiter.join();
    return is_got;
}

TEST(a_wait_until_a_year_that_its_clock_cannot_count_to_goes_on)
{
    using std::chrono::system_clock;
    using std::chrono::time_point;
    using seconds_of = time_point<system_clock, std::chrono::seconds>;
    rlock::client client(ground.options());
    const auto until = [&](auto end) {
        return waits_and_gets(client,
                              [end](rlock::handle &lock) { return lock.try_lock_until(end); });
    };

    CHECK(until(seconds_of(13569465600s)));  /* 2400 */
    CHECK(until(seconds_of(253370764800s))); /* 9999 */
    CHECK(until(seconds_of::max()) && until(system_clock::time_point::max()));
    CHECK(until(steady_clock::time_point::max()) && until(odd_clock::time_point::max()));
    CHECK(until(time_point<system_clock, std::chrono::hours>::max()));
    CHECK(until(time_point<steady_clock, std::chrono::duration<float>>::max()));
    CHECK(until(odd_clock::now() + 100s));
    CHECK(waits_and_gets(client,
                         [](auto &lock) { return lock.try_lock_for(std::chrono::hours::max()); }));
    CHECK(waits_and_gets(client, [](auto &lock) {
        return static_cast<bool>(lock.try_acquire_until(seconds_of(253370764800s)));
    }));
}

TEST(a_wait_until_a_time_that_is_over_or_no_number_tries_once)
{
    using std::chrono::system_clock;
    using float_time = std::chrono::time_point<system_clock, std::chrono::duration<double>>;
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::unique_lock other(lock, std::defer_lock);

    lock.as(SOMEBODY).lock();
    CHECK(!other.try_lock_until(system_clock::time_point::min()));
    CHECK(!other.try_lock_until(steady_clock::time_point::min()));
    CHECK(!other.try_lock_until(std::chrono::time_point<system_clock, std::chrono::hours>::min()));
    CHECK(!other.try_lock_until(float_time(std::chrono::duration<double>(std::nan("")))));
    CHECK(!other.try_lock_until(odd_clock::time_point::min()));
    lock.as(SOMEBODY).unlock();
    CHECK(other.try_lock_until(system_clock::time_point::min()));
}
