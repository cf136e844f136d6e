/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a hold needs RLOCK_TEXT_SIZE bytes. C++ has no such parameters. */
#include <rlock/rlock.h>

int misuse(struct rlock_handle *lock);
int misuse(struct rlock_handle *lock)
{
    char text[16];
    int code;

    code =
        rlock_detach(lock, 0, 1000, text); /* gcc: warning: accessing; clang: warning: too small */
    return code != 0
               ? code
               : rlock_hold_text(lock, 0, text); /* gcc: warning: acc; clang: warning: too s */
}
