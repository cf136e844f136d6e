// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// Lock is a name and a kind at a client. All goroutines may share it. docs/choosing.md says what each kind promises.
type Lock struct {
	client *Client
	lock   *C.struct_rlock_handle
	err    error // why there is none
}

// A LockOption is an option of a lock. A kind refuses the options of other kinds with ErrInvalid.
type LockOption func(*lockOptions)

type lockOptions struct{ c C.struct_rlock_opts }

// MaxHold limits the duration of a hold.
func MaxHold(d time.Duration) LockOption {
	return func(opts *lockOptions) { opts.c.max_hold_ms = milliseconds(d) }
}

// Linger keeps the lock for so long after the last unlock, for the next call of this client, which then asks no server; at
// most 10 ms. For reentrant, non-reentrant and spin locks. rlock.h says what others see meanwhile.
func Linger(d time.Duration) LockOption {
	return func(opts *lockOptions) { opts.c.linger_ms = milliseconds(d) }
}

// NoReentry makes a lock that an owner can take only once: ErrReacquired. For every kind except multi-locks and RedLocks.
func NoReentry() LockOption {
	return func(opts *lockOptions) { opts.c.flags |= C.RLOCK_LOCK_NO_REENTRY }
}

// PreferWriters makes new readers stand back while a writer waits. Both sides of the read/write lock must have it.
func PreferWriters() LockOption {
	return func(opts *lockOptions) { opts.c.flags |= C.RLOCK_LOCK_PREFER_WRITERS }
}

// Pauses sets how a spin or setnx lock polls: its first pause, its longest one, and the factor by which pauses grow.
func Pauses(first, longest time.Duration, growth int) LockOption {
	return func(opts *lockOptions) {
		opts.c.pause_first_ms, opts.c.pause_max_ms = milliseconds(first), milliseconds(longest)
		opts.c.pause_growth = C.int64_t(growth)
	}
}

// FairSlot sets the longest wait that any peer passes to a call on a fair lock. It is equal for all users of the lock.
func FairSlot(d time.Duration) LockOption {
	return func(opts *lockOptions) { opts.c.fair_slot_ms = milliseconds(d) }
}

// MaxLease sets how long a restarted server of a RedLock does not count; negative: not at all. It is equal for all users.
func MaxLease(d time.Duration) LockOption {
	return func(opts *lockOptions) { opts.c.max_lease_ms = milliseconds(d) }
}

// Reentrant makes a reentrant lock: its owner may take it again (Owner), and unlocks it as many times. Making a lock asks no
// server. If a lock cannot be made, the error is that of each call on it, and Err returns it.
func (c *Client) Reentrant(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_reentrant_new), name, opts)
}

// NonReentrant makes a lock that an owner can take only once: ErrReacquired.
func (c *Client) NonReentrant(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_nonreentrant_new), name, opts)
}

// Spin makes a reentrant lock. Its waiters poll, and do not need pub/sub.
func (c *Client) Spin(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_spin_new), name, opts)
}

// SetNX makes the lock of redsync, bsm/redislock, redis-py and others: one string key, which is the name.
func (c *Client) SetNX(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_setnx_new), name, opts)
}

// Permits makes a semaphore of that many permits: at most so many are held at a time. Redisson's RPermitExpirableSemaphore. A
// call takes one of them, or Units. If the server has a number of its permits, that one counts.
func (c *Client) Permits(name string, units int64, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_permits_new), name, numbered(units, opts))
}

// Semaphore makes a semaphore of that many units. Redisson's RSemaphore. It is like Permits, but its units have no Lease, and
// cannot be extended.
func (c *Client) Semaphore(name string, units int64, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_semaphore_new), name, numbered(units, opts))
}

func numbered(units int64, opts []LockOption) []LockOption {
	return append([]LockOption{func(opts *lockOptions) { opts.c.units = C.int64_t(units) }}, opts...)
}

// Fenced makes a reentrant lock. Each of its holds has a token that is larger than all earlier ones.
func (c *Client) Fenced(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_fenced_new), name, opts)
}

// Fair makes a reentrant lock that goes to its waiters in the order in which the server queued them.
func (c *Client) Fair(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_fair_new), name, opts)
}

// Read makes the read side of a read/write lock: any number of owners read while nobody writes.
func (c *Client) Read(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_read_new), name, opts)
}

// Write makes the write side of a read/write lock: one owner writes while nobody else reads or writes.
func (c *Client) Write(name string, opts ...LockOption) *Lock {
	return c.named((*C.glue_new_fn)(C.rlock_write_new), name, opts)
}

// Multi makes a multi-lock: one lock that its owner holds while it holds all members.
func Multi(members ...*Lock) *Lock {
	return group((*C.glue_group_fn)(C.rlock_multi_new), members, nil)
}

