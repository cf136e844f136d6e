/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rlock for C++17: what is in rlock.h, as objects that clean up after themselves, under the
 * standard's locks, with the standard's errors. What a client, a handle, a hold and an owner are,
 * what each kind promises, and which codes there are stands in rlock.h. Here stands what differs.
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
 * A handle is Lockable and TimedLockable, both sides of a read/write lock are SharedTimedLockable:
 * std::unique_lock, std::scoped_lock and std::shared_lock take them. For several at once multi() is
 * better: std::scoped_lock tries one after the other, again and again.
 *
 * Errors: a function that is given a std::error_code writes it, and does not throw; a code that is
 * false is success. The others throw std::system_error. Its code() compares with enum rlock_code,
 * its what() begins with rlock_detail(). What makes clients and locks may throw std::bad_alloc too.
 * The end of a hold: std::unique_lock unlocks in its destructor, which must not throw. So unlock()
 * drops its code, and unlock_error() tells it afterwards. Where an unlock failed the lock is free
 * by the end of its lease, or the hold was lost before.
 * Loss: client_options::on_lost tells it, and is_valid() is false. No exception tells it, and
 * owns_lock() does not know it.
 * Owners: the calling thread, or the owner that handle_view::as() names. A std::unique_lock that
 * moves to another thread, or lives across a co_await, needs the latter. A hold, which
 * handle_view::acquire() gives, has an owner of its own, moves anywhere, and unlocks itself.
 *
 * Threads: as in rlock.h. No object here may be moved, assigned or destroyed while others use it.
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

/* A wait without end, for take::wait. */
inline constexpr milliseconds forever{RLOCK_FOREVER};

/* ---- Errors ---- */

/* The category of the codes. Those with a counterpart in std::errc are equivalent to it:
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

/* Returns the one category. */
RLOCK_API inline const std::error_category &category() noexcept
{
    static const category_type one;
    return one;
}

/* Not for programs. */
namespace detail
{

inline std::error_code error(int code) noexcept
{
    return {code, category()};
}

/* What is thrown: what() is the detail alone, which says more than the code's text behind it. */
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
    std::shared_ptr<const std::string> detail_; /* copying it cannot throw */
};

/* Throws a failure of this thread's latest call. */
inline void check(std::error_code code)
{
    if (code) {
        throw failure(code, rlock_detail());
    }
}

/* A client that a callback ends would go on without what its callbacks need. */
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

/* Rounds up: no wait is shorter than its time. More than a hundred years have no end. Every type of
 * duration fits into seconds; NaN is no wait. */
inline milliseconds wait_of(seconds time) noexcept
{
    if (time > seconds(100.0L * 366 * 24 * 3600)) {
        return forever;
    }
    return time > seconds(0) ? std::chrono::ceil<milliseconds>(time) : milliseconds::zero();
}

/* The time until then. The difference of the times themselves may not fit into their types. */
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

/* A signal to stop waiting: struct rlock_cancel. */
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

/* How to take a lock. By name in C++20, take{.wait = 500ms}; member by member before. */
struct take {
    milliseconds wait{0};                  /* 0 is one attempt, forever is without end; default 0 */
    milliseconds lease{0};                 /* a fixed lease; 0 is renewed until unlock; default 0 */
    const cancel_signal *cancel = nullptr; /* ends the wait; must live until the call returns, of
                                              async_lock() until it is complete; default none */
};

/* What was granted. */
struct grant {
    std::uint64_t token;   /* the fencing number of a fenced lock; 0 for other kinds */
    milliseconds lease;    /* what the server was asked for */
    milliseconds validity; /* how long from the grant on this process may rely on it if it is not
                              renewed */
};

class hold;

/* What co_await takes: coroutine.hpp. */
class async_hold_call;
class async_lock_call;
class async_unlock_call;

/* ---- Handles ---- */

/*
 * A handle that somebody else owns, and an owner: the calling thread, or an id. Copying it is free.
 * It must not be used when the handle is gone. An empty one returns RLOCK_EINVAL.
 */
class handle_view
{
  public:
    handle_view() noexcept = default;
    /* owner: 0 is the calling thread, whichever that is. */
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

