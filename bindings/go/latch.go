// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"runtime"
	"strings"
	"unsafe"
)

// A Latch lets any number of goroutines and processes wait until a number of parties have counted down: latch.h. All goroutines
// may share it.
type Latch struct {
	client *Client // stays open
	latch  *C.struct_rlock_latch
	err    error
}

// Latch makes a latch. Redisson's RCountDownLatch. If it cannot be made, each call of it returns the error.
func (c *Client) Latch(name string) *Latch {
	text, o := C.CString(name), optionsOf(nil)
	defer C.free(unsafe.Pointer(text))
	o.name_len = C.size_t(len(name))
	l := &Latch{client: c}
	l.err = c.open(func(client *C.struct_rlock_client) error {
		return call(func(failure **C.struct_rlock_failure) C.int {
			return C.glue_latch_new(client, text, o, &l.latch, failure)
		})
	})
	runtime.SetFinalizer(l, func(l *Latch) { C.rlock_latch_free(l.latch) })
	return l
}

// Set closes an open latch: so many parties have to count down. A latch that is closed already stays as it is.
func (l *Latch) Set(ctx context.Context, count int64) error {
	return l.run(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_latch_set(l.latch, C.int64_t(count), payload, op, failure)
	})
}

// Down counts down by one. A party that gives its name counts once, however often it calls. Without a name, "", each call
// counts, and after ErrInDoubt it may have counted.
func (l *Latch) Down(ctx context.Context, party string) error {
	if strings.ContainsRune(party, 0) { // C would not see what follows it
		return &Error{Code: ErrInvalid, Detail: "a party has no NUL bytes", FreeIn: -1}
	}
	var text *C.char
	if party != "" {
		text = C.CString(party)
		defer C.free(unsafe.Pointer(text))
	}
	return l.run(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_latch_down(l.latch, text, payload, op, failure)
	})
}

// Wait waits until the latch is open, or until the context ends: an error that is ErrCanceled and ctx.Err().
func (l *Latch) Wait(ctx context.Context) error {
	return l.run(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_latch_wait(l.latch, payload, op, failure)
	})
}

// Count returns how many parties have not counted down yet; 0: the latch is open.
func (l *Latch) Count(ctx context.Context) (int64, error) {
	o, err := l.ask(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_latch_count(l.latch, payload, op, failure)
	})
	if err != nil {
		return 0, err
	}
	defer o.drop()
	return int64(C.rlock_op_count(o.op)), nil
}

// run runs an operation without a result.
func (l *Latch) run(ctx context.Context, start starter) error {
	o, err := l.ask(ctx, start)
	if err == nil {
		o.drop()
	}
	return err
}

// ask runs an operation to its end. A context that ends also ends a wait.
func (l *Latch) ask(ctx context.Context, start starter) (*operation, error) {
	defer runtime.KeepAlive(l)
	if l.err != nil {
		return nil, l.err
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Code: ErrCanceled, FreeIn: -1, ended: err}
	}
	o, err := begin(start)
	if err != nil {
		return nil, err
	}
	if err := o.wait(ctx); err != nil {
		o.drop()
		return nil, err
	}
	return o, nil
}
