/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock for C++17: the functions of rlock.h as objects that clean up after themselves. They work
 * with the standard's locks, and report the standard's errors. rlock.h defines clients, handles,
 * holds and owners, the promises of each kind, and the codes. This file documents only what
 * differs.
 *
 *     rlock::client client("redis://localhost");
 *     rlock::handle stock = client.reentrant("stock:4711");
 *     {
 *         std::unique_lock hold(stock, 500ms);
 *         if (hold) {
 *             ... while (stock.is_valid()) ...
 *         }
 *     }
 *
 * A handle is Lockable and TimedLockable. A read_write is SharedTimedLockable. Therefore
 * std::unique_lock, std::scoped_lock and std::shared_lock accept them. To take several locks at
 * once, prefer multi(): std::scoped_lock tries one after the other, again and again.
 *
 * Errors: a function with a std::error_code argument writes that code and does not throw. A code
 * that converts to false is success. All other functions throw std::system_error. Its code()
 * compares with enum rlock_code, and its what() begins with rlock_detail(). Functions that make
 * clients and locks may also throw std::bad_alloc.
 * The end of a hold: std::unique_lock unlocks in its destructor, which must not throw. Therefore
 * unlock() drops its code, and unlock_error() returns it afterwards. If an unlock failed, the lock
 * is free by the end of its lease, or the hold was lost before.
 * Loss: client_options::on_lost receives it, and is_valid() returns false. No exception reports a
 * loss, and owns_lock() does not notice it.
 * Owners: the calling thread, or the owner that handle_view::as() names. A std::unique_lock that
 * moves to another thread, or lives across a co_await, needs an owner from as(). A hold, which
 * handle_view::acquire() returns, has an owner of its own, moves anywhere, and unlocks itself.
 *
 * Threads: the rules of rlock.h apply. Nothing may move, assign or destroy an object of this file
 * while another thread uses it.
 */
#ifndef RLOCK_RLOCK_HPP
#define RLOCK_RLOCK_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <rlock/rlock.h>

namespace rlock
{

using std::chrono::milliseconds;

/* A wait without an end, like each time of more than a hundred years. */
inline constexpr milliseconds forever = milliseconds::max();

/* ---- Errors ---- */

/* The category of the codes. A code with a counterpart in std::errc is equivalent to it:
 * RLOCK_ETIMEDOUT to timed_out, RLOCK_EBUSY to device_or_resource_busy. */
class RLOCK_API category_type final : public std::error_category
{
  public:
    const char *name() const noexcept override { return "rlock"; }
    std::string message(int code) const override { return rlock_strerror(code); }
    std::error_condition default_error_condition(int code) const noexcept override
    {
        switch (code) {
        case RLOCK_EBUSY:
            return std::errc::device_or_resource_busy;
        case RLOCK_ETIMEDOUT:
            return std::errc::timed_out;
        case RLOCK_EDEADLOCK:
            return std::errc::resource_deadlock_would_occur;
        case RLOCK_ECANCELED:
            return std::errc::operation_canceled;
        case RLOCK_EINVAL:
            return std::errc::invalid_argument;
        case RLOCK_ENOTSUP:
            return std::errc::not_supported;
        case RLOCK_ENOMEM:
            return std::errc::not_enough_memory;
        default:
            return {code, *this};
        }
    }
};

/* Returns the only category object. */
RLOCK_API inline const std::error_category &category() noexcept
{
    static const category_type one;
    return one;
}

/* Internal: programs must not use it. */
namespace detail
{

inline std::error_code error(int code) noexcept
{
    return {code, category()};
}

/* The exception that rlock throws. Its what() is only the detail, which says more than the text of
 * the code. */
class failure : public std::system_error
{
  public:
    failure(std::error_code code, const char *detail)
        : std::system_error(code), detail_(std::make_shared<const std::string>(detail))
    {
    }

    const char *what() const noexcept override
    {
        return detail_->empty() ? std::system_error::what() : detail_->c_str();
    }

