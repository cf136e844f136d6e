/* SPDX-License-Identifier: Apache-2.0 */
#include "support/refusal.h"

#include <string.h>

static bool is_end(const struct refusal *row)
{
    return row->command == NULL && row->contains == NULL && row->answer == NULL &&
           row->does == REFUSAL_ANSWERS;
}

void refuse(struct proxy *proxy, const struct refusal *rows)
{
    static const enum proxy_act acts[] = {[REFUSAL_ANSWERS] = PROXY_ANSWER,
                                          [REFUSAL_HANGS_UP] = PROXY_HANG_UP,
                                          [REFUSAL_IS_SILENT] = PROXY_DROP_REQUEST};

    proxy_remove_all(proxy);
    for (const struct refusal *row = rows; !is_end(row); row++) {
        (void)proxy_add(proxy,
                        &(struct proxy_rule){.act = acts[row->does],
                                             .command = row->command,
                                             .contains = row->contains,
                                             .times = row->times != 0 ? row->times : PROXY_ALWAYS,
                                             .bytes = row->answer,
                                             .len = row->answer != NULL ? strlen(row->answer) : 0});
    }
}
