// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// lossesOf returns options for a client that reports its losses to the channel.
func lossesOf(losses chan Loss) *Options {
	return &Options{OnLost: func(loss Loss) { losses <- loss }}
}

func TestAHoldSaysWhatItIs(t *testing.T) {
	client := opened(t)
	fenced := client.Fenced("a")
	first := must(t, fenced)
	if !first.Valid() || first.ValidFor() <= 20*time.Second || first.ValidFor() > 30*time.Second || first.Token() == 0 {
		t.Error(first.Valid(), first.ValidFor(), first.Token())
	}
	if closed(first.Lost()) || first.Context().Err() != nil || first.Unlock() != nil {
		t.Error("lost")
	}
	if first.Valid() || first.ValidFor() != 0 || closed(first.Lost()) {
		t.Error("it goes on after its unlock")
	}
	second := must(t, fenced)
	if second.Token() <= first.Token() || second.Unlock() != nil {
		t.Error(first.Token(), second.Token())
	}
	plain := must(t, client.Reentrant("b"))
	if plain.Token() != 0 || plain.Unlock() != nil {
		t.Error(plain.Token())
	}
}

func TestTheContextOfAHoldEndsWithIt(t *testing.T) {
	type key struct{}
	lock := opened(t).Reentrant("a")
	ctx, cancel := context.WithCancel(context.WithValue(background, key{}, 7))
	hold, err := lock.Lock(ctx)
	if err != nil || hold.Context().Value(key{}) != 7 || hold.Unlock() != nil {
		t.Fatal(err)
	}
	if cause := context.Cause(hold.Context()); cause != context.Canceled {
		t.Error(cause)
	}
	if hold, err = lock.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if hold.Context().Err() != context.Canceled || !hold.Valid() || hold.Unlock() != nil {
		t.Error("the context ends, and the hold goes on")
	}
}

func TestALossIsReportedOnceByEachOfItsWays(t *testing.T) {
	losses := make(chan Loss, 10)
	client := startServer(t).open(lossesOf(losses))
	other := startServer(t).open(nil)
	for _, c := range []struct {
		lock, forced *Lock
		kind, name   string
	}{
		{client.Fair("a"), client.Fair("a"), "fair", "a"},
		{Multi(client.Reentrant("b"), other.Reentrant("c")), client.Reentrant("b"), "multi", "b,c"},
	} {
		hold := must(t, c.lock)
		if was, err := c.forced.ForceUnlock(background); !was || err != nil {
			t.Fatal(was, err)
		}
		<-hold.Lost()
		<-hold.Context().Done()
		var failure *Error
		if cause := context.Cause(hold.Context()); !errors.As(cause, &failure) || failure.Code != ErrLost || failure.Reason != LostForced {
			t.Error(c.kind, cause)
		}
		loss := <-losses
		if loss.Kind != c.kind || loss.Reason != LostForced || loss.Levels != 1 || loss.Name != c.name {
			t.Error(c.kind, loss)
		}
		if err := hold.Unlock(); !errors.As(err, &failure) || failure.Code != ErrLost || failure.Reason != LostForced || hold.Valid() {
			t.Error(c.kind, err)
		}
		if err := hold.Unlock(); !errors.Is(err, ErrNotOwner) {
			t.Error(c.kind, err)
		}
	}
	if len(losses) != 0 {
		t.Error("another loss: ", <-losses)
	}
}