    /* Takes the lock, with a renewed lease, and waits as long as that takes. */
    void lock() { lock({forever, {}, nullptr}); }
    /* Takes it as told, with all failures of rlock_lock_with(): also RLOCK_EBUSY, ETIMEDOUT. */
    grant lock(const take &how)
    {
        std::error_code code;
        const grant granted = lock(how, code);

        detail::check(code);
        return granted;
    }
    /* Where it fails the grant is all zero. */
    grant lock(const take &how, std::error_code &ret_code) noexcept
    {
        const rlock_take asked = native_take(how, owner_);
        rlock_grant granted = RLOCK_GRANT_INIT;

        ret_code = detail::error(rlock_lock_with(native_, &asked, &granted));
        return given(granted);
    }

    /* Tries once. False: somebody else holds it. Every other failure is thrown; this call has not
     * taken the lock then. */
    bool try_lock() { return try_lock_for(milliseconds::zero()); }
    /* The same within a time; less than a millisecond counts as one, negative as 0. */
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        return try_lock_within(detail::wait_of(time));
    }
    /* The same until then. The clock is asked once: one that is set later changes nothing. */
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &end)
    {
        return try_lock_within(detail::wait_until(end));
    }

    /*
     * Take the lock for a hold that unlocks itself, and that has an owner of its own: the view's
     * owner does not count, and a thread that takes the lock once more waits for itself. For
     * coroutines and pools, and for holds that move between threads.
     * acquire() waits as told, for ever by default, and throws all failures. The others return an
     * empty hold if somebody else holds the lock; how.wait does not count there.
     */
    hold acquire(const take &how = {forever, {}, nullptr}) const;
    hold acquire(const take &how, std::error_code &ret_code) const noexcept;
    hold try_acquire(const take &how = {}) const;
    template <class Rep, class Period>
    hold try_acquire_for(const std::chrono::duration<Rep, Period> &time,
                         const take &how = {}) const;
    template <class Clock, class Duration>
    hold try_acquire_until(const std::chrono::time_point<Clock, Duration> &end,
                           const take &how = {}) const;
    /* The same for coroutines, C++20: co_await lock.async_acquire() gives a hold. */
    async_hold_call async_acquire(const take &how = {forever, {}, nullptr}) const noexcept;
    template <class Rep, class Period>
    async_hold_call async_acquire_for(const std::chrono::duration<Rep, Period> &time,
                                      const take &how = {}) const noexcept;

    /* Gives up one level. Its code is dropped: see unlock_error(). */
    void unlock() noexcept { unlock_code_ = rlock_unlock_as(native_, owner_); }
    /* The same with the code of rlock_unlock(): hold.release()->try_unlock() ends a
     * std::unique_lock so. */
    std::error_code try_unlock() noexcept
    {
        return detail::error(rlock_unlock_as(native_, owner_));
    }
    /* Returns how the latest unlock() of this object ended; success where there was none. Threads
     * that share the object see each other's. A copy begins with none. */
    std::error_code unlock_error() const noexcept { return detail::error(unlock_code_); }

    /* Whether, and for how long, the owner may rely on the lock now; how often it holds it:
     * rlock_is_valid_as(), rlock_valid_ms_as(), rlock_hold_count_as(). Local. */
    bool is_valid() const noexcept { return rlock_is_valid_as(native_, owner_); }
    milliseconds validity() const noexcept
    {
        return milliseconds(rlock_valid_ms_as(native_, owner_));
    }
    std::uint32_t hold_count() const noexcept { return rlock_hold_count_as(native_, owner_); }

    /* Opens the lock, whoever holds it. Returns whether it was locked: rlock_force_unlock(). */
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
     * For coroutines, C++20: co_await lock.async_lock(owner) gives the grant, and
     * co_await lock.async_unlock(owner) nothing. See coroutine.hpp.
     * owner: an id that is not 0, as of client::new_owner(). That of the view does not count.
     * ret_code: written when the coroutine goes on.
     */
    async_lock_call async_lock(std::uint64_t owner, const take &how = {forever, {}, nullptr}) const;
    async_lock_call async_lock(std::uint64_t owner, const take &how,
                               std::error_code &ret_code) const noexcept;
    async_unlock_call async_unlock(std::uint64_t owner) const;
    async_unlock_call async_unlock(std::uint64_t owner, std::error_code &ret_code) const noexcept;

    /* Returns the same lock for an owner that is given by id; 0 is the calling thread. */
    handle_view as(std::uint64_t owner) const noexcept { return handle_view(native_, owner); }
    std::uint64_t owner() const noexcept { return owner_; }
    /* Name and kind. Not of an empty one. Valid as long as the handle. */
    std::string_view name() const noexcept
    {
        std::size_t len = 0;
        const char *name = rlock_name(native_, &len);

        return {name, len};
    }
    std::string_view kind() const noexcept { return rlock_kind(native_); }
    /* Returns what the functions of rlock.h take. Borrowed. */
    rlock_handle *native() const noexcept { return native_; }
    explicit operator bool() const noexcept { return native_ != nullptr; }

  protected:
    static rlock_take native_take(const take &how, std::uint64_t owner) noexcept
    {
        return {sizeof(rlock_take), how.wait.count(), how.lease.count(), owner,
                how.cancel != nullptr ? how.cancel->native() : nullptr};
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

    bool try_lock_within(milliseconds wait)
    {
        std::error_code code;

        lock({wait, {}, nullptr}, code);
        if (code.value() == RLOCK_EBUSY || code.value() == RLOCK_ETIMEDOUT) {
            return false;
        }
        detail::check(code);
        return true;
    }
};

