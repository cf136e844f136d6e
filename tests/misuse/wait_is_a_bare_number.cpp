/* SPDX-License-Identifier: Apache-2.0 */
/* 500 of what? */
#include <rlock/rlock.hpp>

void misuse(rlock::handle &lock);
void misuse(rlock::handle &lock)
{
    lock.try_lock_for(500);          /* C++: error: no matching */
    (void)lock.try_acquire_for(0.5); /* C++: error: no matching */
    lock.try_lock_until(500);        /* C++: error: no matching */
}
