// SPDX-License-Identifier: Apache-2.0
// The smallest service: it reads and writes under a read/write lock, works under two locks at once for longer than a
// lease, and loses a hold. Usage: service [url]
package main

import (
	"context"
	"errors"
	"example.org/service/rlock"
	"fmt"
	"log"
	"os"
	"time"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
func main() {
	ctx, onLost := context.Background(), func(loss rlock.Loss) { fmt.Printf("lost %s: %s\n", loss.Name, loss.Reason) }
	client, err := rlock.Open(append(os.Args, "redis://localhost")[1], 900*time.Millisecond, onLost)
	must(err)
	defer client.Close()
	order, stock, price, steps := client.Reentrant("order:7"), client.Fair("stock:3"), client.ReadWrite("price:3"), 0
	must(price.Read.With(ctx, rlock.Forever, func(*rlock.Hold) { fmt.Println("read the price") }))
	must(price.Write.With(ctx, time.Second/2, func(*rlock.Hold) { fmt.Println("wrote the price") })) // or rlock.ErrTimedOut
	must(rlock.Multi(order, stock).With(ctx, rlock.Forever, func(both *rlock.Hold) {
		for ; steps < 3 && both.IsValid(); steps++ {
			time.Sleep(400 * time.Millisecond) // a step of the work; the lease of 900 ms is renewed
		}
		fmt.Println("shipped in", steps, "steps")
	}))
	err = order.With(ctx, rlock.Forever, func(*rlock.Hold) {
		must(order.ForceUnlock()) // as an operator would, with rlock break
		time.Sleep(200 * time.Millisecond)
	})
	fmt.Println("the unlock says:", errors.Unwrap(err))
}
