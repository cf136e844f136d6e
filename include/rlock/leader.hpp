/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leader election in C++17. The class wraps the functions of leader.h, which explains candidates.
 *
 *     rlock::leader leader(lock, [&](const rlock_term &term) {
 *         if (term.event == RLOCK_TERM_ELECTED) {
 *             scheduler.start();
 *         } else {
 *             scheduler.stop();
 *         }
 *     });
 *
 *     while (leader.is_leading()) { … }
 */
#ifndef RLOCK_LEADER_HPP
#define RLOCK_LEADER_HPP

#include <rlock/leader.h>
#include <rlock/rlock.hpp>

namespace rlock
{

/* Options of a candidate: rest_ms and margin_ms of struct rlock_leader_opts. */
struct leader_options {
    milliseconds rest{};   /* default: 1 s */
    milliseconds margin{}; /* default: 0 */
};

/*
 * A candidate for a lock. The destructor calls rlock_leader_free(), and may run in on_term.
 * Threads: any thread may call the member functions. While one thread moves or destroys the
 * candidate, no other thread may use it.
 */
class [[nodiscard]] leader
{
  public:
    /* Makes an empty candidate, which never leads. Another candidate can be moved into it. */
    leader() noexcept = default;
    /* Makes a candidate. Throws if rlock_leader_new() fails. on_term must not throw: an exception
     * would end the program. */
    explicit leader(const handle_view &lock,
                    std::function<void(const rlock_term &term)> on_term = nullptr,
                    const leader_options &opts = {})
        : state_(std::make_shared<state>())
    {
        rlock_leader_opts asked = {};

        state_->on_term = std::move(on_term);
        rlock_init(&asked, sizeof(asked));
        asked.on_term = state_->on_term ? told : nullptr;
        asked.payload = state_.get();
        asked.rest_ms = opts.rest.count();
        asked.margin_ms = opts.margin.count();
        detail::check(detail::error(rlock_leader_new(lock.native(), &asked, &state_->native)));
    }
    leader(leader &&other) noexcept = default;
    leader &operator=(leader &&other) noexcept
    {
        if (this != &other) {
            end();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    leader(const leader &) = delete;
    leader &operator=(const leader &) = delete;
    ~leader() { end(); }

    /* Returns whether the candidate is the leader now. Asks no server. */
    bool is_leading() const noexcept { return state_ && rlock_leader_is_leading(state_->native); }
    /* Ends the term. Never throws. Returns RLOCK_ENOTOWNER if the candidate is not the leader. */
    std::error_code resign() noexcept
    {
        return detail::error(rlock_leader_resign(state_ ? state_->native : nullptr));
    }

  private:
    /* The data of the callback, which may run while the candidate moves or ends. */
    struct state : std::enable_shared_from_this<state> {
        std::function<void(const rlock_term &term)> on_term;
        rlock_leader *native = nullptr;
    };

    static void told(const rlock_term *term, void *self) noexcept
    {
        const std::shared_ptr<state> kept = static_cast<state *>(self)->shared_from_this();

        kept->on_term(*term);
    }
    void end() noexcept
    {
        if (state_) {
            rlock_leader_free(state_->native);
            state_.reset();
        }
    }

    std::shared_ptr<state> state_;
};

} // namespace rlock

#endif
