/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes and gives back locks in C++20 coroutines, with the async calls of rlock.h:
 *
 *     if (rlock::hold held = co_await stock.async_acquire_for(500ms)) {
 *         ... while (held.is_valid()) ...
 *         co_await held.async_unlock();
 *     }
 *
 * The hold unlocks itself if the coroutine ends earlier. async_lock() and async_unlock() take and
 * give back a level for an owner that the program names.
 *
 * rlock.hpp includes this file if the compiler has coroutines.
 *
 * Threads: the coroutine continues where the call completes, in the thread of rlock_done_fn. If the
 * call could not begin, it continues at once. In that thread a function that waits returns
 * RLOCK_EDEADLOCK, and the client cannot be closed. Move longer work to a thread of your own.
 * Lifetime: do not destroy a coroutine that waits here. To end its wait, use take::cancel. The
 * handle may be freed meanwhile. If an exception leaves the coroutine for its resumer, the program
 * ends.
 */
#ifndef RLOCK_COROUTINE_HPP
#define RLOCK_COROUTINE_HPP

#include <coroutine>

#include <rlock/rlock.hpp>

namespace rlock
{

/* Common base of the async calls. It lives in the coroutine that waits for the call. */
class async_call
{
  public:
    async_call(const async_call &) = delete;
    async_call &operator=(const async_call &) = delete;
    bool await_ready() const noexcept { return false; }

  protected:
    async_call(rlock_handle *native, std::uint64_t owner, std::error_code *ret_code) noexcept
        : native_(native), owner_(owner), ret_code_(ret_code)
    {
    }
    ~async_call() { rlock_op_unref(op_); }

    /* Runs at the end of the call. resume() may destroy this object: nothing may follow it. */
    static void done(rlock_op *op, void *self) noexcept
    {
        static_cast<async_call *>(self)->op_ = rlock_op_ref(op);
        static_cast<async_call *>(self)->waiter_.resume();
    }

    /* Reports how the call ended: writes ret_code_, or throws. */
    void end() const
    {
        const std::error_code code = detail::error(op_ != nullptr ? rlock_op_code(op_) : code_);

        if (ret_code_ != nullptr) {
            *ret_code_ = code;
        } else if (code) {
            throw detail::failure(code, op_ != nullptr ? rlock_op_detail(op_) : rlock_detail());
        }
    }

    rlock_handle *native_;
    std::uint64_t owner_;
    std::error_code *ret_code_;
    std::coroutine_handle<> waiter_;
    rlock_op *op_ = nullptr; /* set when the call is complete */
    int code_ = RLOCK_OK;    /* why the call could not begin */
};

/*
 * handle_view::async_lock() returns it.
 *
 * The call may complete, and the coroutine may run to its end, before the function that began the
 * call returns. Therefore await_suspend() touches no state of the coroutine after the call has
 * begun. It is never inlined: inlining would move its variables into the coroutine.
 */
class async_lock_call : public async_call
{
  public:
    async_lock_call(rlock_handle *native, std::uint64_t owner, milliseconds wait, const take &how,
                    std::error_code *ret_code) noexcept
        : async_call(native, owner, ret_code), wait_ms_(wait.count()),
          how_(handle_view::native_take(how, owner))
    {
    }
    __attribute__((noinline)) bool await_suspend(std::coroutine_handle<> waiter) noexcept
    {
        const rlock_take how = how_;

        waiter_ = waiter;
        const int code = rlock_lock_async(native_, wait_ms_, &how, done, this, nullptr);
        if (code != 0) {
            code_ = code;
        }
        return code == 0;
    }
    grant await_resume() const
    {
        rlock_grant granted = RLOCK_GRANT_INIT;

        end();
        if (op_ != nullptr) {
            (void)rlock_op_grant(op_, &granted);
        }
        return handle_view::given(granted);
    }

  private:
    std::int64_t wait_ms_;
    rlock_take how_;
};

/* handle_view::async_acquire() and async_acquire_for() return it. */
class async_hold_call : public async_lock_call
{
  public:
    async_hold_call(rlock_handle *native, milliseconds wait, const take &how,
                    bool may_be_empty) noexcept
        : async_lock_call(native, detail::new_owner(), wait, how, nullptr),
          may_be_empty_(may_be_empty)
    {
    }
    hold await_resume() const
    {
        if (may_be_empty_ && op_ != nullptr && detail::is_busy(detail::error(rlock_op_code(op_)))) {
            return {};
        }
        const grant granted = async_lock_call::await_resume();
        return {handle_view(native_, owner_), granted};
    }

  private:
    bool may_be_empty_;
};

/* handle_view::async_unlock() returns it. */
class async_unlock_call : public async_call
{
  public:
    async_unlock_call(rlock_handle *native, std::uint64_t owner, std::error_code *ret_code) noexcept
        : async_call(native, owner, ret_code)
    {
    }
    __attribute__((noinline)) bool await_suspend(std::coroutine_handle<> waiter) noexcept
    {
        waiter_ = waiter;
        const int code = rlock_unlock_async(native_, owner_, done, this, nullptr);
        if (code != 0) {
            code_ = code;
        }
        return code == 0;
    }
    void await_resume() const { end(); }
};

inline async_lock_call handle_view::async_lock(std::uint64_t owner, const take &how) const
{
    return {native_, owner, detail::endless, how, nullptr};
}

inline async_lock_call handle_view::async_lock(std::uint64_t owner, const take &how,
                                               std::error_code &ret_code) const noexcept
{
    return {native_, owner, detail::endless, how, &ret_code};
}

template <class Rep, class Period>
async_lock_call handle_view::async_lock_for(std::uint64_t owner,
                                            const std::chrono::duration<Rep, Period> &time,
                                            const take &how) const
{
    return {native_, owner, detail::wait_of(time), how, nullptr};
}

template <class Rep, class Period>
async_lock_call handle_view::async_lock_for(std::uint64_t owner,
                                            const std::chrono::duration<Rep, Period> &time,
                                            const take &how,
                                            std::error_code &ret_code) const noexcept
{
    return {native_, owner, detail::wait_of(time), how, &ret_code};
}

inline async_hold_call handle_view::async_acquire(const take &how) const noexcept
{
    return {native_, detail::endless, how, false};
}

template <class Rep, class Period>
async_hold_call handle_view::async_acquire_for(const std::chrono::duration<Rep, Period> &time,
                                               const take &how) const noexcept
{
    return {native_, detail::wait_of(time), how, true};
}

inline async_unlock_call hold::async_unlock()
{
    const handle_view ended = std::exchange(view_, {});

    return ended.async_unlock(ended.owner());
}

inline async_unlock_call handle_view::async_unlock(std::uint64_t owner) const
{
    return {native_, owner, nullptr};
}

inline async_unlock_call handle_view::async_unlock(std::uint64_t owner,
                                                   std::error_code &ret_code) const noexcept
{
    return {native_, owner, &ret_code};
}

} // namespace rlock
#endif
