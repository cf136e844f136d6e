// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Hold is a lock that is held, from Lock, TryLock or Adopt until Unlock or Detach. All goroutines may share it. The program
// keeps it until then: see the package's comment.
type Hold struct {
	*possession
	owner *owner
}

// An owner is what the holds that Owner joins have in common. It does not refer to them: its finalizer finds what they left.
type owner struct {
	id C.uint64_t
	_  *byte // small objects without a pointer share their memory, and then a finalizer may never run
}

// A possession is what the client's callbacks and the finalizer of the owner see of a hold. It does not refer to the Hold.
type possession struct {
	lock    *Lock
	id      C.uint64_t // the owner's
	token   uint64
	ctx     context.Context
	end     context.CancelCauseFunc
	lost    chan struct{}
	losing  sync.Once
	unlocks sync.Mutex  // one at a time
	isOver  atomic.Bool // Unlock has begun, or Detach has succeeded

	isDetaching atomic.Bool // Detach has begun, and the library may have the hold no more
}

// possessions has those of each owner that are not unlocked yet.
var possessions = struct {
	sync.Mutex
	of map[C.uint64_t][]*possession
}{of: map[C.uint64_t][]*possession{}}

func newHold(ctx context.Context, l *Lock, own *owner, o *operation) *Hold {
	p := &possession{lock: l, lost: make(chan struct{})}
	var token C.uint64_t
	p.id = C.glue_grant(o.op, &token)
	p.token = uint64(token)
	p.ctx, p.end = context.WithCancelCause(ctx)
	p.add()
	if own.id == 0 {
		own.id = p.id
		runtime.SetFinalizer(own, (*owner).dropped)
	}
	p.look() // the loss may have been reported before the callback could find it
	return &Hold{p, own}
}

func (p *possession) add() {
	possessions.Lock()
	defer possessions.Unlock()
	possessions.of[p.id] = append(possessions.of[p.id], p)
}

func (p *possession) remove() {
	possessions.Lock()
	defer possessions.Unlock()
	rest := possessions.of[p.id][:0:0]
	for _, other := range possessions.of[p.id] {
		if other != p {
			rest = append(rest, other)
		}
	}
	if possessions.of[p.id] = rest; len(rest) == 0 {
		delete(possessions.of, p.id)
	}
}

func possessionsOf(id C.uint64_t) []*possession {
	possessions.Lock()
	defer possessions.Unlock()
	return slices.Clone(possessions.of[id])
}

// dropped is the owner's finalizer: the program can no longer reach the owner's holds, and cannot unlock them.
func (o *owner) dropped() {
	go func(left []*possession) { // a finalizer must not wait, and a handler of the log may
		for _, p := range left {
			p.drop()
		}
	}(possessionsOf(o.id))
}

func (p *possession) drop() {
	select {
	case <-p.lost: // the program knows
	default:
		p.lock.client.log.Warn("the program dropped a hold without unlocking it", "lock", p.lock.Name())
	}
	// A client that is closed has nothing left to end.
	_ = p.lock.client.open(func(client *C.struct_rlock_client) error {
		return call(func(*(*C.struct_rlock_failure)) C.int { return C.rlock_owner_end(client, p.id) })
	})
	p.lose(LostOwnerEnded)
	p.remove()
}

// look finds out whether the hold is lost.
func (p *possession) look() {
	switch found := C.glue_loss(p.lock.lock, p.id); {
	case found > 0:
		p.lose(Reason(found))
	case found == C.RLOCK_ECLOSED:
		p.lose(LostClosed)
	case found == C.RLOCK_EFORKED:
		p.lose(LostForked)
	case found < 0 && !p.isOver.Load() && !p.isDetaching.Load():
		p.lose(LostOwnerEnded)
	}
}

func (p *possession) lose(reason Reason) {
	p.losing.Do(func() {
		close(p.lost)
		p.end(&Error{Code: ErrLost, Reason: reason, Detail: "lock " + p.lock.Name() + ": " + reason.String(), FreeIn: -1})
	})
}

// Loss is a hold that was lost.
type Loss struct {
	Name, Kind string
	Server     string // the address of the hold's server; "" for a multi-lock or RedLock
	Holder     string // what named the hold on that server: "uuid:number"; "" for those two
	Reason     Reason
	Levels     int // number of levels that are lost
}

//export rlockLost
func rlockLost(loss *C.glue_const_loss, payload C.uintptr_t) {
	for _, p := range possessionsOf(loss.owner) {
		p.look()
	}
	if onLost := clientOf(payload).options.OnLost; onLost != nil {
		go onLost(Loss{ // this thread completes other calls, and onLost may wait for one
			Name: C.GoStringN(loss.name, C.int(loss.name_len)), Kind: C.GoString(loss.kind), Server: C.GoString(loss.server),
			Holder: C.GoString(loss.holder), Reason: Reason(loss.reason), Levels: int(loss.levels),
		})
	}
}

