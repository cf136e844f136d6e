// SPDX-License-Identifier: Apache-2.0

// Package rlock is a thin layer on the C library of that name. What is taken belongs to an owner of its own, not to a
// thread: goroutines move between threads. One that waits takes a thread meanwhile; where thousands wait there is
// rlock_lock_async(). The rest of rlock.h can be added likewise.
package rlock

/*
#cgo pkg-config: rlock
#include <stdlib.h>
#include <rlock/rlock.h>

void rlockLost(struct rlock_loss *loss, void *payload);

typedef int (*new_fn)(struct rlock_client *, const char *, const struct rlock_opts *, struct rlock_handle **);

static inline int call_new(new_fn new, struct rlock_client *client, const char *name, struct rlock_handle **ret_lock)
{
	return new(client, name, NULL, ret_lock);
}
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

const Forever = -time.Millisecond

// Code is what a call came to: one of rlock.h.
type Code int

const (
	Busy     Code = C.RLOCK_EBUSY
	TimedOut Code = C.RLOCK_ETIMEDOUT
	Lost     Code = C.RLOCK_ELOST
	InDoubt  Code = C.RLOCK_EINDOUBT
	Closed   Code = C.RLOCK_ECLOSED
)

// Error is a call that failed; Detail is for logs.
type Error struct {
	Code
	Detail string
}

func (c Code) String() string  { return C.GoString(C.rlock_strerror(C.int(c))) }
func (e *Error) Error() string { return e.String() + ": " + e.Detail }

// CodeOf returns an error's code, 0 of none.
func CodeOf(err error) Code {
	failed := &Error{}
	errors.As(err, &failed)
	return failed.Code
}

// call makes an error of a C function's code. The detail is in the thread that called.
func call(function func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := function(); code != 0 {
		return &Error{Code(code), C.GoString(C.rlock_detail())}
	}
	return nil
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
}

// Open opens a client, whose holds have that lease and are renewed. onLost may be nil; it must neither wait nor close.
func Open(url string, lease time.Duration, onLost func(Loss)) (*Client, error) {
	var opts C.struct_rlock_client_opts
	C.rlock_client_opts_init(&opts, C.sizeof_struct_rlock_client_opts)
	opts.url, opts.renewed_lease_ms = C.CString(url), C.int64_t(lease.Milliseconds())
	defer C.free(unsafe.Pointer(opts.url))
	opts.on_lost, opts.payload = (*C.rlock_lost_fn)(C.rlockLost), C.malloc(1)
	listeners.Store(opts.payload, onLost)
	var client *C.struct_rlock_client
	err := call(func() C.int { return C.rlock_client_open(&opts, &client) })
	return &Client{client, opts.payload}, err
}

// Close releases what is held, and ends all waits: Closed. Once.
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

// Hold is what its owner has of a lock. Any goroutine may use it.
type Hold struct {
	Token uint64 // of a fenced lock, else 0
	lock  *Lock
	owner C.uint64_t
}

// Take takes the lock within that time (0 is one attempt, Forever is without end), and while the context lasts.
func (l *Lock) Take(ctx context.Context, wait time.Duration) (*Hold, error) {
	if l.err != nil {
		return nil, l.err
	}
	var take C.struct_rlock_take
	var grant C.struct_rlock_grant
	C.rlock_take_init(&take, C.sizeof_struct_rlock_take)
	C.rlock_grant_init(&grant, C.sizeof_struct_rlock_grant)
	take.wait_ms, take.owner = C.int64_t(wait.Milliseconds()), C.rlock_owner_new(l.client.client)
	if err := call(func() C.int { return C.rlock_cancel_new(&take.cancel) }); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- call(func() C.int { return C.rlock_lock_with(l.lock, &take, &grant) }) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		C.rlock_cancel_fire(take.cancel)
		err = <-ended
	}
	C.rlock_cancel_free(take.cancel)
	if CodeOf(err) == C.RLOCK_ECANCELED {
		return nil, ctx.Err()
	}
	return &Hold{uint64(grant.token), l, take.owner}, err
}

// With takes the lock, works, and returns what the unlock came to.
func (l *Lock) With(ctx context.Context, wait time.Duration, work func(*Hold)) (err error) {
	hold, err := l.Take(ctx, wait)
	if err == nil {
		defer func() { err = hold.Unlock() }()
		work(hold)
	}
	return err
}

// Unlock gives it up. Lost: it had ended before.
func (h *Hold) Unlock() error {
	defer runtime.KeepAlive(h)
	return call(func() C.int { return C.rlock_unlock_as(h.lock.lock, h.owner) })
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
