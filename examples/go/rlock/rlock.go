// SPDX-License-Identifier: Apache-2.0

// Package rlock is a thin layer on the C library of that name. A hold belongs to an owner of its own, not to a thread:
// goroutines move between threads. A goroutine that waits takes no thread. The rest of rlock.h can be added likewise.
package rlock

/*
#cgo pkg-config: rlock
#include <stdint.h>
#include <stdlib.h>
#include <rlock/rlock.h>

void rlockLost(struct rlock_loss *loss, void *payload);
void rlockDone(struct rlock_op *op, void *payload);

typedef int (*new_fn)(struct rlock_client *, const char *, const struct rlock_opts *, struct rlock_handle **);

static inline int call_new(new_fn new, struct rlock_client *client, const char *name, struct rlock_handle **ret_lock)
{
	return new(client, name, NULL, ret_lock);
}

static inline int lock_async(struct rlock_handle *lock, int64_t wait_ms, uint64_t owner, uintptr_t payload,
			     struct rlock_op **ret_op)
{
	return rlock_lock_async(lock, wait_ms, RLOCK_TAKE(.owner = owner), rlockDone, (void *)payload, ret_op);
}

static inline int unlock_async(struct rlock_handle *lock, uint64_t owner, uintptr_t payload, struct rlock_op **ret_op)
{
	return rlock_unlock_async(lock, owner, rlockDone, (void *)payload, ret_op);
}
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
	"unsafe"
)

// Forever is a wait without end, and so is every wait of more than a hundred years.
const Forever = -time.Millisecond

const longest = 100 * 366 * 24 * time.Hour

// Code is the result of a call: rlock.h says what each means. errors.Is(err, ErrBusy) asks for one.
type Code int

const (
	ErrBusy          Code = C.RLOCK_EBUSY
	ErrTimedOut      Code = C.RLOCK_ETIMEDOUT
	ErrNotOwner      Code = C.RLOCK_ENOTOWNER
	ErrLost          Code = C.RLOCK_ELOST
	ErrInDoubt       Code = C.RLOCK_EINDOUBT
	ErrNoConnection  Code = C.RLOCK_ECONN
	ErrTLS           Code = C.RLOCK_ETLS
	ErrAuth          Code = C.RLOCK_EAUTH
	ErrPermission    Code = C.RLOCK_EPERM
	ErrRefused       Code = C.RLOCK_EREFUSED
	ErrWrongType     Code = C.RLOCK_EWRONGTYPE
	ErrNoQuorum      Code = C.RLOCK_ENOQUORUM
	ErrNotReplicated Code = C.RLOCK_ENOTREPLICATED
	ErrDeadlock      Code = C.RLOCK_EDEADLOCK
	ErrClosed        Code = C.RLOCK_ECLOSED
	ErrInvalid       Code = C.RLOCK_EINVAL
	ErrNotSupported  Code = C.RLOCK_ENOTSUP
	ErrNoMemory      Code = C.RLOCK_ENOMEM
	ErrNoResources   Code = C.RLOCK_ERESOURCE
	ErrRestarted     Code = C.RLOCK_ERESTARTED
)

// Error is a call that failed; Detail is for logs.
type Error struct {
	Code
	Detail string
	cause  error // why the program ended the call
}

func (c Code) Error() string   { return C.GoString(C.rlock_strerror(C.int(c))) }
func (e *Error) Error() string { return e.Code.Error() + ": " + e.Detail }
func (e *Error) Unwrap() error { return e.Code }

// Is finds ctx.Err() in the error of a call that the context ended.
func (e *Error) Is(target error) bool { return e.cause != nil && errors.Is(e.cause, target) }

// call makes an error of a C function's code. The detail is in the thread that called.
func call(function func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := function(); code != 0 {
		return &Error{Code: Code(code), Detail: C.GoString(C.rlock_detail())}
	}
	return nil
}

//export rlockDone
func rlockDone(op *C.struct_rlock_op, payload unsafe.Pointer) {
	close(cgo.Handle(uintptr(payload)).Value().(chan struct{}))
}

// await begins an async call, and waits for its end without a thread. The end of the context asks the call to end. The
// caller drops the operation.
func await(ctx context.Context, begin func(payload C.uintptr_t, op **C.struct_rlock_op) C.int) (*C.struct_rlock_op, error) {
	var op *C.struct_rlock_op
	done := make(chan struct{})
	handle := cgo.NewHandle(done)
	defer handle.Delete()
	if err := call(func() C.int { return begin(C.uintptr_t(handle), &op) }); err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		C.rlock_op_cancel(op)
		<-done
	}
	if code := C.rlock_op_code(op); code != 0 {
		return op, &Error{Code(code), C.GoString(C.rlock_op_detail(op)), ctx.Err()}
	}
	return op, nil
}

// Loss is a hold that was lost.
type Loss struct{ Name, Kind, Reason string }

var listeners sync.Map // what Go has for the payload that C has

//export rlockLost
func rlockLost(loss *C.struct_rlock_loss, payload unsafe.Pointer) {
	if onLost, ok := listeners.Load(payload); ok && onLost.(func(Loss)) != nil {
		name, reason := C.GoStringN(loss.name, C.int(loss.name_len)), C.GoString(C.rlock_reason_text(loss.reason))
		onLost.(func(Loss))(Loss{name, C.GoString(loss.kind), reason})
	}
}

// Client is this process's handle on one deployment. It is closed when nobody else is about to use it.
type Client struct {
	client  *C.struct_rlock_client
	payload unsafe.Pointer
	onLost  func(Loss)
}

// Open opens a client, whose holds have that lease and are renewed. onLost may be nil; it must neither wait nor close.
func Open(url string, lease time.Duration, onLost func(Loss)) (*Client, error) {
	var opts C.struct_rlock_client_opts
	C.rlock_init(unsafe.Pointer(&opts), C.sizeof_struct_rlock_client_opts)
	opts.url, opts.renewed_lease_ms = C.CString(url), C.int64_t(lease.Milliseconds())
	defer C.free(unsafe.Pointer(opts.url))
	opts.on_lost, opts.payload = (*C.rlock_lost_fn)(C.rlockLost), C.malloc(1)
	listeners.Store(opts.payload, onLost)
	var client *C.struct_rlock_client
	if err := call(func() C.int { return C.rlock_client_open(&opts, &client) }); err != nil {
		listeners.Delete(opts.payload)
		C.free(opts.payload)
		return nil, err
	}
	return &Client{client, opts.payload, onLost}, nil
}

// Close releases what is held, and ends all waits: ErrClosed. Once.
func (c *Client) Close() {
	C.rlock_client_close(c.client)
	listeners.Delete(c.payload)
	C.free(c.payload)
}

// Lock is a name and a kind of a client.
type Lock struct {
	client *Client
	lock   *C.struct_rlock_handle
	err    error // why there is none: told when it is taken
}

// ReadWrite is the two sides of a read/write lock.
type ReadWrite struct{ Read, Write *Lock }

func (c *Client) Reentrant(name string) *Lock { return c.named(C.new_fn(C.rlock_reentrant_new), name) }
func (c *Client) Fair(name string) *Lock      { return c.named(C.new_fn(C.rlock_fair_new), name) }
func (c *Client) Fenced(name string) *Lock    { return c.named(C.new_fn(C.rlock_fenced_new), name) }

func (c *Client) ReadWrite(name string) ReadWrite {
	return ReadWrite{c.named(C.new_fn(C.rlock_read_new), name), c.named(C.new_fn(C.rlock_write_new), name)}
}

func (c *Client) named(kind C.new_fn, name string) *Lock {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return c.lock(func(lock **C.struct_rlock_handle) C.int { return C.call_new(kind, c.client, text, lock) })
}

// Multi makes a lock that is held while all members, one at least, are.
func Multi(members ...*Lock) *Lock {
	defer runtime.KeepAlive(members)
	handles := make([]*C.struct_rlock_handle, len(members))
	for i, member := range members {
		handles[i] = member.lock
	}
	return members[0].client.lock(func(lock **C.struct_rlock_handle) C.int {
		return C.rlock_multi_new(&handles[0], C.size_t(len(handles)), nil, lock)
	})
}

func (c *Client) lock(function func(lock **C.struct_rlock_handle) C.int) *Lock {
	var lock *C.struct_rlock_handle
	err := call(func() C.int { return function(&lock) })
	l := &Lock{c, lock, err}
	runtime.SetFinalizer(l, func(l *Lock) { C.rlock_free(l.lock) })
	return l
}

// Hold is what its owner has of a lock. Any goroutine may use it. Keep it until Unlock: a hold that the garbage collector
// finds is unlocked, and reported as lost.
type Hold struct {
	Token uint64 // of a fenced lock, else 0
	lock  *Lock
	owner C.uint64_t
}

// Take takes the lock within that time (0 tries once, Forever has no end), and while the context lasts: ErrBusy,
// ErrTimedOut, ctx.Err(). The hold is nil beside an error.
func (l *Lock) Take(ctx context.Context, wait time.Duration) (*Hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	defer runtime.KeepAlive(l)
	owner := C.rlock_owner_new(l.client.client)
	op, err := await(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op) C.int {
		return C.lock_async(l.lock, milliseconds(wait), owner, payload, op)
	})
	defer C.rlock_op_unref(op)
	if errors.Is(err, Code(C.RLOCK_ECANCELED)) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var grant C.struct_rlock_grant
	C.rlock_init(unsafe.Pointer(&grant), C.sizeof_struct_rlock_grant)
	C.rlock_op_grant(op, &grant)
	hold := &Hold{uint64(grant.token), l, owner}
	runtime.SetFinalizer(hold, (*Hold).dropped)
	return hold, nil
}

// milliseconds rounds up: no wait is shorter than its time.
func milliseconds(wait time.Duration) C.int64_t {
	switch {
	case wait == Forever || wait > longest:
		return C.RLOCK_FOREVER
	case wait < 0:
		return C.RLOCK_FOREVER - 1 // ErrInvalid
	}
	return C.int64_t((wait + time.Millisecond - 1) / time.Millisecond)
}

// With takes the lock, works, and returns the error of the unlock.
func (l *Lock) With(ctx context.Context, wait time.Duration, work func(*Hold)) (err error) {
	hold, err := l.Take(ctx, wait)
	if err == nil {
		defer func() { err = hold.Unlock() }()
		work(hold)
	}
	return err
}

// Unlock gives it up. ErrLost: it had ended before. ErrNotOwner: it was unlocked before.
func (h *Hold) Unlock() error {
	runtime.SetFinalizer(h, nil)
	return h.lock.unlock(h.owner)
}

func (l *Lock) unlock(owner C.uint64_t) error {
	defer runtime.KeepAlive(l)
	op, err := await(context.Background(), func(payload C.uintptr_t, op **C.struct_rlock_op) C.int {
		return C.unlock_async(l.lock, owner, payload, op)
	})
	C.rlock_op_unref(op)
	return err
}

// dropped ends a hold that the program no longer has. A finalizer must not wait.
func (h *Hold) dropped() {
	go func(l *Lock, owner C.uint64_t) {
		err := l.unlock(owner)
		if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) || l.client.onLost == nil {
			return // the client has reported it
		}
		name, kind := C.GoString(C.rlock_name(l.lock, nil)), C.GoString(C.rlock_kind(l.lock))
		runtime.KeepAlive(l)
		l.client.onLost(Loss{name, kind, "the program dropped the hold without unlocking it"})
	}(h.lock, h.owner)
}

// IsValid says whether it may be relied on now. Local.
func (h *Hold) IsValid() bool {
	defer runtime.KeepAlive(h)
	return bool(C.rlock_is_valid_as(h.lock.lock, h.owner))
}

// ForceUnlock opens the lock, whoever holds it.
func (l *Lock) ForceUnlock() error {
	defer runtime.KeepAlive(l)
	return call(func() C.int { return C.rlock_force_unlock(l.lock, nil) })
}