// RedLock makes a RedLock: a lock that its owner holds while it holds most members, each at a client and on a server of its
// own.
func RedLock(members []*Lock, opts ...LockOption) *Lock {
	return group((*C.glue_group_fn)(C.rlock_redlock_new), members, opts)
}

func optionsOf(opts []LockOption) *C.struct_rlock_opts {
	o := new(lockOptions)
	C.rlock_init(unsafe.Pointer(&o.c), C.sizeof_struct_rlock_opts)
	for _, option := range opts {
		option(o)
	}
	return &o.c
}

func (c *Client) named(kind *C.glue_new_fn, name string, opts []LockOption) *Lock {
	text, o := C.CString(name), optionsOf(opts)
	defer C.free(unsafe.Pointer(text))
	o.name_len = C.size_t(len(name))
	var lock *C.struct_rlock_handle
	err := c.open(func(client *C.struct_rlock_client) error {
		return call(func(failure **C.struct_rlock_failure) C.int {
			return C.glue_new(kind, client, text, o, &lock, failure)
		})
	})
	return newLock(c, lock, err)
}

func group(kind *C.glue_group_fn, members []*Lock, opts []LockOption) *Lock {
	defer runtime.KeepAlive(members)
	var client *Client
	var lock *C.struct_rlock_handle
	handles := make([]*C.struct_rlock_handle, len(members))
	for i, member := range members {
		if member.err != nil {
			return &Lock{err: member.err}
		}
		client, handles[i] = members[0].client, member.lock
	}
	err := call(func(failure **C.struct_rlock_failure) C.int {
		return C.glue_group(kind, unsafe.SliceData(handles), C.size_t(len(handles)), optionsOf(opts), &lock, failure)
	})
	return newLock(client, lock, err)
}

func newLock(client *Client, lock *C.struct_rlock_handle, err error) *Lock {
	l := &Lock{client, lock, err}
	runtime.SetFinalizer(l, func(l *Lock) { C.rlock_free(l.lock) })
	return l
}

// Err returns why the lock could not be made, or nil.
func (l *Lock) Err() error { return l.err }

// Name returns the lock's name.
func (l *Lock) Name() string {
	if l.err != nil {
		return ""
	}
	defer runtime.KeepAlive(l)
	var size C.size_t
	name := C.rlock_name(l.lock, &size)
	return C.GoStringN(name, C.int(size))
}

// A TakeOption is an option of Lock, TryLock and Adopt.
type TakeOption func(*take)

type take struct {
	wait, lease C.int64_t
	units       C.int64_t
	owner       *owner
	fromDead    bool
}

// Wait limits how long Lock waits while somebody else holds the lock: ErrTimedOut. 0 tries once: ErrBusy. A time below 0 is
// ErrInvalid. Without Wait only the context ends the wait. TryLock accepts no Wait but 0.
func Wait(d time.Duration) TakeOption {
	return func(t *take) {
		if t.wait = milliseconds(d); d < 0 {
			t.wait = C.RLOCK_FOREVER - 1 // which the library refuses
		}
	}
}

// Lease gives the hold a fixed lease, at least 10 ms. Without it, or with 0, the client renews the lease until the unlock.
func Lease(d time.Duration) TakeOption {
	return func(t *take) { t.lease = milliseconds(d) }
}

// Units takes so many units of permits or a semaphore, all or none; at most 1000. The unlock gives them back together.
func Units(n int64) TakeOption {
	return func(t *take) { t.units = C.int64_t(n) }
}

// Owner takes the lock for the owner of another hold: one more level of the same lock, the read side of a lock that it
// writes, or any other lock. Each of the holds is unlocked once. Without it each hold has an owner of its own, so a
// goroutine that takes again what it holds waits for itself.
func Owner(hold *Hold) TakeOption {
	return func(t *take) { t.owner = hold.owner }
}

// FromDead is for Adopt with a text of Hold.Text: the program knows that the process which wrote the text is gone.
func FromDead() TakeOption {
	return func(t *take) { t.fromDead = true }
}

// Lock takes the lock. It waits until it has the lock, until the Wait ends (ErrTimedOut), or until the context ends. Then it
// returns within 50 ms an error that is ErrCanceled and ctx.Err(), and gives back what a request on its way may still get;
// Error.FreeIn says by when. The hold is nil beside an error. If the context ends just when the lock has been granted, the
// call may still return the hold.
func (l *Lock) Lock(ctx context.Context, opts ...TakeOption) (*Hold, error) {
	return l.take(ctx, C.RLOCK_FOREVER, nil, opts)
}

// TryLock takes the lock if it is free. Otherwise it returns ErrBusy.
func (l *Lock) TryLock(ctx context.Context, opts ...TakeOption) (*Hold, error) {
	return l.take(ctx, 0, nil, opts)
}

