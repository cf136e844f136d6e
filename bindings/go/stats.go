// SPDX-License-Identifier: Apache-2.0

package rlock

// #include "glue.h"
import "C"

import (
	"cmp"
	"math"
	"slices"
	"time"
	"unsafe"
)

// Stats are the counts of a client since it was opened: struct rlock_stats of stats.h. A map has an entry only for what has
// occurred. Takes and Unlocks have the kind of the lock as their first key: Takes["fair"][ErrTimedOut].
type Stats struct {
	// The present state.
	Holds       int // holds that the server granted, neither released nor lost
	Waiting     int // calls that are taking a lock, and each member that a multi-lock takes
	Unreleased  int // holds and attempts that ended here while the server may still have them
	Connections int // connections to servers with locks
	Servers     int // servers with locks that the client knows

	// Calls that ended, by their codes; the code Success is among them.
	Takes, Unlocks map[string]map[Code]uint64
	Extends        map[Code]uint64
	Detaches       map[Code]uint64
	Adopts         map[Code]uint64
	ForceUnlocks   map[Code]uint64
	Inspects       map[Code]uint64

	Losses         map[Reason]uint64 // lost holds
	Attempts       uint64            // how often a call asked a server for a lock
	Passes         uint64            // unlocks that handed the hold over to a call of this client
	Unsure         uint64            // unlocks that did not wait for the answer, and turned out to have failed
	Renewals       uint64            // renewals of holds that the server confirmed
	LateRenewals   uint64            // of these, renewals that used two thirds of their time or more
	FailedRenewals uint64            // renewals of holds that failed; the client repeats them

	Connects       uint64 // connections that succeeded
	Reconnects     uint64 // of these, connections after one that broke
	FailedConnects uint64 // connections that could not be made
	Disconnects    uint64 // connections that broke
	Requests       uint64 // commands that the client sent
	Resends        uint64 // of these, second copies of a command that may have run already
	Messages       uint64 // messages about releases that came for waiting calls

	Wait  Histogram // of calls that took a lock, or adopted it: from the call to the grant
	Hold  Histogram // of holds: from the grant to the release, loss or hand-over
	Reply Histogram // from sending a request to reading its reply
}

// Success is the code of calls that succeeded, in the maps of Stats. It is not an error of a call.
const Success Code = C.RLOCK_OK

// Histogram is how often a duration was in which range. The ranges never change.
type Histogram struct {
	Buckets []Bucket
	Count   uint64        // the number of durations
	Sum     time.Duration // the sum of the durations
}

// Bucket is a range of a Histogram. It begins above the UpperBound of the Bucket before.
type Bucket struct {
	UpperBound time.Duration // the longest duration of the range; math.MaxInt64 in the last one, which has no end
	Count      uint64        // of this range alone
}

// kindNames has the kinds of locks by their numbers.
var kindNames = [C.RLOCK_STATS_KINDS]string{
	C.RLOCK_KIND_REENTRANT: "reentrant", C.RLOCK_KIND_NONREENTRANT: "nonreentrant", C.RLOCK_KIND_SPIN: "spin",
	C.RLOCK_KIND_FENCED: "fenced", C.RLOCK_KIND_FAIR: "fair", C.RLOCK_KIND_READ: "read", C.RLOCK_KIND_WRITE: "write",
	C.RLOCK_KIND_MULTI: "multi", C.RLOCK_KIND_REDLOCK: "redlock", C.RLOCK_KIND_SETNX: "setnx",
	C.RLOCK_KIND_PERMITS: "permits", C.RLOCK_KIND_SEMAPHORE: "semaphore",
}

// Stats returns the counts of the client. It asks no server.
func (c *Client) Stats() (Stats, error) {
	var s C.struct_rlock_stats
	C.rlock_init(unsafe.Pointer(&s), C.sizeof_struct_rlock_stats)
	err := c.open(func(client *C.struct_rlock_client) error {
		return call(func(failure **C.struct_rlock_failure) C.int { return C.glue_stats(client, &s, failure) })
	})
	if err != nil {
		return Stats{}, err
	}
	return statsOf(&s), nil
}

