/* SPDX-License-Identifier: Apache-2.0 */
/* What rlock.hpp says when something fails: codes, exceptions, losses, and ends of scopes. */
#include "cpp/ground.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MAY_FORK false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MAY_FORK false
#endif
#endif
#ifndef MAY_FORK
#define MAY_FORK true
#endif

static constexpr std::uint64_t SOMEBODY = 4711; /* an owner who is not this thread */

TEST(codes_are_std_error_codes_of_one_category)
{
    const std::error_code code = RLOCK_ETIMEDOUT;

    CHECK(code == RLOCK_ETIMEDOUT && code != RLOCK_EBUSY);
    CHECK(code == std::errc::timed_out && code != std::errc::device_or_resource_busy);
    CHECK(std::error_code(RLOCK_EDEADLOCK) == std::errc::resource_deadlock_would_occur);
    CHECK(code.category() == rlock::category() && code.category().name() == std::string("rlock"));
    CHECK(code.message() == rlock_strerror(RLOCK_ETIMEDOUT));
    CHECK(!std::error_code(RLOCK_OK));
}

TEST(each_code_has_its_text)
{
#define EACH(name, number, text) CHECK(std::error_code(RLOCK_##name).message() == (text));
    RLOCK_CODES(EACH)
#undef EACH
}

TEST(codes_that_the_standard_has_not_equal_none_of_its_own)
{
    CHECK(std::error_code(RLOCK_ELOST).default_error_condition().category() == rlock::category());
    CHECK(std::error_code(RLOCK_EINDOUBT) != std::errc::timed_out);
    CHECK(std::error_code(RLOCK_EPERM) != std::errc::operation_not_permitted);
}

TEST(an_exception_carries_the_code_and_what_happened)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    const rlock::cancel_signal canceling;
    std::string text;

    lock.as(SOMEBODY).lock();
    canceling.fire();
    text = CHECK_THROWS(RLOCK_ECANCELED, lock.try_lock_for(1s, {&canceling, {}}));
    CHECK(text.find("lock a") != std::string::npos);
    CHECK(text.find("lock a", text.find("lock a") + 1) == std::string::npos); /* said once */
    lock.as(SOMEBODY).unlock();
}

TEST(who_asks_for_a_code_gets_no_exception)
{
    rlock::client_options opts = ground.options();

    opts.op_timeout_ms = std::min<int64_t>(opts.op_timeout_ms, 3000); /* two calls wait for it */
    rlock::client client(opts);
    rlock::handle lock = client.reentrant("a");
    std::error_code code = RLOCK_ELOST;

    CHECK(lock.try_lock_for(0s, {}, code) && !code);
    CHECK(!lock.as(SOMEBODY).try_lock_for(0s, {}, code) && code == RLOCK_EBUSY);
    CHECK(!lock.as(SOMEBODY).try_lock_for(5ms, {}, code) && code == RLOCK_ETIMEDOUT);
    CHECK(!lock.try_lock_for(0s, {nullptr, -1ms}, code) && code == RLOCK_EINVAL);
    CHECK(lock.inspect(code).locked && !code);
    CHECK(lock.force_unlock(code) && !code);
    test_server_freeze(ground.server());
    CHECK(!lock.inspect(code).locked && code);
    CHECK(!lock.force_unlock(code) && code);
    test_server_thaw(ground.server());
    CHECK(lock.try_unlock() == RLOCK_ELOST);
}

TEST(try_lock_throws_what_is_not_held_by_another)
{
    rlock::client_options opts = ground.options();

    opts.url = "unix:///nowhere";
    opts.op_timeout_ms = 100;
    rlock::client client(opts);
    rlock::handle lock = client.reentrant("a");
    std::unique_lock hold(lock, std::defer_lock);

    CHECK_THROWS(RLOCK_ECONN, hold.try_lock());
    CHECK(!hold.owns_lock());
    CHECK_THROWS(RLOCK_ECONN, hold.try_lock_for(10ms));
    CHECK_THROWS(RLOCK_ECONN, (void)lock.inspect());
    CHECK_THROWS(RLOCK_ECONN, lock.force_unlock());
}

TEST(options_that_are_refused_open_nothing)
{
    rlock::client_options opts = ground.options();
    std::error_code code;

    opts.url = "http://localhost";
    CHECK(!rlock::client::open(opts, code) && code == RLOCK_EINVAL);
    CHECK_THROWS(RLOCK_EINVAL, rlock::client{opts});
    CHECK_THROWS(RLOCK_EINVAL, rlock::client{"http://localhost"});
    CHECK(rlock::client::open(ground.options(), code) && !code);
}

TEST(a_loss_is_told_once_and_can_be_asked_and_does_not_throw)
{
    std::atomic<int> losses{0};
    rlock::client_options opts = ground.renewing(300ms);

    opts.on_lost = [&](const rlock_loss &loss) {
        losses += std::string(loss.name) == "a" && loss.reason == RLOCK_LOST_DELETED ? 1 : 100;
    };
    rlock::client client(std::move(opts));
    rlock::handle lock = client.reentrant("a");
    {
        std::unique_lock hold(lock);

        CHECK(lock.is_valid());
        test_server_do(ground.server(), "DEL a");
        CHECK(eventually([&] { return losses != 0; }));
        CHECK(!lock.is_valid() && lock.validity() == std::chrono::milliseconds(0));
        CHECK(hold.owns_lock()); /* which knows of no loss */
    }
    CHECK(lock.unlock_error() == RLOCK_ELOST);
    CHECK(losses == 1);
}

