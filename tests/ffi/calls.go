// SPDX-License-Identifier: Apache-2.0

// The library from Go by cgo, with the header as it is: options by functions, and a call with an owner that is given by id,
// since a goroutine moves between threads.
package main

/*
#include <stdlib.h>

#include <rlock/rlock.h>
*/
import "C"

import "unsafe"

func main() {
	var opts C.struct_rlock_client_opts
	var take C.struct_rlock_take
	var grant C.struct_rlock_grant
	var client *C.struct_rlock_client
	var lock *C.struct_rlock_handle

	name := C.CString("a")
	defer C.free(unsafe.Pointer(name))
	C.rlock_init(unsafe.Pointer(&opts), C.sizeof_struct_rlock_client_opts)
	opts.url = C.CString("unix:///nowhere")
	defer C.free(unsafe.Pointer(opts.url))
	C.rlock_init(unsafe.Pointer(&take), C.sizeof_struct_rlock_take)
	C.rlock_init(unsafe.Pointer(&grant), C.sizeof_struct_rlock_grant)

	if C.rlock_client_open(&opts, &client) != C.RLOCK_OK {
		panic(C.GoString(C.rlock_detail()))
	}
	if C.rlock_reentrant_new(client, name, nil, &lock) != C.RLOCK_OK {
		panic("no lock")
	}
	take.owner = C.rlock_owner_new(client)
	if code := C.rlock_lock_for(lock, 10, &take, &grant); code != C.RLOCK_ECONN {
		panic(C.GoString(C.rlock_code_name(code)))
	}
	C.rlock_free(lock)
	C.rlock_client_close(client)
}
