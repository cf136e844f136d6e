/* SPDX-License-Identifier: Apache-2.0 */
#include "support/codes.h"

#include <rlock/rlock.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void assert_code_at(int code, int expected, const char *call, const char *file, int line)
{
    if (code != expected) {
        print_error("%s: %s (%s), not %s\n", call, rlock_code_name(code), rlock_detail(),
                    rlock_code_name(expected));
        _fail(file, line);
    }
}
