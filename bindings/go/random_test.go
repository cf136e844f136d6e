// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A place is what a lock protects. Nothing in it is atomic: two goroutines that are inside at once spoil it.
type place struct {
	name        string
	writes      int // made by threads that hold the lock exclusively
	largest     uint64
	first, last int // equal while no thread writes
}

func (p *place) write(t *testing.T, token uint64) {
	seen := p.writes
	if p.first != p.last || p.first != seen {
		t.Error(p.name, ": another one is writing: ", p.first, p.last, seen)
	}
	if token != 0 && token <= p.largest {
		t.Error(p.name, ": a token that is not larger: ", token, p.largest)
	}
	p.largest = token
	p.first = seen + 1
	runtime.Gosched()
	p.last = seen + 1
	p.writes = seen + 1
}

func (p *place) read(t *testing.T) {
	seen := p.first
	runtime.Gosched()
	if p.first != seen || p.last != seen {
		t.Error(p.name, ": somebody writes while others read: ", p.first, p.last, seen)
	}
}

// A road is one way to the place: a lock of one of two clients.
type road struct {
	*place
	lock   *Lock
	reads  bool
	nested bool // its owner may take it again
}

// roads makes those of two clients to places of every kind.
func roads(clients []*Client) (all []road) {
	places := map[string]*place{}
	for _, client := range clients {
		for kind, lock := range map[string]*Lock{
			"reentrant": client.Reentrant("reentrant"), "non-reentrant": client.NonReentrant("non-reentrant"),
			"spin": client.Spin("spin"), "fenced": client.Fenced("fenced"), "fair": client.Fair("fair"),
			"write": client.Write("rw"), "read": client.Read("rw"), "setnx": client.SetNX("setnx"),
			"multi": Multi(client.Reentrant("one"), client.Reentrant("two")),
		} {
			name := kind
			if kind == "read" {
				name = "write" // both sides lead there
			}
			if places[name] == nil {
				places[name] = &place{name: name}
			}
			all = append(all, road{places[name], lock, kind == "read", kind != "non-reentrant"})
		}
	}
	return all
}

// A traveller goes random roads.
type traveller struct {
	*testing.T
	*rand.Rand
	grants, ends, busy, dropped *atomic.Int64
}

// context returns one that ends at any time, or never.
func (t *traveller) context() (context.Context, context.CancelFunc) {
	switch t.Intn(4) {
	case 0:
		return context.WithTimeout(background, time.Duration(t.Intn(3000))*time.Microsecond)
	case 1:
		ctx, cancel := context.WithCancel(background)
		timer := time.AfterFunc(time.Duration(t.Intn(1000))*time.Microsecond, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	}
	return context.WithCancel(background)
}

func (t *traveller) take(ctx context.Context, r road, options ...TakeOption) (*Hold, error) {
	switch t.Intn(4) {
	case 0:
		return r.lock.TryLock(ctx, options...)
	case 1:
		return r.lock.Lock(ctx, append(options, Wait(time.Duration(t.Intn(20))*time.Millisecond))...)
	}
	return r.lock.Lock(ctx, options...)
}

func (t *traveller) unlock(r road, holds ...*Hold) {
	for _, hold := range holds {
		if err := hold.Unlock(); err != nil {
			t.Error(r.name, err)
		}
	}
}

func (t *traveller) travel(r road) {
	ctx, cancel := t.context()
	defer cancel()
	hold, err := t.take(ctx, r)
	switch {
	case errors.Is(err, ErrCanceled) && ctx.Err() != nil && errors.Is(err, ctx.Err()):
		t.ends.Add(1)
		return
	case errors.Is(err, ErrBusy), errors.Is(err, ErrTimedOut):
		t.busy.Add(1)
		return
	case err != nil:
		t.Error(r.name, err)
		return
	}
	t.grants.Add(1)
	holds := []*Hold{hold}
	if r.nested && t.Intn(10) == 0 {
		if again, err := t.take(background, r, Owner(hold)); err == nil {
			holds = append(holds, again)
		} else {
			t.Error(r.name, "again: ", err)
		}
	}
	if r.reads {
		r.read(t.T)
	} else {
		r.write(t.T, hold.Token())
	}
	if !hold.Valid() || closed(hold.Lost()) {
		t.Error(r.name, "it is lost")
	}
	if t.Intn(50) == 0 { // the program drops one or both
		t.dropped.Add(1)
		holds = holds[:t.Intn(len(holds))]
	}
	if t.Intn(2) == 0 {
		slices.Reverse(holds)
	}
	t.unlock(r, holds...)
}

// RLOCK_TEST_OPERATIONS sets how many operations there are, RLOCK_TEST_SEED their seed.
func TestRandomOperationsExcludeEachOtherAndLeaveNothing(t *testing.T) {
	const travellers, lease = 32, 10 * time.Second
	number := func(name string, otherwise int64) int64 {
		if n, err := strconv.ParseInt(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	n, seed := number("RLOCK_TEST_OPERATIONS", 3000), number("RLOCK_TEST_SEED", time.Now().UnixNano())
	server, clients := startServer(t), []*Client{}
	goroutines, most := runtime.NumGoroutine(), threads(t)+runtime.GOMAXPROCS(0)+cap(entries)+20
	for range 2 {
		clients = append(clients, server.open(&Options{RenewedLease: lease, Logger: quiet}))
	}
	all := roads(clients)
	var left, grants, ends, busy, dropped atomic.Int64
	left.Store(n)
	var travelling sync.WaitGroup
	for i := range travellers {
		travelling.Add(1)
		go func() {
			defer travelling.Done()
			traveller := &traveller{t, rand.New(rand.NewSource(seed + int64(i))), &grants, &ends, &busy, &dropped}
			for left.Add(-1) >= 0 && !t.Failed() {
				traveller.travel(all[traveller.Intn(len(all))])
			}
		}()
	}
	ended := make(chan struct{})
	go func() { travelling.Wait(); close(ended) }()
	for going := true; going; {
		select {
		case <-ended:
			going = false
		case <-time.After(5 * time.Millisecond):
			runtime.GC() // others wait for what was dropped
		}
	}
	took := time.Now()
	collected(t, "all locks are free", func() bool {
		return !slices.ContainsFunc(all, func(r road) bool { return !isFree(t, r.lock) })
	})
	eventually(t, "nothing is left on the server", func() bool {
		return len(server.left()) == 0
	})
	if free := time.Since(took); free > lease {
		t.Error("it took longer than a lease: ", free)
	}
	for _, r := range all {
		if r.first != r.writes || r.last != r.writes {
			t.Error(r.name, r.first, r.last, r.writes)
		}
	}
	if possessions.Lock(); len(possessions.of) != 0 {
		t.Error(possessions.of)
	}
	possessions.Unlock()
	if now := threads(t); now > most {
		t.Error("threads: ", now)
	}
	for _, client := range clients {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= goroutines })
	text := fmt.Sprintf("seed %d: %d operations, %d granted, %d canceled, %d busy, %d dropped, keys %v",
		seed, n, grants.Load(), ends.Load(), busy.Load(), dropped.Load(), server.keys())
	if t.Log(text); grants.Load() == 0 || ends.Load() == 0 || busy.Load() == 0 || dropped.Load() == 0 {
		t.Error("some ends never came")
	}
}