  private:
    std::shared_ptr<const std::string> detail_; /* shared, so that a copy cannot throw */
};

/* Throws a failure of this thread's latest call. */
inline void check(std::error_code code)
{
    if (code) {
        throw failure(code, rlock_detail());
    }
}

/* Returns whether somebody else holds the lock: no failure for a call that tries. */
inline bool is_busy(std::error_code code) noexcept
{
    return code.value() == RLOCK_EBUSY || code.value() == RLOCK_ETIMEDOUT;
}

/* Ends the program if a callback ends the client: the client would go on without the data that its
 * callbacks need. */
struct ender {
    void operator()(rlock_cancel *cancel) const noexcept { rlock_cancel_free(cancel); }
    void operator()(rlock_client *client) const noexcept
    {
        if (rlock_client_close(client) != nullptr) {
            std::terminate();
        }
    }
};

template <class T> using owned = std::unique_ptr<T, ender>;

using seconds = std::chrono::duration<long double>;

/* A wait without an end, as rlock.h has it. */
inline constexpr milliseconds endless{RLOCK_FOREVER};

/* Rounds up: no wait is shorter than its time. More than a hundred years gives an endless wait.
 * Every type of duration fits into seconds. NaN gives a wait of 0. */
inline milliseconds wait_of(seconds time) noexcept
{
    if (time > seconds(100.0L * 366 * 24 * 3600)) {
        return endless;
    }
    return time > seconds(0) ? std::chrono::ceil<milliseconds>(time) : milliseconds::zero();
}

/* Returns the time from now until end. The plain difference of the two times may not fit into their
 * type. */
template <class Clock, class Duration>
milliseconds wait_until(const std::chrono::time_point<Clock, Duration> &end)
{
    return wait_of(seconds(end.time_since_epoch()) - seconds(Clock::now().time_since_epoch()));
}

/* Returns an owner id that rlock_owner_new() does not give. */
RLOCK_API inline std::uint64_t new_owner() noexcept
{
    static std::atomic<std::uint64_t> given{std::uint64_t{1} << 63};

    return given++;
}

} // namespace detail

/* ---- How to take a lock, and what is granted ---- */

/* Stops waits; wraps struct rlock_cancel. */
class cancel_signal
{
  public:
    /* Throws RLOCK_ENOMEM, ERESOURCE. */
    cancel_signal()
    {
        rlock_cancel *made = nullptr;

        detail::check(detail::error(rlock_cancel_new(&made)));
        native_.reset(made);
    }
    /* Cancels every call that waits with it, and every later one. Async-signal-safe. */
    void fire() const noexcept { rlock_cancel_fire(native_.get()); }
    rlock_cancel *native() const noexcept { return native_.get(); }

  private:
    detail::owned<rlock_cancel> native_;
};

/* How to take a lock. C++20 can set members by name, take{.lease = 20s}; earlier versions set them
 * one by one. How long to wait is an argument of each call. */
struct take {
    const cancel_signal *cancel = nullptr; /* ends the wait; must live until the call returns, for
                                              an async call until it is complete; default: none */
    milliseconds lease{0};                 /* a fixed lease; 0: renewed until unlock; default 0 */
    void *context = nullptr;               /* handed to on_trace; default: none */
    std::int64_t units = 0;                /* permits, semaphore: how many; default 1 */
};

/* A grant of a lock. */
struct grant {
    std::uint64_t token;   /* the fencing number of a fenced lock; 0 for other kinds */
    milliseconds lease;    /* the lease that the client asked the server for */
    milliseconds validity; /* how long this process may rely on the hold without a renewal: from the
                              grant on, or from the call of held() on */
};

class hold;

/* The operands of co_await: see coroutine.hpp. */
class async_hold_call;
class async_lock_call;
class async_unlock_call;

/* ---- Handles ---- */

/*
 * A handle that another object owns, together with an owner of holds: the calling thread, or an id.
 * Copying it is cheap. Do not use it after the end of the handle. An empty view returns
 * RLOCK_EINVAL.
 */
class handle_view
{
  public:
    handle_view() noexcept = default;
    /* owner: 0 is the calling thread of each call. */
    explicit handle_view(rlock_handle *native, std::uint64_t owner = 0) noexcept
        : native_(native), owner_(owner)
    {
    }
    handle_view(const handle_view &other) noexcept : handle_view(other.native_, other.owner_) {}
    handle_view &operator=(const handle_view &other) noexcept
    {
        native_ = other.native_;
        owner_ = other.owner_;
        return *this;
    }

