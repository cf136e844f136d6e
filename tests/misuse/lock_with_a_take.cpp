/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait is not said: try_lock_for() and acquire() say it. */
#include <rlock/rlock.hpp>

void misuse(rlock::handle &lock, const rlock::take &how);
void misuse(rlock::handle &lock, const rlock::take &how)
{
    lock.lock(how);     /* g++: error: no matching; clang++: error: too many arguments */
    lock.try_lock(how); /* g++: error: no matching; clang++: error: too many arguments */
}
