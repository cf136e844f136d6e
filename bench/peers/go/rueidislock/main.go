// SPDX-License-Identifier: Apache-2.0

// rueidislock, which is a package of rueidis.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"rlock/bench/peers/peer"
)

// An attempt fails if it takes longer than TryNextAfter. Its goroutine got the only wake-up, and passes it on to nobody,
// so all waiters sleep forever. The default of TryNextAfter, 20 ms, is too short on a busy machine. Here it is 5 s, the
// default of KeyValidity.
const patience = 5 * time.Second

type lock struct {
	locker  rueidislock.Locker
	name    string
	release context.CancelFunc // returns after the server has removed the key
}

func (l *lock) Lock() {
	var err error
	_, l.release, err = l.locker.WithContext(context.Background(), l.name)
	peer.Must(err)
}

func (l *lock) Unlock() { l.release() }

func main() {
	run := peer.Asked()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: run.Addrs},
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   patience,
	})
	peer.Must(err)
	about := fmt.Sprintf("rueidis %s; one connection for all goroutines; KeyMajority 1 and NoLoopTracking, as it recommends for one server of Redis 7.0.5 or newer; TryNextAfter 5 s",
		peer.Version("github.com/redis/rueidis"))
	peer.Work(run, about, func(name string) peer.Lock { return &lock{locker: locker, name: name} })
}
