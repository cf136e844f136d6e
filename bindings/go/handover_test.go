// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kinds has the locks of every kind that can be handed over, all of one name.
func kinds(client *Client, name string) []*Lock {
	return []*Lock{
		client.Reentrant(name), client.NonReentrant(name), client.Spin(name), client.Fenced(name), client.Fair(name),
		client.Read(name), client.Write(name), client.SetNX(name),
	}
}

// detached takes a free lock, and detaches the hold.
func detached(t *testing.T, lock *Lock) string {
	t.Helper()
	text, err := must(t, lock).Detach(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func is(t *testing.T, what string, err, code error) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: %v, not %v", what, err, code)
	}
}

func TestADetachedHoldIsAdoptedByAnotherClient(t *testing.T) {
	server, losses := startServer(t), make(chan Loss, 100)
	client, other := server.open(lossesOf(losses)), server.open(nil)
	for i, lock := range kinds(client, "a name") {
		theirs, kind := kinds(other, "a name")[i], []string{"reentrant", "nonreentrant", "spin", "fenced", "fair", "read", "write", "setnx"}[i]
		hold := must(t, lock)
		text, err := hold.Detach(20 * time.Second)
		if err != nil || text == "" || strings.ContainsAny(text, " \n") || strings.Contains(text, "a name") {
			t.Fatal(kind, text, err)
		}
		if hold.Valid() || hold.ValidFor() != 0 || closed(hold.Lost()) || context.Cause(hold.Context()) != context.Canceled {
			t.Error(kind, "the hold goes on, or is lost")
		}
		_, err = hold.Detach(20 * time.Second)
		is(t, kind, err, ErrNotOwner)
		_, err = hold.Text()
		is(t, kind, err, ErrNotOwner)
		is(t, kind, hold.Unlock(), ErrNotOwner)
		is(t, kind, hold.Extend(time.Second), ErrNotOwner)
		info, err := theirs.Inspect(background)
		if err != nil || !info.Locked || info.Mine || info.TTL > 20*time.Second {
			t.Error(kind, info, err)
		}
		adopted, err := theirs.Adopt(background, text, Lease(15*time.Second))
		if err != nil {
			t.Fatal(kind, err)
		}
		if !adopted.Valid() || adopted.ValidFor() > 15*time.Second || (adopted.Token() > hold.Token()) != (kind == "fenced") {
			t.Error(kind, adopted.Valid(), adopted.ValidFor(), adopted.Token(), hold.Token())
		}
		_, err = lock.Adopt(background, text)
		is(t, kind, err, ErrNotOwner)
		if adopted.Unlock() != nil || !isFree(t, lock) {
			t.Error(kind, "it is not free")
		}
	}
	if len(losses) != 0 {
		t.Error(<-losses)
	}
}