TEST(an_unlock_that_fails_in_a_destructor_is_told_afterwards)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");

    {
        std::unique_lock hold(lock);

        CHECK(lock.force_unlock());
    }
    CHECK(lock.unlock_error() == RLOCK_ELOST);
    {
        std::unique_lock hold(lock);
    }
    CHECK(!lock.unlock_error());
}

TEST(try_unlock_tells_its_code)
{
    rlock::client client(ground.options());
    rlock::handle lock = client.reentrant("a");
    std::unique_lock hold(lock);

    CHECK(!hold.release()->try_unlock());
    CHECK(lock.try_unlock() == RLOCK_ENOTOWNER);
    CHECK(!lock.unlock_error()); /* that is of unlock() alone */
}

TEST(callbacks_stay_with_a_client_that_moves)
{
    std::atomic<int> losses{0};
    rlock::client_options opts = ground.options();

    opts.on_lost = [&](const rlock_loss &) { losses++; };
    rlock::client first(opts);
    rlock::client second = std::move(first);
    CHECK(second && !first && second.uuid().size() == 36);
    first = std::move(second);
    rlock::handle lock = first.reentrant("a");
    lock.lock();
    CHECK(lock.force_unlock());
    CHECK(eventually([&] { return losses == 1; }));
    first = rlock::client(ground.options()); /* closes the one that was there */
    CHECK(losses == 1);
    CHECK_THROWS(RLOCK_ECLOSED, lock.lock()); /* the handle is still there */
}

TEST(the_log_is_told_line_by_line)
{
    std::atomic<int> lines{0};
    rlock::client_options opts = ground.options();

    opts.url = "unix:///nowhere";
    opts.op_timeout_ms = 100;
    opts.on_log_line = [&](const rlock_log_line &line) {
        lines += line.level <= RLOCK_LOG_WARNING && line.code == RLOCK_ECONN &&
                 line.subject == std::string("connection") &&
                 std::string(line.text).find('\n') == std::string::npos;
    };
    rlock::client client(std::move(opts));
    CHECK_THROWS(RLOCK_ECONN, (void)client.reentrant("a").inspect());
    CHECK(eventually([&] { return lines > 0; }));
}

TEST(on_address_says_where_a_server_is)
{
    std::atomic<int> asked{0};
    rlock::client_options opts = ground.options();

    opts.url = "redis://elsewhere:1";
    opts.op_timeout_ms = 100;
    opts.on_address = [&](rlock_address &address) {
        asked += std::string(address.host) == "elsewhere" && address.port == 1 ? 1 : 0;
        std::strcpy(address.host, "127.0.0.1");
        address.port = 2;
    };
    rlock::client client(std::move(opts));
    CHECK_THROWS(RLOCK_ECONN, (void)client.reentrant("a").inspect());
    CHECK(asked > 0);
}

TEST(on_login_gives_the_password_of_each_connection)
{
    std::atomic<int> asked{0};
    rlock::client_options opts = ground.options();

    opts.on_login = [&](rlock_login &login) {
        asked += !rlock_login_is_sentinel(&login) && rlock_login_server(&login)[0] != '\0' ? 1 : 0;
        return 7;
    };
    opts.op_timeout_ms = 100;
    rlock::client client(std::move(opts));
    CHECK_THROWS(RLOCK_EAUTH, (void)client.reentrant("a").try_lock());
    CHECK(asked > 0);
}

TEST(on_trace_gets_the_calls_and_their_context)
{
    rlock::client_options opts = ground.options();
    std::atomic<int> traces{0};
    int context = 0;

    opts.on_trace = [&](const rlock_trace &trace) {
        traces += trace.context == &context && trace.call == RLOCK_CALL_LOCK ? 1 : 0;
    };
    rlock::client client(std::move(opts));
    rlock::handle lock = client.reentrant("a");
    rlock::take how;
    how.context = &context;
    for (int i = 0; i < 2; i++) {
        const rlock::hold held =
            i == 0 ? lock.try_acquire(how) : lock.try_acquire_for(std::chrono::seconds(1), how);
        CHECK(static_cast<bool>(held));
    }
    CHECK(traces == 2);
}

TEST(a_client_that_a_callback_ends_ends_the_program)
{
    if (!MAY_FORK) { /* a sanitizer: a child may start no threads */
        return;
    }
    const pid_t pid = fork();

    if (pid == 0) {
        rlock::client client;
        rlock::client_options opts = ground.options();

        std::set_terminate([] { _exit(7); });
        opts.on_lost = [&](const rlock_loss &) { client = {}; };
        client = rlock::client(std::move(opts));
        rlock::handle lock = client.reentrant("a");
        lock.lock();
        lock.force_unlock();
        pause();
        _exit(1);
    }
    int status = 0;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}
