// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"time"
)

// everyKind returns a lock of each kind, one of them a RedLock on servers of its own.
func everyKind(t *testing.T, client *Client) map[string]*Lock {
	var members []*Lock
	for range 3 {
		members = append(members, opened(t).Reentrant("member"))
	}
	return map[string]*Lock{
		"reentrant": client.Reentrant("a"), "non-reentrant": client.NonReentrant("b"), "spin": client.Spin("c"),
		"fenced": client.Fenced("d"), "fair": client.Fair("e"), "write": client.Write("f"), "setnx": client.SetNX("f2"),
		"multi": Multi(client.Reentrant("g"), client.Fair("h")), "redlock": RedLock(members, MaxLease(-1)),
	}
}

func TestGoroutinesExcludeEachOther(t *testing.T) {
	for kind, lock := range everyKind(t, opened(t)) {
		t.Run(kind, func(t *testing.T) {
			count, all := 0, sync.WaitGroup{}
			for range 10 {
				all.Add(1)
				go func() {
					defer all.Done()
					for range 10 {
						hold, err := lock.Lock(background)
						if err != nil {
							t.Error(err)
							return
						}
						seen := count
						time.Sleep(time.Microsecond)
						count = seen + 1
						if err := hold.Unlock(); err != nil {
							t.Error(err)
						}
					}
				}()
			}
			if all.Wait(); count != 100 {
				t.Error(count)
			}
		})
	}
}

