# SPDX-License-Identifier: Apache-2.0
# The library from Python by cffi: calls.py <declarations> <library>. Every function that is declared is there, and structs
# have the sizes that the library expects: it takes what rlock_init() made, as cffi sees it.
import re
import sys

import cffi

declarations = open(sys.argv[1]).read()
ffi = cffi.FFI()
ffi.cdef(declarations)
lib = ffi.dlopen(sys.argv[2])

names = set(re.findall(r"\b(rlock_\w+)\(", declarations))
functions = [name for name in names if not name.endswith("_fn")]
assert len(functions) > 40, functions
for name in functions:
    getattr(lib, name)

assert ffi.string(lib.rlock_code_name(lib.RLOCK_EBUSY)) == b"EBUSY"

opts = ffi.new("struct rlock_client_opts *")
lib.rlock_init(opts, ffi.sizeof(opts[0]))
url = ffi.new("char[]", b"unix:///nowhere")
opts.url = url
client = ffi.new("struct rlock_client **")
assert lib.rlock_client_open(opts, client) == 0, ffi.string(lib.rlock_detail())
lock = ffi.new("struct rlock_handle **")
assert lib.rlock_reentrant_new(client[0], b"a", ffi.NULL, lock) == 0
take = ffi.new("struct rlock_take *")
lib.rlock_init(take, ffi.sizeof(take[0]))
grant = ffi.new("struct rlock_grant *")
lib.rlock_init(grant, ffi.sizeof(grant[0]))
assert lib.rlock_lock_for(lock[0], 0, take, grant) == lib.RLOCK_ECONN
info = ffi.new("struct rlock_info *")
lib.rlock_init(info, ffi.sizeof(info[0]))
assert lib.rlock_inspect(lock[0], info) == lib.RLOCK_ECONN
lib.rlock_free(lock[0])
assert lib.rlock_client_close(client[0]) == ffi.NULL
