// SPDX-License-Identifier: Apache-2.0

/*
Package rlock is distributed locks on Redis and Valkey, byte-compatible with Redisson: the C library of that name, by cgo.

	client, err := rlock.Open("redis://localhost", nil)
	...
	hold, err := client.Reentrant("stock:4711").Lock(ctx, rlock.Wait(500*time.Millisecond))
	if err != nil {
		return err // errors.Is(err, rlock.ErrTimedOut): somebody else held it for the whole wait
	}
	err = sell(hold.Context()) // ends when the hold is lost
	return errors.Join(err, hold.Unlock())

# Owners

A Hold belongs to an owner of its own, and not to a goroutine or a thread: any goroutine may unlock it. The option Owner
takes a lock for the owner of another hold. Without it, a goroutine that takes again what it holds waits for itself.

# Losses

A hold is a lease. The client renews it until Unlock, unless the option Lease fixes it. A hold that ends before its Unlock
is lost, and stays so. The client closes Lost and cancels Context within 50 ms of finding out, and Unlock returns ErrLost.
Valid is exact and local: call it before each step that relies on the lock. A process may be paused just after that; if a
late step would do damage, use the token of a Fenced lock.

# Dropped holds

Keep the Hold until Unlock. If the program can no longer reach any Hold of an owner, it cannot unlock what the owner holds.
Then the client ends the owner: it reports the holds as lost (LostOwnerEnded), asks the server to release the locks, and writes
a warning to Options.Logger. The collector may run late or never, and Context does not keep its Hold. So this repairs a
mistake, and is not a way to unlock.

# Threads

A goroutine that waits takes no thread: each call is one of the library's async calls. The thread of the client that runs the
library's callbacks calls into Go when the call has ended. The client could run in the program's event loop instead, with
a goroutine that waits for a descriptor. But then a scheduler that is busy, or a stop of the world, would delay the
renewals of the holds. With threads of its own the client renews them whatever the Go program does. At most eight
goroutines are inside the library's async calls at a time; others wait for their turn as goroutines.
*/
package rlock
