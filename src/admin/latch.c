/* SPDX-License-Identifier: Apache-2.0 */
/* rlock_admin_delete_latch(). */
#include <rlock/admin.h>

#include "client/latch.h"

int rlock_admin_delete_latch(struct rlock_latch *latch, bool *ret_existed)
{
    RLOCK__WHOLE;
    const struct rlock__latch_command command = {.ask.what = RLOCK__LATCH_DELETE, .once = true};
    int64_t numbers[2];
    int code = rlock__latch_check(latch);

    code = code == 0 ? rlock__latch_run(latch, &command, numbers) : code;
    if (code == 0 && ret_existed != NULL) {
        *ret_existed = numbers[1] == 1;
    }
    return code;
}
