/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each member of a public struct is: nothing moves, a new member comes at the end, and no
 * struct has padding, in which an old library would find what an old program never set. Compiled
 * for processors with 64 and with 32 bits, with -Wpadded, and never run.
 */
#include <rlock/admin.h>
#include <stddef.h>

#define IS_64_BITS (sizeof(void *) == 8)

#define AT(name, member, at_64, at_32)                                                             \
    _Static_assert(offsetof(struct rlock_##name, member) == (IS_64_BITS ? (at_64) : (at_32)),      \
                   "a member has moved: struct rlock_" #name ", " #member);
/* A size of 0: nobody has promised it yet. */
#define SIZE(name, size_64, size_32)                                                               \
    _Static_assert((IS_64_BITS ? (size_64) : (size_32)) == 0 ||                                    \
                       sizeof(struct rlock_##name) == (IS_64_BITS ? (size_64) : (size_32)),        \
                   "the size has changed: struct rlock_" #name);

SIZE(client_opts, 168, 0)
AT(client_opts, size, 0, 0)
AT(client_opts, url, 8, 4)
AT(client_opts, connect_timeout_ms, 16, 8)
AT(client_opts, op_timeout_ms, 24, 16)
AT(client_opts, renewed_lease_ms, 32, 24)
AT(client_opts, safety_margin_ms, 40, 32)
AT(client_opts, flags, 48, 40)
AT(client_opts, key_prefix, 56, 48)
AT(client_opts, user, 64, 52)
AT(client_opts, password, 72, 56)
AT(client_opts, sentinel_user, 80, 60)
AT(client_opts, sentinel_password, 88, 64)
AT(client_opts, ca_file, 96, 68)
AT(client_opts, cert_file, 104, 72)
AT(client_opts, key_file, 112, 76)
AT(client_opts, on_lost, 120, 80)
AT(client_opts, on_log_line, 128, 84)
AT(client_opts, on_address, 136, 88)
AT(client_opts, on_login, 144, 92)
AT(client_opts, payload, 152, 96)
AT(client_opts, acks, 160, 100)
AT(client_opts, log_level, 164, 104)

SIZE(opts, 80, 72)
AT(opts, size, 0, 0)
AT(opts, name_len, 8, 4)
AT(opts, max_hold_ms, 16, 8)
AT(opts, linger_ms, 24, 16)
AT(opts, pause_first_ms, 32, 24)
AT(opts, pause_max_ms, 40, 32)
AT(opts, pause_growth, 48, 40)
AT(opts, fair_slot_ms, 56, 48)
AT(opts, max_lease_ms, 64, 56)
AT(opts, flags, 72, 64)

SIZE(take, 40, 32)
AT(take, size, 0, 0)
AT(take, cancel, 8, 4)
AT(take, lease_ms, 16, 8)
AT(take, owner, 24, 16)
AT(take, flags, 32, 24)

SIZE(grant, 64, 56)
AT(grant, size, 0, 0)
AT(grant, levels, 8, 4)
AT(grant, token, 16, 8)
AT(grant, owner, 24, 16)
AT(grant, lease_ms, 32, 24)
AT(grant, valid_ms, 40, 32)
AT(grant, held_ms, 48, 40)
AT(grant, reason, 56, 48)
AT(grant, is_renewed, 60, 52)

SIZE(failure, 288, 280)
AT(failure, size, 0, 0)
AT(failure, detail, 8, 4)
AT(failure, code, 16, 8)
AT(failure, reason, 20, 12)
AT(failure, free_ms, 24, 16)
AT(failure, holder, 32, 24)
AT(failure, server, 160, 152)

SIZE(info, 328, 320)
AT(info, size, 0, 0)
AT(info, holders, 8, 4)
AT(info, locked, 16, 8)
AT(info, mine, 20, 12)
AT(info, ttl_ms, 24, 16)
AT(info, count, 32, 24)
AT(info, pid, 40, 32)
AT(info, token, 48, 40)
AT(info, waiters, 56, 48)
AT(info, dead_waiters, 60, 52)
AT(info, holder, 64, 56)
AT(info, host, 192, 184)
AT(info, mode, 320, 312)

SIZE(loss, 64, 40)
AT(loss, size, 0, 0)
AT(loss, name, 8, 4)
AT(loss, name_len, 16, 8)
AT(loss, kind, 24, 12)
AT(loss, server, 32, 16)
AT(loss, holder, 40, 20)
AT(loss, owner, 48, 24)
AT(loss, reason, 56, 32)
AT(loss, levels, 60, 36)

SIZE(log_line, 40, 24)
AT(log_line, size, 0, 0)
AT(log_line, text, 8, 4)
AT(log_line, subject, 16, 8)
AT(log_line, server, 24, 12)
AT(log_line, level, 32, 16)
AT(log_line, code, 36, 20)

SIZE(address, 272, 268)
AT(address, size, 0, 0)
AT(address, host, 8, 4)
AT(address, port, 264, 260)
AT(address, is_sentinel, 268, 264)

SIZE(member, 56, 32)
AT(member, size, 0, 0)
AT(member, name, 8, 4)
AT(member, name_len, 16, 8)
AT(member, kind, 24, 12)
AT(member, server, 32, 16)
AT(member, held, 40, 20)
AT(member, code, 44, 24)
AT(member, detail, 48, 28)

SIZE(guard, 32, 24)
AT(guard, owner, 0, 0)
AT(guard, lock, 8, 8)
AT(guard, reserved, 16, 12)
AT(guard, code, 24, 16)
AT(guard, reserved_int, 28, 20)

SIZE(found, 32, 16)
AT(found, size, 0, 0)
AT(found, key, 8, 4)
AT(found, key_len, 16, 8)
AT(found, info, 24, 12)

SIZE(finding, 40, 24)
AT(finding, size, 0, 0)
AT(finding, server, 8, 4)
AT(finding, subject, 16, 8)
AT(finding, text, 24, 12)
AT(finding, level, 32, 16)
AT(finding, code, 36, 20)