/*
 * A hold that unlocks itself. Any thread may use and end it. It must not outlive its handle.
 * Its end sends the unlock and does not wait for the answer: so it may happen in a callback, in a
 * coroutine and in an event loop. unlock() waits, and says how the unlock ended.
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

    /* Gives it up, within the client's op_timeout_ms. It is empty then, however that ends. */
    std::error_code unlock() noexcept { return std::exchange(view_, {}).try_unlock(); }
    /* The same for coroutines: co_await held.async_unlock(). */
    [[nodiscard]] async_unlock_call async_unlock();

    /* Whether, and for how long, the program may rely on it now. Local. */
    bool is_valid() const noexcept { return view_.is_valid(); }
    milliseconds validity() const noexcept { return view_.validity(); }
    std::uint64_t token() const noexcept { return granted_.token; }
    /* handle_view::as() of it takes one more level. */
    std::uint64_t owner() const noexcept { return view_.owner(); }
    /* Whether it was granted, and not given up. It may be lost: is_valid(). */
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

inline hold handle_view::acquire(const take &how) const
{
    std::error_code code;
    hold held = acquire(how, code);

    detail::check(code);
    return held;
}

inline hold handle_view::acquire(const take &how, std::error_code &ret_code) const noexcept
{
    handle_view view = as(detail::new_owner());
    const grant granted = view.lock(how, ret_code);

    return ret_code ? hold() : hold(view, granted);
}

inline hold handle_view::try_acquire(const take &how) const
{
    return try_acquire_for(milliseconds::zero(), how);
}

template <class Rep, class Period>
hold handle_view::try_acquire_for(const std::chrono::duration<Rep, Period> &time,
                                  const take &how) const
{
    std::error_code code;
    hold held = acquire({detail::wait_of(time), how.lease, how.cancel}, code);

    if (code.value() != RLOCK_EBUSY && code.value() != RLOCK_ETIMEDOUT) {
        detail::check(code);
    }
    return held;
}

template <class Clock, class Duration>
hold handle_view::try_acquire_until(const std::chrono::time_point<Clock, Duration> &end,
                                    const take &how) const
{
    const milliseconds wait = detail::wait_until(end);

    return wait == forever ? acquire({forever, how.lease, how.cancel}) : try_acquire_for(wait, how);
}

