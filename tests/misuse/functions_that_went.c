/* SPDX-License-Identifier: Apache-2.0 */
/* C warns of a function of 0.1, and the library does not have it; C++ has no such name. */
#include <rlock/admin.h>

void before(void);
void before(void)
{
    rlock_lock_with();        /* C: warning: implicit; C++: error: lock_with */
    rlock_guard_take();       /* C: warning: implicit; C++: error: guard_take */
    rlock_take_init();        /* C: warning: implicit; C++: error: take_init */
    rlock_opts_init();        /* C: warning: implicit; C++: error: opts_init */
    rlock_client_opts_init(); /* C: warning: implicit; C++: error: client_opts_init */
    rlock_grant_init();       /* C: warning: implicit; C++: error: grant_init */
    rlock_info_init();        /* C: warning: implicit; C++: error: info_init */
    rlock_client_scan();      /* C: warning: implicit; C++: error: client_scan */
    rlock_client_diagnose();  /* C: warning: implicit; C++: error: client_diagnose */
}