    /* Takes the lock, with a renewed lease, and waits forever. Throws on every failure of
     * rlock_lock(). */
    void lock() { detail::check(lock_within(detail::endless, {})); }
    /* Tries once. False: somebody else holds the lock. Throws on every other failure, and then this
     * call has not taken the lock. */
    bool try_lock() { return try_lock_within(milliseconds::zero(), {}); }
    /* Like try_lock(), but waits up to time. Less than 1 ms counts as 1 ms, a negative time as 0,
     * and rlock::forever has no end. */
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time, const take &how = {})
    {
        return try_lock_within(detail::wait_of(time), how);
    }
    /* Like the function above, but never throws. False: see the code. */
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time, const take &how,
                      std::error_code &ret_code) noexcept
    {
        ret_code = lock_within(detail::wait_of(time), how);
        return !ret_code;
    }
    /* Like try_lock(), but waits until end. Reads the clock once: later changes have no effect. */
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end, const take &how = {})
    {
        return try_lock_within(detail::wait_until(end), how);
    }

    /*
     * Take the lock and return a hold that unlocks itself. The hold has an owner of its own, and
     * ignores the view's owner. A thread that takes the lock once more waits for itself. Use these
     * functions in coroutines and pools, and for holds that move between threads.
     * acquire() waits forever, and throws on all failures. The other functions return an empty hold
     * if somebody else holds the lock. Like try_lock(), they try once, wait up to time, or wait
     * until end. Those with a code return an empty hold on every failure.
     */
    hold acquire(const take &how = {}) const;
    hold acquire(const take &how, std::error_code &ret_code) const noexcept;
    hold try_acquire(const take &how = {}) const;
    template <class Rep, class Period>
    hold try_acquire_for(const std::chrono::duration<Rep, Period> &time,
                         const take &how = {}) const;
    template <class Rep, class Period>
    hold try_acquire_for(const std::chrono::duration<Rep, Period> &time, const take &how,
                         std::error_code &ret_code) const noexcept;
    template <class Clock, class Duration>
    hold try_acquire_until(const std::chrono::time_point<Clock, Duration> &end,
                           const take &how = {}) const;
    /* Takes over the hold of a text: rlock_adopt(). vouched: the text is from hold::text(), and the
     * process that wrote it is gone. The first throws, also if the text's hold has ended
     * (RLOCK_ENOTOWNER). The other returns an empty hold on every failure. */
    hold adopt(const std::string &text, const take &how = {}, bool vouched = false) const;
    hold adopt(const std::string &text, const take &how, bool vouched,
               std::error_code &ret_code) const noexcept;
    /* For coroutines, C++20: co_await lock.async_acquire() returns a hold. */
    async_hold_call async_acquire(const take &how = {}) const noexcept;
    template <class Rep, class Period>
    async_hold_call async_acquire_for(const std::chrono::duration<Rep, Period> &time,
                                      const take &how = {}) const noexcept;

    /* Gives up one level. Drops the code: see unlock_error(). */
    void unlock() noexcept { unlock_code_ = rlock_unlock_as(native_, owner_); }
    /* Like unlock(), but returns the code of rlock_unlock(). hold.release()->try_unlock() ends a
     * std::unique_lock in this way. */
    std::error_code try_unlock() noexcept
    {
        return detail::error(rlock_unlock_as(native_, owner_));
    }
    /* Returns the code of the latest unlock() of this object; success if there was none. Threads
     * that share the object share this code. A copy starts without a code. */
    std::error_code unlock_error() const noexcept { return detail::error(unlock_code_); }

    /* Return whether, and for how long, the owner may rely on the lock now, and how many levels it
     * has: rlock_is_valid_as(), rlock_valid_ms_as(), rlock_hold_count_as(). Local. */
    bool is_valid() const noexcept { return rlock_is_valid_as(native_, owner_); }
    milliseconds validity() const noexcept
    {
        return milliseconds(rlock_valid_ms_as(native_, owner_));
    }
    std::uint32_t hold_count() const noexcept { return rlock_hold_count_as(native_, owner_); }
    /* Returns what the owner holds: rlock_held(). Local. All zero: the owner holds nothing. */
    grant held() const noexcept
    {
        rlock_grant granted = RLOCK_GRANT_INIT;

        (void)rlock_held(native_, owner_, &granted);
        return given(granted);
    }

    /* Extends what the owner holds: rlock_extend(). 0: it is renewed from now on. Returns the code,
     * and throws nothing: after it the hold is at least as valid as before. */
    [[nodiscard]] std::error_code extend(milliseconds lease) noexcept
    {
        return detail::error(rlock_extend(native_, owner_, lease.count(), nullptr));
    }

    /* Opens the lock for any caller. Returns whether it was locked: rlock_force_unlock(). */
    bool force_unlock()
    {
        std::error_code code;
        const bool was_locked = force_unlock(code);

        detail::check(code);
        return was_locked;
    }
    bool force_unlock(std::error_code &ret_code) noexcept
    {
        bool was_locked = false;

        ret_code = detail::error(rlock_force_unlock(native_, &was_locked));
        return was_locked;
    }

    /* Asks the server: rlock_inspect(). */
    rlock_info inspect() const
    {
        std::error_code code;
        const rlock_info info = inspect(code);

        detail::check(code);
        return info;
    }
    rlock_info inspect(std::error_code &ret_code) const noexcept
    {
        rlock_info info = RLOCK_INFO_INIT;

        ret_code = detail::error(rlock_inspect(native_, &info));
        return info;
    }

    /*
     * For coroutines, C++20: co_await lock.async_lock(owner) returns the grant, and
     * co_await lock.async_unlock(owner) returns nothing. See coroutine.hpp.
     * async_lock() waits forever, async_lock_for() up to time. A lock that somebody else holds is a
     * failure as well.
     * owner: an id that is not 0, for example from client::new_owner(). The calls ignore the view's
     * owner. ret_code: written before the coroutine continues.
     */
    async_lock_call async_lock(std::uint64_t owner, const take &how = {}) const;
    async_lock_call async_lock(std::uint64_t owner, const take &how,
                               std::error_code &ret_code) const noexcept;
    template <class Rep, class Period>
    async_lock_call async_lock_for(std::uint64_t owner,
                                   const std::chrono::duration<Rep, Period> &time,
                                   const take &how = {}) const;
    template <class Rep, class Period>
    async_lock_call async_lock_for(std::uint64_t owner,
                                   const std::chrono::duration<Rep, Period> &time, const take &how,
                                   std::error_code &ret_code) const noexcept;
    async_unlock_call async_unlock(std::uint64_t owner) const;
    async_unlock_call async_unlock(std::uint64_t owner, std::error_code &ret_code) const noexcept;

    /* Returns a view of the same lock for another owner: an id, or 0 for the calling thread. */
    handle_view as(std::uint64_t owner) const noexcept { return handle_view(native_, owner); }
    std::uint64_t owner() const noexcept { return owner_; }
    /* Return name and kind. Not for an empty view. Borrowed: valid as long as the handle. */
    std::string_view name() const noexcept
    {
        std::size_t len = 0;
        const char *name = rlock_name(native_, &len);

        return {name, len};
    }
    std::string_view kind() const noexcept { return rlock_kind(native_); }
    /* Returns the handle for the functions of rlock.h. Borrowed. */
    rlock_handle *native() const noexcept { return native_; }
    explicit operator bool() const noexcept { return native_ != nullptr; }

  protected:
    static rlock_take native_take(const take &how, std::uint64_t owner) noexcept
    {
        return {sizeof(rlock_take),
                how.cancel != nullptr ? how.cancel->native() : nullptr,
                how.context,
                nullptr,
                how.lease.count(),
                owner,
                0,
                how.units};
    }
    static grant given(const rlock_grant &granted) noexcept
    {
        return {granted.token, milliseconds(granted.lease_ms), milliseconds(granted.valid_ms)};
    }

    rlock_handle *native_ = nullptr;
    std::uint64_t owner_ = 0;
    std::atomic<int> unlock_code_{0};

  private:
    friend class async_lock_call;

    std::error_code lock_within(milliseconds wait, const take &how) noexcept
    {
        const rlock_take asked = native_take(how, owner_);

        return detail::error(rlock_lock_for(native_, wait.count(), &asked, nullptr));
    }
    bool try_lock_within(milliseconds wait, const take &how)
    {
        const std::error_code code = lock_within(wait, how);

        if (detail::is_busy(code)) {
            return false;
        }
        detail::check(code);
        return true;
    }
    hold acquire_within(milliseconds wait, const take &how,
                        std::error_code &ret_code) const noexcept;
    hold try_acquire_within(milliseconds wait, const take &how) const;
};

