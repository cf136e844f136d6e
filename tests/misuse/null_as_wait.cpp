/* SPDX-License-Identifier: Apache-2.0 */
/* The time to wait is left out. */
#include <rlock/rlock.h>

int misuse(rlock_handle *lock);
int misuse(rlock_handle *lock)
{
    return rlock_lock_for(lock, nullptr, 0, 0); /* g++: error: conv; clang++: error: no match */
}
