// SPDX-License-Identifier: Apache-2.0

// bsm/redislock, over go-redis.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"rlock/bench/peers/peer"
)

const lease = 30 * time.Second

type lock struct {
	client *redislock.Client
	name   string
	held   *redislock.Lock
}

func (l *lock) Lock() {
	var err error
	l.held, err = l.client.Obtain(context.Background(), l.name, lease, &redislock.Options{
		RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 256*time.Millisecond),
	})
	peer.Must(err)
}

func (l *lock) Unlock() { peer.Must(l.held.Release(context.Background())) }

func main() {
	run := peer.Asked()
	pool := max(10, run.Threads)
	client := redislock.New(redis.NewClient(&redis.Options{Addr: run.Addrs[0], PoolSize: pool}))
	about := fmt.Sprintf("%s over go-redis %s; a pool of 10 connections, or one for each goroutine if these are more; asks again after 16 ms, then up to 256 ms: 16 is the least that it recommends",
		peer.Version("github.com/bsm/redislock"), peer.Version("github.com/redis/go-redis/v9"))
	peer.Work(run, about, func(name string) peer.Lock { return &lock{client: client, name: name} })
}
