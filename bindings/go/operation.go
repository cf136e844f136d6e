// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// An operation is an async call. Its channel is closed when it has ended.
type operation struct {
	op   *C.struct_rlock_op
	done chan struct{}
}

// entries limits how many goroutines are inside the library at a time. A call there can sleep for a moment, on a mutex, and
// Go starts a thread in place of each one that sleeps: a thousand goroutines that come at once would get as many threads.
var entries = make(chan struct{}, 8)

//export rlockDone
func rlockDone(payload C.uintptr_t) {
	handle := cgo.Handle(payload)
	w := handle.Value().(*waiter)
	handle.Delete()
	close(w.done)
}

// A waiter is what the library's callbacks see of an operation.
type waiter struct {
	done chan struct{}
	ctx  context.Context // for the trace of a call that takes a lock
}

// A starter is a function of C that begins an async call.
type starter = func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int

// begin begins an async call. The caller drops the operation, at any time.
func begin(start starter) (*operation, error) { return beginIn(nil, start) }

// beginIn begins a call that takes a lock. Its trace has the context.
func beginIn(ctx context.Context, start starter) (*operation, error) {
	var op *C.struct_rlock_op
	w := &waiter{make(chan struct{}), ctx}
	handle := cgo.NewHandle(w)
	entries <- struct{}{}
	err := call(func(failure **C.struct_rlock_failure) C.int { return start(C.uintptr_t(handle), &op, failure) })
	<-entries
	if err != nil {
		handle.Delete()
		return nil, err
	}
	return &operation{op, w.done}, nil
}

// cancel asks the operation to end, which it does within RLOCK_LATE_MS.
func (o *operation) cancel() {
	entries <- struct{}{}
	C.rlock_op_cancel(o.op)
	<-entries
}

// wait waits for the end of the operation, and cancels it if the context ends first. It returns the operation's failure.
func (o *operation) wait(ctx context.Context) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		o.cancel()
		<-o.done
	}
	err := o.result()
	if err != nil {
		if failure := err.(*Error); failure.Code == ErrCanceled {
			failure.ended = ctx.Err()
		}
	}
	return err
}

func (o *operation) drop() { C.rlock_op_unref(o.op) }

// text returns the text of a detach that has succeeded.
func (o *operation) text() string {
	var text [C.RLOCK_TEXT_SIZE]C.char
	C.rlock_op_text(o.op, &text[0])
	return C.GoString(&text[0])
}

// result returns the failure of an operation that has ended.
func (o *operation) result() error {
	code := C.rlock_op_code(o.op)
	if code == 0 {
		return nil
	}
	var failure C.struct_rlock_failure
	C.rlock_init(unsafe.Pointer(&failure), C.sizeof_struct_rlock_failure)
	C.rlock_op_failure(o.op, &failure)
	return newError(code, &failure)
}