/*
 * A hold that unlocks itself. Any thread may use and end it. It must not outlive its handle.
 * The destructor sends the unlock and does not wait for the answer. Therefore a hold may end in a
 * callback, in a coroutine and in an event loop. unlock() waits, and returns how the unlock ended.
 */
class [[nodiscard]] hold
{
  public:
    /* Empty: nothing is held. */
    hold() noexcept = default;
    hold(hold &&other) noexcept : view_(std::exchange(other.view_, {})), granted_(other.granted_) {}
    hold &operator=(hold &&other) noexcept
    {
        if (this != &other) {
            end();
            view_ = std::exchange(other.view_, {});
            granted_ = other.granted_;
        }
        return *this;
    }
    ~hold() { end(); }

    /* Gives the hold up, within the client's op_timeout_ms. The object is empty afterwards, even if
     * that fails. */
    std::error_code unlock() noexcept { return std::exchange(view_, {}).try_unlock(); }
    /* Like unlock(), for coroutines: co_await held.async_unlock(). */
    [[nodiscard]] async_unlock_call async_unlock();

    /* Extends the lease; 0: the hold is renewed from now on. Returns the code of rlock_extend();
     * RLOCK_EINVAL if the hold is empty. */
    [[nodiscard]] std::error_code extend(milliseconds lease) noexcept
    {
        return view_.extend(lease);
    }

