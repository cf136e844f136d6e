# SPDX-License-Identifier: Apache-2.0
"""The smallest service: it reads and writes under a read/write lock, works under two locks at once for
longer than a lease, and loses a hold. Usage: service.py [url]"""
import sys
import time

import rlock


def main(url: str) -> None:
    def on_lost(loss: rlock.Loss) -> None:
        print(f"lost {loss.name}: {loss.text}", flush=True)

    with rlock.Client(url, on_lost=on_lost, renewed_lease=0.9) as client:  # renewed every 0.3 s until the unlock
        order, stock, price = client.reentrant("order:7"), client.fair("stock:3"), client.read_write("price:3")
        with price.read:
            print("read the price")
        with price.write.lock(wait=0.5):  # or somebody else has it for longer: rlock.TimedOut
            print("wrote the price")
        steps = 0
        with rlock.multi(order, stock) as both:
            while steps < 3 and both.is_valid():
                time.sleep(0.4)  # a step of the work
                steps += 1
        print(f"shipped in {steps} steps")
        try:
            with order:
                order.force_unlock()  # as an operator would, with rlock break
                time.sleep(0.2)
        except rlock.Lost as lost:
            print("the unlock says:", lost.text)


try:
    main(sys.argv[1] if len(sys.argv) > 1 else "redis://localhost")
except rlock.Error as error:
    sys.exit(f"{error}: {error.text}")
