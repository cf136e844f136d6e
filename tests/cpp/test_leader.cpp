/* SPDX-License-Identifier: Apache-2.0 */
/* rlock::leader: it leads, moves, and ends with its scope. */
#include "cpp/ground.hpp"

#include <rlock/leader.hpp>

#include <atomic>
#include <memory>

/* What a candidate was told. */
struct terms {
    std::atomic<int> elected{0}, ended{0}, event{0};

    void operator()(const rlock_term &term)
    {
        event = term.event;
        term.event == RLOCK_TERM_ELECTED ? elected++ : ended++;
    }
};

TEST(a_leader_leads_until_the_end_of_its_scope)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    terms told;

    {
        const rlock::leader leader(lock, std::ref(told));

        CHECK(eventually([&] { return told.elected == 1; }));
        CHECK(leader.is_leading() && !lock.try_lock());
    }
    CHECK(eventually([&] { return !lock.inspect().locked; }));
    CHECK(told.ended == 0);
}

TEST(a_leader_resigns_and_the_next_one_leads)
{
    rlock::client client(ground.options()), others(ground.options());
    rlock::handle lock = client.reentrant("a"), same = others.reentrant("a");
    terms told, told_others;
    rlock::leader leader(lock, std::ref(told));

    CHECK(eventually([&] { return told.elected == 1; }));
    rlock::leader other(same, std::ref(told_others));
    CHECK(other.resign() == RLOCK_ENOTOWNER);
    CHECK(!leader.resign() && !leader.is_leading());
    CHECK(eventually([&] { return told_others.elected == 1; }));
    CHECK(eventually([&] { return told.ended == 1; }) && told.event == RLOCK_TERM_RESIGNED);
    CHECK(other.is_leading());
}

TEST(a_leader_moves)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    rlock::leader leader(lock), empty;

    CHECK(!empty.is_leading() && empty.resign() == RLOCK_EINVAL);
    CHECK(eventually([&] { return leader.is_leading(); }));
    empty = std::move(leader);
    CHECK(empty.is_leading() && !leader.is_leading());
    empty = rlock::leader();
    CHECK(!empty.is_leading());
    CHECK(eventually([&] { return !lock.inspect().locked; }));
}

TEST(a_leader_may_end_in_its_callback)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::unique_ptr<rlock::leader> leader;
    std::atomic<bool> is_made{false};
    std::atomic<int> elected{0};

    leader = std::make_unique<rlock::leader>(lock, [&](const rlock_term &) {
        while (!is_made) {
        }
        leader.reset();
        elected++;
    });
    is_made = true;
    CHECK(eventually([&] { return elected == 1; }));
    CHECK(!leader && eventually([&] { return !lock.inspect().locked; }));
}

TEST(a_leader_of_a_read_lock_is_refused)
{
    rlock::client client(ground.options());
    rlock::read_write lock = client.read_write("a");

    try {
        const rlock::leader leader(lock.read());

        CHECK(leader.is_leading() && false);
    } catch (const std::system_error &error) {
        CHECK(error.code() == RLOCK_ENOTSUP);
    }
}