    /* Gives the hold to the text that is returned, with a lease of its own: rlock_detach(). The
     * object is empty afterwards. After a failure it is not: detach again, or unlock. The first
     * throws. The other returns "" on every failure. */
    std::string detach(milliseconds lease)
    {
        std::error_code code;
        std::string text = detach(lease, code);

        detail::check(code);
        return text;
    }
    std::string detach(milliseconds lease, std::error_code &ret_code)
    {
        char text[RLOCK_TEXT_SIZE] = "";

        ret_code = detail::error(rlock_detach(view_.native(), view_.owner(), lease.count(), text));
        if (!ret_code) {
            view_ = {};
        }
        return text;
    }
    /* Returns a text for the hold, which goes on: rlock_hold_text(). Throws. */
    std::string text() const
    {
        char text[RLOCK_TEXT_SIZE];

        detail::check(detail::error(rlock_hold_text(view_.native(), view_.owner(), text)));
        return text;
    }

    /* Return whether, and for how long, the program may rely on the hold now. Local. */
    bool is_valid() const noexcept { return view_.is_valid(); }
    milliseconds validity() const noexcept { return view_.validity(); }
    std::uint64_t token() const noexcept { return granted_.token; }
    /* Returns the owner. To take one more level, pass it to handle_view::as(). */
    std::uint64_t owner() const noexcept { return view_.owner(); }
    /* Returns whether the hold was granted and not given up. It may be lost: see is_valid(). */
    explicit operator bool() const noexcept { return static_cast<bool>(view_); }

