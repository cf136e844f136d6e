/* SPDX-License-Identifier: Apache-2.0 */
/* The C++ header alone, first in its file, as C++17 and all that came after it see it: each
 * template is made once, and what is promised of the types holds. */
#include <rlock/rlock.hpp>

#include <mutex>
#include <shared_mutex>

using rlock::client;
using rlock::handle;
using rlock::handle_view;
using rlock::read_write;
using namespace std::chrono_literals;

template <class T>
constexpr bool moves_only =
    std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;

static_assert(moves_only<client> && moves_only<handle> && moves_only<read_write> &&
              moves_only<rlock::cancel_signal>);
static_assert(std::is_nothrow_copy_constructible_v<handle_view>);
static_assert(noexcept(std::declval<handle &>().unlock()));
static_assert(noexcept(std::declval<read_write &>().unlock_shared()));
static_assert(std::is_error_code_enum_v<rlock_code>);

void use_header(client &client);

void use_header(client &client)
{
    handle a = client.reentrant("a");
    handle b = client.fair("b");
    handle all = rlock::multi({a, b});
    read_write pair = client.read_write("c");
    auto of_an_id = pair.as(client.new_owner());
    std::scoped_lock both(a, b);
    std::unique_lock whole(all, 500ms);
    std::unique_lock writer(pair, std::chrono::steady_clock::now() + 1s);
    std::shared_lock reader(of_an_id, 1us);
    std::shared_lock later(of_an_id, std::chrono::system_clock::now() + 1s);
    std::lock_guard guard(a);
}