func TestADetachAloneKeepsTheLockTakenForItsLease(t *testing.T) {
	lock := opened(t).Reentrant("a")
	text, err := must(t, lock).Detach(300 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lock.TryLock(background)
	is(t, "before its end", err, ErrBusy)
	eventually(t, "it is free", func() bool { return isFree(t, lock) })
	_, err = lock.Adopt(background, text)
	is(t, "after its end", err, ErrNotOwner)
}

func TestOneOfManyGoroutinesAdopts(t *testing.T) {
	client := opened(t)
	lock, got := client.Fair("a"), make(chan *Hold)
	text := detached(t, lock)
	for range 16 {
		go func() {
			hold, err := lock.Adopt(background, text)
			if hold == nil {
				is(t, "the others", err, ErrNotOwner)
			}
			got <- hold
		}()
	}
	var adopted []*Hold
	for range 16 {
		if hold := <-got; hold != nil {
			adopted = append(adopted, hold)
		}
	}
	if len(adopted) != 1 || !adopted[0].Valid() || adopted[0].Unlock() != nil {
		t.Error(adopted)
	}
}

func TestWhatCannotBeDetachedGoesOn(t *testing.T) {
	client := opened(t)
	lock := client.Reentrant("a")
	outer := must(t, lock)
	for _, lease := range []time.Duration{0, -1, 9 * time.Millisecond} {
		_, err := outer.Detach(lease)
		is(t, lease.String(), err, ErrInvalid)
	}
	inner := must(t, lock, Owner(outer))
	for _, hold := range []*Hold{outer, inner} {
		_, err := hold.Detach(time.Minute)
		is(t, "two levels", err, ErrInvalid)
		if !hold.Valid() || hold.Context().Err() != nil || closed(hold.Lost()) {
			t.Error("it has ended")
		}
	}
	if inner.Unlock() != nil || outer.Unlock() != nil {
		t.Error("the levels")
	}
	both := Multi(lock, client.Reentrant("b"))
	hold := must(t, both)
	_, err := hold.Detach(time.Minute)
	is(t, "a multi-lock", err, ErrNotSupported)
	_, err = hold.Text()
	is(t, "a multi-lock", err, ErrNotSupported)
	_, err = both.Adopt(background, "a")
	is(t, "a multi-lock", err, ErrNotSupported)
	if !hold.Valid() || hold.Unlock() != nil {
		t.Error("the multi-lock")
	}
}

func TestALostHoldIsNotDetached(t *testing.T) {
	server := startServer(t)
	client, other := server.open(nil), server.open(nil)
	for _, forcing := range []*Client{client, other} {
		hold := must(t, client.Reentrant("a"))
		if _, err := forcing.Reentrant("a").ForceUnlock(background); err != nil {
			t.Fatal(err)
		}
		_, err := hold.Detach(time.Minute)
		is(t, "detach", err, ErrLost)
		<-hold.Lost()
		is(t, "the context", context.Cause(hold.Context()), ErrLost)
		is(t, "unlock", hold.Unlock(), ErrLost)
	}
}

func TestATextIsOfOneLock(t *testing.T) {
	client := opened(t)
	lock := client.Reentrant("a")
	text := detached(t, lock)
	for _, wrong := range []string{"", "a", text + "\x00", text + "a"} {
		_, err := lock.Adopt(background, wrong)
		is(t, wrong, err, ErrInvalid)
	}
	for _, another := range []*Lock{client.Reentrant("b"), client.Fair("a")} {
		_, err := another.Adopt(background, text)
		is(t, another.Name(), err, ErrInvalid)
	}
	_, err := lock.Adopt(background, text, Wait(time.Second))
	is(t, "it does not wait", err, ErrInvalid)
	_, err = lock.Lock(background, FromDead())
	is(t, "FromDead is for Adopt", err, ErrInvalid)
	hold, err := lock.Adopt(background, text, Owner(must(t, client.Reentrant("b"))))
	if err != nil || hold.Unlock() != nil {
		t.Error(err)
	}
}

func TestTheTextOfALiveHoldIsAdoptedFromTheDeadAlone(t *testing.T) {
	server := startServer(t)
	hold, theirs := must(t, server.open(nil).Reentrant("a")), server.open(nil).Reentrant("a")
	text, err := hold.Text()
	if err != nil || !hold.Valid() {
		t.Fatal(err)
	}
	_, err = theirs.Adopt(background, text)
	is(t, "a live one", err, ErrBusy)
	adopted, err := theirs.Adopt(background, text, FromDead())
	if err != nil || !adopted.Valid() {
		t.Fatal(err)
	}
	is(t, "the live one", hold.Unlock(), ErrLost)
	if adopted.Unlock() != nil {
		t.Error("it was not adopted")
	}
}

func TestTheHoldOfAKilledProcessIsAdopted(t *testing.T) {
	if url := os.Getenv("RLOCK_TEST_DYING"); url != "" { // the process that is killed
		client, err := Open(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := must(t, client.Reentrant("a")).Text()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString(text)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	server := startServer(t)
	dying := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	dying.Env = append(os.Environ(), "RLOCK_TEST_DYING="+server.url)
	text, _ := dying.Output()
	hold, err := server.open(nil).Reentrant("a").Adopt(background, string(text), FromDead())
	if err != nil || !hold.Valid() || hold.Unlock() != nil {
		t.Error(err)
	}
}

func TestADetachedHoldThatIsDroppedIsNotReleased(t *testing.T) {
	losses, log := make(chan Loss, 100), &text{}
	options := lossesOf(losses)
	options.Logger = slog.New(slog.NewTextHandler(log, nil))
	client := startServer(t).open(options)
	lock := client.Reentrant("a")
	words := detached(t, lock)
	must(t, client.Reentrant("b")) // the program drops this hold too: its loss shows that the collector ran
	collected(t, "the other's loss", func() bool { return len(losses) > 0 })
	if loss := <-losses; loss.Name != "b" || len(losses) != 0 || strings.Count(log.text.String(), "dropped") != 1 {
		t.Error(loss, log.text.String())
	}
	hold, err := lock.Adopt(background, words)
	if err != nil || !hold.Valid() || hold.Unlock() != nil {
		t.Error(err)
	}
	runtime.KeepAlive(hold)
}

func TestAHoldThatIsDroppedInDoubtIsReleased(t *testing.T) {
	server := startServer(t)
	client := server.open(&Options{OpTimeout: 100 * time.Millisecond, Logger: quiet})
	hold := must(t, client.Reentrant("a"))
	lost := hold.Lost()
	server.signal(syscall.SIGSTOP)
	_, err := hold.Detach(time.Hour)
	is(t, "stopped", err, ErrInDoubt)
	hold = nil
	server.signal(syscall.SIGCONT)
	collected(t, "the loss", func() bool { return closed(lost) })
	lock := server.open(nil).Reentrant("a")
	eventually(t, "it is free", func() bool { return isFree(t, lock) })
}

func TestADetachInDoubtIsRepeatedOrTakenBack(t *testing.T) {
	server := startServer(t)
	client := server.open(&Options{OpTimeout: 100 * time.Millisecond})
	lock, theirs := client.Reentrant("a"), server.open(nil).Reentrant("a")
	for _, isRepeated := range []bool{true, false} {
		hold := must(t, lock)
		server.signal(syscall.SIGSTOP)
		_, err := hold.Detach(20 * time.Second)
		is(t, "stopped", err, ErrInDoubt)
		_, err = hold.Detach(0)
		is(t, "a wrong lease", err, ErrInvalid)
		if hold.Valid() || hold.Context().Err() == nil || closed(hold.Lost()) {
			t.Error("it is valid, or lost")
		}
		server.signal(syscall.SIGCONT)
		if isRepeated {
			var text string
			eventually(t, "it is detached", func() bool {
				text, err = hold.Detach(20 * time.Second)
				return err == nil
			})
			adopted, err := theirs.Adopt(background, text)
			if err != nil || adopted.Unlock() != nil {
				t.Error(err)
			}
			is(t, "after the detach", hold.Unlock(), ErrNotOwner)
		} else {
			eventually(t, "it is unlocked", func() bool {
				err := hold.Unlock()
				return err == nil || errors.Is(err, ErrNotOwner)
			})
		}
		if closed(hold.Lost()) || !isFree(t, theirs) {
			t.Error("it is lost, or not free")
		}
	}
}

func TestAContextThatEndsEndsAnAdoption(t *testing.T) {
	server := startServer(t)
	lock, theirs := server.open(nil).Reentrant("a"), server.open(nil).Reentrant("a")
	text := detached(t, lock)
	ctx, cancel := context.WithCancel(background)
	server.signal(syscall.SIGSTOP)
	ended := make(chan error)
	go func() {
		_, err := lock.Adopt(ctx, text)
		ended <- err
	}()
	cancel()
	err := <-ended
	server.signal(syscall.SIGCONT)
	is(t, "the call", err, ErrCanceled)
	is(t, "the call", err, context.Canceled)
	var hold *Hold
	eventually(t, "the text has the hold again", func() bool {
		hold, err = theirs.Adopt(background, text)
		return err == nil
	})
	if !hold.Valid() || hold.Unlock() != nil {
		t.Error("it was not adopted")
	}
}
