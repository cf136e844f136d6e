/* SPDX-License-Identifier: Apache-2.0 */
/* The lock is unlocked in the line that takes it. */
#include <rlock/rlock.hpp>

using namespace std::chrono_literals;

void misuse(rlock::handle &lock, rlock::hold &held);
void misuse(rlock::handle &lock, rlock::hold &held)
{
    lock.acquire();              /* C++: warning: nodiscard */
    lock.try_acquire();          /* C++: warning: nodiscard */
    lock.try_acquire_for(500ms); /* C++: warning: nodiscard */
    held.extend(1min);           /* C++: warning: nodiscard */
}