func TestUnitsAreTakenUntilNoneIsLeft(t *testing.T) {
	client := opened(t)
	for _, locks := range [][2]*Lock{
		{client.Permits("permits", 3), client.Permits("permits", 3)},
		{client.Semaphore("semaphore", 3), client.Semaphore("semaphore", 3)},
	} {
		first, second := locks[0], locks[1]
		two, err := first.Lock(background, Units(2))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.TryLock(background, Units(2)); !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
		if info, err := second.Inspect(background); err != nil || info.Units != 3 || info.UnitsFree != 1 {
			t.Error(info, err)
		}
		if err := two.Unlock(); err != nil {
			t.Error(err)
		}
		three, err := second.TryLock(background, Units(3))
		if err != nil {
			t.Fatal(err)
		}
		if err := three.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

func TestReadersShareAndKeepWritersOut(t *testing.T) {
	client := opened(t)
	read, write := client.Read("a"), client.Write("a")
	one, other := must(t, read), must(t, read)
	if hold, err := write.TryLock(background); hold != nil || !errors.Is(err, ErrBusy) {
		t.Error(hold, err)
	}
	if one.Unlock() != nil || other.Unlock() != nil {
		t.Error("the readers")
	}
	writer := must(t, write)
	if hold, err := read.TryLock(background); hold != nil || !errors.Is(err, ErrBusy) {
		t.Error(hold, err)
	}
	reader := must(t, read, Owner(writer)) // what it writes it may read, and go on reading
	if writer.Unlock() != nil || !reader.Valid() || reader.Unlock() != nil {
		t.Error("the writer")
	}
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	lock := opened(t).Reentrant("a")
	hold := must(t, lock)
	for wait, expected := range map[time.Duration]Code{
		0: ErrBusy, 1: ErrTimedOut, 10 * time.Millisecond: ErrTimedOut, -1: ErrInvalid, math.MinInt64: ErrInvalid,
	} {
		if hold, err := lock.Lock(background, Wait(wait)); hold != nil || !errors.Is(err, expected) || errors.Is(err, ErrLost) {
			t.Error(wait, hold, err)
		}
	}
	for _, wait := range []time.Duration{-1, 1, math.MaxInt64} {
		if hold, err := lock.TryLock(background, Wait(wait)); hold != nil || !errors.Is(err, ErrInvalid) {
			t.Error(wait, hold, err)
		}
	}
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	if hold, err := lock.Lock(ctx, Wait(math.MaxInt64)); hold != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(hold, err)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestAContextThatEndsEndsTheWaitAndLeavesNothing(t *testing.T) {
	server := startServer(t)
	client := server.open(nil)
	for kind, lock := range map[string]*Lock{
		"reentrant": client.Reentrant("a"), "fair": client.Fair("a2"), "spin": client.Spin("a3"),
		"write": client.Write("a4"), "multi": Multi(client.Reentrant("a5"), client.Fair("a6")),
	} {
		t.Run(kind, func(t *testing.T) {
			before := server.keys()
			hold := must(t, lock)
			for _, expected := range []error{context.Canceled, context.DeadlineExceeded} {
				ctx, cancel := context.WithCancel(background)
				if expected == context.Canceled {
					time.AfterFunc(30*time.Millisecond, cancel)
				} else {
					ctx, cancel = context.WithTimeout(ctx, 30*time.Millisecond)
				}
				defer cancel()
				hold, err := lock.Lock(ctx)
				if hold != nil || !errors.Is(err, expected) || !errors.Is(err, ErrCanceled) || errors.Is(err, ErrBusy) {
					t.Error(hold, err)
				}
				hold, err = lock.Lock(ctx) // it has ended before
				if hold != nil || !errors.Is(err, expected) || !errors.Is(err, ErrCanceled) {
					t.Error(hold, err)
				}
			}
			if err := hold.Unlock(); err != nil {
				t.Error(err)
			}
			eventually(t, "nothing is left", func() bool { return len(server.keys()) == len(before) })
			if err := must(t, lock).Unlock(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAContextThatEndsWhileTheLockIsGrantedLeavesNothing(t *testing.T) {
	lock, granted := opened(t).Reentrant("a"), 0
	for i := range 300 {
		ctx, cancel := context.WithCancel(background)
		go func() {
			for began := time.Now(); time.Since(began) < time.Duration(i%100)*2*time.Microsecond; {
			}
			cancel()
		}()
		hold, err := lock.Lock(ctx)
		if (hold == nil) != (err != nil) || err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(hold, err)
		}
		if hold != nil {
			if granted++; hold.Unlock() != nil {
				t.Fatal("the unlock")
			}
		}
	}
	if eventually(t, "the lock is free", func() bool { return isFree(t, lock) }); granted == 0 || granted == 300 {
		t.Log("all calls ended alike: ", granted)
	}
}

func TestAWaitOnAServerOutOfReachEndsWithItsContext(t *testing.T) {
	server := startServer(t)
	lock := server.open(nil).Reentrant("a")
	if err := must(t, lock).Unlock(); err != nil {
		t.Fatal(err)
	}
	server.signal(19) // SIGSTOP
	ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	hold, err := lock.Lock(ctx)
	failure, _ := err.(*Error)
	server.signal(18) // SIGCONT
	if hold != nil || !errors.Is(err, context.DeadlineExceeded) || failure.FreeIn <= 0 || failure.FreeIn > 31*time.Second {
		t.Error(hold, err, failure)
	}
	eventually(t, "the library has given it back", func() bool { return isFree(t, lock) })
}

func TestWaitingGoroutinesTakeNoThreads(t *testing.T) {
	const waiters = 1000
	lock, all := opened(t).Reentrant("a"), sync.WaitGroup{}
	hold := must(t, lock)
	before := threads(t)
	ctx, cancel := context.WithCancel(background)
	began := make(chan struct{}, waiters)
	for range waiters {
		all.Add(1)
		go func() {
			defer all.Done()
			began <- struct{}{}
			if hold, err := lock.Lock(ctx); hold != nil || !errors.Is(err, context.Canceled) {
				t.Error(hold, err)
			}
		}()
	}
	for range waiters {
		<-began
	}
	if _, err := lock.Lock(background, Wait(50*time.Millisecond)); !errors.Is(err, ErrTimedOut) { // behind them
		t.Error(err)
	}
	waiting := threads(t)
	cancel()
	all.Wait()
	if ended := threads(t); max(waiting, ended) > before+runtime.GOMAXPROCS(0)+cap(entries)+8 {
		t.Error(before, waiting, ended)
	}
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestALockThatCannotBeMadeSaysSoInEachCall(t *testing.T) {
	client := opened(t)
	for _, lock := range []*Lock{
		client.Reentrant(""), client.Fair("a", MaxLease(time.Second)), Multi(), Multi(client.Reentrant("a"), client.Fair("")),
		client.Reentrant("a", MaxHold(-1)), client.Spin("a", Pauses(1, 1, -1)), client.Fair("a", FairSlot(time.Millisecond)),
		client.Reentrant("a", PreferWriters()),
	} {
		_, taken := lock.TryLock(background)
		_, inspected := lock.Inspect(background)
		_, forced := lock.ForceUnlock(background)
		for _, err := range []error{lock.Err(), taken, inspected, forced} {
			if !errors.Is(err, ErrInvalid) {
				t.Error(err)
			}
		}
		if lock.Name() != "" {
			t.Error(lock.Name())
		}
	}
	lock := client.Reentrant("a\x00b")
	if lock.Err() != nil || lock.Name() != "a\x00b" || must(t, lock).Unlock() != nil {
		t.Error(lock.Err(), lock.Name())
	}
}

func TestOptionsOfLocksReachTheLibrary(t *testing.T) {
	client := opened(t)
	for kind, lock := range map[string]*Lock{
		"reentrant": client.Reentrant("a", NoReentry(), MaxHold(10*time.Second)), "spin": client.Spin("c", NoReentry(), Pauses(1, 2, 3)),
		"fair": client.Fair("b", NoReentry(), FairSlot(time.Minute)), "read": client.Read("d", NoReentry(), PreferWriters()),
		"non-reentrant": client.NonReentrant("e"),
	} {
		hold := must(t, lock)
		if again, err := lock.TryLock(background, Owner(hold)); again != nil || !errors.Is(err, ErrReacquired) {
			t.Error(kind, again, err)
		}
		if err := hold.Unlock(); err != nil {
			t.Error(kind, err)
		}
	}
	if hold := must(t, client.Reentrant("f", MaxHold(time.Second))); hold.ValidFor() > time.Second || hold.Unlock() != nil {
		t.Error("MaxHold")
	}
	fresh := []*Lock{opened(t).Reentrant("a"), opened(t).Reentrant("a"), opened(t).Reentrant("a")}
	if hold, err := RedLock(fresh).TryLock(background); hold != nil || !errors.Is(err, ErrNoQuorum) {
		t.Error("the servers have just started", hold, err)
	}
	if err := must(t, RedLock(fresh, MaxLease(-1))).Unlock(); err != nil {
		t.Error(err)
	}
}

func TestInspectAndForceUnlockAskTheServer(t *testing.T) {
	client := opened(t)
	lock := client.Fenced("a")
	if was, err := lock.ForceUnlock(background); was || err != nil {
		t.Error(was, err)
	}
	hold := must(t, lock)
	again := must(t, lock, Owner(hold))
	info, err := lock.Inspect(background)
	if err != nil || !info.Locked || !info.Mine || info.Holders != 1 || info.Count != 2 || info.Token != hold.Token() ||
		info.TTL < 20*time.Second || info.TTL > 30*time.Second || info.Holder[:36] != client.UUID() {
		t.Error(info, err)
	}
	if was, err := lock.ForceUnlock(background); !was || err != nil {
		t.Error(was, err)
	}
	if info, err := lock.Inspect(background); err != nil || info.Locked || info.TTL >= 0 {
		t.Error(info, err)
	}
	if !errors.Is(hold.Unlock(), ErrLost) || !errors.Is(again.Unlock(), ErrLost) || !errors.Is(hold.Unlock(), ErrNotOwner) {
		t.Error("each level is lost once")
	}
	ended, cancel := context.WithCancel(background)
	cancel()
	if _, err := lock.Inspect(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