// Unlock gives up the hold, and cancels its Context. Whatever it returns, the hold is not valid any more, and the lock is
// free by the end of its lease; ErrNoMemory and ErrNoResources are an exception: the hold goes on. ErrLost: the hold had
// ended before. After ErrInDoubt, ErrNoConnection, ErrPermission, ErrRefused or ErrWrongType the library repeats the release,
// and another Unlock may find out more. Otherwise a second Unlock returns ErrNotOwner.
func (h *Hold) Unlock() error {
	defer runtime.KeepAlive(h)
	h.unlocks.Lock()
	defer h.unlocks.Unlock()
	wasOver := h.isOver.Load()
	if wasOver && C.rlock_hold_count_as(h.lock.lock, h.id) != 0 { // those levels are of other holds
		return errOver()
	}
	h.isOver.Store(true)
	h.end(nil)
	o, err := begin(func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_unlock(h.lock.lock, h.id, payload, op, failure)
	})
	if errors.Is(err, ErrNoMemory) || errors.Is(err, ErrNoResources) {
		h.isOver.Store(wasOver)
		return err
	}
	if err == nil {
		<-o.done
		err = o.result()
		o.drop()
	}
	h.remove()
	if failure, failed := err.(*Error); failed && failure.Code == ErrLost {
		h.lose(failure.Reason)
	}
	return err
}

// Detach hands the hold over: Lock.Adopt takes it over with the text, in any process. The lock stays taken all the time; if
// nobody adopts the hold, it ends with the lease, which is at least 10 ms. Then the hold is over, as after Unlock, and its
// Context has ended; it is not lost. Keep the text secret. Like Unlock, Detach returns within Options.OpTimeout.
//
// If Detach fails, the program calls Detach again, or Unlock. After ErrInDoubt, ErrNoConnection, ErrPermission, ErrRefused or
// ErrWrongType the hold is not valid any more, and Context has ended. ErrInvalid: the owner holds more than one level, for
// example. ErrLost: the hold had ended before.
func (h *Hold) Detach(lease time.Duration) (string, error) {
	defer runtime.KeepAlive(h)
	h.unlocks.Lock()
	defer h.unlocks.Unlock()
	if h.isOver.Load() {
		return "", errOver()
	}
	wasDetaching := h.isDetaching.Swap(true)
	text, err := h.detach(lease)
	if err == nil {
		h.isOver.Store(true)
		h.end(nil)
		h.remove()
		return text, nil
	}
	switch failure := err.(*Error); failure.Code {
	case ErrLost:
		h.lose(failure.Reason)
	case ErrInDoubt, ErrNoConnection, ErrPermission, ErrRefused, ErrWrongType:
		h.end(nil) // the library counts the hold no more, and it is not lost
	default:
		h.isDetaching.Store(wasDetaching)
		h.look() // a loss may have been reported meanwhile
	}
	return "", err
}

func (h *Hold) detach(lease time.Duration) (string, error) {
	o, err := begin(func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_detach(h.lock.lock, h.id, milliseconds(lease), payload, op, failure)
	})
	if err != nil {
		return "", err
	}
	defer o.drop()
	<-o.done
	if err = o.result(); err != nil {
		return "", err
	}
	return o.text(), nil
}

// Text returns a text for a hold that goes on, as a precaution against a crash of this process. Lock.Adopt requires the
// option FromDead for it. Text does not ask the server.
func (h *Hold) Text() (string, error) {
	defer runtime.KeepAlive(h)
	if h.isOver.Load() {
		return "", errOver()
	}
	var text [C.RLOCK_TEXT_SIZE]C.char
	err := call(func(failure **C.struct_rlock_failure) C.int {
		return C.glue_hold_text(h.lock.lock, h.id, &text[0], failure)
	})
	return C.GoString(&text[0]), err
}

func errOver() error {
	return &Error{Code: ErrNotOwner, Detail: "the hold was unlocked or detached before", FreeIn: -1}
}

// Extend extends the lease: the hold lasts for that time at least, from before the request. A lease never gets shorter. With
// 0 the client renews the hold from now on, until Unlock. After ErrInDoubt the hold is valid as long as before, or longer.
func (h *Hold) Extend(lease time.Duration) error {
	defer runtime.KeepAlive(h)
	if h.isOver.Load() {
		return errOver()
	}
	o, err := begin(func(payload C.uintptr_t, op **C.struct_rlock_op, failure **C.struct_rlock_failure) C.int {
		return C.glue_extend(h.lock.lock, h.id, milliseconds(lease), payload, op, failure)
	})
	if err != nil {
		return err
	}
	defer o.drop()
	<-o.done
	return o.result()
}

// Valid returns whether the program may rely on the hold now. Valid does not ask the server. It returns false from the end of
// the validity on, even if the loss has not been reported yet.
func (h *Hold) Valid() bool {
	defer runtime.KeepAlive(h)
	return !h.isOver.Load() && bool(C.rlock_is_valid_as(h.lock.lock, h.id))
}

// ValidFor returns for how long the program may rely on the hold without a renewal. It does not ask the server.
func (h *Hold) ValidFor() time.Duration {
	defer runtime.KeepAlive(h)
	if h.isOver.Load() {
		return 0
	}
	return duration(C.rlock_valid_ms_as(h.lock.lock, h.id))
}

// Token returns the number of a fenced lock's hold, which is larger than all earlier ones; 0 for other kinds.
func (h *Hold) Token() uint64 { return h.token }

// Lost returns a channel that is closed when the hold is lost, and not by Unlock unless that returns ErrLost.
func (h *Hold) Lost() <-chan struct{} { return h.lost }

// Context returns a context that ends with the hold: when it is lost (context.Cause is ErrLost), when Unlock begins, after
// Detach, and when the context of Lock or Adopt ends. Pass it to the work that relies on the lock. It does not keep the hold.
func (h *Hold) Context() context.Context { return h.ctx }