  private:
    friend class handle_view;
    friend class async_hold_call;

    hold(const handle_view &view, const grant &granted) noexcept : view_(view), granted_(granted) {}
    void end() noexcept
    {
        const handle_view ended = std::exchange(view_, {});

        if (ended && rlock_unlock_async(ended.native(), ended.owner(), nullptr, nullptr, nullptr) ==
                         RLOCK_ENOMEM) {
            (void)rlock_unlock_as(ended.native(), ended.owner());
        }
    }

    handle_view view_;
    grant granted_{};
};

inline hold handle_view::acquire_within(milliseconds wait, const take &how,
                                        std::error_code &ret_code) const noexcept
{
    const handle_view view = as(detail::new_owner());
    const rlock_take asked = native_take(how, view.owner_);
    rlock_grant granted = RLOCK_GRANT_INIT;

    ret_code = detail::error(rlock_lock_for(native_, wait.count(), &asked, &granted));
    return ret_code ? hold() : hold(view, given(granted));
}

inline hold handle_view::try_acquire_within(milliseconds wait, const take &how) const
{
    std::error_code code;
    hold held = acquire_within(wait, how, code);

    if (!detail::is_busy(code)) {
        detail::check(code);
    }
    return held;
}

inline hold handle_view::acquire(const take &how) const
{
    std::error_code code;
    hold held = acquire_within(detail::endless, how, code);

    detail::check(code);
    return held;
}

inline hold handle_view::acquire(const take &how, std::error_code &ret_code) const noexcept
{
    return acquire_within(detail::endless, how, ret_code);
}

inline hold handle_view::try_acquire(const take &how) const
{
    return try_acquire_within(milliseconds::zero(), how);
}

template <class Rep, class Period>
hold handle_view::try_acquire_for(const std::chrono::duration<Rep, Period> &time,
                                  const take &how) const
{
    return try_acquire_within(detail::wait_of(time), how);
}

template <class Rep, class Period>
hold handle_view::try_acquire_for(const std::chrono::duration<Rep, Period> &time, const take &how,
                                  std::error_code &ret_code) const noexcept
{
    return acquire_within(detail::wait_of(time), how, ret_code);
}

template <class Clock, class Duration>
hold handle_view::try_acquire_until(const std::chrono::time_point<Clock, Duration> &end,
                                    const take &how) const
{
    return try_acquire_within(detail::wait_until(end), how);
}

inline hold handle_view::adopt(const std::string &text, const take &how, bool vouched,
                               std::error_code &ret_code) const noexcept
{
    const handle_view view = as(detail::new_owner());
    rlock_take asked = native_take(how, view.owner_);
    rlock_grant granted = RLOCK_GRANT_INIT;

    asked.flags = vouched ? RLOCK_TAKE_FROM_DEAD : 0;
    ret_code = detail::error(rlock_adopt(native_, text.c_str(), &asked, &granted));
    return ret_code ? hold() : hold(view, given(granted));
}

inline hold handle_view::adopt(const std::string &text, const take &how, bool vouched) const
{
    std::error_code code;
    hold held = adopt(text, how, vouched, code);

    detail::check(code);
    return held;
}

/* A handle that ends with its scope. Its end never unlocks. It may outlive its client; calls then
 * return RLOCK_ECLOSED. */
class handle : public handle_view
{
  public:
    handle() noexcept = default;
    /* Takes ownership of native; NULL makes an empty handle. */
    explicit handle(rlock_handle *native) noexcept : handle_view(native) {}
    handle(handle &&other) noexcept : handle_view(std::exchange(other.native_, nullptr)) {}
    handle &operator=(handle &&other) noexcept
    {
        std::swap(native_, other.native_);
        return *this;
    }
    ~handle() { rlock_free(native_); }
};

/*
 * Both sides of a read/write lock: shared means reading, exclusive means writing. Side: handle, or
 * handle_view for an owner with an id. While the owner reads, lock() throws RLOCK_EDEADLOCK,
 * because it would wait for itself. While the owner writes, lock_shared() works.
 */