func TestOnLostMayCallEveryFunction(t *testing.T) {
	var lock *Lock
	var client *Client
	ended := make(chan error)
	client = startServer(t).open(&Options{OnLost: func(Loss) {
		hold, err := lock.Lock(background)
		if err == nil {
			err = hold.Unlock()
		}
		ended <- errors.Join(err, client.Close())
	}})
	lock = client.Reentrant("a")
	hold := must(t, lock)
	if _, err := lock.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for its own thread")
	}
	if err := hold.Unlock(); !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestALossThatAnotherClientCausesClosesLost(t *testing.T) {
	server := startServer(t)
	client, other := server.open(&Options{RenewedLease: 900 * time.Millisecond}), server.open(nil)
	hold := must(t, client.Reentrant("a"))
	if was, err := other.Reentrant("a").ForceUnlock(background); !was || err != nil {
		t.Fatal(was, err)
	}
	<-hold.Lost() // at the next renewal
	if err := hold.Unlock(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
}

func TestAHoldWithAFixedLeaseEnds(t *testing.T) {
	losses := make(chan Loss, 1)
	client := startServer(t).open(lossesOf(losses))
	lock := client.Reentrant("a")
	hold := must(t, lock, Lease(60*time.Millisecond))
	<-hold.Lost()
	if loss := <-losses; loss.Reason != LostExpired || hold.Valid() {
		t.Error(loss)
	}
	if err := hold.Unlock(); !errors.Is(err, ErrLost) {
		t.Error(err)
	}
	eventually(t, "it is free", func() bool { return isFree(t, lock) })
	for _, lease := range []time.Duration{-1, time.Millisecond} {
		if hold, err := lock.TryLock(background, Lease(lease)); hold != nil || !errors.Is(err, ErrInvalid) {
			t.Error(lease, hold, err)
		}
	}
}

func TestExtendLengthensALeaseAndMayMakeItRenewed(t *testing.T) {
	server := startServer(t)
	client := server.open(nil)
	hold := must(t, client.Reentrant("a"), Lease(10*time.Second))
	if err := hold.Extend(25 * time.Second); err != nil || hold.ValidFor() < 15*time.Second {
		t.Error(err, hold.ValidFor())
	}
	if err := hold.Extend(time.Second); err != nil || hold.ValidFor() < 15*time.Second {
		t.Error("it has become shorter: ", err, hold.ValidFor())
	}
	if err := hold.Extend(0); err != nil || hold.ValidFor() < 25*time.Second {
		t.Error(err, hold.ValidFor())
	}
	if err := hold.Extend(-1); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if hold.Unlock() != nil || !errors.Is(hold.Extend(time.Second), ErrNotOwner) {
		t.Error("after the unlock")
	}
}

func TestAnOwnerTakesALockAgainAndUnlocksEachHoldOnce(t *testing.T) {
	client := opened(t)
	lock, another := client.Reentrant("a"), client.Fair("b")
	first := must(t, lock)
	second, third := must(t, lock, Owner(first)), must(t, another, Owner(first))
	if first.Unlock() != nil || !errors.Is(first.Unlock(), ErrNotOwner) || first.Valid() {
		t.Error("the first")
	}
	if !second.Valid() || !third.Valid() || isFree(t, lock) {
		t.Error("an unlock gave up what other holds have")
	}
	if second.Unlock() != nil || !isFree(t, lock) || !third.Valid() || third.Unlock() != nil {
		t.Error("the others")
	}
	last := must(t, lock, Owner(first)) // the owner goes on after its holds
	if closed(last.Lost()) || last.Unlock() != nil {
		t.Error("the last")
	}
}

func TestALossConcernsTheHoldsOfTheLostLockAlone(t *testing.T) {
	client := opened(t)
	lock, another := client.Reentrant("a"), client.Reentrant("b")
	first := must(t, lock)
	second, third := must(t, lock, Owner(first)), must(t, another, Owner(first))
	if _, err := lock.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	<-first.Lost()
	<-second.Lost()
	if closed(third.Lost()) || !third.Valid() || third.Unlock() != nil {
		t.Error("the other lock")
	}
	if !errors.Is(first.Unlock(), ErrLost) || !errors.Is(second.Unlock(), ErrLost) {
		t.Error("the levels")
	}
}

func TestAnyThreadUnlocks(t *testing.T) {
	lock, holds := opened(t).Reentrant("a"), make(chan *Hold)
	go func() {
		runtime.LockOSThread()
		holds <- must(t, lock)
	}() // and the thread ends with it
	hold := <-holds
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !hold.Valid() || hold.Unlock() != nil {
		t.Error("it belongs to a thread")
	}
}

// A text that goroutines write together.
type text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *text) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(line)
}

func (t *text) has(part string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(t.text.String(), part)
}

