/* SPDX-License-Identifier: Apache-2.0 */
/* Two objects would unlock one level. */
#include <rlock/rlock.hpp>

void misuse(rlock::hold &held, rlock::handle &lock);
void misuse(rlock::hold &held, rlock::handle &lock)
{
    rlock::hold copy = held;     /* g++: error: deleted; clang++: error: deleted */
    copy = held;                 /* g++: error: deleted; clang++: error: deleted */
    rlock::handle second = lock; /* g++: error: deleted; clang++: error: deleted */
}
