// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"context"
	"runtime/cgo"
	"sync"
	"time"
)

// Call is a sort of call that Options.OnTrace receives.
type Call int

// The calls of rlock.h.
const (
	CallLock        Call = C.RLOCK_CALL_LOCK         // Lock, TryLock
	CallUnlock      Call = C.RLOCK_CALL_UNLOCK       // Unlock
	CallExtend      Call = C.RLOCK_CALL_EXTEND       // Extend
	CallForceUnlock Call = C.RLOCK_CALL_FORCE_UNLOCK // ForceUnlock
	CallInspect     Call = C.RLOCK_CALL_INSPECT      // Inspect
	CallDetach      Call = C.RLOCK_CALL_DETACH       // Detach
	CallAdopt       Call = C.RLOCK_CALL_ADOPT        // Adopt
)

func (c Call) String() string {
	names := [...]string{
		CallLock: "lock", CallUnlock: "unlock", CallExtend: "extend", CallForceUnlock: "force unlock", CallInspect: "inspect",
		CallDetach: "detach", CallAdopt: "adopt",
	}
	if c < CallLock || int(c) >= len(names) {
		return "call"
	}
	return names[c]
}

// Trace is a call that has ended: struct rlock_trace of rlock.h.
type Trace struct {
	Call       Call
	Name, Kind string          // of the lock
	Server     string          // the address of the server that it asked last; "" for a multi-lock or RedLock
	Context    context.Context // the one that Lock, TryLock or Adopt received; nil for other calls
	Owner      uint64          // equal in all calls of a Hold, and of the holds that the option Owner joins; 0: no owner
	Token      uint64          // fenced locks: the number of the hold
	Err        error           // a Code; nil: the call succeeded
	Total      time.Duration   // from the call's begin to its end
	Waited     time.Duration   // of this, the wait for the holder, for earlier calls and so on
	ServerTime time.Duration   // the rest: the wait for the server, or for a connection to it
	Held       time.Duration   // CallUnlock, CallDetach: how long the owner had the hold; 0: unknown
	Requests   int             // how often it asked a server; for a multi-lock or RedLock its number of calls for members
	Levels     int             // how many levels the owner holds now
}

// tracers has the OnTrace of each open client, by its payload. rlock.h lets a call outlive its client: its trace finds nothing
// here.
var tracers sync.Map

//export rlockTrace
func rlockTrace(trace *C.glue_const_trace, ctx, payload C.uintptr_t) {
	onTrace, isOpen := tracers.Load(cgo.Handle(payload))
	if !isOpen {
		return
	}
	t := Trace{
		Call: Call(trace.call), Name: C.GoStringN(trace.name, C.int(trace.name_len)), Kind: C.GoString(trace.kind),
		Server: C.GoString(trace.server), Owner: uint64(trace.owner), Token: uint64(trace.token),
		Total: microseconds(trace.total_us), Waited: microseconds(trace.waited_us), ServerTime: microseconds(trace.server_us),
		Held: microseconds(trace.held_us), Requests: int(trace.requests), Levels: int(trace.levels),
	}
	if trace.code != 0 {
		t.Err = Code(trace.code)
	}
	if ctx != 0 {
		t.Context = cgo.Handle(ctx).Value().(*waiter).ctx
	}
	onTrace.(func(Trace))(t)
}

func microseconds(us C.int64_t) time.Duration { return time.Duration(us) * time.Microsecond }
