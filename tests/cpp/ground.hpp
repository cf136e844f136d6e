/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests in C++, each on a server of its own:
 *
 *     TEST(what_happens)
 *     {
 *         rlock::client client(ground.options());
 *         CHECK(…);
 *     }
 *
 * A check that fails throws. What a test throws is its failure. Threads: the test's own alone.
 */
#ifndef RLOCK_TEST_GROUND_HPP
#define RLOCK_TEST_GROUND_HPP

#include <chrono>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include <rlock/rlock.hpp>

#include "cpp/ground.h"
extern "C" {
#include "support/server.h"
#include "support/witness.h"
}

using namespace std::chrono_literals;

class test_ground
{
  public:
    explicit test_ground(fixture *f) : f_(f)
    {
    }
    rlock::client_options options() const
    {
        rlock::client_options opts;

        ground_fill(f_, &opts);
        return opts;
    }
    /* The same with holds that are renewed three times within this. */
    rlock::client_options renewing(std::chrono::milliseconds lease) const
    {
        rlock::client_options opts = options();

        opts.renewed_lease_ms = lease.count();
        return opts;
    }
    test_server *server() const
    {
        return ground_server(f_);
    }
    witness *eye() const
    {
        return ground_witness(f_);
    }

  private:
    fixture *f_;
};

using test_body = void(const test_ground &ground);

/* Runs a test, and says what it threw. */
inline const char *run_test(test_body *body, fixture *f)
{
    static std::string failure;

    try {
        body(test_ground(f));
        return nullptr;
    } catch (const std::exception &thrown) {
        failure = thrown.what();
    }
    return failure.c_str();
}

struct test_entry {
    test_entry(const char *name, ground_fn *fn) : test{name, fn}
    {
        ground_list(&test);
    }
    ground_test test;
};

#define TEST(name)                                                                                 \
    static void name(const test_ground &ground);                                                   \
    static const test_entry name##_entry(#name, [](fixture *f) { return run_test(name, f); });     \
    static void name([[maybe_unused]] const test_ground &ground)

#define CHECK_AT(line) __FILE__ ":" CHECK_TEXT(line)
#define CHECK_TEXT(line) #line
#define CHECK(expr) check((expr), CHECK_AT(__LINE__) ": not so: " #expr)

inline void check(bool is_so, const char *what)
{
    if (!is_so) {
        throw std::runtime_error(what);
    }
}

/* The statement throws a std::system_error of this code. Its text. */
#define CHECK_THROWS(code, ...)                                                                    \
    check_throws(                                                                                  \
        code, [&] { __VA_ARGS__; }, CHECK_AT(__LINE__) ": not thrown by: " #__VA_ARGS__)

template <class Body> std::string check_throws(rlock_code code, Body body, const char *what)
{
    try {
        body();
    } catch (const std::system_error &error) {
        check(error.code() == code, what);
        return error.what();
    }
    throw std::runtime_error(what);
}

/* Whether it becomes so within ten seconds, or a hundred where threads are slow. */
template <class Is> bool eventually(Is is)
{
    for (int i = 0; i < 100000; i++) {
        if (is()) {
            return true;
        }
        std::this_thread::sleep_for(1ms);
    }
    return false;
}

#endif
