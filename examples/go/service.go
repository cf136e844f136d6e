// SPDX-License-Identifier: Apache-2.0
// The smallest service reads and writes, works under two locks for longer than a lease, and loses a hold: service [url]
package main

import (
	"context"
	"example.org/rlock"
	"fmt"
	"log"
	"os"
	"time"
)

func must[T any](result T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return result
}
func main() {
	client := must(rlock.Open(append(os.Args, "redis://localhost")[1], &rlock.Options{RenewedLease: 900 * time.Millisecond}))
	defer client.Close()
	order, ctx, steps := client.Reentrant("order:7"), context.Background(), 0
	hold := must(client.Read("price:3").Lock(ctx))
	fmt.Println("read the price")
	must(0, hold.Unlock())
	hold = must(client.Write("price:3").Lock(ctx, rlock.Wait(time.Second/2))) // or rlock.ErrTimedOut
	fmt.Println("wrote the price")
	must(0, hold.Unlock())
	for hold = must(rlock.Multi(order, client.Fair("stock:3")).Lock(ctx)); steps < 3 && hold.Valid(); steps++ {
		time.Sleep(400 * time.Millisecond) // a step of the work; the lease of 900 ms is renewed
	}
	fmt.Println("shipped in", steps, "steps")
	must(0, hold.Unlock())
	hold = must(order.Lock(ctx))
	must(order.ForceUnlock(ctx)) // as an operator would, with rlock break
	lost := hold.Unlock().(*rlock.Error)
	fmt.Printf("lost order:7: %s\nthe unlock says: %s\n", lost.Reason, lost.Code)
}
