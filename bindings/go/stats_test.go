// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func statsOfClient(t *testing.T, client *Client) Stats {
	t.Helper()
	stats, err := client.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return stats
}

func TestStatsCountTheCallsOfAClient(t *testing.T) {
	server := startServer(t)
	client, other := server.open(nil), server.open(nil)
	fair, blocked := client.Fair("a"), must(t, other.Reentrant("b"))
	hold := must(t, fair)
	_, busy := client.Reentrant("b").TryLock(background)
	lost := must(t, client.Fenced("c"))
	_, forced := client.Fenced("c").ForceUnlock(background)
	is(t, "busy", busy, ErrBusy)
	is(t, "lost", lost.Unlock(), ErrLost)
	_, err := hold.Detach(20 * time.Second)
	if forced != nil || err != nil || must(t, fair.client.Spin("d")).Extend(time.Minute) != nil {
		t.Fatal(forced, err)
	}
	s := statsOfClient(t, client)
	for what, is := range map[string]bool{
		"takes":   s.Takes["fair"][Success] == 1 && s.Takes["reentrant"][ErrBusy] == 1 && len(s.Takes["reentrant"]) == 1 && len(s.Takes) == 4,
		"unlocks": s.Unlocks["fenced"][ErrLost] == 1 && len(s.Unlocks) == 1,
		"calls":   s.Detaches[Success] == 1 && s.Extends[Success] == 1 && s.ForceUnlocks[Success] == 1 && len(s.Adopts)+len(s.Inspects) == 0,
		"losses":  s.Losses[LostForced] == 1 && len(s.Losses) == 1,
		"gauges":  s.Holds == 1 && s.Waiting == 0 && s.Connections >= 1 && s.Servers == 1,
		"totals":  s.Attempts >= 4 && s.Requests >= s.Attempts && s.Connects >= 1 && s.Disconnects+s.Reconnects+s.FailedConnects == 0,
		"wait":    s.Wait.Count == 3 && s.Reply.Count > 3 && s.Reply.Sum > 0,
	} {
		if !is {
			t.Errorf("%s: %+v", what, s)
		}
	}
	if blocked.Unlock() != nil || client.Close() != nil {
		t.Error("the end")
	}
	_, err = client.Stats()
	is(t, "closed", err, ErrClosed)
}