/* A handle that ends with its scope. That never unlocks. May outlive its client: RLOCK_ECLOSED. */
class handle : public handle_view
{
  public:
    handle() noexcept = default;
    /* Owns native from here on; NULL is empty. */
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
 * Both sides of a read/write lock: shared is reading, exclusive is writing. Side: handle, or
 * handle_view for an owner that is given by id. lock() while the owner reads throws
 * RLOCK_EDEADLOCK, as it would wait for itself; lock_shared() while it writes does not.
 */
template <class Side> class basic_read_write
{
  public:
    basic_read_write(Side read, Side write) noexcept
        : read_(std::move(read)), write_(std::move(write))
    {
    }
    /* The sides, for all else that there is to ask or do. */
    Side &read() noexcept { return read_; }
    Side &write() noexcept { return write_; }
    /* Returns the same lock for an owner that is given by id; 0 is the calling thread. */
    basic_read_write<handle_view> as(std::uint64_t owner) const noexcept
    {
        return {read_.as(owner), write_.as(owner)};
    }

    void lock() { write_.lock(); }
    bool try_lock() { return write_.try_lock(); }
    template <class Time> bool try_lock_for(const Time &time) { return write_.try_lock_for(time); }
    template <class Time> bool try_lock_until(const Time &end)
    {
        return write_.try_lock_until(end);
    }
    void unlock() noexcept { write_.unlock(); }

    void lock_shared() { read_.lock(); }
    bool try_lock_shared() { return read_.try_lock(); }
    template <class Time> bool try_lock_shared_for(const Time &time)
    {
        return read_.try_lock_for(time);
    }
    template <class Time> bool try_lock_shared_until(const Time &end)
    {
        return read_.try_lock_until(end);
    }
    void unlock_shared() noexcept { read_.unlock(); }

  private:
    Side read_, write_;
};

using read_write = basic_read_write<handle>;

/* ---- Clients ---- */

/* Options of a lock, by the names of struct rlock_opts; all default. */
struct lock_options : rlock_opts {
    lock_options() noexcept : rlock_opts() { size = sizeof(rlock_opts); }
};

/*
 * Options of a client, by the names of struct rlock_client_opts; all default. In place of its
 * function pointers and payload, which are not used, there are three functions. They are as their
 * C types say, and must not throw: that ends the program.
 */
struct client_options : rlock_client_opts {
    client_options() noexcept : rlock_client_opts() { size = sizeof(rlock_client_opts); }

    std::function<void(const rlock_loss &loss)> on_lost;             /* default none */
    std::function<void(rlock_level level, const char *text)> on_log; /* default none */
    std::function<void(char *host, unsigned int &port)> map_address; /* default none */
};

/*
 * This process's handle on one deployment. Its end closes it: rlock_client_close(). That may not
 * happen in a callback, and ends the program there.
 */
class client
{
  public:
    /* Empty, until another is moved to it. Of an empty one nothing may be called but native(). */
    client() noexcept = default;
    /* Opens it, with all other options default. Throws as rlock_client_open() fails. */
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
    /* The same without an exception, other than std::bad_alloc. Empty where it fails. */
    static client open(client_options opts, std::error_code &ret_code)
    {
        client opened;

        opened.state_ = std::make_unique<state>(std::move(opts));
        ret_code = opened.state_->open();
        return ret_code ? client() : std::move(opened);
    }

    /* Make a lock of each kind, as rlock_reentrant_new() and its like; throw as they fail. */
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

    /* Returns an owner id that this client gives to nobody else, never 0. */
    std::uint64_t new_owner() noexcept { return rlock_owner_new(native()); }
    /* Valid as long as the client. */
    std::string_view uuid() const noexcept { return rlock_client_uuid(native()); }
    /* Returns what the functions of rlock.h take; NULL of an empty one. Borrowed. */
    rlock_client *native() const noexcept { return state_ ? state_->native.get() : nullptr; }
    explicit operator bool() const noexcept { return native() != nullptr; }

  private:
    /* Stays where it is when the client moves. The end of native, which is last, comes first. */
    struct state {
        explicit state(client_options given) : opts(std::move(given)) {}

        std::error_code open()
        {
            rlock_client_opts asked = opts;
            rlock_client *opened = nullptr;

            asked.on_lost = opts.on_lost ? lost : nullptr;
            asked.on_log = opts.on_log ? log : nullptr;
            asked.map_address = opts.map_address ? map : nullptr;
            asked.payload = this;
            const int code = rlock_client_open(&asked, &opened);
            native.reset(opened);
            return detail::error(code);
        }
        static void lost(const rlock_loss *loss, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_lost(*loss);
        }
        static void log(rlock_level level, const char *text, void *self) noexcept
        {
            static_cast<state *>(self)->opts.on_log(level, text);
        }
        static void map(char *host, unsigned int *port, void *self) noexcept
        {
            static_cast<state *>(self)->opts.map_address(host, *port);
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

/* Handles, as {a, b}. They may be freed before the lock that is made of them. */
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

/* Makes a multi-lock, rlock_multi_new(). Unlike std::scoped_lock of the same handles it takes them
 * by one script where that is possible, and is told of as one. Throws. */
inline handle multi(const handles &members, const lock_options &opts = {})
{
    return detail::make(rlock_multi_new, members, opts);
}

/* Makes a RedLock, rlock_redlock_new(). Throws. */
inline handle redlock(const handles &members, const lock_options &opts = {})
{
    return detail::make(rlock_redlock_new, members, opts);
}

} // namespace rlock

/* Let a std::error_code be made of, and compared with, enum rlock_code. */
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
