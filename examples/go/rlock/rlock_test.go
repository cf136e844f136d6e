// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
		if _, err := lock.Take(context.Background(), 0); CodeOf(err) != Busy {
			t.Error(err)
		}
		if _, err := lock.Take(context.Background(), 10*time.Millisecond); CodeOf(err) != TimedOut {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		if _, err := lock.Take(ctx, Forever); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestALossIsToldAndByTheUnlock(t *testing.T) {
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
	if err := hold.Unlock(); CodeOf(err) != Lost || hold.IsValid() {
		t.Error(err)
	}
	if _, err := Multi(lock, client.Reentrant("")).Take(context.Background(), 0); err == nil {
		t.Error("a lock without a name")
	}
}
