// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"
)

// TermEvent is what happens to a candidate.
type TermEvent int

// The events of leader.h.
const (
	TermElected  TermEvent = C.RLOCK_TERM_ELECTED  // it is the leader now
	TermDeposed  TermEvent = C.RLOCK_TERM_DEPOSED  // the hold was lost, or would have ended within LeaderOptions.Margin
	TermResigned TermEvent = C.RLOCK_TERM_RESIGNED // after Leader.Resign
)

func (e TermEvent) String() string {
	names := [...]string{TermElected: "elected", TermDeposed: "deposed", TermResigned: "resigned"}
	if e < TermElected || int(e) >= len(names) {
		return "event"
	}
	return names[e]
}

// Term is a term of a candidate: struct rlock_term of leader.h.
type Term struct {
	Event   TermEvent
	Name    string          // of the lock
	Number  uint64          // counts the candidate's own terms
	Token   uint64          // fenced locks: the number of the hold
	Reason  Reason          // TermDeposed: why
	Context context.Context // ends with the term, before OnTerm reports its end
}

// LeaderOptions are the options of a candidate. The zero value has all defaults.
type LeaderOptions struct {
	Margin time.Duration // a term ends so long before the validity of its hold; default 0
	Rest   time.Duration // how long the candidate stays away after a term; default 1 s
	// OnTerm receives the events, one after the other. It must not wait, and may call Resign. After TermDeposed the lock is
	// given back when it returns.
	OnTerm func(Term)
}

// Leader is a candidate for a lock, which leads while it holds the lock. All goroutines may share it. docs/leader.md says what
// to rely on.
type Leader struct {
	lock    *Lock
	options LeaderOptions
	payload cgo.Handle
	leader  *C.struct_rlock_leader
	mu      sync.RWMutex // leader is not freed meanwhile
	term    context.Context
	end     context.CancelFunc
}

// NewLeader makes a candidate, until Close. options: nil for all defaults.
func NewLeader(lock *Lock, options *LeaderOptions) (*Leader, error) {
	if lock.err != nil {
		return nil, lock.err
	}
	defer runtime.KeepAlive(lock)
	l := &Leader{lock: lock}
	if options != nil {
		l.options = *options
	}
	l.payload = cgo.NewHandle(l)
	err := call(func(failure **C.struct_rlock_failure) C.int {
		return C.glue_leader_new(lock.lock, milliseconds(l.options.Margin), milliseconds(l.options.Rest), C.uintptr_t(l.payload),
			&l.leader, failure)
	})
	if err != nil {
		l.payload.Delete()
		return nil, err
	}
	return l, nil
}

// Leading returns whether it is the leader now. It asks no server, and is false as soon as the validity of the hold has ended.
func (l *Leader) Leading() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return bool(C.rlock_leader_is_leading(l.leader))
}

// Resign ends the term. ErrNotOwner: it is not the leader.
func (l *Leader) Resign() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return call(func(failure **C.struct_rlock_failure) C.int { return C.glue_leader_resign(l.leader, failure) })
}

// Close ends the candidature. A leader gives the lock back. OnTerm runs no more, and must not call Close. Closing it again does
// nothing.
func (l *Leader) Close() {
	l.mu.Lock()
	leader := l.leader
	l.leader = nil
	l.mu.Unlock()
	if leader == nil {
		return
	}
	C.rlock_leader_free(leader)
	l.payload.Delete()
	if l.end != nil {
		l.end()
	}
}

//export rlockTerm
func rlockTerm(term *C.glue_const_term, payload C.uintptr_t) {
	l := cgo.Handle(payload).Value().(*Leader)
	event := TermEvent(term.event)
	if event == TermElected {
		l.term, l.end = context.WithCancel(context.Background())
	} else {
		l.end()
	}
	if l.options.OnTerm != nil {
		l.options.OnTerm(Term{
			Event: event, Name: C.GoString(term.name), Number: uint64(term.number), Token: uint64(term.token),
			Reason: Reason(term.reason), Context: l.term,
		})
	}
}