// Adopt takes over the hold of a text, from Hold.Detach at a lock of the same name and kind, of any process. It does not
// wait: if several callers have the text, one of them gets the hold, and the others get ErrNotOwner. So it is if the hold has
// ended. A text of Hold.Text requires the option FromDead: ErrBusy. After ErrInDoubt, or if the context ended the call, the
// caller does not have the hold, and the text is good for another call.
func (l *Lock) Adopt(ctx context.Context, text string, opts ...TakeOption) (*Hold, error) {
	return l.take(ctx, 0, &text, opts)
}

// take takes the lock, or if there is a text, adopts the hold of that.
func (l *Lock) take(ctx context.Context, wait C.int64_t, text *string, opts []TakeOption) (*Hold, error) {
	defer runtime.KeepAlive(l)
	t := take{wait: wait}
	for _, option := range opts {
		option(&t)
	}
	if l.err != nil {
		return nil, l.err
	}
	switch {
	case wait == 0 && t.wait != 0:
		return nil, &Error{Code: ErrInvalid, Detail: "TryLock and Adopt do not wait", FreeIn: -1}
	case text == nil && t.fromDead:
		return nil, &Error{Code: ErrInvalid, Detail: "FromDead is for Adopt alone", FreeIn: -1}
	case text != nil && strings.ContainsRune(*text, 0): // C would not see what follows it
		return nil, &Error{Code: ErrInvalid, Detail: "this is not the text of a hold", FreeIn: -1}
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Code: ErrCanceled, FreeIn: -1, ended: err}
	}
	if t.owner == nil {
		t.owner = &owner{}
	}
	defer runtime.KeepAlive(t.owner)
	o, err := beginIn(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		if text == nil {
			return C.glue_lock(l.lock, t.wait, t.lease, t.units, t.owner.id, payload, op, failure)
		}
		c := C.CString(*text)
		defer C.free(unsafe.Pointer(c))
		return C.glue_adopt(l.lock, c, t.lease, t.owner.id, truth(t.fromDead), payload, op, failure)
	})
	if err != nil {
		return nil, err
	}
	defer o.drop()
	if err := o.wait(ctx); err != nil {
		return nil, err
	}
	return newHold(ctx, l, t.owner, o), nil
}

// Info is the server's state of a lock: struct rlock_info of rlock.h.
type Info struct {
	Locked      bool          // somebody holds it; read/write lock: somebody holds this side
	Mine        bool          // the holder is an owner of this client
	Holders     int           // number of owners that hold it
	TTL         time.Duration // the rest of the lease; negative: the key has no TTL, or there is no lock
	Count       int64         // levels of the first holder
	Token       uint64        // fenced: the latest granted token
	Waiters     int           // fair: number of waiters in the queue
	DeadWaiters int           // fair: dead waiters among them
	Holder      string        // the first holder, as "uuid:number"
	Mode        string        // read/write: "read" or "write"
	Units       int64         // permits, semaphore: how many there are
	UnitsFree   int64         // permits, semaphore: how many of them are free
}

// Inspect asks the server about the lock.
func (l *Lock) Inspect(ctx context.Context) (Info, error) {
	o, err := l.ask(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_inspect(l.lock, payload, op, failure)
	})
	if err != nil {
		return Info{}, err
	}
	defer o.drop()
	var info C.struct_rlock_info
	C.rlock_init(unsafe.Pointer(&info), C.sizeof_struct_rlock_info)
	C.rlock_op_info(o.op, &info)
	return Info{
		Locked: info.locked != 0, Mine: info.mine != 0, Holders: int(info.holders), TTL: duration(info.ttl_ms),
		Count: int64(info.count), Token: uint64(info.token), Waiters: int(info.waiters), DeadWaiters: int(info.dead_waiters),
		Holder: C.GoString(&info.holder[0]), Mode: C.GoString(&info.mode[0]),
		Units: int64(info.units), UnitsFree: int64(info.units_free),
	}, nil
}

// ForceUnlock releases the lock of any holder, and returns whether it was held. Holds of this process are reported
// as lost (LostForced); other processes find out at their next renewal. If the context ends, the request goes on.
func (l *Lock) ForceUnlock(ctx context.Context) (wasLocked bool, err error) {
	o, err := l.ask(ctx, func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_force_unlock(l.lock, payload, op, failure)
	})
	if err != nil {
		return false, err
	}
	defer o.drop()
	return bool(C.rlock_op_was_locked(o.op)), nil
}

// ask runs a call that ends within Options.OpTimeout, and waits for it as long as the context lasts.
func (l *Lock) ask(ctx context.Context, start starter) (*operation, error) {
	defer runtime.KeepAlive(l)
	if l.err != nil {
		return nil, l.err
	}
	o, err := begin(start)
	if err != nil {
		return nil, err
	}
	select {
	case <-o.done:
		err = o.result()
	case <-ctx.Done():
		err = &Error{Code: ErrCanceled, FreeIn: -1, ended: ctx.Err()}
	}
	if err != nil {
		o.drop()
		return nil, err
	}
	return o, nil
}
