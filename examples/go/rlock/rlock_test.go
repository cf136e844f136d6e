// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// open starts a server of the test's own, and opens a client there.
func open(t *testing.T, onLost func(Loss)) *Client {
	socket := filepath.Join(t.TempDir(), "socket")
	server := exec.Command(os.Getenv("RLOCK_REDIS_SERVER"), "--port", "0", "--unixsocket", socket, "--save", "")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() })
	for _, err := os.Stat(socket); err != nil; _, err = os.Stat(socket) {
		time.Sleep(time.Millisecond)
	}
	client, err := Open("unix://"+socket, 9*time.Second, onLost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestGoroutinesExcludeEachOther(t *testing.T) {
	lock, count, all := open(t, nil).Fair("a"), 0, sync.WaitGroup{}
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 20; j++ {
				err := lock.With(context.Background(), Forever, func(hold *Hold) {
					seen := count
					time.Sleep(time.Microsecond)
					count = seen + 1
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	if all.Wait(); count != 400 {
		t.Error(count)
	}
}

func TestAWaitEndsWithItsTimeOrItsContext(t *testing.T) {
	lock := open(t, nil).Fenced("a")
	err := lock.With(context.Background(), Forever, func(hold *Hold) {
		if hold.Token == 0 || !hold.IsValid() {
			t.Error(hold)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		for wait, expected := range map[time.Duration]error{
			0: ErrBusy, 1: ErrTimedOut, 10 * time.Millisecond: ErrTimedOut, -1: ErrInvalid, math.MinInt64: ErrInvalid,
		} {
			if hold, err := lock.Take(ctx, wait); hold != nil || !errors.Is(err, expected) || errors.Is(err, ErrLost) {
				t.Error(wait, hold, err)
			}
		}
		for _, wait := range []time.Duration{Forever, math.MaxInt64, 101 * 366 * 24 * time.Hour} {
			if hold, err := lock.Take(ctx, wait); hold != nil || err != context.DeadlineExceeded {
				t.Error(wait, hold, err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestALossIsReportedAndByTheUnlock(t *testing.T) {
	losses := make(chan Loss, 1)
	client := open(t, func(loss Loss) { losses <- loss })
	lock := client.Reentrant("a")
	hold, err := lock.Take(context.Background(), Forever)
	if err != nil || lock.ForceUnlock() != nil {
		t.Fatal(err)
	}
	if loss := <-losses; loss != (Loss{"a", "reentrant", "forced"}) {
		t.Error(loss)
	}
	if err := hold.Unlock(); !errors.Is(err, ErrLost) || hold.IsValid() {
		t.Error(err)
	}
	if _, err := Multi(lock, client.Reentrant("")).Take(context.Background(), 0); err == nil {
		t.Error("a lock without a name")
	}
}

func TestADroppedHoldIsUnlockedAndReported(t *testing.T) {
	losses := make(chan Loss, 100)
	lock := open(t, func(loss Loss) { losses <- loss }).Reentrant("a")
	func() {
		if hold, err := lock.Take(context.Background(), Forever); err != nil || !hold.IsValid() {
			t.Fatal(err)
		}
	}()
	for len(losses) == 0 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if loss := <-losses; loss.Name != "a" || loss.Reason != "the program dropped the hold without unlocking it" {
		t.Error(loss)
	}
	hold, err := lock.Take(context.Background(), 0) // free, long before a lease of 9 s has ended
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 10; i++ {
		runtime.GC()
	}
	if !hold.IsValid() || hold.Unlock() != nil || !errors.Is(hold.Unlock(), ErrNotOwner) {
		t.Error("the second hold")
	}
	hold = nil
	runtime.GC()
	if len(losses) != 0 {
		t.Error("a hold that was unlocked is reported as lost")
	}
}

func TestAGoroutineThatWaitsTakesNoThread(t *testing.T) {
	lock, all := open(t, nil).Reentrant("a"), sync.WaitGroup{}
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	hold, err := lock.Take(context.Background(), Forever)
	if err != nil {
		t.Fatal(err)
	}
	before := threads()
	ctx, cancel := context.WithCancel(context.Background())
	began := make(chan bool)
	for i := 0; i < 300; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			began <- true
			if hold, err := lock.Take(ctx, Forever); hold != nil || err != context.Canceled {
				t.Error(hold, err)
			}
		}()
		<-began
	}
	if _, err := lock.Take(context.Background(), 50*time.Millisecond); !errors.Is(err, ErrTimedOut) {
		t.Error(err)
	}
	if now := threads(); now > before+100 {
		t.Error(before, now)
	}
	cancel()
	all.Wait()
	if err := hold.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestAClientThatCannotBeOpenedIsNil(t *testing.T) {
	if client, err := Open("http://localhost", time.Second, nil); client != nil || !errors.Is(err, ErrInvalid) {
		t.Error(client, err)
	}
}
