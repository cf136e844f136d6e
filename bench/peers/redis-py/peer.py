# SPDX-License-Identifier: Apache-2.0
"""redis-py's Lock, with its own defaults and the parser that it recommends. bench/peers/README.md says what the bench
tells it, and what it answers."""

import importlib.metadata
import os
import platform
import struct
import sys
import threading
import time

import redis

LEASE_S = 30
WARMING, MEASURING, OVER = range(3)

phase = WARMING


class Book:
    """The file of the word counter: see bench/peers/README.md."""

    def __init__(self, path, slot):
        self.file = os.open(path, os.O_RDWR)
        self.own = 16 + 8 * slot

    def read(self, at):
        return struct.unpack("<q", os.pread(self.file, 8, at))[0]

    def write(self, at, number):
        os.pwrite(self.file, struct.pack("<q", number), at)

    def visit(self, hold_s):
        number = self.read(0)
        time.sleep(hold_s)
        self.write(0, number + 1)
        self.write(self.own, self.read(self.own) + 1)
        self.write(8, time.time_ns())


class Worker(threading.Thread):
    def __init__(self, lock, book, of_both, hold_s):
        super().__init__()
        self.lock = lock
        self.book = book
        self.of_both = of_both
        self.hold_s = hold_s
        self.longest = 0
        self.samples = []

    def note(self, took):
        if phase != WARMING:
            self.longest = max(self.longest, took)
        if phase == MEASURING:
            self.samples.append(took)

    def run(self):
        while phase != OVER:
            began = time.perf_counter_ns()
            self.lock.acquire()
            if not self.of_both:
                self.note(time.perf_counter_ns() - began)
            if self.book is not None:
                self.book.visit(self.hold_s)
            elif self.hold_s > 0:
                time.sleep(self.hold_s)
            self.lock.release()
            if self.of_both:
                self.note(time.perf_counter_ns() - began)


def main():
    global phase
    asked = dict(word.split("=", 1) for word in sys.argv[1:])
    client = redis.Redis.from_url(asked["url"])
    book = Book(asked["counter"], int(asked["slot"])) if "counter" in asked else None
    workers = []
    for i in range(int(asked["threads"])):
        number = 0 if asked["row"] == "one" else int(asked["first"]) + i
        lock = client.lock(asked.get("name", "name%04d" % number), timeout=LEASE_S)
        workers.append(Worker(lock, book, asked["row"] == "own", int(asked["hold_us"]) / 1e6))
    for worker in workers:
        worker.start()
    print("ready %s, hiredis %s, Python %s; a connection for each thread; asks again after 100 ms, its default"
          % (redis.__version__, importlib.metadata.version("hiredis"), platform.python_version()), flush=True)
    for following in (MEASURING, OVER):
        sys.stdin.readline()
        phase = following
    for i, worker in enumerate(workers):
        worker.join()
        print(i, worker.longest, *worker.samples)


main()
