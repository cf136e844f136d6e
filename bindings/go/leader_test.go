// SPDX-License-Identifier: Apache-2.0

package rlock

import (
	"context"
	"testing"
	"time"
)

// candidate makes a candidate for the lock, and a channel that receives its terms.
func candidate(t *testing.T, lock *Lock) (*Leader, chan Term) {
	t.Helper()
	terms := make(chan Term, 100)
	leader, err := NewLeader(lock, &LeaderOptions{Rest: 100 * time.Millisecond, OnTerm: func(term Term) { terms <- term }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leader.Close)
	return leader, terms
}

func next(t *testing.T, terms chan Term, event TermEvent) Term {
	t.Helper()
	select {
	case term := <-terms:
		if term.Event != event {
			t.Fatalf("%v, not %v", term.Event, event)
		}
		return term
	case <-time.After(30 * time.Second):
		t.Fatalf("nobody is %v", event)
	}
	return Term{}
}

func TestACandidateLeadsUntilItIsClosed(t *testing.T) {
	server := startServer(t)
	lock := server.open(nil).Reentrant("a")
	leader, terms := candidate(t, lock)
	term := next(t, terms, TermElected)
	if !leader.Leading() || term.Name != "a" || term.Number != 1 || term.Context.Err() != nil {
		t.Error(leader.Leading(), term)
	}
	leader.Close()
	leader.Close()
	if leader.Leading() || term.Context.Err() == nil {
		t.Error("it leads after its end")
	}
	is(t, "resign", leader.Resign(), ErrInvalid)
	if len(terms) != 0 {
		t.Error("told of its own end:", <-terms)
	}
}

func TestTheNextCandidateFollowsAResignation(t *testing.T) {
	server := startServer(t)
	one, terms := candidate(t, server.open(nil).Fenced("a"))
	first := next(t, terms, TermElected)
	two, others := candidate(t, server.open(nil).Fenced("a"))
	is(t, "resign", two.Resign(), ErrNotOwner)
	if err := one.Resign(); err != nil {
		t.Fatal(err)
	}
	if second := next(t, others, TermElected); second.Token <= first.Token || !two.Leading() || one.Leading() {
		t.Error(second, first)
	}
	if next(t, terms, TermResigned); first.Context.Err() == nil {
		t.Error("the term's context goes on")
	}
}

func TestALostHoldDeposes(t *testing.T) {
	server := startServer(t)
	lock := server.open(lossesOf(make(chan Loss, 100))).Reentrant("a")
	leader, terms := candidate(t, lock)
	next(t, terms, TermElected)
	if _, err := lock.ForceUnlock(context.Background()); err != nil || leader.Leading() {
		t.Error(err, leader.Leading())
	}
	if term := next(t, terms, TermDeposed); term.Reason != LostForced || term.Context.Err() == nil {
		t.Error(term)
	}
	next(t, terms, TermElected)
}

func TestAReadLockElectsNobody(t *testing.T) {
	server := startServer(t)
	_, err := NewLeader(server.open(nil).Read("a"), nil)
	is(t, "read", err, ErrNotSupported)
	_, err = NewLeader(server.open(nil).Reentrant(""), nil)
	is(t, "a lock that cannot be made", err, ErrInvalid)
	_, err = NewLeader(server.open(nil).Reentrant("a"), &LeaderOptions{Margin: time.Hour})
	is(t, "a long margin", err, ErrInvalid)
}