func statsOf(s *C.struct_rlock_stats) Stats {
	return Stats{
		Holds: int(s.holds), Waiting: int(s.waiting), Unreleased: int(s.unreleased), Connections: int(s.connections),
		Servers: int(s.servers),

		Takes: byKind(&s.takes), Unlocks: byKind(&s.unlocks), Extends: byCode(&s.extends), Detaches: byCode(&s.detaches),
		Adopts: byCode(&s.adopts), ForceUnlocks: byCode(&s.force_unlocks), Inspects: byCode(&s.inspects),

		Losses: byReason(&s.losses), Attempts: uint64(s.attempts), Passes: uint64(s.passes), Unsure: uint64(s.unsure),
		Renewals: uint64(s.renewals), LateRenewals: uint64(s.late_renewals), FailedRenewals: uint64(s.failed_renewals),

		Connects: uint64(s.connects), Reconnects: uint64(s.reconnects), FailedConnects: uint64(s.failed_connects),
		Disconnects: uint64(s.disconnects), Requests: uint64(s.requests), Resends: uint64(s.resends),
		Messages: uint64(s.messages),

		Wait: histogramOf(&s.wait), Hold: histogramOf(&s.hold), Reply: histogramOf(&s.reply),
	}
}

func byKind(counts *[C.RLOCK_STATS_KINDS][C.RLOCK_STATS_CODES]C.uint64_t) map[string]map[Code]uint64 {
	found := map[string]map[Code]uint64{}
	for kind := range counts {
		if codes := byCode(&counts[kind]); len(codes) != 0 {
			found[kindNames[kind]] = codes
		}
	}
	return found
}

func byCode(counts *[C.RLOCK_STATS_CODES]C.uint64_t) map[Code]uint64 {
	found := map[Code]uint64{}
	for code, n := range counts {
		if n != 0 {
			found[Code(-code)] = uint64(n)
		}
	}
	return found
}

func byReason(counts *[C.RLOCK_STATS_REASONS]C.uint64_t) map[Reason]uint64 {
	found := map[Reason]uint64{}
	for reason, n := range counts {
		if n != 0 {
			found[Reason(reason)] = uint64(n)
		}
	}
	return found
}

func histogramOf(h *C.struct_rlock_histogram) Histogram {
	found := Histogram{Count: uint64(h.count), Sum: microseconds(C.int64_t(h.sum_us))}
	for i, n := range h.counts {
		found.Buckets = append(found.Buckets, Bucket{32 * time.Microsecond << i, uint64(n)})
	}
	found.Buckets[len(found.Buckets)-1].UpperBound = math.MaxInt64
	return found
}

// Metrics returns the counts of the clients as OpenMetrics text, which Prometheus reads. docs/metrics.md explains the
// metrics. Clients with the same URL are added up; their order does not matter. If one of them is closed, the error is
// ErrClosed. Metrics asks no server.
func Metrics(clients ...*Client) (string, error) {
	// All calls lock the clients in the same order, and each client once: a goroutine that closes one waits meanwhile, and
	// others wait behind it.
	ordered := slices.Clone(clients)
	slices.SortFunc(ordered, func(a, b *Client) int { return cmp.Compare(a.payload, b.payload) })
	ordered = slices.Compact(ordered)
	open := make([]*C.struct_rlock_client, 0, len(ordered)+1)
	for _, c := range ordered {
		c.mu.RLock()
		defer c.mu.RUnlock()
		if c.client == nil {
			return "", &Error{Code: ErrClosed, FreeIn: -1}
		}
		open = append(open, c.client)
	}
	for size := 16 << 10; ; size *= 2 {
		text := make([]byte, size)
		n := C.int64_t(0)
		err := call(func(failure **C.struct_rlock_failure) C.int {
			n = C.rlock_metrics(unsafe.SliceData(open), C.size_t(len(open)), (*C.char)(unsafe.Pointer(&text[0])), C.size_t(size))
			return C.int(min(n, 0))
		})
		if err != nil || int(n) < size {
			return string(text[:max(n, 0)]), err
		}
	}
}
