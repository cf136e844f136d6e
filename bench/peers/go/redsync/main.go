// SPDX-License-Identifier: Apache-2.0

// redsync, over go-redis, with its own defaults.
package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"

	"rlock/bench/peers/peer"
)

type lock struct{ mutex *redsync.Mutex }

func (l lock) Lock() { peer.Must(l.mutex.Lock()) }

func (l lock) Unlock() {
	released, err := l.mutex.Unlock()
	if !released {
		peer.Must(errors.Join(errors.New("not released"), err))
	}
}

func main() {
	run := peer.Asked()
	pool := max(10, run.Threads)
	var pools []redis.Pool
	for _, addr := range run.Addrs {
		pools = append(pools, goredis.NewPool(client.NewClient(&client.Options{Addr: addr, PoolSize: pool})))
	}
	sync := redsync.New(pools...)
	about := fmt.Sprintf("%s over go-redis %s; a pool of 10 connections, or one for each goroutine if these are more; asks again after 50 to 250 ms, its default",
		peer.Version("github.com/go-redsync/redsync/v4"), peer.Version("github.com/redis/go-redis/v9"))
	peer.Work(run, about, func(name string) peer.Lock {
		return lock{sync.NewMutex(name, redsync.WithTries(math.MaxInt32))}
	})
}
