// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheLastPartyOpensALatch(t *testing.T) {
	client := opened(t)
	latch, elsewhere := client.Latch("latch"), client.Latch("latch")
	if count, err := latch.Count(background); err != nil || count != 0 {
		t.Fatal(count, err)
	}
	for _, err := range []error{latch.Wait(background), latch.Set(background, 2), elsewhere.Set(background, 5)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var waiters sync.WaitGroup
	for i := 0; i < 8; i++ {
		waiters.Add(1)
		go func() {
			defer waiters.Done()
			if err := elsewhere.Wait(background); err != nil {
				t.Error(err)
			}
		}()
	}
	for i := 0; i < 3; i++ {
		if err := latch.Down(background, "a"); err != nil {
			t.Error(err)
		}
	}
	if count, err := elsewhere.Count(background); err != nil || count != 1 {
		t.Error(count, err)
	}
	ctx, cancel := context.WithTimeout(background, 10*time.Millisecond)
	defer cancel()
	if err := latch.Wait(ctx); !errors.Is(err, ErrCanceled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if err := elsewhere.Down(background, ""); err != nil {
		t.Error(err)
	}
	waiters.Wait()
}

func TestALatchRefusesWrongArguments(t *testing.T) {
	client := opened(t)
	latch := client.Latch("latch")
	for _, err := range []error{
		latch.Set(background, 0), latch.Down(background, "a\x00b"), latch.Down(background, strings.Repeat("p", 256)),
		client.Latch("").Wait(background),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	}
}