template <class Side> class basic_read_write
{
  public:
    basic_read_write(Side read, Side write) noexcept
        : read_(std::move(read)), write_(std::move(write))
    {
    }
    /* Return the sides, for all other calls. */
    Side &read() noexcept { return read_; }
    Side &write() noexcept { return write_; }
    /* Returns views of the same lock for another owner: an id, or 0 for the calling thread. */
    basic_read_write<handle_view> as(std::uint64_t owner) const noexcept
    {
        return {read_.as(owner), write_.as(owner)};
    }

    void lock() { write_.lock(); }
    bool try_lock() { return write_.try_lock(); }
    template <class Time> bool try_lock_for(const Time &time, const take &how = {})
    {
        return write_.try_lock_for(time, how);
    }
    template <class Time> bool try_lock_until(const Time &end, const take &how = {})
    {
        return write_.try_lock_until(end, how);
    }
    void unlock() noexcept { write_.unlock(); }

    void lock_shared() { read_.lock(); }
    bool try_lock_shared() { return read_.try_lock(); }
    template <class Time> bool try_lock_shared_for(const Time &time, const take &how = {})
    {
        return read_.try_lock_for(time, how);
    }
    template <class Time> bool try_lock_shared_until(const Time &end, const take &how = {})
    {
        return read_.try_lock_until(end, how);
    }
    void unlock_shared() noexcept { read_.unlock(); }

  private:
    Side read_, write_;
};

using read_write = basic_read_write<handle>;

/* ---- Clients ---- */

/* Options of a lock, with the member names of struct rlock_opts; all start as default. */
struct lock_options : rlock_opts {
    lock_options() noexcept : rlock_opts() { size = sizeof(rlock_opts); }
};

/*
 * Options of a client, with the member names of struct rlock_client_opts; all start as default.
 * Five std::function members replace its function pointers and payload, which are not used. They
 * follow the rules of their C types. They must not throw: an exception ends the program.
 */
struct client_options : rlock_client_opts {
    client_options() noexcept : rlock_client_opts() { size = sizeof(rlock_client_opts); }

    std::function<void(const rlock_loss &loss)> on_lost;         /* default: none */
    std::function<void(const rlock_log_line &line)> on_log_line; /* default: none */
    std::function<void(rlock_address &address)> on_address;      /* default: none */
    std::function<int(rlock_login &login)> on_login;             /* default: none */
    std::function<void(const rlock_trace &trace)> on_trace;      /* default: none */
};

/*
 * This process's handle on one deployment. The destructor closes it: rlock_client_close(). It must
 * not run in a callback, where it ends the program.
 */
class client
{
  public:
    /* Makes an empty client, until another one is moved to it. On an empty client only native() and
     * the conversion to bool may be called. */
    client() noexcept = default;
    /* Opens the client, with all other options default. Throws if rlock_client_open() fails. */
    explicit client(const std::string &url)
    {
        client_options opts;

        opts.url = url.c_str();
        *this = client(std::move(opts));
    }
    explicit client(client_options opts)
    {
        std::error_code code;

        *this = open(std::move(opts), code);
        detail::check(code);
    }
    /* Opens a client. Throws nothing but std::bad_alloc. Returns an empty client if it fails. */
    static client open(client_options opts, std::error_code &ret_code)
    {
        client opened;

        opened.state_ = std::make_unique<state>(std::move(opts));
        ret_code = opened.state_->open();
        return ret_code ? client() : std::move(opened);
    }