func TestAHistogramHasRangesWithUpperBounds(t *testing.T) {
	client := opened(t)
	for range 10 {
		if err := must(t, client.Reentrant("a")).Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	wait := statsOfClient(t, client).Wait
	n, last := uint64(0), time.Duration(0)
	for _, bucket := range wait.Buckets {
		if n += bucket.Count; bucket.UpperBound <= last {
			t.Error(wait)
		}
		last = bucket.UpperBound
	}
	if n != 10 || wait.Count != 10 || last != math.MaxInt64 || len(wait.Buckets) != 28 || wait.Buckets[1].UpperBound != 64*time.Microsecond ||
		wait.Sum <= 0 || wait.Sum > time.Minute {
		t.Error(wait)
	}
}

func TestMetricsAreTheTextOfSeveralClients(t *testing.T) {
	server, another := startServer(t), startServer(t)
	clients := []*Client{server.open(nil), another.open(nil), server.open(nil)}
	for i, client := range clients {
		for range i + 1 {
			if err := must(t, client.Reentrant("a")).Unlock(); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := Metrics(append(clients, clients[0])...) // one that comes twice counts once
	for _, line := range []string{
		fmt.Sprintf("rlock_takes_total{server=%q,kind=\"reentrant\",code=\"OK\"} 4\n", server.url),
		fmt.Sprintf("rlock_takes_total{server=%q,kind=\"reentrant\",code=\"OK\"} 2\n", another.url),
	} {
		if !strings.Contains(text, line) || err != nil {
			t.Error(line, err, text)
		}
	}
	if !strings.HasSuffix(text, "# EOF\n") || strings.Contains(text, "\x00") {
		t.Error(text)
	}
	_, err = Metrics()
	if err != nil || clients[1].Close() != nil {
		t.Error(err)
	}
	_, err = Metrics(clients...)
	is(t, "closed", err, ErrClosed)
}

func TestMetricsOfManyServersAreWhole(t *testing.T) {
	var clients []*Client
	for i := range 20 { // the clients never connect: only their URLs are different
		client, err := Open(fmt.Sprintf("unix:///nowhere/%d", i), &Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
	}
	text, err := Metrics(clients...)
	if err != nil || !strings.HasSuffix(text, "# EOF\n") || !strings.Contains(text, "/nowhere/19") || len(text) < 32<<10 {
		t.Error(err, len(text))
	}
}

func TestMetricsAndClosingDoNotWaitForEachOther(t *testing.T) {
	server := startServer(t)
	clients := []*Client{server.open(nil), server.open(nil)}
	var ended sync.WaitGroup
	for i := range 8 {
		ended.Add(1)
		go func() {
			defer ended.Done()
			for range 200 {
				if _, err := Metrics(clients[i%2], clients[1-i%2]); err != nil {
					is(t, "closed", err, ErrClosed)
				}
			}
		}()
	}
	if clients[1].Close() != nil || clients[0].Close() != nil {
		t.Error("the end")
	}
	ended.Wait()
}

func TestOnTraceReceivesEachCallThatAskedAServer(t *testing.T) {
	server, traces := startServer(t), make(chan Trace, 100)
	client, other := server.open(&Options{OnTrace: func(trace Trace) { traces <- trace }}), server.open(nil)
	next := func(call Call, expected error) Trace { // it has come before the call has returned
		select {
		case trace := <-traces:
			if trace.Call != call || trace.Err != expected || trace.Name != "a\x00b" || trace.Kind != "fenced" || trace.Server != server.url ||
				trace.Total <= 0 || trace.Total != trace.Waited+trace.ServerTime || trace.Requests < 1 {
				t.Errorf("%v: %+v", call, trace)
			}
			return trace
		default:
			t.Fatal("no trace of ", call)
			return Trace{}
		}
	}
	lock, theirs := client.Fenced("a\x00b"), other.Fenced("a\x00b")
	hold := must(t, lock)
	taken := next(CallLock, nil)
	if taken.Owner == 0 || taken.Token != hold.Token() || taken.Levels != 1 || taken.Held != 0 {
		t.Errorf("%+v", taken)
	}
	if hold.Extend(time.Minute) != nil || next(CallExtend, nil).Owner != taken.Owner || hold.Unlock() != nil {
		t.Error("extend")
	}
	if unlocked := next(CallUnlock, nil); unlocked.Token != taken.Token || unlocked.Held <= 0 || unlocked.Levels != 0 {
		t.Errorf("%+v", unlocked)
	}
	text := detached(t, lock)
	next(CallLock, nil)
	next(CallDetach, nil)
	_, err := lock.Adopt(background, text)
	if adopted := next(CallAdopt, nil); err != nil || adopted.Token <= taken.Token {
		t.Errorf("%+v", adopted)
	}
	_, inspected := lock.Inspect(background)
	next(CallInspect, nil)
	_, forced := lock.ForceUnlock(background)
	next(CallForceUnlock, nil)
	blocker := must(t, theirs)
	_, busy := lock.TryLock(background)
	next(CallLock, ErrBusy)
	if inspected != nil || forced != nil || !errors.Is(busy, ErrBusy) || blocker.Unlock() != nil || len(traces) != 0 {
		t.Error(inspected, forced, busy, len(traces))
	}
}

func TestATraceHasTheContextOfItsCall(t *testing.T) {
	type key struct{}
	traces := make(chan Trace, 10)
	client := startServer(t).open(&Options{OnTrace: func(trace Trace) { traces <- trace }})
	ctx := context.WithValue(background, key{}, "span")
	hold, err := client.Reentrant("a").Lock(ctx)
	if trace := <-traces; err != nil || trace.Context.Value(key{}) != "span" {
		t.Error(trace, err)
	}
	text, err := hold.Detach(20 * time.Second)
	if trace := <-traces; err != nil || trace.Context != nil {
		t.Error(trace, err)
	}
	_, err = client.Reentrant("a").Adopt(ctx, text)
	if trace := <-traces; err != nil || trace.Context.Value(key{}) != "span" {
		t.Error(trace, err)
	}
}

func TestCallsOnAMultiLockWhoseClientClosesAreHarmless(t *testing.T) {
	server := startServer(t)
	for i := range 100 {
		first, second := server.open(&Options{OnTrace: func(Trace) {}}), server.open(&Options{OnTrace: func(Trace) {}})
		members := []*Lock{first.Reentrant("a"), second.Reentrant("b")}
		both := Multi(members[i%2], members[1-i%2]) // the group may be another client's than the lock
		ended := make(chan error)
		for range 4 {
			go func() {
				hold, err := both.Lock(background)
				if err == nil {
					err = hold.Unlock()
				}
				ended <- err
			}()
		}
		must(t, second.Reentrant("c"))
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			<-ended
		}
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachMemberOfTheHeaderIsThere(t *testing.T) {
	const stats, header = "../../include/rlock/stats.h", "../../include/rlock/rlock.h"
	for _, c := range []struct{ header, in, file, is string }{
		{stats, `(?m)^    (?:size_t|uint64_t|struct rlock_histogram) (\w+)`, "stats.go", `\b[sh]\.(\w+)`},
		{stats, `RLOCK_KIND_([A-Z]+)`, "stats.go", `RLOCK_KIND_(\w+)`}, {header, `RLOCK_CALL_([A-Z_]+)[, ]`, "trace.go", `RLOCK_CALL_(\w+)`},
	} {
		ours := entriesOf(t, c.file, c.is)
		for _, name := range entriesOf(t, c.header, c.in) {
			if !slices.Contains(ours, name) && name != "size" {
				t.Error(c.file, "lacks", name)
			}
		}
		if len(entriesOf(t, c.header, c.in)) < 7 {
			t.Error("too little is found: ", c.in)
		}
	}
}
