// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"errors"
	"time"
	"unsafe"
)

// Code is the result of a call that failed; it is an error of its own: errors.Is(err, ErrBusy). The comments of rlock.h say
// for each function what its codes mean.
type Code int

// One error for each code of rlock.h.
const (
	ErrBusy          Code = C.RLOCK_EBUSY          // TryLock: held by another owner
	ErrTimedOut      Code = C.RLOCK_ETIMEDOUT      // not acquired within the Wait
	ErrNotOwner      Code = C.RLOCK_ENOTOWNER      // not held by this owner
	ErrLost          Code = C.RLOCK_ELOST          // the hold was lost before its unlock
	ErrInDoubt       Code = C.RLOCK_EINDOUBT       // the outcome is not known; see Error.FreeIn
	ErrNoConnection  Code = C.RLOCK_ECONN          // no connection to the server
	ErrTLS           Code = C.RLOCK_ETLS           // TLS failed
	ErrAuth          Code = C.RLOCK_EAUTH          // authentication failed
	ErrPermission    Code = C.RLOCK_EPERM          // no permission on the server
	ErrRefused       Code = C.RLOCK_EREFUSED       // refused by the server
	ErrWrongType     Code = C.RLOCK_EWRONGTYPE     // the key holds something that is not a lock
	ErrNoQuorum      Code = C.RLOCK_ENOQUORUM      // RedLock: too few servers
	ErrNotReplicated Code = C.RLOCK_ENOTREPLICATED // too few replicas confirmed
	ErrDeadlock      Code = C.RLOCK_EDEADLOCK      // the call would wait for itself
	ErrReacquired    Code = C.RLOCK_EREACQUIRE     // already held by this owner, and not reentrant
	ErrCanceled      Code = C.RLOCK_ECANCELED      // the context ended
	ErrClosed        Code = C.RLOCK_ECLOSED        // the client is closed
	ErrForked        Code = C.RLOCK_EFORKED        // the client belongs to the parent process
	ErrInvalid       Code = C.RLOCK_EINVAL         // an argument or an option is wrong
	ErrNotSupported  Code = C.RLOCK_ENOTSUP        // not supported
	ErrNoMemory      Code = C.RLOCK_ENOMEM         // no memory
	ErrNoResources   Code = C.RLOCK_ERESOURCE      // no threads or file descriptors
	ErrRestarted     Code = C.RLOCK_ERESTARTED     // the server restarted too recently to count
)

func (c Code) Error() string { return C.GoString(C.rlock_strerror(C.int(c))) }

// Reason is why a hold was lost.
type Reason int

// The reasons of rlock.h.
const (
	LostExpired       Reason = C.RLOCK_LOST_EXPIRED        // the client could not renew it in time
	LostTaken         Reason = C.RLOCK_LOST_TAKEN          // the server reports another holder
	LostDeleted       Reason = C.RLOCK_LOST_DELETED        // the server has no such lock
	LostNotReplicated Reason = C.RLOCK_LOST_NOT_REPLICATED // too few replicas have it
	LostClockStepped  Reason = C.RLOCK_LOST_CLOCK_STEPPED  // somebody set the server's clock
	LostForked        Reason = C.RLOCK_LOST_FORKED         // the process is a child of fork
	LostClosed        Reason = C.RLOCK_LOST_CLOSED         // the client was closed
	LostThreadExited  Reason = C.RLOCK_LOST_THREAD_EXITED  // not in Go: no thread owns a hold
	LostForced        Reason = C.RLOCK_LOST_FORCED         // this process released the lock by force
	LostRestarted     Reason = C.RLOCK_LOST_RESTARTED      // RedLock: servers restarted
	LostOwnerEnded    Reason = C.RLOCK_LOST_OWNER_ENDED    // the program dropped the Hold
)

func (r Reason) String() string { return C.GoString(C.rlock_reason_text(C.int(r))) }

// Error is a call that failed. errors.Is finds its Code, and ctx.Err() if the context ended the call.
type Error struct {
	Code   Code
	Reason Reason        // ErrLost: why the hold was lost; otherwise 0
	Detail string        // one line for logs
	FreeIn time.Duration // when the lock is free, at the latest; negative: unknown (struct rlock_failure, free_ms)
	Holder string        // the holder of the lock, as "uuid:number"; "": unknown
	Server string        // the address of the server that the call was about; "": unknown
	ended  error         // ctx.Err()
}

func (e *Error) Error() string {
	text := "rlock: " + e.Code.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.ended != nil {
		text += ": " + e.ended.Error()
	}
	return text
}

// Unwrap returns the Code.
func (e *Error) Unwrap() error { return e.Code }

// Is finds the error of the context that ended the call. errors.Is calls it.
func (e *Error) Is(target error) bool { return e.ended != nil && errors.Is(e.ended, target) }

func newError(code C.int, failure *C.struct_rlock_failure) *Error {
	if failure == nil {
		return &Error{Code: Code(code), FreeIn: -1}
	}
	return &Error{
		Code:   Code(code),
		Reason: Reason(failure.reason),
		Detail: C.GoString(failure.detail),
		FreeIn: duration(failure.free_ms),
		Holder: C.GoString(&failure.holder[0]),
		Server: C.GoString(&failure.server[0]),
	}
}

// call runs a function of C that does not wait, and makes an error of its code.
func call(function func(failure **C.struct_rlock_failure) C.int) error {
	var failure *C.struct_rlock_failure
	code := function(&failure)
	if code == 0 {
		return nil
	}
	defer C.free(unsafe.Pointer(failure))
	return newError(code, failure)
}

// milliseconds rounds away from 0: a wait or a lease is never shorter than the program asked for, and -1 ns is not 0.
func milliseconds(d time.Duration) C.int64_t {
	ms := d / time.Millisecond
	switch rest := d % time.Millisecond; {
	case rest > 0:
		ms++
	case rest < 0:
		ms--
	}
	return C.int64_t(ms)
}

func duration(ms C.int64_t) time.Duration { return time.Duration(ms) * time.Millisecond }