    /* Make a lock of each kind, with rlock_reentrant_new() and its like. Throw if they fail. */
    handle reentrant(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_reentrant_new, name, opts);
    }
    handle nonreentrant(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_nonreentrant_new, name, opts);
    }
    handle spin(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_spin_new, name, opts);
    }
    handle setnx(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_setnx_new, name, opts);
    }
    handle permits(std::string_view name, const lock_options &opts)
    {
        return make(rlock_permits_new, name, opts);
    }
    handle semaphore(std::string_view name, const lock_options &opts)
    {
        return make(rlock_semaphore_new, name, opts);
    }
    handle fenced(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_fenced_new, name, opts);
    }
    handle fair(std::string_view name, const lock_options &opts = {})
    {
        return make(rlock_fair_new, name, opts);
    }
    rlock::read_write read_write(std::string_view name, const lock_options &opts = {})
    {
        return {make(rlock_read_new, name, opts), make(rlock_write_new, name, opts)};
    }

    /* Returns a new owner id, never 0, that this client does not return again. */
    std::uint64_t new_owner() noexcept { return rlock_owner_new(native()); }
    /* Borrowed: valid as long as the client. */
    std::string_view uuid() const noexcept { return rlock_client_uuid(native()); }
    /* Returns the client for the functions of rlock.h; NULL if it is empty. Borrowed. */
    rlock_client *native() const noexcept { return state_ ? state_->native.get() : nullptr; }
    explicit operator bool() const noexcept { return native() != nullptr; }

  private:
    /* Stays at its address when the client moves. The end of native comes first: it is last. */
    struct state {
        explicit state(client_options given) : opts(std::move(given)) {}

        std::error_code open()
        {
            rlock_client_opts asked = opts;
            rlock_client *opened = nullptr;

            asked.on_lost = opts.on_lost ? lost : nullptr;
            asked.on_log_line = opts.on_log_line ? log : nullptr;
            asked.on_address = opts.on_address ? map : nullptr;
            asked.on_login = opts.on_login ? log_in : nullptr;
            asked.on_trace = opts.on_trace ? trace : nullptr;
            asked.payload = this;
            const int code = rlock_client_open(&asked, &opened);
            native.reset(opened);
            return detail::error(code);
        }
        static void lost(const rlock_loss *loss, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_lost(*loss);
        }
        static void log(const rlock_log_line *line, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_log_line(*line);
        }
        static int log_in(rlock_login *login, void *self) noexcept
        {
            return static_cast<state *>(self)->opts.on_login(*login);
        }
        static void trace(const rlock_trace *trace, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_trace(*trace);
        }
        static void map(rlock_address *address, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_address(*address);
        }

        client_options opts;
        detail::owned<rlock_client> native;
    };

    template <class New> handle make(New *new_lock, std::string_view name, lock_options opts)
    {
        rlock_handle *made = nullptr;

        opts.name_len = name.size();
        detail::check(
            detail::error(new_lock(native(), name.empty() ? "" : name.data(), &opts, &made)));
        return handle(made);
    }

    std::unique_ptr<state> state_;
};

/* ---- Locks made of locks ---- */

/* Handles, for example {a, b}. They may be freed before the lock that is made of them. */
using handles = std::vector<std::reference_wrapper<const handle_view>>;

namespace detail
{

template <class New> handle make(New *new_lock, const handles &members, const lock_options &opts)
{
    std::vector<rlock_handle *> natives;
    rlock_handle *made = nullptr;

    for (const handle_view &member : members) {
        natives.push_back(member.native());
    }
    check(error(new_lock(natives.data(), natives.size(), &opts, &made)));
    return handle(made);
}

} // namespace detail

/* Makes a multi-lock: rlock_multi_new(). Unlike std::scoped_lock with the same handles, it takes
 * them with one script if possible, and its loss is reported once. Throws. */
inline handle multi(const handles &members, const lock_options &opts = {})
{
    return detail::make(rlock_multi_new, members, opts);
}

/* Makes a RedLock: rlock_redlock_new(). Throws. */
inline handle redlock(const handles &members, const lock_options &opts = {})
{
    return detail::make(rlock_redlock_new, members, opts);
}

} // namespace rlock

/* Makes enum rlock_code convertible to std::error_code, and comparable with it. */
template <> struct std::is_error_code_enum<rlock_code> : std::true_type {
};
inline std::error_code make_error_code(rlock_code code) noexcept
{
    return rlock::detail::error(code);
}

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)
#include <rlock/coroutine.hpp>
#endif
#endif