func TestADroppedHoldIsReleasedAndReported(t *testing.T) {
	losses, log := make(chan Loss, 100), &text{}
	options := lossesOf(losses)
	options.Logger = slog.New(slog.NewTextHandler(log, nil))
	client := startServer(t).open(options)
	lock := client.Reentrant("a")
	ctx := must(t, lock).Context()
	collected(t, "the loss", func() bool { return len(losses) > 0 })
	if loss := <-losses; loss.Name != "a" || loss.Reason != LostOwnerEnded || loss.Levels != 1 {
		t.Error(loss)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, ErrLost) {
		t.Error(cause)
	}
	hold, err := lock.Lock(background, Wait(10*time.Second)) // long before a lease of 30 s has ended
	if err != nil {
		t.Fatal(err)
	}
	if !log.has("the program dropped a hold without unlocking it") {
		t.Error(log.text.String())
	}
	for range 10 {
		runtime.GC()
	}
	if !hold.Valid() || hold.Unlock() != nil {
		t.Error("a hold that the program has is released")
	}
	hold = nil
	for range 10 {
		runtime.GC()
	}
	if len(losses) != 0 {
		t.Error("a hold that was unlocked is reported as lost")
	}
	if possessions.Lock(); len(possessions.of) != 0 {
		t.Error(possessions.of)
	}
	possessions.Unlock()
}

func TestADroppedHoldGoesOnWhileItsOwnerHasOthers(t *testing.T) {
	losses := make(chan Loss, 100)
	client := startServer(t).open(lossesOf(losses))
	lock := client.Reentrant("a")
	kept := must(t, client.Reentrant("b"))
	must(t, lock, Owner(kept))
	for range 10 {
		runtime.GC()
	}
	if !kept.Valid() || isFree(t, lock) || kept.Unlock() != nil {
		t.Error("the owner has ended")
	}
	runtime.KeepAlive(kept)
	kept = nil
	collected(t, "the loss", func() bool { return len(losses) > 0 })
	if loss := <-losses; loss.Name != "a" || loss.Reason != LostOwnerEnded {
		t.Error(loss)
	}
	eventually(t, "it is free", func() bool { return isFree(t, lock) })
}

func TestALostHoldThatIsDroppedLeavesNothing(t *testing.T) {
	log := &text{}
	client := startServer(t).open(&Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	lock := client.Reentrant("a")
	lost := must(t, lock).Lost()
	if _, err := lock.ForceUnlock(background); err != nil {
		t.Fatal(err)
	}
	<-lost
	collected(t, "it is forgotten", func() bool {
		possessions.Lock()
		defer possessions.Unlock()
		return len(possessions.of) == 0
	})
	if log.has("dropped") {
		t.Error(log.text.String())
	}
}

func TestAnUnlockInDoubtMayBeRepeated(t *testing.T) {
	server := startServer(t)
	client := server.open(&Options{OpTimeout: 100 * time.Millisecond})
	lock := client.Reentrant("a")
	hold := must(t, lock)
	twice := must(t, client.Reentrant("b"))
	inner := must(t, client.Reentrant("b"), Owner(twice))
	server.signal(19) // SIGSTOP
	if err := twice.Unlock(); !errors.Is(err, ErrInDoubt) {
		t.Error(err)
	}
	for range 2 {
		if err := twice.Unlock(); !errors.Is(err, ErrNotOwner) || !inner.Valid() {
			t.Error("it unlocks what another hold has: ", err)
		}
	}
	err := hold.Unlock()
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != ErrInDoubt || failure.FreeIn <= 0 || failure.FreeIn > 31*time.Second {
		t.Error(err, failure)
	}
	if hold.Valid() || hold.Context().Err() == nil {
		t.Error("the hold goes on")
	}
	server.signal(18) // SIGCONT
	eventually(t, "the release is certain", func() bool {
		err = hold.Unlock()
		return err == nil || errors.Is(err, ErrNotOwner)
	})
	if !isFree(t, server.open(nil).Reentrant("a")) || !errors.Is(hold.Unlock(), ErrNotOwner) {
		t.Error("it is not free")
	}
	eventually(t, "the inner level", func() bool {
		err = inner.Unlock()
		return err == nil || errors.Is(err, ErrNotOwner)
	})
}
